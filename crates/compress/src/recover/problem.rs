//! Recovery as a training problem.

use super::Supervised;
use super::gradients::{Collecting, Gradients};
use crate::CompressError;
use linwright_ops::{CrossEntropy, Differentiable, NoProbe, SiteId};
use linwright_tensor::RngKey;
use linwright_train::{Problem, Slice};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

/// A network whose replaced operators are trained.
pub(super) struct Recovering<'a, N: Differentiable> {
    network: &'a mut N,
    examples: Supervised<'a, N::Input>,
    gradients: Gradients,
    key: RngKey,
    /// An epoch and the order of its batches.
    order: Option<(u64, Vec<u32>)>,
    held_out: u64,
}

impl<'a, N: Differentiable> Recovering<'a, N> {
    /// Trains operators and biases of the slots in `trained`, and biases of those in `biases`.
    pub(super) fn new(
        network: &'a mut N,
        trained: &BTreeSet<SiteId>,
        biases: &BTreeSet<SiteId>,
        examples: Supervised<'a, N::Input>,
        key: RngKey,
    ) -> Result<Self, CompressError> {
        let gradients = Gradients::zeros(network, trained, biases);
        let refused = |reason: &str| CompressError::NoRecovery { reason: reason.into() };
        if gradients.numbers() == 0 {
            return Err(refused("no replaced layer has parameters to train; leave out recovery"));
        }
        let Supervised { examples: data, targets } = examples;
        let train = data.training_batches();
        let held_out =
            (train..data.batches()).map(|index| counted(&targets(index, &data.batch(index))));
        let held_out: u64 = held_out.sum();
        if train == 0 || held_out == 0 {
            return Err(refused(
                "the examples leave nothing to train on or nothing to hold out; give more text",
            ));
        }
        Ok(Self { network, examples, gradients, key, order: None, held_out })
    }

    /// Number of trained parameters.
    pub(super) fn parameters(&self) -> u64 {
        self.gradients.numbers() as u64
    }

    /// Number of held-out targets.
    pub(super) fn held_out(&self) -> u64 {
        self.held_out
    }

    /// The batch of a step: every epoch has all training batches in an order of its own.
    fn batch_of(&mut self, step: u64) -> usize {
        let count = self.examples.examples.training_batches();
        let (epoch, place) = (step / count as u64, (step % count as u64) as usize);
        let held = self.order.take().filter(|(held, _)| *held == epoch);
        let (_, order) =
            self.order.insert(held.unwrap_or_else(|| {
                (epoch, self.key.fold_index(epoch).stream().permutation(count))
            }));
        order[place] as usize
    }
}

/// Number of rows with a target.
fn counted(targets: &[u32]) -> u64 {
    targets.iter().filter(|target| **target != u32::MAX).count() as u64
}

impl<N: Differentiable> Problem for Recovering<'_, N> {
    fn slices(&mut self) -> Vec<Slice<'_>> {
        let mut gradients: BTreeMap<_, _> = self.gradients.slots.iter_mut().collect();
        let mut slices = Vec::new();
        for slot in self.network.slots_mut() {
            let id = slot.id().clone();
            let Some(gradient) = gradients.remove(&id) else { continue };
            let (op, bias) = slot.parts_mut();
            if !gradient.op.is_empty() {
                let params = op.map_mut().params_mut().into_iter().zip(gradient.op.iter_mut());
                slices.extend(params.map(|(param, gradient)| Slice {
                    name: format!("{id}.{}", param.name),
                    values: param.values,
                    gradient: gradient.into(),
                    decay: false,
                }));
            }
            slices.extend(bias.zip(gradient.bias.as_deref_mut()).map(|(values, gradient)| Slice {
                name: format!("{id}.bias"),
                values,
                gradient: gradient.into(),
                decay: false,
            }));
        }
        slices
    }

    fn step(&mut self, step: u64) -> Result<f64, Box<dyn Error + Send + Sync>> {
        let index = self.batch_of(step);
        let batch = self.examples.examples.batch(index);
        let targets = (self.examples.targets)(index, &batch);
        self.gradients.clear();
        let mut probe = Collecting::new(&*self.network, &mut self.gradients);
        let mut loss = CrossEntropy::mean(&targets);
        Ok(self.network.loss_to_slots(&batch, &mut loss, &mut probe)?)
    }

    fn validate(&mut self) -> Result<f64, Box<dyn Error + Send + Sync>> {
        let Supervised { examples, targets } = self.examples;
        let mut sum = 0.0;
        for index in examples.training_batches()..examples.batches() {
            let batch = examples.batch(index);
            let targets = targets(index, &batch);
            let mut loss = CrossEntropy::sum(&targets);
            sum += self.network.loss_to_slots(&batch, &mut loss, &mut NoProbe)?;
        }
        Ok(sum / self.held_out as f64)
    }
}
