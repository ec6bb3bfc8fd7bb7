//! Networks as a problem of the training loop.

use crate::step::{Factors, TensorGrads};
use crate::{Labelled, Net, NetError, Targets, TensorUse};
use linwright_ops::{CrossEntropy, OutputLoss, SquaredError, Workspace};
use linwright_run::memory;
use linwright_tensor::{Mat, MatMut, RngKey};
use linwright_train::{Buffer, Gradient, Problem, Slice};
use serde::{Deserialize, Serialize};
use std::error::Error;

/// Examples in a batch of the validation.
const VALIDATION_BATCH: usize = 256;

/// Loss of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Mean over examples of the negative log-likelihood of the class, in nats.
    #[default]
    CrossEntropy,
    /// Mean over examples of half the squared error, summed over outputs; classes are rows with a
    /// one at the class and zeros elsewhere.
    SquaredError,
}

impl Loss {
    /// All losses.
    pub const ALL: [Self; 2] = [Self::CrossEntropy, Self::SquaredError];

    /// Its name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossEntropy => "cross_entropy",
            Self::SquaredError => "squared_error",
        }
    }
}

/// Settings of a training, in addition to those of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingPlan {
    /// The loss.
    pub loss: Loss,
    /// Examples in a batch; the last batch of an epoch has the remaining ones.
    pub batch: usize,
    /// Key of the order of examples in each epoch, and of dropout.
    pub key: RngKey,
}

/// Training of a network on labelled examples: every epoch visits all of them once, in an order
/// drawn from the key and the number of the epoch.
#[derive(Debug)]
pub struct NetTraining<'a> {
    net: &'a mut Net,
    training: &'a Labelled,
    validation: &'a Labelled,
    plan: TrainingPlan,
    gradients: Vec<Vec<f32>>,
    /// Factors of gradients that are kept as factors.
    factors: Vec<Option<Factors<f32>>>,
    epoch: Option<u64>,
    order: Vec<u32>,
    ws: Workspace<f32>,
}

impl<'a> NetTraining<'a> {
    /// The training of a network, in place.
    ///
    /// # Errors
    /// [`NetError::Examples`] for examples that do not match the network, cross-entropy of values,
    /// or an empty batch; [`NetError::Memory`] for a batch that is too large.
    pub fn new(
        net: &'a mut Net,
        training: &'a Labelled,
        validation: &'a Labelled,
        plan: TrainingPlan,
    ) -> Result<Self, NetError> {
        for examples in [training, validation] {
            examples.check(net)?;
            if plan.loss == Loss::CrossEntropy && matches!(examples.targets(), Targets::Values(_)) {
                return Err(NetError::Examples {
                    what: "targets",
                    found: "values".into(),
                    expected: "classes, for cross-entropy".into(),
                });
            }
        }
        if plan.batch == 0 {
            let (found, expected) = ("no example".into(), "at least one".into());
            return Err(NetError::Examples { what: "batch", found, expected });
        }
        let rows = plan.batch.min(training.len()) as u64;
        let what = || format!("a step on a batch of {rows} examples");
        memory::check(what, &[rows, net.spec().activations()?, size_of::<f32>() as u64])?;
        let are_products = net.are_products(plan.batch);
        let lengths = net.tensors_mut().into_iter().zip(are_products).map(
            |(tensor, is_product)| match tensor.purpose {
                TensorUse::Statistic => 0,
                _ if is_product => 0,
                TensorUse::Weight | TensorUse::Vector => tensor.values.len(),
            },
        );
        let gradients: Vec<Vec<f32>> = lengths.map(|length| vec![0.0; length]).collect();
        let factors = gradients.iter().map(|_| None).collect();
        let (epoch, order, ws) = (None, Vec::new(), Workspace::default());
        Ok(Self { net, training, validation, plan, gradients, factors, epoch, order, ws })
    }

    /// Steps of an epoch.
    #[must_use]
    pub fn steps_of_epoch(&self) -> u64 {
        self.training.len().div_ceil(self.plan.batch) as u64
    }

