//! Paired capture: inputs of a site in the edited model, and its outputs in the original one.
//!
//! Both models run in lockstep on the same tokens. Below the first edited layer they are equal, and
//! run once. Hidden states between layers are kept from one capture to the next within a memory
//! bound, so that captures at rising layers cost one pass in all. The results do not depend on the
//! bound.

use crate::calibration::Calibration;
use crate::samples::{RowWriter, Samples};
use crate::stats::SiteStats;
use linwright_model::tokenizer::TokenizerError;
use linwright_model::{Batch, ModelError, Transformer};
use linwright_ops::{LinearSlot, NoProbe, Probe, Shape, SiteId, Sites};
use linwright_run::Monitor;
use linwright_tensor::{Mat, MatRef};
use std::path::PathBuf;

/// Tokens per batch.
const BATCH_TOKENS: usize = 2048;

/// Memory bounds of activations, and the directory for larger ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of hidden states kept between captures.
    pub hidden_bytes: usize,
    /// Bytes of samples of one layer kept in memory; larger ones go to files.
    pub sample_bytes: usize,
    /// Directory of sample files.
    pub scratch: PathBuf,
}

impl Bounds {
    /// Whether the hidden states of both models fit the bound, for `tokens` rows of width `hidden`.
    #[must_use]
    pub fn keeps_hidden(&self, tokens: usize, hidden: usize) -> bool {
        tokens.saturating_mul(hidden).saturating_mul(8) <= self.hidden_bytes
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { hidden_bytes: 400 << 20, sample_bytes: 600 << 20, scratch: std::env::temp_dir() }
    }
}

/// An error while capturing activations.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The model could not run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The calibration text is too short.
    #[error(
        "calibration text gives {found} tokens in {windows} windows; both a training and a validation part need at least one window"
    )]
    Calibration {
        /// Number of tokens.
        found: usize,
        /// Number of windows.
        windows: usize,
    },
    /// A calibration window longer than the model's positions.
    #[error(
        "a calibration window of {window} tokens is longer than the model's {positions} positions; use seq_len {positions} or less"
    )]
    Window {
        /// Window in tokens.
        window: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// Calibration text that the tokenizer rejects.
    #[error("calibration text, line {line}: {source}")]
    Text {
        /// Line of the file.
        line: usize,
        /// The error of the tokenizer.
        source: TokenizerError,
    },
    /// A non-finite number.
    #[error("{what} of {site} is not finite while capturing")]
    NonFinite {
        /// Input or target.
        what: &'static str,
        /// The site.
        site: SiteId,
    },
    /// Samples cannot be stored.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Cancelled by the caller.
    #[error("interrupted; the same command resumes")]
    Interrupted,
}

/// Form of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Sums over samples.
    Stats,
    /// The samples themselves.
    Samples,
}

/// Captured data of a site.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one per site, and it contains matrices")]
pub enum Evidence {
    /// Sums over training and validation samples.
    Stats {
        /// Over the training samples.
        train: SiteStats,
        /// Over the validation samples.
        validation: SiteStats,
    },
    /// The samples themselves.
    Samples(Samples),
}

/// Captured data of one site, with its shape.
#[derive(Clone, Debug)]
pub struct SiteCapture {
    /// The site.
    pub site: SiteId,
    /// Shape of the weight.
    pub shape: Shape,
    /// Captured data.
    pub evidence: Evidence,
}

/// Hidden states of a batch before a layer, (tokens, width).
#[derive(Clone, Debug)]
struct Hidden {
    original: Mat<f32>,
    /// Those of the edited model; absent while they equal the original ones.
    edited: Option<Mat<f32>>,
}

/// The original and the edited model, with their hidden states.
#[derive(Debug)]
pub struct Lockstep<'a> {
    original: &'a Transformer,
    calibration: &'a Calibration,
    bounds: Bounds,
    /// Layers of the edited model that differ from the original.
    edited: Vec<usize>,
    /// Hidden states of all batches before the layer with this index.
    cache: Option<(usize, Vec<Hidden>)>,
}

