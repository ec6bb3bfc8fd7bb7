//! Models as checkpoints of torchmd-net.
//!
//! Settings that its loader requires and a model does not have get the default of its command.
//! Operators of slots become equal dense weights. Units and species, which torchmd-net does not
//! use, are stored next to the hyper-parameters, from where this program reads them.

use super::{Checkpoint, METADATA, Numbers, Weight, damaged, settings};
use crate::error::MoleculeError;
use crate::model::MoleculeModel;
use crate::priors::PriorChoices;
use linwright_files::{FileError, TorchTensor, torch_archive};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Prefix in place of `model.`, which the loader removes.
const PREFIX: &str = "model.";
/// Largest number of neighbours of an atom in torchmd-net; more are an error there.
const NEIGHBOURS: u32 = 128;

impl Checkpoint {
    /// The bytes of a checkpoint for `load_model` of torchmd-net; `path` is the name of the file in
    /// errors.
    ///
    /// # Errors
    /// A head that torchmd-net does not have, an operator without a dense form, and a model of more
    /// than four gigabytes.
    pub fn to_lightning(&self, path: &Path) -> Result<Vec<u8>, MoleculeError> {
        let dense = self.with_dense_weights()?;
        let hyper = dense.complete_hyper();
        let head = MoleculeModel::of_checkpoint(dense.clone(), PriorChoices::default())?;
        let head = head.network.config().head;
        if !head.is_in_torchmd() {
            let what = format!(
                "cannot hold a model of a {}, which torchmd-net does not support",
                head.property()
            );
            return Err(damaged(path, what.replace('_', " ")));
        }
        let tensors: Result<Vec<TorchTensor>, String> =
            dense.tensors.iter().map(torch_tensor).collect();
        let tensors = tensors.map_err(|what| damaged(path, what))?;
        let entries = json!({
            "hyper_parameters": hyper,
            "pytorch-lightning_version": "2.0.0",
            "epoch": 0,
            "global_step": 0,
            METADATA: dense.metadata(path)?,
        });
        let entries: Map<String, Value> = entries.as_object().cloned().unwrap_or_default();
        let malformed = |fault: linwright_files::PickleFault| FileError::Malformed {
            path: path.into(),
            fault: fault.into(),
        };
        Ok(torch_archive(&tensors, &entries).map_err(malformed)?)
    }

    /// The same model without operators.
    fn with_dense_weights(&self) -> Result<Self, MoleculeError> {
        let mut dense = self.clone();
        if self.operators.is_empty() {
            return Ok(dense);
        }
        let model = MoleculeModel::of_checkpoint(self.clone(), PriorChoices::default())?;
        let network = model.network.with_dense_weights()?.cast::<f32>()?;
        for slot in network.linears() {
            if self.operators.contains_key(&slot.id().0) {
                dense.put_slot(slot)?;
            }
        }
        Ok(dense)
    }

    /// Hyper-parameters, with defaults for missing ones.
    fn complete_hyper(&self) -> Map<String, Value> {
        let mut hyper = settings::defaults();
        hyper.insert("max_num_neighbors".into(), NEIGHBOURS.into());
        hyper.extend(self.hyper.clone());
        hyper
    }
}

