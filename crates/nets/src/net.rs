//! Networks.

use crate::build::Builder;
use crate::step::{Back, Blind, Kept, NetTensor, Pass, Step, Watch};
use crate::{Extent, NetError, NetSpec};
use linwright_files::Weights;
use linwright_ops::{
    Differentiable, ExampleRows, LinearSlot, Network, OutputLoss, Probe, Seen, SeenGradient, Sites,
};
use linwright_tensor::{Mat, MatRef, RngKey, Scalar};
use std::ops::Range;
use std::path::Path;

/// Examples: their places as rows (examples * places, channels).
#[derive(Clone, Debug)]
pub struct Batch<T = f32> {
    /// The numbers.
    pub rows: Mat<T>,
    /// Number of examples.
    pub examples: usize,
}

/// What flows from one step to the next.
#[derive(Clone, Debug)]
pub struct NetState<T = f32> {
    /// The places of all examples.
    pub rows: Mat<T>,
    stack: Vec<Mat<T>>,
}

/// What a pass forward leaves for the pass back.
#[derive(Debug)]
pub struct Passed<T>(Vec<Kept<T>>);

/// A network with its numbers.
#[derive(Debug)]
pub struct Net<T: Scalar = f32> {
    spec: NetSpec,
    input: Extent,
    steps: Vec<Box<dyn Step<T>>>,
}

impl<T: Scalar> Clone for Net<T> {
    fn clone(&self) -> Self {
        let steps = self.steps.iter().map(|step| step.clone_step()).collect();
        Self { spec: self.spec.clone(), input: self.input, steps }
    }
}

impl<T: Scalar> Net<T> {
    /// A network whose tensors come from a source, by name and shape.
    ///
    /// # Errors
    /// [`NetError::Layer`] if the layers do not fit, and what the source says.
    pub fn build(
        spec: &NetSpec,
        mut source: impl FnMut(&str, &[usize]) -> Result<Vec<T>, NetError>,
    ) -> Result<Self, NetError> {
        spec.check()?;
        let input = spec.input.extent()?;
        let mut builder =
            Builder { source: &mut source, extent: input, steps: Vec::new(), layers: 0 };
        builder.layers(&spec.layers)?;
        let steps = builder.steps;
        Ok(Self { spec: spec.clone(), input, steps })
    }

    /// A network with random weights: normal with standard deviation `sqrt(2 / inp)` (He et al.
    /// 2015, arXiv:1502.01852, eq. 10), biases zero, norms one, running statistics those of numbers
    /// with mean zero and variance one. Every tensor has its own stream under `key`.
    ///
    /// # Errors
    /// [`NetError::Layer`] if the layers do not fit.
    pub fn random(spec: &NetSpec, key: RngKey) -> Result<Self, NetError> {
        Self::build(spec, |name, shape| {
            let count = shape.iter().product();
            let inputs: usize = shape[1..].iter().product();
            Ok(match shape.len() {
                1 if name.ends_with(".weight") || name.ends_with(".running_var") => {
                    vec![T::ONE; count]
                }
                1 => vec![T::ZERO; count],
                _ => key.fold(name).stream().normals(count, (2.0 / inputs.max(1) as f64).sqrt()),
            })
        })
    }

    /// A network with the weights of a file; counters of batches are left aside.
    ///
    /// # Errors
    /// [`NetError`] naming the missing, wrong or unknown tensor.
    pub fn load(spec: &NetSpec, path: &Path) -> Result<Self, NetError> {
        let weights = Weights::open(path)?;
        let mut used = Vec::new();
        let net = Self::build(spec, |name, shape| {
            used.push(name.to_owned());
            let values = weights.read(name, shape)?.values;
            Ok(values.into_iter().map(|value| T::from_f64(value.into())).collect())
        })?;
        let counted = |name: &str| name.ends_with(".num_batches_tracked");
        match weights.names().find(|name| !counted(name) && !used.iter().any(|u| u == name)) {
            Some(name) => Err(NetError::UnknownTensor { path: path.into(), name: name.into() }),
            None => Ok(net),
        }
    }

