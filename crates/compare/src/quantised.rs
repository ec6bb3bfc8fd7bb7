//! Weights rounded to nearest in blocks, as GGUF stores them: what a quantised model of the same
//! bytes scores.
//!
//! A weight is encoded by [`Quantised::encode`] and decoded by the reader of GGUF files; the model
//! is judged on the decoded numbers. As there, a weight whose rows do not fill blocks stays as it
//! is. For a number of bytes between the formats, whole weights have the finer or the coarser one:
//! those are rounded first that lose least per byte.

use linwright_compress::CompressError;
use linwright_compress::methods::FitReport;
use linwright_compress::pipeline::{Edited, SiteOutcome};
use linwright_ops::{Dense, LinearSlot, Network, Op, SiteId};
use linwright_run::Monitor;
use linwright_tensor::Quantised;
use serde::{Deserialize, Serialize};

/// How weights are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// All to 8 bits.
    Q8_0,
    /// All to 4 bits.
    Q4_0,
    /// As many to 8, then to 4 bits as the share of bytes needs.
    EqualBytes,
}

impl Rounding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Q8_0, Self::Q4_0, Self::EqualBytes];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::EqualBytes => "quantised",
        }
    }

    /// What it is, for listings.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Q8_0 => "all weights rounded to 8 bits in blocks, a control",
            Self::Q4_0 => "all weights rounded to 4 bits in blocks, a control",
            Self::EqualBytes => "weights rounded until they have the share of the bytes, a control",
        }
    }

    /// Whether it has a size.
    #[must_use]
    pub const fn has_sizes(self) -> bool {
        matches!(self, Self::EqualBytes)
    }
}

/// A network with rounded weights.
#[derive(Debug)]
pub(super) struct Rounded<N> {
    pub(super) edited: Edited<N>,
    /// Bytes of the weights at the sites, as stored.
    pub(super) bytes: u64,
    /// Which share of them has which format.
    pub(super) note: String,
}

/// A weight in one format.
struct Choice {
    bytes: u64,
    /// The decoded numbers, and what they are away from the weight: sums of squares.
    values: Option<Vec<f32>>,
    away: f64,
}

/// A site with its formats from the finest to the coarsest, and the one that it has.
struct Site<'a> {
    slot: &'a LinearSlot,
    choices: Vec<Choice>,
    chosen: usize,
    power: f64,
}

/// How many bytes there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    /// Share of the bytes of the sites that may stay.
    pub(super) keep: f64,
    /// Bytes of a number that is not rounded.
    pub(super) number: u64,
}

/// Rounds the weights of `sites`.
pub(super) fn rounded<N: Network>(
    original: &N,
    sites: &[SiteId],
    rounding: Rounding,
    budget: Bytes,
    monitor: &mut dyn Monitor,
) -> Result<Rounded<N>, CompressError> {
    let slots = original.slots();
    let mut own: Vec<Site<'_>> = Vec::new();
    for slot in slots.into_iter().filter(|slot| sites.contains(slot.id())) {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted);
        }
        own.push(Site::of(slot, rounding, budget.number)?);
    }
    let dense: u64 = own.iter().map(|site| site.choices[0].bytes).sum();
    match rounding {
        Rounding::Q8_0 | Rounding::Q4_0 => {
            own.iter_mut().for_each(|site| site.chosen = site.choices.len() - 1);
        }
        Rounding::EqualBytes => shrink(&mut own, (budget.keep * dense as f64) as u64),
    }
    let bytes = own.iter().map(|site| site.choices[site.chosen].bytes).sum();
    let note = told(&own, dense);
    let mut network = original.clone();
    let mut outcomes = Vec::new();
    for mut site in own {
        outcomes.push(site.outcome(rounding));
        let Some(values) = site.choices.swap_remove(site.chosen).values else { continue };
        let shape = site.slot.shape();
        let weight = linwright_tensor::Mat::from_vec(shape.out, shape.inp, values);
        let slot = network.slot_mut(site.slot.id()).expect("a slot of the original");
        let op = Op::Linear(Box::new(Dense::new(weight)));
        slot.replace(op).map_err(|source| CompressError::Fit {
            site: site.slot.id().clone(),
            source: linwright_compress::FitError::Operator(source),
        })?;
    }
    Ok(Rounded { edited: Edited { network, sites: outcomes }, bytes, note })
}

/// Rounds weights one step further, those first that lose least per byte, until at most `budget`
/// bytes are left; all that is left to round if that does not do.
fn shrink(sites: &mut [Site<'_>], budget: u64) {
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        for (step, pair) in site.choices.windows(2).enumerate() {
            let saved = (pair[0].bytes - pair[1].bytes).max(1) as f64;
            // Relative to the power of the weight: all have the same say.
            let lost = (pair[1].away - pair[0].away) / site.power.max(f64::MIN_POSITIVE);
            steps.push((lost / saved * site.choices[0].bytes as f64, index, step + 1));
        }
    }
    // To 4 bits only where 8 bits everywhere do not do.
    steps.sort_by(|a, b| a.2.cmp(&b.2).then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1)));
    let mut left: u64 = sites.iter().map(|site| site.choices[0].bytes).sum();
    for (_, index, step) in steps {
        if left <= budget {
            return;
        }
        let site = &mut sites[index];
        left -= site.choices[step - 1].bytes - site.choices[step].bytes;
        site.chosen = step;
    }
}

