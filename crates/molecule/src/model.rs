//! Models for users: a checkpoint with its network, its priors and its units.

use crate::checkpoint::{Checkpoint, Numbers};
use crate::error::MoleculeError;
use crate::fast::{FastOptions, FastTensorNet};
use crate::neighbours::PairSource;
use crate::potential::{Potential, Prediction, Wanted};
use crate::priors::{Prior, PriorChoices};
use crate::structure::Structure;
use crate::tensornet::{TensorNet, TensorNetConfig, TensorNetPotential};
use crate::units::Units;
use linwright_files::{DirWriter, FileError, SINGLE, SavedFile};
use linwright_ops::{OpSpec, SiteId, Sites};
use linwright_run::atomic::AtomicDir;
use linwright_run::shown;
use serde_json::Value;
use std::path::Path;

/// A TensorNet with the information in its file.
#[derive(Clone, Debug)]
pub struct MoleculeModel {
    /// The network.
    pub network: TensorNet<f64>,
    /// Additional energies.
    pub priors: Vec<Prior>,
    /// The file, with units, species and notes.
    pub checkpoint: Checkpoint,
}

impl MoleculeModel {
    /// Opens a `.ckpt` of torchmd-net, a `.safetensors`, or a directory with `model.safetensors`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`MoleculeModel::of_checkpoint`].
    pub fn open(path: &Path) -> Result<Self, MoleculeError> {
        Self::of_checkpoint(Checkpoint::open(path)?, PriorChoices::default())
    }

    /// The model of a checkpoint.
    ///
    /// # Errors
    /// Hyper-parameters or tensors that do not describe a TensorNet; priors that cannot be used, or
    /// that are combined with a head that is not an energy.
    pub fn of_checkpoint(
        checkpoint: Checkpoint,
        choices: PriorChoices,
    ) -> Result<Self, MoleculeError> {
        let hyper = Value::Object(checkpoint.hyper.clone());
        let length = checkpoint.units.length;
        let config = TensorNetConfig { length, ..TensorNetConfig::from_hyperparameters(&hyper)? };
        let tensor = |name: &str, shape: &[usize]| Ok(checkpoint.tensor(name, shape)?.to_f64());
        let operator = |site: &str, shape| checkpoint.operator(site, shape);
        let network = TensorNet::with_operators(config, tensor, operator)?;
        let slots = network.linears();
        let is_unknown = |site: &&String| slots.iter().all(|slot| slot.id().0 != **site);
        if let Some(site) = checkpoint.operators.keys().find(is_unknown) {
            return Err(MoleculeError::Tensor {
                name: shown(site),
                found: "an operator".into(),
                expected: "the name of a slot".into(),
            });
        }
        let priors = Prior::of_checkpoint(&checkpoint, choices)?;
        let head = network.config().head;
        if !(priors.is_empty() || head.is_energy()) {
            let what = format!(
                "is an energy, and the model predicts {}; expected no priors with this head",
                head.property()
            );
            return Err(MoleculeError::Prior { what });
        }
        Ok(Self { network, priors, checkpoint })
    }

    /// The model with some slots from an edited network.
    ///
    /// # Errors
    /// [`MoleculeError::Operator`] for an operator that cannot be stored, and those of
    /// [`Self::of_checkpoint`].
    pub fn with_slots(&self, edited: &TensorNet, sites: &[SiteId]) -> Result<Self, MoleculeError> {
        let mut checkpoint = self.checkpoint.clone();
        for slot in edited.slots().into_iter().filter(|slot| sites.contains(slot.id())) {
            checkpoint.put_slot(slot)?;
        }
        Self::of_checkpoint(checkpoint, PriorChoices::default())
    }

    /// The model with all parameters and operators of a trained network; mean and factor of the
    /// outputs are kept from the file.
    ///
    /// # Errors
    /// As [`Self::with_slots`].
    pub fn with_network(&self, trained: &TensorNet) -> Result<Self, MoleculeError> {
        let mut checkpoint = self.checkpoint.clone();
        for (name, shape, numbers) in trained.to_tensors() {
            // Parameters of operators are not among the tensors yet, or not under these names.
            let own = checkpoint.tensors.get_mut(&name).filter(|own| own.shape == shape);
            if let Some(own) = own.filter(|_| !matches!(&*name, "mean" | "std")) {
                own.numbers = Numbers::F32(numbers);
            }
        }
        for slot in trained.slots() {
            if !matches!(slot.op().map().spec(), OpSpec::Dense(_)) {
                checkpoint.put_slot(slot)?;
            }
        }
        Self::of_checkpoint(checkpoint, PriorChoices::default())
    }