    /// Its description.
    #[must_use]
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// All tensors, in the order of the steps.
    pub fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        self.steps.iter_mut().flat_map(|step| step.tensors_mut()).collect()
    }

    /// The state before the first step.
    ///
    /// # Errors
    /// [`NetError::Input`] for another extent.
    pub fn start(&self, batch: &Batch<T>) -> Result<NetState<T>, NetError> {
        let (rows, channels) = (batch.rows.rows(), batch.rows.cols());
        let expected_rows = self.input.places().saturating_mul(batch.examples);
        let expected_channels = self.input.channels;
        if (rows, channels) != (expected_rows, expected_channels) {
            let examples = batch.examples;
            return Err(NetError::Input {
                rows,
                channels,
                examples,
                expected_rows,
                expected_channels,
            });
        }
        let mut rows = batch.rows.clone();
        for i in 0..rows.rows() {
            let row = rows.row_mut(i);
            let means = row.iter_mut().zip(&self.spec.input.mean);
            means.for_each(|(x, mean)| *x -= T::from_f64((*mean).into()));
            let divisors = row.iter_mut().zip(&self.spec.input.std);
            divisors.for_each(|(x, std)| *x = *x / T::from_f64((*std).into()));
        }
        Ok(NetState { rows, stack: Vec::new() })
    }

    /// The output of a batch, with what the pass back needs; with a key, as in training.
    ///
    /// # Errors
    /// [`NetError`] for another extent, and numbers that are not finite.
    pub fn pass(
        &self,
        batch: &Batch<T>,
        training: Option<RngKey>,
    ) -> Result<(Mat<T>, Passed<T>), NetError> {
        let mut state = self.start(batch)?;
        let mut kept = Vec::new();
        for index in 0..self.steps.len() {
            let training = training.map(|key| key.fold_index(index as u64));
            kept.push(self.one(&mut state, index, (true, training), &mut Blind)?);
        }
        Ok((state.rows, Passed(kept)))
    }

    /// Gradients of all tensors, in the order of [`Self::tensors_mut`], and of the normalised
    /// input, from that of the output. Those of statistics are zero.
    pub fn gradients(&mut self, passed: &Passed<T>, dy: Mat<T>) -> (Vec<Vec<T>>, Mat<T>) {
        let (mut dy, mut stack, mut all) = (dy, Vec::new(), Vec::new());
        for (step, kept) in self.steps.iter_mut().zip(&passed.0).rev() {
            let lengths = step.tensors_mut().into_iter().map(|tensor| tensor.values.len());
            let mut grads: Vec<Vec<T>> = lengths.map(|length| vec![T::ZERO; length]).collect();
            let (stack, watch) = (&mut stack, &mut Blind);
            let mut back = Back { stack, watch, grads: Some(&mut grads), needs_dx: true };
            dy = step.backward(dy, kept, &mut back);
            all.push(grads);
        }
        (all.into_iter().rev().flatten().collect(), dy)
    }

    /// Takes the statistics of a pass in training.
    pub fn learn(&mut self, passed: &Passed<T>) {
        self.steps.iter_mut().zip(&passed.0).for_each(|(step, kept)| step.learn(kept));
    }

    fn one(
        &self,
        state: &mut NetState<T>,
        index: usize,
        (keep, training): (bool, Option<RngKey>),
        watch: &mut dyn Watch<T>,
    ) -> Result<Kept<T>, NetError> {
        let mut pass = Pass { stack: &mut state.stack, watch, keep, training };
        let (rows, kept) = self.steps[index].forward(std::mem::take(&mut state.rows), &mut pass);
        if !rows.data().iter().all(|value| value.is_finite()) {
            let slot = self.steps[index].slots().first().map(|slot| slot.id().to_string());
            let layer = slot.unwrap_or_else(|| format!("of step {index}"));
            return Err(NetError::NotFinite { layer });
        }
        state.rows = rows;
        Ok(kept)
    }
}

