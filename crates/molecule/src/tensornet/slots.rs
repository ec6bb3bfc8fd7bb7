//! Slots of a TensorNet: capture by a probe, and models with other operators in them.

use super::properties::{model, molecule, near, predict};
use super::*;
use crate::{Checkpoint, MoleculeModel, Structure, StructureBatches, Wanted};
use linwright_ops::{
    Dense, ExampleRows, Examples, LinearSlot, LowRank, Network, NoProbe, Op, OpSpec, Probe, Seen,
    Shape, SiteId, Sites,
};
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey, Scalar, parallel};
use std::collections::BTreeMap;

fn single() -> TensorNet<f32> {
    model(Group::Orthogonal).cast().expect("a cast")
}

/// A molecule of seven atoms and one of three.
fn two() -> [Structure; 2] {
    let mut water = molecule();
    water.species.truncate(3);
    water.positions.truncate(3);
    [molecule(), Structure { charge: 0.0, ..water }]
}

fn batch(net: &TensorNet<f32>) -> Batch {
    let [a, b] = two();
    Batch::new(&[&a, &b], net.config()).expect("a batch")
}

/// Specifications of every kind of linear operator for 8 x 8 weights.
fn kinds() -> Vec<OpSpec> {
    let shape = Shape { out: 8, inp: 8 };
    let mut kinds: BTreeMap<&str, OpSpec> = BTreeMap::new();
    for (spec, _) in OpSpec::examples() {
        if spec.is_linear() && spec.random::<f64>(shape, RngKey::new(0)).is_ok() {
            kinds.entry(spec.kind()).or_insert(spec);
        }
    }
    kinds.into_values().collect()
}

/// A model whose slots of 8 x 8 weights hold random operators.
fn with_operators(spec: &OpSpec) -> TensorNet<f64> {
    let mut model = model(Group::Orthogonal);
    for slot in model.linears_mut() {
        let key = RngKey::new(4).fold(&slot.id().0);
        if slot.shape() == (Shape { out: 8, inp: 8 }) {
            let op = spec.random(slot.shape(), key).expect("an operator");
            slot.replace(op).expect("the same shape");
        }
    }
    model
}

/// Inputs and outputs of a slot, with their examples.
type Shown = (Mat<f32>, Mat<f32>, Vec<ExampleRows>);

/// A probe that records inputs and outputs.
#[derive(Default)]
struct Keep {
    seen: BTreeMap<SiteId, Shown>,
    only: Option<SiteId>,
}

impl Probe for Keep {
    fn wants(&self, site: &SiteId) -> bool {
        self.only.as_ref().is_none_or(|only| only == site)
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        let kept = (seen.x.to_mat(), seen.y.to_mat(), seen.examples.to_vec());
        assert!(self.seen.insert(site.clone(), kept).is_none(), "{site} is shown once");
    }

    fn satisfied(&self) -> bool {
        self.only.as_ref().is_some_and(|only| self.seen.contains_key(only))
    }
}

#[test]
fn stages_give_what_a_whole_pass_gives() {
    let net = single();
    let batch = batch(&net);
    let outputs = f32::outputs(&net, &batch);
    let mut state = net.begin(&batch).expect("a state");
    for stage in 0..net.stages() {
        net.run_stages(&mut state, &batch, stage..stage + 1, &mut NoProbe).expect("a stage");
    }
    let found: Vec<f64> = state.features().data().iter().map(|x| x.to_f64()).collect();
    assert_eq!(found, outputs);
}

#[test]
fn a_probe_sees_every_slot_with_the_rows_of_each_structure() {
    let net = single();
    let batch = batch(&net);
    let mut probe = Keep::default();
    let mut state = net.begin(&batch).expect("a state");
    net.run_stages(&mut state, &batch, 0..net.stages(), &mut probe).expect("a pass");
    assert_eq!(probe.seen.len(), net.slots().len());
    let edges = batch.neighbours.entries.len() + batch.atoms();
    for slot in net.slots() {
        let (x, y, examples) = &probe.seen[slot.id()];
        let rows = match slot.role() {
            FILTER | SPECIES => edges,
            MIXING if slot.id().0.ends_with(['0', '3']) => batch.atoms(),
            MIXING if slot.id().0.ends_with(['1', '4']) => 3 * batch.atoms(),
            MIXING => 5 * batch.atoms(),
            _ => batch.atoms(),
        };
        assert_eq!((x.rows(), y.rows()), (rows, rows), "{}", slot.id());
        let mut again = Mat::zeros(rows, slot.shape().out);
        let ws = &mut linwright_ops::Workspace::default();
        slot.forward(x.view(), again.view_mut(), None, ws);
        let off = again.data().iter().zip(y.data()).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) < 1e-4, "{}", slot.id());
        let mut owners = vec![None; rows];
        for ExampleRows { example, rows } in examples {
            owners[rows.clone()].iter_mut().for_each(|owner| {
                assert!(owner.replace(*example).is_none(), "{}", slot.id());
            });
        }
        let share = owners.iter().filter(|owner| **owner == Some(0)).count();
        assert!(owners.iter().all(Option::is_some) && share * 10 >= rows * 7, "{}", slot.id());
    }
}