    /// The examples of a step.
    fn examples(&mut self, step: u64) -> Vec<u32> {
        let (of_epoch, batch) = (self.steps_of_epoch(), self.plan.batch);
        let epoch = step / of_epoch;
        if self.epoch != Some(epoch) {
            let key = self.plan.key.fold("order").fold_index(epoch);
            self.order = key.stream().permutation(self.training.len());
            self.epoch = Some(epoch);
        }
        let start = (step % of_epoch) as usize * batch;
        self.order[start..self.order.len().min(start + batch)].to_vec()
    }

    fn try_step(&mut self, step: u64) -> Result<f64, NetError> {
        let examples = self.examples(step);
        let (batch, targets) =
            (self.training.batch(&examples), self.training.targets().of(&examples));
        let key = self.plan.key.fold("step").fold_index(step);
        let (mut outputs, passed) = self.net.pass_in(batch, Some(key), &mut self.ws)?;
        self.net.learn(&passed);
        let loss = loss_of(self.plan.loss, outputs.view_mut(), &targets);
        let grads = TensorGrads { numbers: &mut self.gradients, factors: &mut self.factors };
        self.net.gradients_in(passed, outputs, grads, false, &mut self.ws);
        Ok(loss)
    }

    fn try_validate(&mut self) -> Result<f64, NetError> {
        let all: Vec<u32> = (0..self.validation.len() as u32).collect();
        let mut sum = 0.0;
        for examples in all.chunks(VALIDATION_BATCH) {
            let mut outputs = self.net.outputs(&self.validation.batch(examples))?;
            let targets = self.validation.targets().of(examples);
            sum += loss_of(self.plan.loss, outputs.view_mut(), &targets) * examples.len() as f64;
        }
        Ok(sum / all.len() as f64)
    }
}

/// The mean loss of outputs, which are overwritten by its gradient.
pub(crate) fn loss_of(loss: Loss, outputs: MatMut<'_, f32>, targets: &Targets) -> f64 {
    let weight = 1.0 / outputs.rows().max(1) as f32;
    let one_hot;
    let values = match (loss, targets) {
        (Loss::CrossEntropy, Targets::Classes(classes)) => {
            return CrossEntropy::mean(classes).of_rows(0, outputs);
        }
        (_, Targets::Values(values)) => values,
        (Loss::SquaredError, Targets::Classes(classes)) => {
            let is_class = |i: usize, j: usize| f32::from(u8::from(classes[i] as usize == j));
            one_hot = Mat::from_fn(outputs.rows(), outputs.cols(), is_class);
            &one_hot
        }
    };
    SquaredError { targets: values.data(), weight }.of_rows(0, outputs)
}

impl Problem for NetTraining<'_> {
    fn slices(&mut self) -> Vec<Slice<'_>> {
        let gradients = self.gradients.iter_mut().zip(&self.factors);
        let tensors = self.net.tensors_mut().into_iter().zip(gradients);
        let trained = tensors.filter(|(tensor, _)| tensor.purpose != TensorUse::Statistic);
        trained
            .map(|(tensor, (numbers, factors))| Slice {
                name: tensor.name,
                values: tensor.values,
                gradient: match factors {
                    Some(Factors { dy, x }) => Gradient::Product { dy: dy.view(), x: x.view() },
                    None => numbers.as_mut_slice().into(),
                },
                decay: tensor.purpose == TensorUse::Weight,
            })
            .collect()
    }

    fn buffers(&mut self) -> Vec<Buffer<'_>> {
        let tensors = self.net.tensors_mut().into_iter();
        let statistics = tensors.filter(|tensor| tensor.purpose == TensorUse::Statistic);
        statistics.map(|tensor| Buffer { name: tensor.name, values: tensor.values }).collect()
    }

    fn step(&mut self, step: u64) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.try_step(step)?)
    }

    fn validate(&mut self) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.try_validate()?)
    }
}
