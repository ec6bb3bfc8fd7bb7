//! What a search tries in a slot: the weight at any rank.

use super::{Replacement, search_ranks};
use crate::LmError;
use linwright_compress::fit::spectrum::Spectrum;
use linwright_compress::intervention::weight_of;
use linwright_compress::{CompressError, FitError};
use linwright_measure::capture::{Bounds, Evidence, Lockstep, Needs, Wanted};
use linwright_model::{Batch, Transformer};
use linwright_ops::{Examples, InputId, LinearSlot, LowRank, Network, Op, SiteId, Sites};
use linwright_run::Monitor;
use std::collections::BTreeMap;

/// Replacements of slots by rank.
pub trait Candidates {
    /// The replacement of a slot at a rank.
    ///
    /// # Errors
    /// [`LmError`] if there is none.
    fn replacement(&self, site: &SiteId, rank: usize) -> Result<Replacement, LmError>;
}

/// Weights in the order of the directions of their output in the original model, each decomposed
/// once for all ranks. Where a slot has a bias, it changes along.
#[derive(Debug, Default)]
pub struct FeatureSpace {
    spectra: BTreeMap<SiteId, Spectrum>,
    biases: BTreeMap<SiteId, Vec<f32>>,
}

impl FeatureSpace {
    /// Decomposes the weights of slots under the moments of their inputs in a model, up to the
    /// largest rank that a search tries.
    ///
    /// # Errors
    /// [`LmError`] if the model fails, there are fewer samples than ranks, or a decomposition
    /// fails.
    ///
    /// # Panics
    /// If the model has no such slot.
    pub fn of(
        model: &Transformer,
        examples: &dyn Examples<Batch>,
        sites: &[SiteId],
        bounds: &Bounds,
        monitor: &mut dyn Monitor,
    ) -> Result<Self, LmError> {
        let mut found = Self::default();
        let mut lockstep = Lockstep::new(model, examples, bounds.clone()).whole();
        for group in by_input(model, sites) {
            if monitor.interrupted() {
                return Err(CompressError::Interrupted.into());
            }
            let names: Vec<String> = group.iter().map(|slot| slot.id().to_string()).collect();
            monitor.step(&format!("decomposing {}", names.join(", ")));
            let wanted: Vec<Wanted<'_>> =
                group.iter().map(|slot| Wanted { site: slot.id(), needs: Needs::Inputs }).collect();
            let captures = lockstep.capture(model, &wanted, monitor)?;
            for (slot, capture) in group.into_iter().zip(captures) {
                let failed = |source| CompressError::Fit { site: slot.id().clone(), source };
                let spectrum = decomposed(slot, &capture.evidence, weight_of(slot)?);
                found.spectra.insert(slot.id().clone(), spectrum.map_err(failed)?);
                let bias = slot.bias().map(<[f32]>::to_vec);
                found.biases.extend(bias.map(|bias| (slot.id().clone(), bias)));
            }
        }
        model.release_scratch();
        Ok(found)
    }
}

impl Candidates for FeatureSpace {
    fn replacement(&self, site: &SiteId, rank: usize) -> Result<Replacement, LmError> {
        let spectrum = self.spectra.get(site).filter(|own| rank <= own.values.len());
        let spectrum = spectrum.ok_or_else(|| LmError::Search {
            reason: format!("{site} is not decomposed up to rank {rank}"),
        })?;
        let (u, v) = spectrum.factors(rank);
        let shifted = |bias: &Vec<f32>| {
            let shift = spectrum.bias(rank)?;
            Some(bias.iter().zip(shift).map(|(bias, shift)| bias + shift).collect())
        };
        let bias = self.biases.get(site).and_then(shifted);
        Ok(Replacement { op: Op::Linear(Box::new(LowRank::new(u, v))), bias })
    }
}

/// The slots in groups that read one input, in the order of computation.
fn by_input<'m>(model: &'m Transformer, sites: &[SiteId]) -> Vec<Vec<&'m LinearSlot>> {
    let mut groups: Vec<(&InputId, Vec<&LinearSlot>)> = Vec::new();
    for slot in model.slots().into_iter().filter(|slot| sites.contains(slot.id())) {
        match groups.iter_mut().find(|(input, _)| *input == slot.reads()) {
            Some((_, group)) => group.push(slot),
            None => groups.push((slot.reads(), vec![slot])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The components of a slot that a search may try.
fn decomposed(
    slot: &LinearSlot,
    evidence: &Evidence,
    weight: linwright_tensor::Mat<f32>,
) -> Result<Spectrum, FitError> {
    let Evidence::Inputs { train, .. } = evidence else {
        return Err(FitError::Evidence { needed: "sums over inputs", found: "other data" });
    };
    let largest = search_ranks(slot.shape()).last().copied().unwrap_or(0);
    if (train.count as usize) < largest {
        return Err(FitError::TooFewSamples { found: train.count as usize, needed: largest });
    }
    let Spectrum { mut values, left, right, mean } =
        Spectrum::of((&**train).into(), &weight, slot.bias().is_some())?;
    let kept = largest.min(values.len());
    values.truncate(kept);
    let left = left.view().columns(0, kept).to_mat();
    let right = right.view().rows_range(0, kept).to_mat();
    Ok(Spectrum { values, left, right, mean })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::linears;
    use crate::tiny;
    use linwright_model::{Split, Windows};
    use linwright_run::Silent;

    #[test]
    fn slots_with_a_bias_get_one_that_keeps_the_mean_of_the_output() {
        let model = tiny::checkpoint("qwen2-biases").decoder;
        let sites: Vec<SiteId> = linears(&model).iter().map(|slot| slot.id().clone()).collect();
        let calibration = tiny::calibration(&model, 2000);
        let found = FeatureSpace::of(&model, &calibration, &sites, &Bounds::default(), &mut Silent);
        let found = found.unwrap();
        let (mut with, mut without) = (0, 0);
        for slot in linears(&model) {
            let ranks = search_ranks(slot.shape());
            let largest = *ranks.last().unwrap();
            let replacement = found.replacement(slot.id(), 1).unwrap();
            assert_eq!(replacement.op.map().shape(), slot.shape());
            assert_eq!(replacement.bias.is_some(), slot.bias().is_some(), "{}", slot.id());
            assert!(replacement.bias.as_deref() != slot.bias() || slot.bias().is_none());
            *if slot.bias().is_some() { &mut with } else { &mut without } += 1;
            assert!(found.replacement(slot.id(), largest).is_ok());
            let error = found.replacement(slot.id(), 1000).unwrap_err().to_string();
            assert!(error.contains("rank 1000"), "{error}");
        }
        assert!(with > 0 && without > 0, "{with} and {without}");
    }

    #[test]
    fn fewer_samples_than_ranks_are_refused() {
        let model = tiny::checkpoint("qwen2-biases").decoder;
        let sites: Vec<SiteId> = linears(&model).iter().map(|slot| slot.id().clone()).collect();
        let one = Windows::new(&[vec![1, 2], vec![3, 4]], None, 2, 4, Split::Contiguous).unwrap();
        let found = FeatureSpace::of(&model, &one, &sites, &Bounds::default(), &mut Silent);
        let error = found.unwrap_err().to_string();
        assert!(error.contains("calibration rows"), "{error}");
    }
}
