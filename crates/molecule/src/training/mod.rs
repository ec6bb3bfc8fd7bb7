//! Training of a TensorNet on energies and forces, by the one loop of `train`.
//!
//! The gradient of a force loss needs no tape: with `g` the gradient of the loss by forces, that by
//! parameters is the gradient of the derivative of the energy along `-g`, one forward and backward
//! pass over numbers with tangents.

mod loss;
mod references;
mod split;

pub use loss::LossKind;
pub use references::{References, elements};
pub use split::Split;

use crate::tensornet::{Batch, TensorNet, TensorUse};
use crate::{MoleculeError, Structure, Wanted};
use linwright_tensor::{RngKey, parallel, scratch};
use linwright_train::{Problem, Slice};
use std::collections::BTreeMap;
use std::error::Error;

/// Structures of a work item: a constant, so that bits do not depend on the number of threads.
const BLOCK: usize = 4;

/// Settings of a training, in addition to those of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingPlan {
    /// Weight of the mean loss of energies.
    pub energy_weight: f64,
    /// Weight of the mean loss of components of forces.
    pub force_weight: f64,
    /// Loss of both.
    pub loss: LossKind,
    /// Structures in a batch; the last batch of an epoch has the remaining ones.
    pub batch: usize,
    /// Key of the order of structures in each epoch.
    pub key: RngKey,
}

/// Training of a TensorNet, in place: every epoch visits all structures once, in an order drawn
/// from the key and the number of the epoch.
#[derive(Debug)]
pub struct TensorNetTraining<'a> {
    model: &'a mut TensorNet<f32>,
    training: &'a [Structure],
    validation: &'a [Structure],
    plan: TrainingPlan,
    gradients: Gradients,
    /// The order of an epoch, and which one.
    order: Option<(u64, Vec<u32>)>,
}

/// Gradients by the names of tensors.
type Gradients = BTreeMap<String, Vec<f32>>;
/// Numbers of gradients that are added while they are in the nearest cache.
const PIECE: usize = 4096;

impl<'a> TensorNetTraining<'a> {
    /// The training of a model on structures with energies, and with forces if they have a weight.
    ///
    /// # Errors
    /// An empty batch or set, a structure without the labels, or trained radial functions.
    pub fn new(
        model: &'a mut TensorNet<f32>,
        training: &'a [Structure],
        validation: &'a [Structure],
        plan: TrainingPlan,
    ) -> Result<Self, MoleculeError> {
        let wrong = |name, found: &str, expected: &str| {
            Err(MoleculeError::Setting { name, found: found.into(), expected: expected.into() })
        };
        if plan.batch == 0 || training.is_empty() || validation.is_empty() {
            return wrong("batch", "no structure", "structures to train and to validate on");
        }
        if model.config().trainable_rbf {
            return wrong("trainable_rbf", "true", "false; radial functions cannot be trained");
        }
        for (index, one) in training.iter().chain(validation).enumerate() {
            let forces = one.labels.forces.as_ref();
            let has = forces.is_some_and(|forces| forces.len() == one.positions.len());
            if one.labels.energy.is_none() || (plan.force_weight != 0.0 && !has) {
                let found = format!("structure {index} without energy or forces");
                return wrong("labels", &found, "both, or a force weight of zero");
            }
        }
        let gradients = model.tensors_mut().into_iter();
        let gradients = gradients.map(|t| (t.name, vec![0.0; t.values.len()])).collect();
        Ok(Self { model, training, validation, plan, gradients, order: None })
    }

    /// Steps of an epoch.
    #[must_use]
    pub fn steps_of_epoch(&self) -> u64 {
        self.training.len().div_ceil(self.plan.batch) as u64
    }