fn told(sites: &[Site<'_>], dense: u64) -> String {
    let share = |format: &str| {
        let own = sites.iter().filter(|site| site.format() == format);
        own.map(|site| site.choices[0].bytes).sum::<u64>() as f64 / dense.max(1) as f64
    };
    let names = ["q8_0", "q4_0", "unrounded"];
    let parts = names.map(|name| (name, share(name))).into_iter().filter(|(_, share)| *share > 0.0);
    let parts: Vec<String> =
        parts.map(|(name, share)| format!("{:.0} % {name}", 100.0 * share)).collect();
    parts.join(", ")
}

impl<'a> Site<'a> {
    fn of(
        slot: &'a LinearSlot,
        rounding: Rounding,
        number_bytes: u64,
    ) -> Result<Self, CompressError> {
        let weight = slot.op().to_dense().map_err(|source| CompressError::Fit {
            site: slot.id().clone(),
            source: linwright_compress::FitError::Operator(source),
        })?;
        let power = weight.data().iter().map(|x| f64::from(*x).powi(2)).sum();
        let bytes = weight.data().len() as u64 * number_bytes;
        let mut choices = vec![Choice { bytes, values: None, away: 0.0 }];
        let formats: &[Quantised] = match rounding {
            Rounding::Q8_0 => &[Quantised::Q8_0],
            Rounding::Q4_0 => &[Quantised::Q4_0],
            Rounding::EqualBytes => &[Quantised::Q8_0, Quantised::Q4_0],
        };
        let fills = |kind: &&Quantised| weight.cols().is_multiple_of(kind.block_numbers());
        for kind in formats.iter().filter(fills) {
            let encoded = kind.encode(weight.data()).expect("both formats have an encoder");
            let mut values = vec![0.0; weight.data().len()];
            kind.decode_into(&encoded, &mut values);
            let square = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
            let away = values.iter().zip(weight.data()).map(square).sum();
            choices.push(Choice { bytes: encoded.len() as u64, values: Some(values), away });
        }
        Ok(Self { slot, choices, chosen: 0, power })
    }

    /// Name of the format that it has.
    fn format(&self) -> &'static str {
        let numbers = self.slot.shape().dense_parameters() as u64;
        let chosen = &self.choices[self.chosen];
        match (&chosen.values, chosen.bytes < numbers) {
            (None, _) => "unrounded",
            (Some(_), true) => "q4_0",
            (Some(_), false) => "q8_0",
        }
    }

    fn outcome(&self, rounding: Rounding) -> SiteOutcome {
        let dense_parameters = self.slot.shape().dense_parameters();
        let error = self.choices[self.chosen].away / self.power.max(f64::MIN_POSITIVE);
        SiteOutcome {
            site: self.slot.id().clone(),
            role: self.slot.role().to_string(),
            layer: self.slot.layer().unwrap_or_default(),
            heals: false,
            method: rounding.name().to_owned(),
            parameters: dense_parameters,
            dense_parameters,
            macs_per_row: self.slot.op().map().macs_per_row(),
            fit: FitReport::without_text(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_compress::plan::SlotSet;
    use linwright_model::{Transformer, TransformerConfig};
    use linwright_run::Silent;
    use linwright_tensor::RngKey;
    use serde_json::json;

    /// A model whose rows fill blocks.
    fn model() -> Transformer {
        let config = TransformerConfig::from_json(&json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 5,
            "hidden_act": "silu", "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": true,
        }));
        Transformer::random(config.expect("is valid"), RngKey::new(1))
    }

    const ALL_BYTES: Bytes = Bytes { keep: 1.0, number: 2 };

    fn all(model: &Transformer) -> Vec<SiteId> {
        SlotSet::default().of(model).expect("has sites")
    }

    #[test]
    fn the_bytes_of_a_share_are_met_by_the_coarser_formats_where_they_are_needed() {
        let model = &model();
        let sites = all(model);
        let mut last = u64::MAX;
        for keep in [1.0, 0.8, 0.5, 0.3, 0.1] {
            let equal = Rounding::EqualBytes;
            let bytes = Bytes { keep, number: 2 };
            let found = rounded(model, &sites, equal, bytes, &mut Silent).expect("rounds");
            let dense: u64 = found.edited.sites.iter().map(|s| 2 * s.dense_parameters as u64).sum();
            let least = rounded(model, &sites, Rounding::Q4_0, ALL_BYTES, &mut Silent)
                .expect("rounds")
                .bytes;
            let within = found.bytes as f64 <= keep * dense as f64;
            assert!(within || found.bytes == least, "{keep}: {} of {dense}", found.bytes);
            assert!(found.bytes <= last);
            last = found.bytes;
            if keep == 1.0 {
                assert_eq!((found.bytes, found.note.as_str()), (dense, "100 % unrounded"));
            }
        }
    }

    #[test]
    fn rounded_weights_are_near_and_those_of_eight_bits_nearer() {
        let model = &model();
        let error = |rounding| {
            let found = rounded(model, &all(model), rounding, ALL_BYTES, &mut Silent);
            let sites = found.expect("rounds").edited.sites;
            sites.iter().map(|site| site.fit.relative_error).sum::<f64>() / sites.len() as f64
        };
        let (eight, four) = (error(Rounding::Q8_0), error(Rounding::Q4_0));
        assert!(
            eight > 0.0 && eight < 1e-4 && four > 20.0 * eight && four < 0.02,
            "{eight}, {four}"
        );
    }
}