impl Sites for Net {
    fn slots(&self) -> Vec<&LinearSlot> {
        self.steps.iter().flat_map(|step| step.slots()).collect()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot> {
        self.steps.iter_mut().flat_map(|step| step.slots_mut()).collect()
    }
}

/// Shows slots to a probe.
struct Probing<'a> {
    probe: &'a mut dyn Probe,
    examples: usize,
}

impl Probing<'_> {
    /// Rows of each example, of which all have equally many.
    fn examples(&self, rows: usize) -> Vec<ExampleRows> {
        let each = rows / self.examples.max(1);
        let spans: Vec<_> = (0..self.examples).map(|i| i * each..(i + 1) * each).collect();
        ExampleRows::of_spans(&spans)
    }
}

impl Watch<f32> for Probing<'_> {
    fn forward(&mut self, slot: &LinearSlot, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        if self.probe.wants(slot.id()) {
            let examples = &self.examples(x.rows());
            self.probe.on_forward(slot.id(), Seen { x, y, examples });
        }
    }

    fn backward(&mut self, slot: &LinearSlot, x: MatRef<'_, f32>, dy: MatRef<'_, f32>) {
        if self.probe.wants_gradient(slot.id()) {
            let examples = &self.examples(dy.rows());
            let x = self.probe.wants_input_again(slot.id()).then_some(x);
            self.probe.on_backward(slot.id(), SeenGradient { x, dy, examples });
        }
    }
}

impl Differentiable for Net {
    /// The loss of the output's rows (examples * places, channels). Batch norms use their running
    /// statistics, and nothing is dropped.
    fn loss_to_slots(
        &self,
        input: &Batch,
        loss: &mut dyn OutputLoss,
        probe: &mut dyn Probe,
    ) -> Result<f64, NetError> {
        let slots = self.slots().into_iter();
        let wanted = slots.filter(|slot| probe.wants_gradient(slot.id()));
        let first = wanted.filter_map(LinearSlot::stage).min().unwrap_or(self.steps.len());
        let mut watch = Probing { probe, examples: input.examples };
        let mut state = self.start(input)?;
        let mut kept = Vec::new();
        for index in 0..self.steps.len() {
            let of_step = self.one(&mut state, index, (index >= first, None), &mut watch)?;
            if index >= first {
                kept.push(of_step);
            }
        }
        let mut dy = state.rows;
        let total = loss.of_rows(0, dy.view_mut());
        if !total.is_finite() {
            return Err(NetError::NotFinite { layer: "of the loss".into() });
        }
        let mut stack = Vec::new();
        for (index, kept) in (first..self.steps.len()).zip(&kept).rev() {
            let (stack, watch, needs_dx) = (&mut stack, &mut watch, index > first);
            let mut back = Back { stack, watch, grads: None, needs_dx };
            dy = self.steps[index].backward(dy, kept, &mut back);
        }
        Ok(total)
    }
}

impl Network for Net {
    type Input = Batch;
    type State = NetState;
    type Error = NetError;

    fn stages(&self) -> usize {
        self.steps.len()
    }

    fn begin(&self, input: &Batch) -> Result<NetState, NetError> {
        self.start(input)
    }

    fn run_stages(
        &self,
        state: &mut NetState,
        input: &Batch,
        stages: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), NetError> {
        for index in stages {
            let mut watch = Probing { probe: &mut *probe, examples: input.examples };
            self.one(state, index, (false, None), &mut watch)?;
            if probe.satisfied() {
                break;
            }
        }
        Ok(())
    }

    fn state_bytes(state: &NetState) -> usize {
        let numbers = |mat: &Mat<f32>| mat.data().len();
        (numbers(&state.rows) + state.stack.iter().map(numbers).sum::<usize>()) * size_of::<f32>()
    }

    fn other_parameters(&self) -> u64 {
        self.steps.iter().map(|step| step.other_parameters() as u64).sum()
    }
}