impl<'a> Lockstep<'a> {
    /// Starts with an unedited model.
    #[must_use]
    pub fn new(original: &'a Transformer, calibration: &'a Calibration, bounds: Bounds) -> Self {
        Self { original, calibration, bounds, edited: Vec::new(), cache: None }
    }

    /// Records that a layer of the edited model differs from the original.
    pub fn note_edit(&mut self, layer: usize) {
        self.edited.push(layer);
        if self.cache.as_ref().is_some_and(|(at, _)| *at > layer) {
            self.cache = None;
        }
    }

    /// Captures sites of one layer.
    ///
    /// # Errors
    /// [`CaptureError`] if the model fails, a number is not finite, or the capture is cancelled.
    pub fn capture(
        &mut self,
        edited: &Transformer,
        layer: usize,
        sites: &[SiteId],
        needs: Needs,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<SiteCapture>, CaptureError> {
        let original = self.original;
        let batches = self.calibration.batches(BATCH_TOKENS);
        let slots: Vec<&LinearSlot> = sites.iter().filter_map(|site| original.slot(site)).collect();
        assert!(
            slots.len() == sites.len() && !sites.is_empty(),
            "every captured site must be a slot"
        );
        let mut collector = Collector::new(slots, self.calibration, needs, &self.bounds)?;
        let keep = self.fits_in_memory();
        let (from, mut old) = match self.cache.take() {
            Some((at, hidden)) if at <= layer => (at, Some(hidden.into_iter())),
            _ => (0, None),
        };
        let mut kept = Vec::new();
        for (index, windows) in batches.iter().enumerate() {
            if monitor.interrupted() {
                return Err(CaptureError::Interrupted);
            }
            let sequences: Vec<&[u32]> = windows.iter().map(Vec::as_slice).collect();
            let batch = Batch::new(&sequences);
            let mut hidden = match old.as_mut().and_then(Iterator::next) {
                Some(hidden) => hidden,
                None => Hidden { original: original.embed(&batch)?, edited: None },
            };
            self.advance(edited, &batch, &mut hidden, from..layer)?;
            if keep {
                kept.push(hidden.clone());
            }
            collector.add(self.record(edited, &batch, hidden, layer, sites)?)?;
            monitor.progress(index as u64 + 1, batches.len() as u64);
        }
        if keep {
            self.cache = Some((layer, kept));
        }
        collector.finish()
    }

    /// Records the inputs of sites of a layer of the edited model, and their outputs in the
    /// original one. If the models are equal up to and including this layer, one pass gives both.
    fn record<'b>(
        &self,
        edited: &Transformer,
        batch: &Batch,
        mut hidden: Hidden,
        layer: usize,
        sites: &'b [SiteId],
    ) -> Result<Recording<'b>, CaptureError> {
        let layers = layer..layer + 1;
        let state = match hidden.edited.take() {
            None if self.edited.contains(&layer) => Some(hidden.original.clone()),
            state => state,
        };
        let mut recording = Recording::new(sites);
        self.original.run_layers(&mut hidden.original, batch, layers.clone(), &mut recording)?;
        if let Some(mut state) = state {
            let mut inputs = Recording::new(&sites[..1]);
            edited.run_layers(&mut state, batch, layers, &mut inputs)?;
            recording.input = inputs.input;
        }
        Ok(recording)
    }

    /// Advances hidden states through layers; those shared by both models run once.
    fn advance(
        &self,
        edited: &Transformer,
        batch: &Batch,
        hidden: &mut Hidden,
        layers: std::ops::Range<usize>,
    ) -> Result<(), CaptureError> {
        let first_edit = self.edited.iter().copied().min().unwrap_or(usize::MAX);
        let shared = if hidden.edited.is_some() {
            layers.start
        } else {
            first_edit.clamp(layers.start, layers.end)
        };
        self.original.run_layers(
            &mut hidden.original,
            batch,
            layers.start..shared,
            &mut NoProbe,
        )?;
        if shared < layers.end {
            let state = hidden.edited.get_or_insert_with(|| hidden.original.clone());
            edited.run_layers(state, batch, shared..layers.end, &mut NoProbe)?;
            self.original.run_layers(
                &mut hidden.original,
                batch,
                shared..layers.end,
                &mut NoProbe,
            )?;
        }
        Ok(())
    }

    fn fits_in_memory(&self) -> bool {
        self.bounds.keeps_hidden(self.calibration.tokens(), self.original.config().hidden)
    }
}

