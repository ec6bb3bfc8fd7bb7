//! Models as users open them: a checkpoint with its network, its priors and its units.

use crate::checkpoint::Checkpoint;
use crate::error::MoleculeError;
use crate::fast::{FastOptions, FastTensorNet};
use crate::potential::{Potential, Prediction, Wanted};
use crate::priors::Prior;
use crate::structure::Structure;
use crate::tensornet::{TensorNet, TensorNetConfig, TensorNetPotential};
use crate::units::Units;
use linwright_files::{DirWriter, FileError, SINGLE, SavedFile};
use linwright_ops::{SiteId, Sites};
use linwright_run::atomic::AtomicDir;
use linwright_run::shown;
use serde_json::Value;
use std::path::Path;

/// A TensorNet with what its file says of it.
#[derive(Clone, Debug)]
pub struct MoleculeModel {
    /// The network.
    pub network: TensorNet<f64>,
    /// Energies that are added to its own.
    pub priors: Vec<Prior>,
    /// The file, with units, species and notes.
    pub checkpoint: Checkpoint,
}

impl MoleculeModel {
    /// Opens a `.ckpt` of torchmd-net, a `.safetensors`, or a directory with `model.safetensors`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`]; hyper-parameters or tensors that are no TensorNet.
    pub fn open(path: &Path) -> Result<Self, MoleculeError> {
        Self::of(Checkpoint::open(path)?, path)
    }

    /// The model of a checkpoint, whose path is for messages.
    fn of(checkpoint: Checkpoint, path: &Path) -> Result<Self, MoleculeError> {
        let hyper = Value::Object(checkpoint.hyper.clone());
        let config = TensorNetConfig::from_hyperparameters(&hyper)?;
        let tensor = |name: &str, shape: &[usize]| Ok(checkpoint.tensor(name, shape)?.to_f64());
        let operator = |site: &str, shape| checkpoint.operator(site, shape);
        let network = TensorNet::with_operators(config, tensor, operator)?;
        let slots = network.linears();
        let is_unknown = |site: &&String| slots.iter().all(|slot| slot.id().0 != **site);
        if let Some(site) = checkpoint.operators.keys().find(is_unknown) {
            return Err(MoleculeError::Checkpoint {
                path: path.to_owned(),
                what: format!("has an operator for {}, which is no slot of it", shown(site)),
            });
        }
        let priors = Prior::of_checkpoint(&checkpoint)?;
        Ok(Self { network, priors, checkpoint })
    }

    /// The model with some slots as an edited network has them.
    ///
    /// # Errors
    /// [`MoleculeError::Operator`] for an operator that cannot be stored, and those of
    /// [`Self::open`].
    pub fn with_slots(&self, edited: &TensorNet, sites: &[SiteId]) -> Result<Self, MoleculeError> {
        let mut checkpoint = self.checkpoint.clone();
        for slot in edited.slots().into_iter().filter(|slot| sites.contains(slot.id())) {
            checkpoint.put_slot(slot)?;
        }
        Self::of(checkpoint, Path::new("the edited model"))
    }

    /// Writes the model as a directory with `model.safetensors`, and `files` beside it, which
    /// appears whole or not at all, and reads it back.
    ///
    /// # Errors
    /// Those of the system, and [`MoleculeError::Checkpoint`] if another model was read back.
    pub fn save(
        &self,
        out: &Path,
        force: bool,
        files: &[(String, Vec<u8>)],
    ) -> Result<Vec<SavedFile>, MoleculeError> {
        let target = AtomicDir::create(out, force).map_err(FileError::from)?;
        let mut writer = DirWriter::new(target);
        let model = self.checkpoint.to_bytes(&out.join(SINGLE))?;
        writer.text(SINGLE, &model)?;
        for (name, bytes) in files {
            writer.text(name, bytes)?;
        }
        writer.checksums()?;
        let back = Self::open(writer.target.path())?.checkpoint;
        let Checkpoint { tensors, operators, hyper, .. } = &self.checkpoint;
        if (&back.tensors, &back.operators, &back.hyper) != (tensors, operators, hyper) {
            return Err(MoleculeError::Checkpoint {
                path: out.to_owned(),
                what: "was not read back as it was written; check the disk".into(),
            });
        }
        writer.target.commit().map_err(FileError::from)?;
        Ok(writer.files)
    }

    /// The model as a potential: exact in double precision, or in single precision with tables.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for what the fast path does not have, unless `exact`.
    pub fn potential(&self, exact: bool) -> Result<Box<dyn Potential>, MoleculeError> {
        let network: Box<dyn Potential> = match exact {
            true => Box::new(TensorNetPotential::new(self.network.clone())),
            false => Box::new(FastTensorNet::new(&self.network, FastOptions::default())?),
        };
        if self.priors.is_empty() {
            return Ok(network);
        }
        let (priors, units) = (self.priors.clone(), self.checkpoint.units);
        Ok(Box::new(WithPriors { network, priors, units }))
    }
}

/// A network with the energies that are added to its own.
struct WithPriors {
    network: Box<dyn Potential>,
    priors: Vec<Prior>,
    units: Units,
}

impl Potential for WithPriors {
    fn cutoff(&self) -> f64 {
        self.priors.iter().map(Prior::cutoff).fold(self.network.cutoff(), f64::max)
    }

    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        let mut found = self.network.predict(structure, wanted)?;
        for prior in &self.priors {
            prior.add(structure, self.units, &mut found)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_the_same_potential_in_both_layouts() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet");
        let energy = |name: &str, exact: bool| {
            let model = MoleculeModel::open(&folder.join(name)).unwrap();
            assert!(model.priors.is_empty());
            let structure = Structure {
                species: vec![8, 1, 1],
                positions: vec![[0.0, 0.0, 0.1], [0.0, 0.8, -0.5], [0.0, -0.8, -0.5]],
                ..Structure::default()
            };
            let mut potential = model.potential(exact).unwrap();
            assert_eq!(potential.cutoff(), 4.5);
            potential.predict(&structure, Wanted { forces: true }).unwrap().energy
        };
        let new = energy("a_lightning.ckpt", true);
        assert_eq!(new, energy("a_lightning_old_layout.ckpt", true));
        let fast = energy("a_lightning.ckpt", false);
        assert!((new - fast).abs() < 1e-5, "{new} {fast}");
    }
}
