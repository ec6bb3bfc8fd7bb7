//! Tests of checkpoints.

use super::*;
use crate::reference::reference;
use linwright_files::TensorFile;

fn opened(name: &str) -> Checkpoint {
    Checkpoint::open(&reference(name)).unwrap()
}

#[test]
fn both_layouts_give_the_weights_of_the_reference() {
    let new = opened("a_lightning.ckpt");
    let old = opened("a_lightning_old_layout.ckpt");
    assert_eq!(new.tensors, old.tensors);
    assert_eq!(new.hyper, old.hyper);
    let expected = TensorFile::open(&reference("a_weights.safetensors")).unwrap();
    assert_eq!(new.tensors.len(), expected.tensors().len());
    for (name, info) in expected.tensors() {
        let values = expected.read(name, &info.shape).unwrap().values;
        let weight = new.tensor(name, &info.shape).unwrap();
        assert_eq!(weight.numbers, Numbers::F32(values), "{name}");
    }
    assert!(old.notes.iter().any(|note| note.contains("old layout")), "{:?}", old.notes);
}

#[test]
fn hyper_parameters_are_read_with_their_types() {
    let hyper = opened("a_lightning.ckpt").hyper;
    assert_eq!(hyper.len(), 80);
    assert_eq!(hyper["embedding_dimension"], 16);
    assert_eq!(hyper["lr"], 1e-4);
    assert_eq!(hyper["lr_min"], 1e-7);
    assert_eq!(hyper["derivative"], true);
    assert_eq!(hyper["box_vecs"], Value::Null);
    assert_eq!(hyper["dataset_arg"]["molecules"], "revised_aspirin");
    assert_eq!(hyper["equivariance_invariance_group"], "O(3)");
}

#[test]
fn a_saved_model_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut checkpoint = opened("a_lightning.ckpt");
    checkpoint.units = Units::parse("kcal/mol,A").unwrap();
    checkpoint.species = vec![1, 6, 8];
    let wide = Weight { shape: vec![2], numbers: Numbers::F64(vec![0.1, 1e300]) };
    checkpoint.tensors.insert("extra".into(), wide);
    checkpoint.notes.clear();
    let path = folder.path().join(SINGLE);
    checkpoint.save(&path).unwrap();
    for path in [path.as_path(), folder.path()] {
        assert_eq!(Checkpoint::open(path).unwrap(), checkpoint);
    }
    assert_eq!(checkpoint.source.unwrap().len(), 64);
}

#[test]
fn old_names_are_translated() {
    let weight =
        Weight { shape: vec![6], numbers: Numbers::F64(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]) };
    let interleaved = "model.representation_model.tensor_embedding.linears_scalar.1.bias";
    let of_layer = "model.representation_model.layers.0.linears_scalar.2.bias";
    let head = "model.output_model.output_network.0.bias";
    let names = [interleaved, of_layer, head];
    let tensors = names.map(|name| (name.to_owned(), weight.clone()));
    let hyper = serde_json::json!({ "model": "tensornet-nqe", "check_errors": true });
    let hyper = hyper.as_object().unwrap().clone();
    let mut checkpoint = Checkpoint { tensors: tensors.into(), hyper, ..Checkpoint::default() };
    layout::translate(&mut checkpoint).unwrap();
    assert_eq!(
        checkpoint.hyper,
        *serde_json::json!({ "model": "tensornet2" }).as_object().unwrap()
    );
    let found = |name: &str| checkpoint.tensors[name].to_f64();
    let short = interleaved.strip_prefix("model.").unwrap();
    assert_eq!(found(short), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    // Layers of TensorNet2 were never interleaved.
    assert_eq!(found(of_layer.strip_prefix("model.").unwrap()), weight.to_f64());
    assert_eq!(found("output_model.output_network.layers.0.bias"), weight.to_f64());
}

#[test]
fn files_without_a_model_are_refused_by_name() {
    let error = Checkpoint::open(&reference("a_weights.safetensors")).unwrap_err().to_string();
    assert!(
        error.contains("a_weights.safetensors") && error.contains("no hyper-parameters"),
        "{error}"
    );
    assert!(Checkpoint::open(&reference("none.ckpt")).is_err());
    let error = opened("a_lightning.ckpt").tensor("mean", &[2]).unwrap_err().to_string();
    assert!(error.contains("mean") && error.contains("[2]"), "{error}");
}

#[test]
fn training_files_have_defaults_and_warnings() {
    let text = "model: tensornet\nembedding-dimension: 128\nlr: 1e-3\nfoo: 3\nlog_dir: x\ncheck_errors: true\ndataset_arg:\n  molecules: a\n";
    let settings = settings::parse(text).unwrap();
    assert_eq!(settings.hyper["embedding_dimension"], 128);
    assert_eq!(settings.hyper["lr"], 1e-3);
    assert_eq!(settings.hyper["num_layers"], 6);
    assert_eq!(settings.hyper["dataset_arg"]["molecules"], "a");
    assert_eq!(settings.warnings, ["key foo is unknown and was ignored"]);
    for (text, said) in [("a: [", "not YAML"), ("- 1", "no keys")] {
        assert!(settings::parse(text).unwrap_err().contains(said));
    }
}