/// Records the common input of sites, and their outputs, in one batch.
struct Recording<'a> {
    sites: &'a [SiteId],
    input: Option<Mat<f32>>,
    outputs: Vec<Option<Mat<f32>>>,
}

impl<'a> Recording<'a> {
    fn new(sites: &'a [SiteId]) -> Self {
        Self { sites, input: None, outputs: vec![None; sites.len()] }
    }
}

impl Probe for Recording<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        self.sites.contains(site)
    }

    fn on_forward(&mut self, site: &SiteId, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        if let Some(index) = self.sites.iter().position(|wanted| wanted == site) {
            self.input.get_or_insert_with(|| x.to_mat());
            self.outputs[index] = Some(y.to_mat());
        }
    }

    fn satisfied(&self) -> bool {
        self.outputs.iter().all(Option::is_some)
    }
}

/// Collects the data of the sites of one capture. All of them have the same input, such as query,
/// key and value, or gate and up.
struct Collector<'a> {
    slots: Vec<&'a LinearSlot>,
    sink: Sink,
    rows: usize,
    train_rows: usize,
}

/// Sums or samples.
enum Sink {
    /// Training and validation sums of each site; Σ x xᵀ is summed only for the first one.
    Stats(Vec<[SiteStats; 2]>),
    Samples {
        inputs: RowWriter,
        /// Targets of each site.
        targets: Vec<RowWriter>,
    },
}

impl<'a> Collector<'a> {
    fn new(
        slots: Vec<&'a LinearSlot>,
        calibration: &Calibration,
        needs: Needs,
        bounds: &Bounds,
    ) -> Result<Self, CaptureError> {
        let shapes: Vec<Shape> = slots.iter().map(|slot| slot.shape()).collect();
        let sink = match needs {
            Needs::Stats => {
                let empty = |shape: &Shape| SiteStats::new(shape.out, shape.inp);
                Sink::Stats(shapes.iter().map(|shape| [empty(shape), empty(shape)]).collect())
            }
            Needs::Samples => {
                let share = bounds.sample_bytes / (1 + shapes.len());
                let open = |cols: usize| {
                    RowWriter::new(cols, calibration.tokens(), share, &bounds.scratch)
                        .map_err(|source| CaptureError::Io { path: bounds.scratch.clone(), source })
                };
                let targets =
                    shapes.iter().map(|shape| open(shape.out)).collect::<Result<_, _>>()?;
                Sink::Samples { inputs: open(shapes[0].inp)?, targets }
            }
        };
        Ok(Self { slots, sink, rows: 0, train_rows: calibration.train_tokens() })
    }