    /// The structures of a step.
    fn examples(&mut self, step: u64) -> Vec<&'a Structure> {
        let epoch = step / self.steps_of_epoch();
        if self.order.as_ref().is_none_or(|(drawn, _)| *drawn != epoch) {
            let key = self.plan.key.fold("order").fold_index(epoch);
            self.order = Some((epoch, key.stream().permutation(self.training.len())));
        }
        let order = self.order.as_ref().map_or(&[][..], |(_, order)| order);
        let start = (step % self.steps_of_epoch()) as usize * self.plan.batch;
        let end = order.len().min(start + self.plan.batch);
        order[start..end].iter().map(|index| &self.training[*index as usize]).collect()
    }

    /// The loss of structures, with the gradients of its parts, in order, if wanted.
    fn loss(
        &self,
        structures: &[&Structure],
        gradients: bool,
    ) -> Result<(f64, Vec<Gradients>), MoleculeError> {
        let atoms: usize = structures.iter().map(|one| one.species.len()).sum();
        let weights = [
            self.plan.energy_weight / structures.len() as f64,
            self.plan.force_weight / (3 * atoms).max(1) as f64,
        ];
        let blocks = structures.chunks(BLOCK).collect();
        let parts = parallel::map(blocks, |_, block| self.part(block, weights, gradients));
        let (mut loss, mut all) = (0.0, Vec::new());
        for part in parts {
            let (own, gradients) = part?;
            loss += own;
            all.push(gradients);
        }
        Ok((loss, all))
    }

    fn part(
        &self,
        structures: &[&Structure],
        [of_energy, of_force]: [f64; 2],
        gradients: bool,
    ) -> Result<(f64, Gradients), MoleculeError> {
        let batch = Batch::new(structures, self.model.config())?;
        let wanted = Wanted { forces: of_force != 0.0 };
        let filters = self.model.filters(&batch);
        if gradients {
            filters.values.record();
        }
        let found = self.model.evaluate_in::<f32>(&batch, &filters, wanted)?;
        let labels = structures.iter().map(|one| one.labels.energy.unwrap_or_default());
        let off: Vec<f64> = found.energies.iter().zip(labels).map(|(a, b)| a - b).collect();
        let kind = self.plan.loss;
        let mut loss = of_energy * off.iter().map(|off| kind.of(*off).0).sum::<f64>();
        let mut by_forces = vec![[0.0; 3]; batch.atoms()];
        let labels = structures.iter().flat_map(|one| one.labels.forces.iter().flatten());
        for ((by, force), label) in by_forces.iter_mut().zip(&found.forces).zip(labels) {
            for a in 0..3 {
                let (value, slope) = kind.of(force[a] - label[a]);
                loss += of_force * value;
                by[a] = of_force * slope;
            }
        }
        let by_energies: Vec<f64> = off.iter().map(|off| of_energy * kind.of(*off).1).collect();
        let own = match gradients {
            true => {
                filters.values.recall();
                self.model.loss_gradients((&batch, &filters), &by_energies, &by_forces)
            }
            false => Gradients::new(),
        };
        Ok((loss, own))
    }
}

/// Writes the sum of arrays, in their order.
fn add_up(arrays: &[&Vec<f32>], to: &mut [f32]) {
    let Some((first, rest)) = arrays.split_first() else {
        return to.fill(0.0);
    };
    for (piece, to) in to.chunks_mut(PIECE).enumerate() {
        let range = piece * PIECE..piece * PIECE + to.len();
        to.copy_from_slice(&first[range.clone()]);
        for array in rest {
            to.iter_mut().zip(&array[range.clone()]).for_each(|(sum, own)| *sum += own);
        }
    }
}

impl Problem for TensorNetTraining<'_> {
    fn slices(&mut self) -> Vec<Slice<'_>> {
        let tensors = self.model.tensors_mut().into_iter();
        let mut gradients: BTreeMap<&str, &mut Vec<f32>> =
            self.gradients.iter_mut().map(|(name, own)| (name.as_str(), own)).collect();
        let trained = tensors.filter(|tensor| tensor.purpose != TensorUse::Constant);
        let mut slices = Vec::new();
        for tensor in trained {
            if let Some(gradient) = gradients.remove(tensor.name.as_str()) {
                slices.push(Slice {
                    name: tensor.name,
                    values: tensor.values,
                    gradient: gradient.as_mut_slice().into(),
                    decay: tensor.purpose == TensorUse::Weight,
                });
            }
        }
        slices
    }

    fn step(&mut self, step: u64) -> Result<f64, Box<dyn Error + Send + Sync>> {
        let examples = self.examples(step);
        self.model.prepare();
        let (loss, parts) = self.loss(&examples, true)?;
        let gradients = self.gradients.iter_mut().collect();
        parallel::for_each(gradients, |_, (name, numbers): (&String, &mut Vec<f32>)| {
            let own: Vec<&Vec<f32>> = parts.iter().filter_map(|part| part.get(name)).collect();
            add_up(&own, numbers);
        });
        // Returned to the threads that need it in the next step.
        parallel::for_each(parts, |_, part| part.into_values().for_each(scratch::give_back));
        Ok(loss)
    }

    fn validate(&mut self) -> Result<f64, Box<dyn Error + Send + Sync>> {
        let all: Vec<&Structure> = self.validation.iter().collect();
        self.model.prepare();
        Ok(self.loss(&all, false)?.0)
    }
}

#[cfg(test)]
mod tests;
