//! Networks.

use crate::build::{Builder, Source, Stage};
use crate::source::{Asked, Random, Stored};
use crate::step::{Back, Blind, Keep, Kept, NetTensor, Pass, TensorGrads};
use crate::{Extent, NetError, NetSpec};
use linwright_files::Weights;
use linwright_ops::Workspace;
use linwright_run::memory;
use linwright_tensor::kernels::batch_norm::normalise_columns;
use linwright_tensor::kernels::elementwise::all_finite;
use linwright_tensor::{Mat, RngKey, Scalar};
use std::path::Path;

/// Largest number of rows of a batch for which the gradient of a large weight is kept as factors.
const FEW_ROWS: usize = 512;

/// Examples: their positions as rows (examples * positions, channels).
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<T = f32> {
    /// The numbers.
    pub rows: Mat<T>,
    /// Number of examples.
    pub examples: usize,
}

/// Activations between two steps.
#[derive(Clone, Debug)]
pub struct NetState<T = f32> {
    /// The positions of all examples.
    pub rows: Mat<T>,
    pub(crate) stack: Vec<Mat<T>>,
}

/// Data of a forward pass for the backward pass.
#[derive(Debug)]
pub struct Passed<T>(Vec<Kept<T>>);

/// A network with its numbers.
#[derive(Clone, Debug)]
pub struct Net<T: Scalar = f32> {
    spec: NetSpec,
    input: Extent,
    output: Extent,
    pub(crate) stages: Vec<Stage<T>>,
}

// Not generic over scalars, so that the steps are compiled in this crate, with its optimisation.
impl Net {
    /// A network with random weights: normal with standard deviation `sqrt(2 / inp)` (He et al.
    /// 2015, arXiv:1502.01852, eq. 10), biases zero, norms one, running statistics those of numbers
    /// with mean zero and variance one; operators with the initial values of their registry. Every
    /// tensor has its own stream under `key`.
    ///
    /// # Errors
    /// [`NetError::Layer`] if the layers do not fit, [`NetError::Operator`] for an operator that
    /// does not support the shape of its slot, [`NetError::Memory`] before anything is allocated.
    pub fn random(spec: &NetSpec, key: RngKey) -> Result<Self, NetError> {
        let of = || format!("a network of {} layers", spec.layers.len());
        memory::check(of, &[spec.least_numbers()?, 4])?;
        Self::of(spec, &mut Random(key))
    }

    /// A network with the weights of a file; batch counters are ignored.
    ///
    /// # Errors
    /// [`NetError`] naming the missing, wrong or unknown tensor.
    pub fn load(spec: &NetSpec, path: &Path) -> Result<Self, NetError> {
        Self::load_hashed(spec, path).map(|(net, _)| net)
    }

    /// A network with the weights of a file, and the SHA-256 of description and weights.
    pub(crate) fn load_hashed(spec: &NetSpec, path: &Path) -> Result<(Self, String), NetError> {
        let weights = Weights::open(path)?;
        let mut stored = Stored::of(&weights);
        let net = Self::of(spec, &mut stored)?;
        match stored.unused() {
            Some(name) => Err(NetError::UnknownTensor { path: path.into(), name: name.into() }),
            None => Ok((net, stored.hash(spec))),
        }
    }
}

impl<T: Scalar> Net<T> {
    pub(crate) fn of(spec: &NetSpec, source: &mut dyn Source<T>) -> Result<Self, NetError> {
        let (input, output) = (spec.input.extent()?, spec.check()?);
        let mut builder = Builder::new(input, &spec.operators, source);
        builder.all(&spec.layers, "")?;
        Ok(Self { spec: spec.clone(), input, output, stages: builder.finish()? })
    }

    /// A network whose tensors come from a function, by name and shape, without operators.
    ///
    /// # Errors
    /// [`NetError::Layer`] if the layers do not fit, and errors of the function.
    pub fn build(
        spec: &NetSpec,
        tensors: impl FnMut(&str, &[usize]) -> Result<Vec<T>, NetError>,
    ) -> Result<Self, NetError> {
        Self::of(spec, &mut Asked(tensors))
    }

    /// The description that it was built from.
    #[must_use]
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// Extent of an input example.
    #[must_use]
    pub fn input(&self) -> Extent {
        self.input
    }

    /// Extent of the output for one example.
    #[must_use]
    pub fn output(&self) -> Extent {
        self.output
    }