fn torch_tensor((name, weight): (&String, &Weight)) -> Result<TorchTensor, String> {
    let dtype = match weight.numbers {
        Numbers::F32(_) => DType::F32,
        Numbers::F64(_) => DType::F64,
        Numbers::U32(_) => return Err(format!("cannot hold tensor {name} of indices")),
    };
    let (shape, bytes) = (weight.shape.clone(), weight.bytes());
    Ok(TorchTensor { name: format!("{PREFIX}{name}"), dtype, shape, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::reference;
    use crate::tensornet::Head;
    use crate::tensornet::{TensorNet, TensorNetConfig};
    use crate::units::Units;
    use linwright_ops::{OpSpec, Shape};
    use linwright_tensor::RngKey;

    fn back(checkpoint: &Checkpoint) -> Checkpoint {
        let path = Path::new("model.ckpt");
        let mut back = Checkpoint::parse(path, &checkpoint.to_lightning(path).unwrap()).unwrap();
        back.notes.clear();
        back
    }

    #[test]
    fn a_checkpoint_of_either_layout_comes_back() {
        for name in ["a_lightning.ckpt", "a_lightning_old_layout.ckpt"] {
            let mut checkpoint = Checkpoint::open(&reference(name)).unwrap();
            checkpoint.units = Units::parse("kcal/mol,A").unwrap();
            checkpoint.species = vec![1, 6, 8];
            checkpoint.notes.clear();
            assert_eq!(back(&checkpoint), checkpoint, "{name}");
        }
    }

    #[test]
    fn a_trained_model_has_the_hyper_parameters_that_the_loader_reads() {
        let config = TensorNetConfig { species: 9, ..TensorNetConfig::new(8, 1, 8, 4.0) };
        let model = TensorNet::<f32>::random(config, RngKey::new(5)).unwrap();
        let (units, species) = (Units::default(), vec![1, 8]);
        let checkpoint = Checkpoint::of_trained(&model, &[0.0, -13.5], units, species).unwrap();
        let bytes = checkpoint.to_lightning(Path::new("model.ckpt")).unwrap();
        let format = linwright_files::Format::of(Path::new("model.ckpt"), &bytes);
        let hyper = format.entry(&bytes, "hyper_parameters").unwrap().unwrap();
        let needed = [
            ("model", json!("tensornet")),
            ("embedding_dimension", json!(8)),
            ("max_num_neighbors", json!(128)),
            ("precision", json!(32)),
            ("prior_model", json!("Atomref")),
            ("derivative", json!(true)),
            ("atom_filter", json!(-1)),
            ("static_shapes", json!(false)),
            ("output_mlp_num_layers", json!(0)),
        ];
        for (key, value) in needed {
            assert_eq!(hyper[key], value, "{key}");
        }
        let found = back(&checkpoint);
        assert_eq!((&found.hyper, &found.species), (&checkpoint.hyper, &checkpoint.species));
        for (name, weight) in &checkpoint.tensors {
            assert_eq!(found.tensors.get(name), Some(weight), "{name}");
        }
        assert_eq!(back(&found), found);
    }

    #[test]
    fn operators_become_dense_weights() {
        let config = TensorNetConfig { species: 9, ..TensorNetConfig::new(8, 1, 8, 4.0) };
        let mut model = TensorNet::<f32>::random(config, RngKey::new(5)).unwrap();
        let spec: OpSpec = serde_json::from_value(json!({"kind": "low_rank", "rank": 2})).unwrap();
        let mut slots = model.linears_mut();
        let slot = slots.iter_mut().find(|slot| slot.shape() == (Shape { out: 8, inp: 8 }));
        let slot = slot.unwrap();
        let site = slot.id().0.clone();
        slot.replace(spec.random(slot.shape(), RngKey::new(6)).unwrap()).unwrap();
        let checkpoint = Checkpoint::of_trained(&model, &[], Units::default(), Vec::new()).unwrap();
        assert_eq!(checkpoint.operators.len(), 1);
        let found = back(&checkpoint);
        assert!(found.operators.is_empty());
        assert!(found.tensors[&format!("{site}.weight")].shape.len() == 2);
        let energy = |checkpoint: &Checkpoint| {
            let model = MoleculeModel::of_checkpoint(checkpoint.clone(), PriorChoices::default());
            let water = crate::reference::molecules().remove(1);
            let mut potential = model.unwrap().potential(true).unwrap();
            potential.predict(&water, crate::Wanted::default()).unwrap().energy
        };
        let (own, dense) = (energy(&checkpoint), energy(&found));
        assert!((own - dense).abs() < 1e-5 * own.abs().max(1.0), "{own} {dense}");
    }

    #[test]
    fn a_head_that_torchmd_net_has_not_is_refused() {
        let config = TensorNetConfig {
            species: 9,
            head: Head::Vector,
            ..TensorNetConfig::new(8, 1, 8, 4.0)
        };
        let model = TensorNet::<f32>::random(config, RngKey::new(5)).unwrap();
        let checkpoint = Checkpoint::of_trained(&model, &[], Units::default(), Vec::new()).unwrap();
        let error = checkpoint.to_lightning(Path::new("model.ckpt")).unwrap_err().to_string();
        assert!(error.contains("vector"), "{error}");
    }
}
