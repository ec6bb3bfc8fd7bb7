//! Paired capture: what the edited model feeds a site, and what the original made of it.
//!
//! Both models run in lockstep on the same tokens. Below the first edited layer they are one and
//! the same, and run once. Hidden states at the border of a layer are kept between captures as far
//! as a stated bound allows, so that a walk over rising layers costs one pass; the results do not
//! depend on the bound.

use crate::calibration::Calibration;
use crate::samples::{RowWriter, Samples};
use crate::{CompressError, Monitor, Needs};
use linwright_measure::stats::SiteStats;
use linwright_model::{Batch, Decoder};
use linwright_ops::{NoProbe, Probe, Shape, SiteId, Sites};
use linwright_tensor::{Mat, MatRef};
use std::path::PathBuf;

/// Tokens that go through the model at a time.
const BATCH_TOKENS: usize = 2048;

/// Bounds of memory for activations, and where they go beyond them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Hidden states kept between captures.
    pub hidden_bytes: usize,
    /// Samples of one layer kept in memory; beyond it they go to files.
    pub sample_bytes: usize,
    /// Directory of such files.
    pub scratch: PathBuf,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { hidden_bytes: 400 << 20, sample_bytes: 600 << 20, scratch: std::env::temp_dir() }
    }
}

/// What was captured for one site.
#[derive(Clone, Debug)]
pub struct SiteCapture {
    /// The site.
    pub site: SiteId,
    /// Features out and in.
    pub shape: Shape,
    /// Sums over the training windows.
    pub train: SiteStats,
    /// Sums over the validation windows.
    pub validation: SiteStats,
    /// The samples, if they were asked for.
    pub samples: Option<Samples>,
}

/// Hidden states of a batch before a layer.
#[derive(Clone, Debug)]
struct Hidden {
    original: Mat<f32>,
    /// Absent while the models are the same up to here.
    edited: Option<Mat<f32>>,
}

/// The two models of a study and where their hidden states stand.
#[derive(Debug)]
pub struct Lockstep<'a> {
    original: &'a Decoder,
    calibration: &'a Calibration,
    bounds: Bounds,
    /// Layers of the edited model that differ from the original.
    edited: Vec<usize>,
    /// Hidden states of all batches before this layer.
    cache: Option<(usize, Vec<Hidden>)>,
}

impl<'a> Lockstep<'a> {
    /// Starts with an unedited model.
    #[must_use]
    pub fn new(original: &'a Decoder, calibration: &'a Calibration, bounds: Bounds) -> Self {
        Self { original, calibration, bounds, edited: Vec::new(), cache: None }
    }

    /// Notes that a layer of the edited model now differs.
    pub fn note_edit(&mut self, layer: usize) {
        self.edited.push(layer);
        if self.cache.as_ref().is_some_and(|(at, _)| *at > layer) {
            self.cache = None;
        }
    }

    /// Captures sites of one layer.
    ///
    /// # Errors
    /// If the model fails, a number is not finite, or the caller interrupts.
    pub fn capture(
        &mut self,
        edited: &Decoder,
        layer: usize,
        sites: &[SiteId],
        needs: Needs,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<SiteCapture>, CompressError> {
        let original = self.original;
        let batches = self.calibration.batches(BATCH_TOKENS);
        let mut collector = Collector::new(original, self.calibration, sites, needs, &self.bounds)?;
        let keep = self.fits_in_memory();
        let (from, mut old) = match self.cache.take() {
            Some((at, hidden)) if at <= layer => (at, Some(hidden.into_iter())),
            _ => (0, None),
        };
        let mut kept = Vec::new();
        for (index, windows) in batches.iter().enumerate() {
            if monitor.interrupted() {
                return Err(CompressError::Interrupted);
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
            // Target first: both probes of a batch then lie in the collector together.
            let (mut target, mut input) = (collector.probe(true), collector.probe(false));
            let mut edited_hidden = hidden.edited.unwrap_or_else(|| hidden.original.clone());
            original.run_layers(&mut hidden.original, &batch, layer..layer + 1, &mut target)?;
            edited.run_layers(&mut edited_hidden, &batch, layer..layer + 1, &mut input)?;
            let (target, input) = (target.seen, input.seen);
            collector.add(input, target)?;
            monitor.progress(index as u64 + 1, batches.len() as u64);
        }
        if keep {
            self.cache = Some((layer, kept));
        }
        collector.finish()
    }

    /// Brings hidden states from one layer to another, running what the models share once.
    fn advance(
        &self,
        edited: &Decoder,
        batch: &Batch,
        hidden: &mut Hidden,
        layers: std::ops::Range<usize>,
    ) -> Result<(), CompressError> {
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
        let bytes = self
            .calibration
            .tokens()
            .saturating_mul(self.original.config().hidden)
            .saturating_mul(8);
        bytes <= self.bounds.hidden_bytes
    }
}

/// Sees inputs or outputs of the wanted sites during one batch.
struct SiteProbe<'a> {
    wanted: &'a [SiteId],
    outputs: bool,
    seen: Vec<Option<Mat<f32>>>,
}

impl Probe for SiteProbe<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        self.wanted.contains(site)
    }

    fn on_forward(&mut self, site: &SiteId, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        if let Some(index) = self.wanted.iter().position(|wanted| wanted == site) {
            self.seen[index] = Some(if self.outputs { y.to_mat() } else { x.to_mat() });
        }
    }
}