#[test]
fn a_pass_ends_when_a_probe_is_satisfied() {
    let net = single();
    let batch = batch(&net);
    let only = SiteId("representation_model.layers.0.linears_tensor.4".into());
    let mut probe = Keep { only: Some(only), ..Keep::default() };
    let mut state = net.begin(&batch).expect("a state");
    net.run_stages(&mut state, &batch, 0..net.stages(), &mut probe).expect("a pass");
    assert_eq!(probe.seen.len(), 1);
    assert_eq!(state.features().rows(), 9 * batch.atoms(), "the readout did not run");
}

#[test]
fn parameters_are_those_of_the_architecture_until_a_slot_is_replaced() {
    let mut net = single();
    assert_eq!(net.parameters(), net.config().parameters());
    assert_eq!(net.dense_parameters(), net.config().parameters());
    let site = net.slots()[8].id().clone();
    let slot = net.slot_mut(&site).expect("a slot");
    let spec: OpSpec = serde_json::from_str(r#"{"kind": "low_rank", "rank": 2}"#).expect("it");
    let before = slot.parameters();
    slot.replace(spec.random(slot.shape(), RngKey::new(1)).expect("it")).expect("fits");
    let after = slot.parameters();
    assert!(after < before);
    let saved = (before - after) as u64;
    assert_eq!(net.parameters(), net.config().parameters() - saved);
    assert_eq!(net.dense_parameters(), net.config().parameters());
}

#[test]
fn forces_of_every_kind_of_operator_are_minus_the_slopes_of_the_energy() {
    const STEP: f64 = 1e-5;
    let structure = molecule();
    let dense = predict(&model(Group::Orthogonal), &structure).energy;
    for spec in kinds() {
        let model = with_operators(&spec);
        let found = predict(&model, &structure);
        assert!((found.energy - dense).abs() > 1e-6, "{} changes the energy", spec.kind());
        for a in 0..3 {
            let energy = |by: f64| {
                let mut other = structure.clone();
                other.positions[1][a] += by;
                predict(&model, &other).energy
            };
            let slope = (energy(STEP) - energy(-STEP)) / (2.0 * STEP);
            near(spec.kind(), &[found.forces[1][a]], &[-slope], 1e-6);
        }
    }
}

#[test]
fn the_fast_path_applies_operators_as_their_dense_weights() {
    let config = TensorNetConfig { species: 10, ..TensorNetConfig::new(16, 1, 8, 4.0) };
    let mut net = TensorNet::<f64>::random(config, RngKey::new(3)).expect("a model");
    let spec: OpSpec = serde_json::from_str(r#"{"kind": "low_rank", "rank": 5}"#).expect("it");
    for slot in net.linears_mut().into_iter().filter(|slot| slot.role() == MIXING) {
        let op = spec.random(slot.shape(), RngKey::new(1).fold(&slot.id().0)).expect("it");
        slot.replace(op).expect("fits");
    }
    let exact = predict(&net, &molecule());
    let mut fast = crate::FastTensorNet::new(&net, crate::FastOptions::default()).expect("it");
    let found = crate::Potential::predict(&mut fast, &molecule(), Wanted { forces: true });
    let found = found.expect("a prediction");
    near("energy", &[found.energy], &[exact.energy], 1e-4);
    near("forces", found.forces.as_flattened(), exact.forces.as_flattened(), 1e-4);
}

#[test]
fn gradients_of_operators_are_slopes_of_energies_and_forces() {
    const STEP: f64 = 1e-6;
    let spec: OpSpec = serde_json::from_str(r#"{"kind": "low_rank", "rank": 3}"#).expect("it");
    let (mut net, structure) = (with_operators(&spec), molecule());
    let direction: Vec<[f64; 3]> =
        (0..structure.species.len()).map(|i| [0.3, -0.7, 0.2].map(|x| x + i as f64)).collect();
    let batch = Batch::new(&[&structure], net.config()).expect("a batch");
    let loss = |net: &TensorNet<f64>| {
        let found = f64::evaluate(net, &batch, Wanted { forces: true }).expect("energies");
        let forces = found.forces.as_flattened().iter().zip(direction.as_flattened());
        0.4 * found.energies[0] + forces.map(|(f, g)| f * g).sum::<f64>()
    };
    let filters = net.filters(&batch);
    let gradients = net.loss_gradients((&batch, &filters), &[0.4], &direction);
    drop(filters);
    let site = "representation_model.layers.1.linears_tensor.4";
    let slot = net.linears().iter().position(|slot| slot.id().0 == site).expect("a slot");
    let names: Vec<String> =
        net.linears()[slot].op().map().params().into_iter().map(|p| p.name).collect();
    assert_eq!(names.len(), 2, "two factors");
    for (index, name) in names.iter().enumerate() {
        let mut at = |by: f64| {
            net.linears_mut()[slot].op_mut().map_mut().params_mut()[index].values[5] += by;
            let found = loss(&net);
            net.linears_mut()[slot].op_mut().map_mut().params_mut()[index].values[5] -= by;
            found
        };
        let want = (at(STEP) - at(-STEP)) / (2.0 * STEP);
        let found = gradients[&format!("{site}.{name}")][5];
        assert!((found - want).abs() < 1e-6 * (1.0 + want.abs()), "{name}: {found} {want}");
    }
}

#[test]
fn an_operator_that_is_not_linear_is_refused_by_name() {
    let mut net = single();
    let batch = batch(&net);
    let site = SiteId("representation_model.layers.0.linears_tensor.2".into());
    let spec: OpSpec = serde_json::from_str(r#"{"kind": "rotor_network"}"#).expect("it");
    let slot = net.slot_mut(&site).expect("a slot");
    slot.replace(spec.random(slot.shape(), RngKey::new(0)).expect("it")).expect("fits");
    let errors = [
        net.begin(&batch).expect_err("no state").to_string(),
        f32::evaluate(&net, &batch, Wanted::default()).expect_err("no energy").to_string(),
    ];
    for error in errors {
        assert!(error.contains(&site.0) && error.contains("rotor_network"), "{error}");
    }
}

#[test]
fn a_saved_model_with_operators_is_read_back() {
    let path = crate::reference::reference("a_lightning.ckpt");
    let original = MoleculeModel::open(&path).expect("a model");
    let mut net: TensorNet<f32> = original.network.cast().expect("a cast");
    let kinds: Vec<OpSpec> = kinds();
    let mut sites = Vec::new();
    for (k, slot) in net.linears_mut().into_iter().filter(|s| s.role() == MIXING).enumerate() {
        let spec = &kinds[k % kinds.len()];
        if let Ok(op) = spec.random(slot.shape(), RngKey::new(k as u64)) {
            sites.push(slot.id().clone());
            slot.replace(op).expect("fits");
        }
    }
    let dense = net.slots()[0].id().clone();
    if let Some(bias) = net.slot_mut(&dense).expect("a slot").bias_mut() {
        bias[0] = 0.25;
    }
    sites.push(dense);
    let edited = original.with_slots(&net, &sites).expect("the edited model");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("edited");
    let files = [("README.md".to_owned(), b"a card".to_vec())];
    edited.save(&out, false, &files).expect("saved");
    assert!(edited.save(&out, false, &files).is_err(), "the directory exists");
    let back = MoleculeModel::open(&out).expect("reads").network.cast::<f32>().expect("a cast");
    for (slot, again) in net.slots().into_iter().zip(back.slots()) {
        assert_eq!(slot.op().map().spec(), again.op().map().spec(), "{}", slot.id());
        let values = |slot: &LinearSlot| -> Vec<f32> {
            let params = slot.op().map().params();
            params.into_iter().flat_map(|p| p.values.to_vec()).collect()
        };
        assert_eq!(values(slot), values(again), "{}", slot.id());
        assert_eq!(slot.bias(), again.bias(), "{}", slot.id());
    }
    assert!(Checkpoint::is_at(&out) && Checkpoint::is_at(&path));
    assert!(!Checkpoint::is_at(folder.path()));
}

#[test]
fn damaged_operators_are_refused_by_the_name_of_their_slot() {
    let path = crate::reference::reference("a_lightning.ckpt");
    let good = Checkpoint::open(&path).expect("a model");
    let site = "representation_model.layers.0.linears_tensor.1";
    let refused = |spec: &str, site: &str| {
        let mut bad = good.clone();
        bad.operators.insert(site.into(), serde_json::from_str(spec).expect("a specification"));
        let folder = tempfile::tempdir().expect("a folder");
        bad.save(&folder.path().join("model.safetensors")).expect("saved");
        MoleculeModel::open(folder.path()).expect_err("damaged").to_string()
    };
    let small = r#"{"kind": "low_rank", "rank": 2}"#;
    let huge = r#"{"kind": "low_rank", "rank": 1073741824}"#;
    for (spec, at) in [(small, site), (huge, site), (small, "nowhere")] {
        let error = refused(spec, at);
        assert!(error.contains(at), "{error}");
    }
}

/// The largest number of rows of a slot for a molecule.
fn most_rows(net: &TensorNet<f32>, index: usize) -> usize {
    let batch = Batch::new(&[&two()[index]], net.config()).expect("a batch");
    let (mut probe, mut state) = (Keep::default(), net.begin(&batch).expect("a state"));
    net.run_stages(&mut state, &batch, 0..net.stages(), &mut probe).expect("a pass");
    probe.seen.values().map(|(x, _, _)| x.rows()).max().unwrap_or(0)
}

#[test]
fn errors_of_batches_are_those_of_predictions_at_any_number_of_threads() {
    let net = single();
    let mut structures = two().to_vec();
    for structure in &mut structures {
        let found = predict(&model(Group::Orthogonal), structure);
        structure.labels.energy = Some(found.energy + 0.5);
        let moved = found.forces.into_iter().map(|f| f.map(|x| x - 0.25));
        structure.labels.forces = Some(moved.collect());
    }
    structures.extend(structures.clone());
    let batches = StructureBatches::new(structures, 1, 3, net.config()).expect("batches");
    assert_eq!((batches.training_batches(), batches.batches()), (3, 4));
    assert_eq!([0, 1].map(|index| batches.rows(index)), [most_rows(&net, 0), most_rows(&net, 1)]);
    let errors = |threads| {
        let measured = || batches.errors(&net, &mut Silent).expect("errors");
        parallel::with_threads(threads, measured).expect("threads")
    };
    let found = errors(1);
    assert_eq!(found, errors(2));
    assert_eq!(found.counts(), (4, 20));
    near("energy", &[found.energy().expect("energies").mae], &[0.5], 1e-4);
    near("forces", &[found.force().expect("forces").mae], &[0.25], 1e-4);
    let fewer = StructureBatches::new(two().to_vec(), 1, 1, net.config()).expect("batches");
    assert_ne!(fewer.identity(), batches.identity());
}

#[test]
fn a_structure_that_the_model_does_not_know_is_named() {
    let mut structures = two().to_vec();
    structures[1].species[0] = 79;
    let error = StructureBatches::new(structures, 2, 2, single().config()).expect_err("gold");
    let error = error.to_string();
    assert!(error.contains("structure 1") && error.contains("Au"), "{error}");
}

#[test]
fn a_full_rank_factorisation_gives_the_same_energies_and_forces_in_single_precision() {
    let net = single();
    let batch = batch(&net);
    let mut factored = net.clone();
    for slot in factored.linears_mut() {
        let dense = slot.op().to_dense().expect("a weight");
        let op = LowRank::new(Mat::identity(dense.rows()), dense);
        slot.replace(Op::Linear(Box::new(op))).expect("the same shape");
    }
    let mut copied = net.clone();
    for slot in copied.linears_mut() {
        let dense = slot.op().to_dense().expect("a weight");
        slot.replace(Op::Linear(Box::new(Dense::new(dense)))).expect("the same shape");
    }
    let wanted = Wanted { forces: true };
    let of = |net: &TensorNet<f32>| f32::evaluate(net, &batch, wanted).expect("energies");
    let (first, second) = (of(&net), of(&factored));
    assert_eq!(first, of(&copied), "the same weights give the same bits");
    near("energies", &second.energies, &first.energies, 1e-5);
    near("forces", second.forces.as_flattened(), first.forces.as_flattened(), 1e-4);
}
