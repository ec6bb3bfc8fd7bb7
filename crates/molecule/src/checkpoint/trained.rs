//! Files of trained models.

use super::{Checkpoint, Numbers, Weight};
use crate::error::MoleculeError;
use crate::tensornet::TensorNet;
use crate::units::Units;
use linwright_ops::{OpSpec, Sites};
use serde_json::{Map, Value, json};

impl Checkpoint {
    /// A trained model with the atomic energies that were subtracted from its labels (by atomic
    /// number; empty for none), the units of its data and the sorted elements of its training data.
    ///
    /// # Errors
    /// [`MoleculeError::Hyperparameters`] if the architecture cannot be written as JSON,
    /// [`MoleculeError::Operator`] for an operator that cannot be stored.
    pub fn of_trained(
        model: &TensorNet<f32>,
        atoms: &[f64],
        units: Units,
        species: Vec<u8>,
    ) -> Result<Self, MoleculeError> {
        let wrong = |source| MoleculeError::Hyperparameters { source };
        let hyper = serde_json::to_value(model.config()).map_err(wrong)?;
        let mut hyper = if let Value::Object(hyper) = hyper { hyper } else { Map::new() };
        // Forces are derivatives of the energy, and priors have only numeric arguments.
        for (key, value) in [("derivative", json!(true)), ("precision", json!(32))] {
            hyper.insert(key.into(), value);
        }
        let mut checkpoint = Self { units, species, ..Self::default() };
        for (name, shape, numbers) in model.to_tensors() {
            let numbers = Numbers::F32(numbers);
            checkpoint.tensors.insert(name, Weight { shape, numbers });
        }
        for slot in model.slots() {
            if !matches!(slot.op().map().spec(), OpSpec::Dense(_)) {
                checkpoint.put_slot(slot)?;
            }
        }
        // Single precision would lose a meV of the mean of large molecules.
        let (mean, std) = model.offset_and_scale();
        for (name, value) in [("mean", mean), ("std", std)] {
            let weight = Weight { shape: Vec::new(), numbers: Numbers::F64(vec![value]) };
            checkpoint.tensors.insert(name.into(), weight);
        }
        if !atoms.is_empty() {
            let most = model.config().species;
            hyper.insert("prior_model".into(), json!("Atomref"));
            hyper.insert("prior_args".into(), json!([{ "max_z": most, "enable": true }]));
            let mut energies = vec![0.0; most];
            energies.iter_mut().zip(atoms).for_each(|(to, from)| *to = *from);
            for name in ["prior_model.0.initial_atomref", "prior_model.0.atomref.weight"] {
                let numbers = Numbers::F64(energies.clone());
                checkpoint.tensors.insert(name.into(), Weight { shape: vec![most, 1], numbers });
            }
        }
        checkpoint.hyper = hyper;
        Ok(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensornet::{TensorNetConfig, TensorNetPotential};
    use crate::{MoleculeModel, Potential, Structure, Wanted};
    use linwright_tensor::RngKey;

    #[test]
    fn a_trained_model_is_the_same_potential_in_its_file() {
        let config = TensorNetConfig { species: 9, ..TensorNetConfig::new(16, 1, 8, 4.0) };
        let mut model = TensorNet::<f32>::random(config, RngKey::new(5)).unwrap();
        model.set_offset_and_scale(-4_209.123_456_789, 0.25);
        let atoms = [0.0, -13.568_422, 0.0, 0.0, 0.0, 0.0, -1029.5];
        let checkpoint =
            Checkpoint::of_trained(&model, &atoms, Units::default(), vec![1, 6]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        checkpoint.save(&path).unwrap();
        let opened = MoleculeModel::open(&path).unwrap();
        assert_eq!(opened.checkpoint.species, [1, 6]);
        let structure = Structure {
            species: vec![6, 1, 1],
            positions: vec![[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [0.0, 1.1, 0.3]],
            ..Structure::default()
        };
        let found = opened.potential(true).unwrap();
        let energy = |mut potential: Box<dyn Potential>| {
            potential.predict(&structure, Wanted { forces: false }).unwrap().energy
        };
        let want = energy(Box::new(TensorNetPotential::new(model.cast::<f64>().unwrap())));
        let want = want - 1029.5 - 2.0 * 13.568_422;
        assert!((energy(found) - want).abs() < 1e-9);
    }
}