    fn add(&mut self, recording: Recording<'_>) -> Result<(), CaptureError> {
        let Some(x) = recording.input else {
            unreachable!("the layer ran without passing its sites")
        };
        check_finite("the input", self.slots[0].id(), &x)?;
        if let Sink::Samples { inputs, .. } = &mut self.sink {
            inputs.push(x.view()).map_err(samples_error)?;
        }
        let part = usize::from(self.rows >= self.train_rows);
        for (index, y) in recording.outputs.into_iter().enumerate() {
            let Some(mut y) = y else { unreachable!("the layer ran without passing its sites") };
            let slot = self.slots[index];
            check_finite("the target", slot.id(), &y)?;
            if let Some(bias) = slot.bias() {
                for i in 0..y.rows() {
                    y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y -= b);
                }
            }
            match &mut self.sink {
                Sink::Stats(stats) if index == 0 => stats[0][part].add(x.view(), y.view()),
                Sink::Stats(stats) => stats[index][part].add_targets(x.view(), y.view()),
                Sink::Samples { targets, .. } => {
                    targets[index].push(y.view()).map_err(samples_error)?;
                }
            }
        }
        self.rows += x.rows();
        Ok(())
    }

    fn finish(self) -> Result<Vec<SiteCapture>, CaptureError> {
        let evidence: Vec<Evidence> = match self.sink {
            Sink::Stats(mut stats) => {
                let (first, others) = stats.split_at_mut(1);
                for site in others {
                    for (part, shared) in site.iter_mut().zip(&first[0]) {
                        part.sxx.clone_from(&shared.sxx);
                    }
                }
                let both =
                    |[train, validation]: [SiteStats; 2]| Evidence::Stats { train, validation };
                stats.into_iter().map(both).collect()
            }
            Sink::Samples { inputs, targets } => {
                let x = inputs.finish().map_err(samples_error)?;
                let train = self.train_rows;
                let site = |y: RowWriter| {
                    let y = y.finish().map_err(samples_error)?;
                    Ok(Evidence::Samples(Samples { x: x.clone(), y, train }))
                };
                targets.into_iter().map(site).collect::<Result<_, CaptureError>>()?
            }
        };
        let slots = self.slots.into_iter().zip(evidence);
        Ok(slots
            .map(|(slot, evidence)| SiteCapture {
                site: slot.id().clone(),
                shape: slot.shape(),
                evidence,
            })
            .collect())
    }
}

fn check_finite(what: &'static str, site: &SiteId, mat: &Mat<f32>) -> Result<(), CaptureError> {
    match mat.data().iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err(CaptureError::NonFinite { what, site: site.clone() }),
    }
}

