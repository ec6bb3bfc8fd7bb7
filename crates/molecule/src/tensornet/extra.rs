//! Vectors of the reference kept in `testdata/tensornet`: set a of the golden vectors with other
//! hyper-parameters, and TensorNet2.

use super::golden::{
    Comparison, Set, Tensors, check_edges, check_predictions, close, read, states, training,
};
use super::pass::Pass;
use super::{Precision, TensorNet};
use crate::reference::reference;
use crate::{Structure, Wanted};
use serde_json::{Value, json};

/// Set a with other hyper-parameters, and further results for it.
fn kept_set(options: &[(&str, Value)]) -> (Set, Tensors) {
    let golden = reference("../golden/tensornet");
    let description = std::fs::read(golden.join("a.json")).expect("a description");
    let mut about: Value = serde_json::from_slice(&description).expect("JSON");
    for (option, value) in options {
        about["config"][*option] = value.clone();
    }
    let path = reference("extra.safetensors");
    let extra = read(&path);
    let tensors = read(&golden.join("a.safetensors"));
    let weights = read(&golden.join("a_weights.safetensors"));
    (Set { path, about, tensors, weights }, extra)
}

#[test]
fn rotation_models_equal_the_plain_path_of_the_reference() {
    let (set, extra) = kept_set(&[("group", "SO(3)".into())]);
    let model = set.model::<f64>();
    for system in ["mol", "batch", "pbc_tric"] {
        let batch = set.batch(system, model.config());
        let found = f64::evaluate(&model, &batch, Wanted { forces: true }).expect("energies");
        close(system, &found.energies, &extra[&format!("so3/{system}/energy")], 1e-10);
        let forces = &extra[&format!("so3/{system}/forces")];
        close(system, found.forces.as_flattened(), forces, 1e-10);
    }
}

#[test]
fn dipole_moments_and_extents_equal_the_reference() {
    for head in ["DipoleMoment", "ElectronicSpatialExtent"] {
        let (set, extra) = kept_set(&[("output_model", head.into())]);
        let mut model = set.model::<f64>();
        model.set_offset_and_scale(0.0, 1.0);
        for system in ["mol", "batch"] {
            let structures = set.structures(system);
            let all: Vec<&Structure> = structures.iter().collect();
            let found = model.properties(&all).expect("properties");
            let totals: Vec<f64> = found.into_iter().flat_map(|one| one.total).collect();
            close(system, &totals, &extra[&format!("head/{head}/{system}")], 1e-10);
        }
    }
}

/// TensorNet2 with a head: its name in the vectors, and the set.
fn charged_sets() -> Vec<(&'static str, Set, Tensors)> {
    let coulomb: Value = "ScalarPlusWeightedCoulomb".into();
    let heads = [
        ("scalar", "Scalar".into(), Value::Null),
        ("coul_all", coulomb.clone(), Value::Null),
        ("coul_rf", coulomb, json!(6.0)),
    ];
    let set = |(name, head, cutoff): (&'static str, Value, Value)| {
        let (mut set, extra) = kept_set(&[
            ("model", "tensornet2".into()),
            ("output_model", head),
            ("q_dim", json!(4)),
            ("q_weights", json!([1.0, 2.0])),
            ("coulomb_cutoff", cutoff),
        ]);
        set.weights = read(&reference("tensornet2_weights.safetensors"));
        // The buffer of the head: the weight of each stage for all of its channels.
        let weights = [[1.0; 4], [2.0; 4]].concat();
        set.weights.insert("output_model.qweights".into(), weights);
        (name, set, extra)
    };
    heads.into_iter().map(set).collect()
}

fn check_charged<T: Precision>(tolerances: (f64, f64)) {
    for (name, set, extra) in charged_sets() {
        let model = set.model::<T>();
        for system in ["mol", "batch"] {
            let batch = set.batch(system, model.config());
            let found = T::evaluate(&model, &batch, Wanted { forces: true }).expect("energies");
            let want = |key: &str| &extra[&format!("tn2/{name}/{system}/{key}")];
            let what = format!("{name} {system}");
            close(&what, &found.energies, want("energy"), tolerances.0);
            close(&what, found.forces.as_flattened(), want("forces"), tolerances.1);
        }
    }
}

#[test]
fn charged_models_equal_the_reference() {
    check_charged::<f64>((1e-10, 1e-10));
}

#[test]
fn charged_models_equal_the_reference_in_single_precision() {
    check_charged::<f32>((2e-5, 2e-4));
}

#[test]
fn features_and_latent_charges_equal_the_reference() {
    for (name, set, extra) in charged_sets() {
        let model: TensorNet<f64> = set.model();
        for system in ["mol", "batch"] {
            let batch = set.batch(system, model.config());
            let pass: Pass<f64> = model.pass(&batch, &model.filters(&batch), None);
            let mut found = Vec::new();
            for atom in 0..batch.atoms() {
                found.extend(pass.readout_pass[1].0.planes[0].row(atom));
                pass.charges.iter().for_each(|stage| {
                    found.extend(stage.charges.planes[0].row(atom));
                });
            }
            let want = &extra[&format!("tn2/{system}/x_and_charges")];
            close(&format!("{name} {system}"), &found, want, 1e-11);
        }
    }
}

/// A set from `testdata`, regardless of the folder of the golden vectors.
fn set_of(name: &str) -> Set {
    let path = reference("../golden/tensornet").join(format!("{name}.safetensors"));
    let description = std::fs::read(path.with_extension("json")).expect("a description");
    let about = serde_json::from_slice(&description).expect("JSON");
    let weights = read(&path.with_file_name(format!("{name}_weights.safetensors")));
    Set { tensors: read(&path), weights, about, path }
}

#[test]
fn sets_may_have_any_of_the_tensors() {
    let mut set = set_of("a");
    let energy = set.need("mol", "energy").clone();
    set.tensors.retain(|key, _| ["mol/z", "mol/pos", "batch/q"].contains(&key.as_str()));
    assert_eq!(set.systems(), ["mol"]);
    let structures = set.structures("mol");
    assert_eq!((structures.len(), structures[0].charge, structures[0].cell), (1, 0.0, None));
    let compared = |set: &Set| {
        let mut one = Comparison::new(set, "mol");
        check_predictions::<f64>(&mut one);
        check_edges(&mut one);
        states::check(&mut one);
        one.compared
    };
    assert_eq!(compared(&set), 0);
    set.tensors.insert("mol/energy".into(), energy);
    assert_eq!(compared(&set), 1);
}

#[test]
fn settings_of_training_steps_may_be_left_out() {
    let mut set = set_of("b");
    let all = training::check(&set);
    assert!(all > 10, "{all}");
    set.about["train"] = "three steps of AdamW".into();
    assert_eq!(training::check(&set), all);
    set.tensors.retain(|key, _| !key.starts_with("train/param") && key != "train/losses");
    assert!(training::check(&set) > 10);
}