/// Gathers statistics and samples of the sites of one capture.
struct Collector<'a> {
    sites: &'a [SiteId],
    biases: Vec<Option<&'a [f32]>>,
    shapes: Vec<Shape>,
    train: Vec<SiteStats>,
    validation: Vec<SiteStats>,
    /// The input that all sites of the capture share.
    input: Option<RowWriter>,
    targets: Vec<RowWriter>,
    rows: usize,
    train_rows: usize,
}

impl<'a> Collector<'a> {
    fn new(
        original: &'a Decoder,
        calibration: &Calibration,
        sites: &'a [SiteId],
        needs: Needs,
        bounds: &Bounds,
    ) -> Result<Self, CompressError> {
        let slots: Vec<_> = sites.iter().filter_map(|site| original.slot(site)).collect();
        assert_eq!(slots.len(), sites.len(), "every site of a capture is a slot of the model");
        let shapes: Vec<Shape> = slots.iter().map(|slot| slot.shape()).collect();
        let mut collector = Self {
            sites,
            biases: slots.iter().map(|slot| slot.bias()).collect(),
            train: shapes.iter().map(|s| SiteStats::new(s.out, s.inp)).collect(),
            validation: shapes.iter().map(|s| SiteStats::new(s.out, s.inp)).collect(),
            shapes,
            input: None,
            targets: Vec::new(),
            rows: 0,
            train_rows: calibration.train_tokens(),
        };
        if needs == Needs::Samples {
            collector.open_writers(calibration.tokens(), bounds)?;
        }
        Ok(collector)
    }

    /// All sites of a capture read one input: query, key and value share theirs, gate and up too.
    fn open_writers(&mut self, tokens: usize, bounds: &Bounds) -> Result<(), CompressError> {
        let share = bounds.sample_bytes / (1 + self.shapes.len());
        let open = |name: &str, cols: usize| {
            let file = bounds.scratch.join(format!("linwright-{}-{name}.rows", std::process::id()));
            RowWriter::new(cols, tokens, share, &file)
                .map_err(|source| CompressError::Io { path: file, source })
        };
        self.input = self.shapes.first().map(|shape| open("x", shape.inp)).transpose()?;
        for (index, shape) in self.shapes.iter().enumerate() {
            self.targets.push(open(&format!("y{index}"), shape.out)?);
        }
        Ok(())
    }

    fn probe(&self, outputs: bool) -> SiteProbe<'a> {
        SiteProbe { wanted: self.sites, outputs, seen: vec![None; self.sites.len()] }
    }

    fn add(
        &mut self,
        inputs: Vec<Option<Mat<f32>>>,
        targets: Vec<Option<Mat<f32>>>,
    ) -> Result<(), CompressError> {
        let mut rows = 0;
        for (index, (x, y)) in inputs.into_iter().zip(targets).enumerate() {
            let site = &self.sites[index];
            let (Some(x), Some(mut y)) = (x, y) else {
                unreachable!("the layer of {site} ran without passing through it");
            };
            for (what, mat) in [("the input", &x), ("the target", &y)] {
                if mat.data().iter().any(|v| !v.is_finite()) {
                    return Err(CompressError::NonFinite { what, site: site.clone() });
                }
            }
            if let Some(bias) = self.biases[index] {
                for i in 0..y.rows() {
                    y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y -= b);
                }
            }
            let part =
                if self.rows < self.train_rows { &mut self.train } else { &mut self.validation };
            part[index].add(x.view(), y.view());
            self.write(index, &x, &y)?;
            rows = x.rows();
        }
        self.rows += rows;
        Ok(())
    }

    fn write(&mut self, index: usize, x: &Mat<f32>, y: &Mat<f32>) -> Result<(), CompressError> {
        let io = |source| CompressError::Io { path: PathBuf::from("activation samples"), source };
        if let Some(writer) = self.targets.get_mut(index) {
            writer.push(y.view()).map_err(io)?;
            if index == 0
                && let Some(input) = &mut self.input
            {
                input.push(x.view()).map_err(io)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<SiteCapture>, CompressError> {
        let io = |source| CompressError::Io { path: PathBuf::from("activation samples"), source };
        let input = self.input.map(RowWriter::finish).transpose().map_err(io)?;
        let mut targets = self.targets.into_iter();
        let mut captures = Vec::new();
        for (index, (train, validation)) in self.train.into_iter().zip(self.validation).enumerate()
        {
            let samples = match (&input, targets.next()) {
                (Some(x), Some(y)) => {
                    let y = y.finish().map_err(io)?;
                    Some(Samples { x: x.clone(), y, train: self.train_rows })
                }
                _ => None,
            };
            let (site, shape) = (self.sites[index].clone(), self.shapes[index]);
            captures.push(SiteCapture { site, shape, train, validation, samples });
        }
        Ok(captures)
    }
}