    /// Writes the model as a directory with `model.safetensors` and `files`, which appears complete
    /// or not at all, and reads it back.
    ///
    /// # Errors
    /// Errors of the operating system, and [`MoleculeError::Checkpoint`] if the model differs when
    /// read back.
    pub fn save(
        &self,
        out: &Path,
        force: bool,
        files: &[(String, Vec<u8>)],
    ) -> Result<Vec<SavedFile>, MoleculeError> {
        let target = AtomicDir::create(out, force).map_err(FileError::from)?;
        let mut writer = DirWriter::new(target);
        writer.text(SINGLE, &self.checkpoint.to_parts(&out.join(SINGLE))?.concat())?;
        for (name, bytes) in files {
            writer.text(name, bytes)?;
        }
        writer.checksums()?;
        let back = Self::open(writer.target.path())?.checkpoint;
        let Checkpoint { tensors, operators, hyper, .. } = &self.checkpoint;
        if (&back.tensors, &back.operators, &back.hyper) != (tensors, operators, hyper) {
            return Err(MoleculeError::Checkpoint {
                path: out.to_owned(),
                what: "differs when read back; check the disk".into(),
            });
        }
        writer.target.commit().map_err(FileError::from)?;
        Ok(writer.files)
    }

    /// The model as a potential: exact in double precision, or in single precision with tables.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for features that the fast path does not support, unless
    /// `exact`.
    pub fn potential(&self, exact: bool) -> Result<Box<dyn Potential>, MoleculeError> {
        let network: Box<dyn Potential> = match exact {
            true => Box::new(TensorNetPotential::new(self.network.clone())),
            false => Box::new(FastTensorNet::new(&self.network, FastOptions::default())?),
        };
        if self.priors.is_empty() {
            return Ok(network);
        }
        let units = self.checkpoint.units;
        let priors = self.priors.iter().map(|prior| (prior.clone(), prior.pairs(units)));
        Ok(Box::new(WithPriors { network, priors: priors.collect(), units }))
    }
}

/// A network with additional energies.
struct WithPriors {
    network: Box<dyn Potential>,
    /// With their pairs.
    priors: Vec<(Prior, Option<PairSource>)>,
    units: Units,
}

