//! Structures in batches with their pairs, for fitting slots and measuring errors.

use crate::MoleculeError;
use crate::evaluation::PredictionErrors;
use crate::potential::{Prediction, Wanted};
use crate::structure::Structure;
use crate::tensornet::{Batch, Precision, TensorNet, TensorNetConfig};
use linwright_ops::Examples;
use linwright_run::{Monitor, sha256_hex};
use linwright_tensor::parallel;
use std::fmt::Write;

/// Batches that are evaluated between progress reports.
const TOLD_EVERY: usize = 16;

/// Components of a tensor of the largest part.
const COMPONENTS: usize = 5;

/// Structures in batches, those for training first. No batch holds both.
#[derive(Clone, Debug)]
pub struct StructureBatches {
    structures: Vec<Structure>,
    batches: Vec<Batch>,
    batch: usize,
    training: usize,
}

/// Errors of all structures together, and of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EachErrors {
    /// Of all together.
    pub all: PredictionErrors,
    /// Of each, in their order.
    pub each: Vec<PredictionErrors>,
}

impl StructureBatches {
    /// Batches of structures, of which the first `training` are for training, for models of an
    /// architecture.
    ///
    /// # Errors
    /// [`MoleculeError::Structure`] for a species that the architecture does not support, and for
    /// structures whose pairs cannot be determined.
    ///
    /// # Panics
    /// If the batch is empty, or there are fewer structures.
    #[track_caller]
    pub fn new(
        mut structures: Vec<Structure>,
        batch: usize,
        training: usize,
        config: &TensorNetConfig,
    ) -> Result<Self, MoleculeError> {
        assert!(batch > 0 && training <= structures.len(), "batches of structures");
        // The virial of a batch is that of its structures together.
        structures.iter_mut().for_each(|structure| structure.labels.stress = None);
        let (first, rest) = structures.split_at(training);
        let mut batches = Vec::new();
        let mut start = 0;
        for part in first.chunks(batch).chain(rest.chunks(batch)) {
            let part: Vec<&Structure> = part.iter().collect();
            let made = Batch::new(&part, config).map_err(|error| {
                if let MoleculeError::Structure { index, source } = error {
                    return source.of_structure(start + index);
                }
                let unknown = |z: &u8| usize::from(*z) >= config.species;
                let place = part.iter().position(|one| one.species.iter().any(unknown));
                error.of_structure(start + place.unwrap_or(0))
            })?;
            batches.push(made);
            start += part.len();
        }
        Ok(Self { structures, batches, batch, training })
    }

    /// Number of structures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.structures.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.structures.is_empty()
    }

    /// Errors of the energies and forces of a network against the labels of all structures, by the
    /// exact path in single precision: operators are applied as they are. Stress is not measured.
    ///
    /// # Errors
    /// [`MoleculeError::NotFinite`], [`MoleculeError::Interrupted`], and errors of the exact path.
    pub fn errors(
        &self,
        network: &TensorNet,
        monitor: &mut dyn Monitor,
    ) -> Result<PredictionErrors, MoleculeError> {
        let mut errors = PredictionErrors::default();
        self.predict(network, monitor, |structure, found| errors.add(structure, found))?;
        Ok(errors)
    }

    /// [`Self::errors`] of each structure, in their order.
    ///
    /// # Errors
    /// As [`Self::errors`].
    pub fn errors_of_each(
        &self,
        network: &TensorNet,
        monitor: &mut dyn Monitor,
    ) -> Result<EachErrors, MoleculeError> {
        let mut errors = EachErrors::default();
        self.predict(network, monitor, |structure, found| {
            errors.all.add(structure, found);
            let mut own = PredictionErrors::default();
            own.add(structure, found);
            errors.each.push(own);
        })?;
        Ok(errors)
    }

    /// Shows the prediction of every structure, in their order.
    fn predict(
        &self,
        network: &TensorNet,
        monitor: &mut dyn Monitor,
        mut show: impl FnMut(&Structure, &Prediction),
    ) -> Result<(), MoleculeError> {
        let mut structures = self.structures.iter();
        let mut done = 0;
        for part in self.batches.chunks(TOLD_EVERY) {
            if monitor.interrupted() {
                return Err(MoleculeError::Interrupted { step: done as u64 });
            }
            let found = parallel::map(part.iter().collect(), |_, batch| {
                f32::evaluate(network, batch, Wanted { forces: true })
            });
            for found in found {
                let found = found?;
                let numbers = found.forces.iter().flatten().chain(&found.energies);
                if !numbers.into_iter().all(|number| number.is_finite()) {
                    return Err(MoleculeError::NotFinite { what: "energy or force" });
                }
                let mut forces = found.forces.as_slice();
                for (energy, structure) in found.energies.iter().zip(structures.by_ref()) {
                    let (own, rest) = forces.split_at(structure.species.len());
                    forces = rest;
                    let forces = own.to_vec();
                    let prediction = Prediction { energy: *energy, forces, ..Default::default() };
                    show(structure, &prediction);
                }
            }
            done += part.len();
            monitor.progress(done as u64, self.batches.len() as u64);
        }
        Ok(())
    }
}

impl Examples<Batch> for StructureBatches {
    fn batches(&self) -> usize {
        self.batches.len()
    }

    fn training_batches(&self) -> usize {
        self.training.div_ceil(self.batch)
    }

    fn batch(&self, index: usize) -> Batch {
        self.batches[index].clone()
    }

    /// The largest number of rows of a slot in a batch: components of tensors, or edges. The kind
    /// of fit depends on it, and some take no more samples than features.
    fn rows(&self, index: usize) -> usize {
        let batch = &self.batches[index];
        let edges = batch.neighbours.entries.len() + batch.atoms();
        edges.max(COMPONENTS * batch.atoms())
    }

    fn identity(&self) -> String {
        let mut text = String::new();
        for Structure { species, positions, cell, charge, .. } in &self.structures {
            // Writing to a string cannot fail.
            let _ = write!(text, "{species:?}{positions:?}{cell:?}{charge:?}");
        }
        let Self { batch, training, .. } = self;
        format!("{}, batches of {batch}, {training} first", sha256_hex(text.as_bytes()))
    }
}