fn samples_error(source: std::io::Error) -> CaptureError {
    CaptureError::Io { path: PathBuf::from("activation samples"), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Split;
    use linwright_model::TransformerConfig;
    use linwright_ops::{LowRankSpec, OpSpec};
    use linwright_run::Silent;
    use linwright_tensor::RngKey;

    fn model() -> Transformer {
        let config = serde_json::json!({
            "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
            "hidden_act": "silu", "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": true, "vocab_size": 40,
        });
        Transformer::random(
            TransformerConfig::from_json(&config).expect("is valid"),
            RngKey::new(2),
        )
    }

    fn calibration() -> Calibration {
        let mut stream = RngKey::new(6).stream();
        let text: Vec<u32> = (0..5000).map(|_| stream.below(40) as u32).collect();
        Calibration::new(&[text], 32, 5000, Split::Contiguous).expect("enough text")
    }

    fn site(layer: usize, name: &str) -> SiteId {
        SiteId(format!("model.layers.{layer}.{name}"))
    }

    /// Replaces a weight by an operator of rank 2.
    fn edit(model: &mut Transformer, site: &SiteId) {
        let slot = model.slot_mut(site).expect("is a slot");
        let op = OpSpec::LowRank(LowRankSpec { rank: 2 }).random(slot.shape(), RngKey::new(9));
        slot.replace(op.expect("exists")).expect("fits");
    }

    /// Inputs and outputs of a site over all windows.
    fn naive(model: &Transformer, calibration: &Calibration, site: &SiteId) -> [Vec<f32>; 2] {
        struct Rows<'a>(&'a SiteId, [Vec<f32>; 2]);
        impl Probe for Rows<'_> {
            fn wants(&self, site: &SiteId) -> bool {
                site == self.0
            }
            fn on_forward(&mut self, _: &SiteId, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
                self.1[0].extend(x.to_mat().data());
                self.1[1].extend(y.to_mat().data());
            }
        }
        let mut rows = Rows(site, [Vec::new(), Vec::new()]);
        for window in calibration.windows() {
            let batch = Batch::new(&[window]);
            let mut hidden = model.embed(&batch).expect("embeds");
            model.run_layers(&mut hidden, &batch, 0..3, &mut rows).expect("runs");
        }
        rows.1
    }

    /// Captures at rising and falling layers while the model is edited, within bounds, and compares
    /// every capture with two complete passes.
    fn walk(bounds: &Bounds) {
        let (original, calibration) = (model(), calibration());
        let mut edited = original.clone();
        let mut lockstep = Lockstep::new(&original, &calibration, bounds.clone());
        for (layer, names) in [
            (1, &["self_attn.q_proj", "self_attn.k_proj"][..]),
            (1, &["self_attn.o_proj"]),
            (2, &["mlp.gate_proj", "mlp.up_proj"]),
            (0, &["self_attn.v_proj"]),
            (2, &["mlp.down_proj"]),
        ] {
            let sites: Vec<SiteId> = names.iter().map(|name| site(layer, name)).collect();
            let captured = lockstep
                .capture(&edited, layer, &sites, Needs::Samples, &mut Silent)
                .expect("captures");
            for (capture, site) in captured.iter().zip(&sites) {
                let Evidence::Samples(samples) = &capture.evidence else {
                    panic!("samples were asked for")
                };
                let x = &naive(&edited, &calibration, site)[0];
                let y = &naive(&original, &calibration, site)[1];
                for (found, expected) in [(&samples.x, x), (&samples.y, y)] {
                    let found = found.view().to_mat();
                    assert_eq!(found.data().len(), expected.len());
                    let equal =
                        found.data().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
                    assert!(equal, "{site}, {bounds:?}");
                }
                assert_eq!(samples.train, calibration.train_tokens());
            }
            edit(&mut edited, &sites[0]);
            lockstep.note_edit(layer);
        }
    }

    #[test]
    fn captures_are_those_of_whole_passes_whatever_the_bounds() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        for (hidden_bytes, sample_bytes) in [(0, 0), (1 << 30, 0), (0, 1 << 30), (1 << 30, 1 << 30)]
        {
            walk(&Bounds { hidden_bytes, sample_bytes, scratch: scratch.path().to_owned() });
        }
        assert_eq!(std::fs::read_dir(scratch.path()).expect("lists").count(), 0);
    }

    #[test]
    fn sums_of_sites_with_one_input_are_those_of_their_samples() {
        let (original, calibration) = (model(), calibration());
        let sites = ["q", "k", "v"].map(|name| site(1, &format!("self_attn.{name}_proj")));
        let mut lockstep = Lockstep::new(&original, &calibration, Bounds::default());
        let captured = lockstep.capture(&original, 1, &sites, Needs::Stats, &mut Silent);
        for (capture, site) in captured.expect("captures").iter().zip(&sites) {
            let Evidence::Stats { train, validation } = &capture.evidence else {
                panic!("sums were asked for")
            };
            let [x, y] = naive(&original, &calibration, site);
            let Shape { out, inp } = capture.shape;
            let (x, y) =
                (Mat::from_vec(x.len() / inp, inp, x), Mat::from_vec(y.len() / out, out, y));
            let rows = calibration.train_tokens();
            let mut expected = [SiteStats::new(out, inp), SiteStats::new(out, inp)];
            expected[0].add(x.view().rows_range(0, rows), y.view().rows_range(0, rows));
            let rest = x.rows() - rows;
            expected[1].add(x.view().rows_range(rows, rest), y.view().rows_range(rows, rest));
            for (found, expected) in [train, validation].into_iter().zip(&expected) {
                for (a, b) in [(&found.sxx, &expected.sxx), (&found.syx, &expected.syx)] {
                    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-3 * b.abs().max(1.0);
                    assert!(a.data().iter().zip(b.data()).all(close), "{site}");
                }
            }
        }
    }
}