    /// All tensors, in the order of the steps.
    pub fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        self.stages.iter_mut().flat_map(|stage| stage.step.tensors_mut()).collect()
    }

    /// The state before the first step.
    ///
    /// # Errors
    /// [`NetError::Input`] for another extent, [`NetError::NotFinite`] for an input that is not
    /// finite.
    pub fn start(&self, batch: &Batch<T>) -> Result<NetState<T>, NetError> {
        self.start_with(batch.clone())
    }

    fn start_with(&self, batch: Batch<T>) -> Result<NetState<T>, NetError> {
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
        let mut rows = batch.rows;
        let (mean, std) = (&self.spec.input.mean, &self.spec.input.std);
        if !(mean.is_empty() && std.is_empty()) {
            let one = |numbers: &[f32], at: usize, default: f32| {
                f64::from(numbers.get(at).copied().unwrap_or(default))
            };
            let means: Vec<T> = (0..channels).map(|c| T::from_f64(one(mean, c, 0.0))).collect();
            let scales: Vec<T> =
                (0..channels).map(|c| T::from_f64(1.0 / one(std, c, 1.0))).collect();
            normalise_columns(rows.view_mut(), &means, &scales);
        }
        if !all_finite(rows.data()) {
            return Err(NetError::InputNotFinite);
        }
        Ok(NetState { rows, stack: Vec::new() })
    }

    /// The output of a batch, with the data for the backward pass; in training mode if a key is
    /// given.
    ///
    /// # Errors
    /// [`NetError`] for another extent, and numbers that are not finite.
    pub fn pass(
        &self,
        batch: &Batch<T>,
        training: Option<RngKey>,
    ) -> Result<(Mat<T>, Passed<T>), NetError> {
        self.pass_in(batch.clone(), training, &mut Workspace::default())
    }

    /// [`Self::pass`] that consumes its batch and reuses memory.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn pass_in(
        &self,
        batch: Batch<T>,
        training: Option<RngKey>,
        ws: &mut Workspace<T>,
    ) -> Result<(Mat<T>, Passed<T>), NetError> {
        let mut state = self.start_with(batch)?;
        let mut kept = Vec::with_capacity(self.stages.len());
        for index in 0..self.stages.len() {
            let training = training.map(|key| key.fold_index(index as u64));
            let (stack, keep) = (&mut state.stack, Keep::ForTensors);
            let mut pass = Pass { stack, watch: &mut Blind, keep, training, ws: &mut *ws };
            kept.push(self.step(index, &mut state.rows, &mut pass)?);
        }
        Ok((state.rows, Passed(kept)))
    }

    /// The output of a batch, in inference mode.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn outputs(&self, batch: &Batch<T>) -> Result<Mat<T>, NetError> {
        self.outputs_in(batch.clone(), &mut Workspace::default())
    }

    /// [`Self::outputs`] that consumes its batch and reuses memory.
    ///
    /// # Errors
    /// As [`Self::outputs`].
    pub fn outputs_in(&self, batch: Batch<T>, ws: &mut Workspace<T>) -> Result<Mat<T>, NetError> {
        let mut state = self.start_with(batch)?;
        for index in 0..self.stages.len() {
            let (stack, keep) = (&mut state.stack, Keep::Nothing);
            let mut pass = Pass { stack, watch: &mut Blind, keep, training: None, ws: &mut *ws };
            self.step(index, &mut state.rows, &mut pass)?;
        }
        Ok(state.rows)
    }

    /// Gradients of all tensors, in the order of [`Self::tensors_mut`], and of the normalised
    /// input, from that of the output. Gradients of statistics are zero.
    pub fn gradients(&mut self, passed: Passed<T>, dy: Mat<T>) -> (Vec<Vec<T>>, Mat<T>) {
        let lengths = self.tensors_mut().into_iter().map(|tensor| tensor.values.len());
        let mut all: Vec<Vec<T>> = lengths.map(|length| vec![T::ZERO; length]).collect();
        let dx = self.gradients_into(passed, dy, &mut all, &mut Workspace::default());
        (all, dx)
    }

    /// [`Self::gradients`] that reuses memory: overwrites the given gradients of the tensors, and
    /// returns that of the input.
    ///
    /// # Panics
    /// If there are not as many vectors as tensors.
    pub fn gradients_into(
        &mut self,
        passed: Passed<T>,
        dy: Mat<T>,
        numbers: &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Mat<T> {
        let grads = TensorGrads { numbers, factors: &mut [] };
        self.gradients_in(passed, dy, grads, true, ws)
    }

    /// [`Self::gradients`] that reuses memory and overwrites the given gradients; the gradient of
    /// the input is empty unless needed.
    pub(crate) fn gradients_in(
        &mut self,
        passed: Passed<T>,
        mut dy: Mat<T>,
        grads: TensorGrads<'_, T>,
        needs_dx: bool,
        ws: &mut Workspace<T>,
    ) -> Mat<T> {
        let TensorGrads { numbers, factors } = grads;
        let (mut stack, mut end) = (Vec::new(), numbers.len());
        let kept = passed.0.into_iter().enumerate().rev();
        for ((index, kept), stage) in kept.zip(self.stages.iter_mut().rev()) {
            let start = end - stage.step.tensors_mut().len();
            let factors = if factors.is_empty() { &mut [] } else { &mut factors[start..end] };
            let mut back = Back {
                stack: &mut stack,
                watch: &mut Blind,
                grads: Some(TensorGrads { numbers: &mut numbers[start..end], factors }),
                needs_dx: needs_dx || index > 0,
                ws: &mut *ws,
            };
            dy = stage.step.backward(dy, kept, &mut back);
            end = start;
        }
        dy
    }

    /// For every tensor, whether its gradient is kept as factors with batches of this size: for a
    /// large dense weight in a linear layer, with few rows.
    pub(crate) fn are_products(&mut self, batch: usize) -> Vec<bool> {
        let of_stage = |stage: &mut Stage<T>| {
            let rows = stage.step.factor_rows().map(|rows| batch.saturating_mul(rows));
            let few = rows.is_some_and(|rows| rows <= FEW_ROWS);
            let count = stage.step.tensors_mut().len();
            (0..count).map(move |tensor| few && tensor == 0).collect::<Vec<_>>()
        };
        self.stages.iter_mut().flat_map(of_stage).collect()
    }

    /// Updates the statistics from a pass in training.
    pub fn learn(&mut self, passed: &Passed<T>) {
        self.stages.iter_mut().zip(&passed.0).for_each(|(stage, kept)| stage.step.learn(kept));
    }

    /// Runs one step on the rows, in place.
    pub(crate) fn step(
        &self,
        index: usize,
        rows: &mut Mat<T>,
        pass: &mut Pass<'_, T>,
    ) -> Result<Kept<T>, NetError> {
        let Stage { label, step } = &self.stages[index];
        let (y, kept) = step.forward(std::mem::take(rows), pass);
        // In training, the loss shows it.
        if pass.training.is_none() && !all_finite(y.data()) {
            return Err(NetError::NotFinite { layer: label.clone() });
        }
        *rows = y;
        Ok(kept)
    }
}
