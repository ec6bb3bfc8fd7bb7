//! Flows as a problem of the training loop.

use crate::{Flow, FlowError, FlowExamples, Values};
use linwright_nets::TensorUse;
use linwright_ops::Workspace;
use linwright_run::memory;
use linwright_tensor::RngKey;
use linwright_train::{Problem, Slice};
use std::error::Error;

/// Examples of the first batch, which initialises normalisations.
const START: usize = 256;
/// Examples in a batch of the validation.
const VALIDATION_BATCH: usize = 128;
/// Validation points of a density.
const VALIDATION_POINTS: u32 = 2048;

/// Constant of dequantisation in bits per dimension.
pub(crate) fn bits_of_levels(values: Values) -> f64 {
    match values {
        Values::Bytes => crate::examples::LEVELS.log2(),
        Values::Numbers => 0.0,
    }
}

/// Settings of a training, in addition to those of the loop.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// Training examples.
    pub training: Vec<u32>,
    /// Validation examples.
    pub held_out: Vec<u32>,
    /// Examples in a batch; the last batch of an epoch has the remaining ones.
    pub batch: usize,
    /// Key of the order of examples in each epoch, of noise and of drawn points.
    pub key: RngKey,
}

/// Training of a flow: every epoch visits all examples once, in an order drawn from the key and the
/// number of the epoch; for densities, every step draws fresh points. The loss is the mean bits per
/// dimension.
#[derive(Debug)]
pub struct FlowTraining<'a> {
    flow: &'a mut Flow,
    examples: &'a FlowExamples,
    plan: FlowPlan,
    gradients: Vec<Vec<f32>>,
    epoch: Option<u64>,
    order: Vec<u32>,
    ws: Workspace<f32>,
}

impl<'a> FlowTraining<'a> {
    /// The training of a flow, in place. Initialises its normalisations on the first examples.
    ///
    /// # Errors
    /// [`FlowError::Extent`] for examples of another extent, [`FlowError::Option`] for an empty
    /// batch or no examples.
    pub fn new(
        flow: &'a mut Flow,
        examples: &'a FlowExamples,
        mut plan: FlowPlan,
    ) -> Result<Self, FlowError> {
        check_extent(flow, examples)?;
        if examples.count().is_none() {
            plan.held_out = (0..VALIDATION_POINTS).collect();
        } else if plan.training.is_empty() || plan.held_out.is_empty() {
            let found =
                format!("{} examples, {} held out", plan.training.len(), plan.held_out.len());
            let expected = "at least one of each".to_owned();
            return Err(FlowError::Option { option: "data", found, expected });
        }
        if plan.batch == 0 {
            let (found, expected) = ("0".to_owned(), "at least one example".to_owned());
            return Err(FlowError::Option { option: "batch", found, expected });
        }
        let rows = match examples.count() {
            Some(_) => plan.batch.min(plan.training.len()),
            None => plan.batch,
        };
        check_step(flow, rows as u64)?;
        let first: Vec<u32> = match examples.count() {
            Some(_) => {
                let order = plan.key.fold("start").stream().permutation(plan.training.len());
                order.iter().take(START).map(|at| plan.training[*at as usize]).collect()
            }
            None => (0..START as u32).collect(),
        };
        flow.start(examples.batch(&first, plan.key.fold("start")))?;
        let tensors = flow.tensors_mut().into_iter();
        let gradients = tensors.map(|tensor| vec![0.0; tensor.values.len()]).collect();
        let (epoch, order, ws) = (None, Vec::new(), Workspace::default());
        Ok(Self { flow, examples, plan, gradients, epoch, order, ws })
    }

    /// The examples of a step.
    fn indices(&mut self, step: u64) -> Vec<u32> {
        let batch = self.plan.batch;
        if self.examples.count().is_none() {
            return (0..batch as u32).collect();
        }
        let of_epoch = self.plan.training.len().div_ceil(batch) as u64;
        let epoch = step / of_epoch;
        if self.epoch != Some(epoch) {
            let key = self.plan.key.fold("order").fold_index(epoch);
            let order = key.stream().permutation(self.plan.training.len());
            self.order = order.iter().map(|at| self.plan.training[*at as usize]).collect();
            self.epoch = Some(epoch);
        }
        let start = (step % of_epoch) as usize * batch;
        self.order[start..self.order.len().min(start + batch)].to_vec()
    }

    fn try_step(&mut self, step: u64) -> Result<f64, FlowError> {
        let indices = self.indices(step);
        let x = self.examples.batch(&indices, self.plan.key.fold("step").fold_index(step));
        let loss = self.flow.loss_and_gradients(x, &mut self.gradients, &mut self.ws)?;
        Ok(loss + bits_of_levels(self.examples.values()))
    }

    fn try_validate(&mut self) -> Result<f64, FlowError> {
        let key = self.plan.key.fold("validation");
        let mut sum = 0.0;
        for indices in self.plan.held_out.chunks(VALIDATION_BATCH) {
            let x = self.examples.batch(indices, key);
            sum += self.flow.encode(x, &mut self.ws)?.nll().iter().sum::<f64>();
        }
        let count = self.plan.held_out.len() * self.examples.extent().numbers();
        let bits = sum / (count as f64 * std::f64::consts::LN_2);
        Ok(bits + bits_of_levels(self.examples.values()))
    }
}

/// Checks that there is memory for a step on a batch: its examples, and the activations of one
/// coupling.
fn check_step(flow: &Flow, rows: u64) -> Result<(), FlowError> {
    let spec = flow.spec();
    let hidden = (2 * spec.hidden * spec.input.places()) as u64;
    let numbers = (spec.input.numbers() as u64).saturating_add(hidden);
    let what = || format!("a step on a batch of {rows} examples");
    Ok(memory::check(what, &[rows, numbers, size_of::<f32>() as u64])?)
}

/// Checks that examples have the extent and values of a flow.
///
/// # Errors
/// [`FlowError::Extent`] with both.
pub fn check_extent(flow: &Flow, examples: &FlowExamples) -> Result<(), FlowError> {
    let spec = flow.spec();
    if (spec.input, spec.values) == (examples.extent(), examples.values()) {
        return Ok(());
    }
    let shown = |extent: crate::Extent, values: Values| {
        let kind = match values {
            Values::Bytes => "intensities of 0 to 255",
            Values::Numbers => "numbers in any units",
        };
        format!("examples of {extent} {kind}")
    };
    Err(FlowError::Extent {
        what: "the data",
        found: shown(examples.extent(), examples.values()),
        expected: format!("{}, as the flow was trained on", shown(spec.input, spec.values)),
    })
}

impl Problem for FlowTraining<'_> {
    fn slices(&mut self) -> Vec<Slice<'_>> {
        let tensors = self.flow.tensors_mut().into_iter().zip(&mut self.gradients);
        tensors
            .map(|(tensor, gradient)| Slice {
                name: tensor.name,
                values: tensor.values,
                gradient: gradient.as_mut_slice().into(),
                decay: tensor.purpose == TensorUse::Weight,
            })
            .collect()
    }

    fn step(&mut self, step: u64) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.try_step(step)?)
    }

    fn validate(&mut self) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.try_validate()?)
    }
}