impl Potential for WithPriors {
    fn cutoff(&self) -> f64 {
        let cutoffs = self.priors.iter().map(|(prior, _)| prior.cutoff());
        cutoffs.fold(self.network.cutoff(), f64::max)
    }

    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        let mut found = self.network.predict(structure, wanted)?;
        for (prior, pairs) in &mut self.priors {
            prior.add_in(structure, self.units, pairs, &mut found)?;
        }
        found.finite()
    }

    fn keep_pairs(&mut self, skin: f64) -> Result<(), MoleculeError> {
        for pairs in self.priors.iter_mut().filter_map(|(_, pairs)| pairs.as_mut()) {
            pairs.keep(skin)?;
        }
        self.network.keep_pairs(skin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Weight;
    use crate::reference::{extra, floats, molecules, reference};
    use linwright_files::TensorFile;
    use serde_json::json;

    /// A checkpoint of a charged model of the reference.
    fn charged(head: &str, coulomb_cutoff: Value) -> Checkpoint {
        let mut checkpoint = Checkpoint::open(&reference("a_lightning.ckpt")).unwrap();
        let file = TensorFile::open(&reference("tensornet2_weights.safetensors")).unwrap();
        let tensors = file.tensors().iter().map(|(name, info)| {
            let numbers = Numbers::F32(file.read(name, &info.shape).unwrap().values);
            (name.clone(), Weight { shape: info.shape.clone(), numbers })
        });
        checkpoint.tensors = tensors.collect();
        let weights = Numbers::F32([[1.0; 4], [2.0; 4]].concat());
        let weights = Weight { shape: vec![8], numbers: weights };
        checkpoint.tensors.insert("output_model.qweights".into(), weights);
        for (name, value) in [
            ("model", json!("tensornet-nqe")),
            ("output_model", json!(head)),
            ("q_dim", json!(4)),
            ("q_weights", json!([1.0, 2.0])),
            ("coulomb_cutoff", coulomb_cutoff),
        ] {
            checkpoint.hyper.insert(name.into(), value);
        }
        checkpoint
    }

    #[test]
    fn checkpoints_with_latent_charges_open_and_predict_as_the_reference() {
        let folder = tempfile::tempdir().unwrap();
        let coulomb = "ScalarPlusWeightedCoulomb";
        for (name, head, cutoff) in [
            ("scalar", "Scalar", Value::Null),
            ("coul_all", coulomb, Value::Null),
            ("coul_rf", coulomb, json!(6.0)),
        ] {
            let path = folder.path().join(format!("{name}.safetensors"));
            charged(head, cutoff).save(&path).unwrap();
            let model = MoleculeModel::open(&path).unwrap();
            assert!(model.potential(false).is_err(), "the fast path has no charges");
            let mut potential = model.potential(true).unwrap();
            let energies = floats(&extra(), &format!("tn2/{name}/batch/energy"));
            let forces = floats(&extra(), &format!("tn2/{name}/batch/forces"));
            let mut rest = forces.as_chunks::<3>().0;
            for (one, energy) in molecules().iter().zip(energies) {
                let found = potential.predict(one, Wanted { forces: true }).unwrap();
                assert!((found.energy - energy).abs() < 1e-10, "{name}: {}", found.energy);
                let (own, others) = rest.split_at(one.species.len());
                rest = others;
                let pairs = found.forces.as_flattened().iter().zip(own.as_flattened());
                pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-10, "{name}: {a} {b}"));
            }
        }
        let mut without = charged(coulomb, Value::Null);
        without.tensors.remove("output_model.qweights");
        let error =
            MoleculeModel::of_checkpoint(without, PriorChoices::default()).unwrap_err().to_string();
        assert!(error.contains("output_model.qweights"), "{error}");
    }

    #[test]
    fn priors_with_a_head_that_is_no_energy_are_refused() {
        let mut checkpoint = Checkpoint::open(&reference("a_lightning.ckpt")).unwrap();
        checkpoint.hyper.insert("output_model".into(), json!("DipoleMoment"));
        let model =
            MoleculeModel::of_checkpoint(checkpoint.clone(), PriorChoices::default()).unwrap();
        assert!(model.potential(true).is_ok_and(|mut potential| {
            potential.predict(&molecules()[0], Wanted::default()).is_err()
        }));
        checkpoint.hyper.insert("prior_model".into(), json!([{ "ZBL": { "cutoff_distance": 2 } }]));
        let error = MoleculeModel::of_checkpoint(checkpoint, PriorChoices::default()).unwrap_err();
        assert!(error.to_string().contains("dipole_moment"), "{error}");
    }

    #[test]
    fn priors_keep_their_pairs_and_have_the_same_bits() {
        let mut checkpoint = Checkpoint::open(&reference("a_lightning.ckpt")).unwrap();
        let priors =
            json!([{ "ZBL": { "cutoff_distance": 3 } }, { "D2": { "cutoff_distance": 7 } }]);
        checkpoint.hyper.insert("prior_model".into(), priors);
        checkpoint.hyper.remove("prior_args");
        let model = MoleculeModel::of_checkpoint(checkpoint, PriorChoices::default()).unwrap();
        assert_eq!(model.priors.iter().map(Prior::name).collect::<Vec<_>>(), ["ZBL", "D2"]);
        let (mut plain, mut kept) =
            (model.potential(false).unwrap(), model.potential(false).unwrap());
        kept.keep_pairs(1.0).unwrap();
        let mut moving = molecules().remove(0);
        moving.charge = 0.0;
        for step in 0..8 {
            for (k, x) in moving.positions.iter_mut().flatten().enumerate() {
                *x += 0.02 * f64::from(step) * ((k * k + step as usize) as f64).sin();
            }
            let wanted = Wanted { forces: true };
            let found = [&mut plain, &mut kept].map(|one| one.predict(&moving, wanted).unwrap());
            assert_eq!(found[0].energy.to_bits(), found[1].energy.to_bits(), "step {step}");
            assert_eq!(found[0].forces, found[1].forces, "step {step}");
        }
    }

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
