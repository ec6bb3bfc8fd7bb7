//! Golden vectors: every set `<stem>.json` with `<stem>.safetensors` and
//! `<stem>_weights.safetensors` in `tensornet` of `$LINWRIGHT_GOLDEN`, by default
//! `testdata/golden` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use super::pass::{LayerPass, Pass};
use super::{Batch, Group, Precision, TensorNet, TensorNetConfig};
use crate::{Cell, Neighbours, Structure, Wanted};
use linwright_tensor::Scalar;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) type Tensors = BTreeMap<String, Vec<f64>>;

const SYSTEMS: [&str; 5] = ["mol", "batch", "pbc_orth", "pbc_tric", "edge"];

pub(super) fn read(path: &Path) -> Tensors {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let numbers = |view: &safetensors::tensor::TensorView<'_>| -> Vec<f64> {
        let (fours, eights) = (view.data().as_chunks::<4>().0, view.data().as_chunks::<8>().0);
        match view.dtype() {
            Dtype::F64 => eights.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::I64 => eights.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
            Dtype::F32 => fours.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            Dtype::I32 => fours.iter().map(|b| f64::from(i32::from_le_bytes(*b))).collect(),
            other => panic!("golden tensor of type {other:?}"),
        }
    };
    file.iter().map(|(name, view)| (name.to_owned(), numbers(&view))).collect()
}

pub(super) struct Set {
    pub(super) path: PathBuf,
    pub(super) about: Value,
    pub(super) tensors: Tensors,
    pub(super) weights: Tensors,
}

/// All sets of models, of which there must be one.
fn sets() -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = std::env::var_os("LINWRIGHT_GOLDEN").map_or(default, PathBuf::from);
    let root = root.join("tensornet");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut sets = Vec::new();
    for path in paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let weights = path.with_file_name(format!("{stem}_weights.safetensors"));
        if path.extension().is_none_or(|e| e != "safetensors") || !weights.exists() {
            continue;
        }
        let about = std::fs::read(path.with_extension("json")).expect("a description");
        let about: Value = serde_json::from_slice(&about).expect("JSON");
        sets.push(Set { tensors: read(&path), weights: read(&weights), about, path });
    }
    assert!(!sets.is_empty(), "no golden set in {}", root.display());
    sets
}

impl Set {
    pub(super) fn model<T: Scalar>(&self) -> TensorNet<T> {
        let config = TensorNetConfig::from_hyperparameters(&self.about["config"]).expect("config");
        let model = TensorNet::from_tensors(config, |name, _| {
            let values = self.weights.get(name).unwrap_or_else(|| panic!("no tensor {name}"));
            Ok(values.iter().map(|value| T::from_f64(*value)).collect())
        });
        model.expect("a model")
    }

    fn get(&self, system: &str, key: &str) -> Option<&Vec<f64>> {
        self.tensors.get(&format!("{system}/{key}"))
    }

    fn need(&self, system: &str, key: &str) -> &Vec<f64> {
        let missing = || panic!("{} has no {system}/{key}", self.path.display());
        self.get(system, key).unwrap_or_else(missing)
    }

    pub(super) fn structures(&self, system: &str) -> Vec<Structure> {
        let (z, molecules) = (self.need(system, "z"), self.need(system, "batch"));
        let positions = triples(self.need(system, "pos"));
        let cell = self.get(system, "box").map(|rows| Cell {
            rows: triples(rows).try_into().expect("three rows"),
            periodic: [true; 3],
        });
        let count = molecules.iter().fold(0.0f64, |most, m| most.max(*m)) as usize + 1;
        let one = |molecule: usize| {
            let atoms = (0..z.len()).filter(|i| molecules[*i] as usize == molecule);
            Structure {
                species: atoms.clone().map(|i| z[i] as u8).collect(),
                positions: atoms.map(|i| positions[i]).collect(),
                charge: self.get(system, "q").map_or(0.0, |q| q[molecule]),
                cell,
                ..Structure::default()
            }
        };
        (0..count).map(one).collect()
    }

    pub(super) fn batch(&self, system: &str, config: &TensorNetConfig) -> Batch {
        let structures = self.structures(system);
        let all: Vec<&Structure> = structures.iter().collect();
        let neighbours =
            Neighbours::of_batch(structures.iter(), config.cutoff_lower, config.cutoff_upper);
        Batch::with_neighbours(&all, neighbours.expect("pairs"), config).expect("a batch")
    }
}

fn triples(values: &[f64]) -> Vec<[f64; 3]> {
    values.as_chunks::<3>().0.to_vec()
}

#[track_caller]
pub(super) fn close(what: &str, found: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(found.len(), want.len(), "{what}: numbers");
    let off = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off <= tolerance && found.iter().all(|x| x.is_finite()), "{what} is off by {off:e}");
}

fn check_predictions<T: Precision>(set: &Set, suffix: &str, tolerances: (f64, f64)) {
    let model = set.model::<T>();
    for system in SYSTEMS {
        let batch = set.batch(system, model.config());
        let found = T::evaluate(&model, &batch, Wanted { forces: true }).expect("energies");
        let name = |key: &str| format!("{} {system} {key}{suffix}", set.path.display());
        let want = |key: &str| set.need(system, &format!("{key}{suffix}"));
        close(&name("energy"), &found.energies, want("energy"), tolerances.0);
        close(&name("forces"), found.forces.as_flattened(), want("forces"), tolerances.1);
        if suffix.is_empty() {
            let virial = found.virial.as_flattened();
            close(&name("virial"), virial, set.need(system, "virial"), 1e-9);
        }
    }
}

#[test]
fn golden_energies_forces_and_virials_equal_the_reference() {
    sets().iter().for_each(|set| check_predictions::<f64>(set, "", (1e-10, 1e-10)));
}

#[test]
fn golden_energies_and_forces_equal_the_reference_in_single_precision() {
    sets().iter().for_each(|set| check_predictions::<f32>(set, "_f32", (1e-5, 4e-5)));
}

/// The nine numbers of an atom and channel.
fn nine(rows: &super::number::Rows<f64>, atom: usize, channel: usize) -> [f64; 9] {
    let atoms = rows.rows() / 9;
    std::array::from_fn(|c| rows.at(c * atoms + atom, channel))
}

/// The matrix of nine numbers, by the definition of [`super::parts`].
fn compose(t: [f64; 9]) -> [[f64; 3]; 3] {
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let (trace, zz) = (t[0] / 3.0_f64.sqrt(), t[5] * (2.0_f64 / 3.0).sqrt());
    let [a1, a2, a3, difference] = [t[1], t[2], t[3], t[4]].map(|x| x * half);
    let [xy, xz, yz] = [t[6], t[7], t[8]].map(|x| x * half);
    [
        [trace - zz / 2.0 + difference, xy - a3, xz + a2],
        [xy + a3, trace - zz / 2.0 - difference, yz - a1],
        [xz - a2, yz + a1, trace + zz],
    ]
}

/// Components of parts by atom as the sets have them: I, A (three) or S (xx, xy, xz, yy, yz).
fn parts(rows: &super::number::Rows<f64>, part: &str) -> Vec<f64> {
    let (atoms, h) = (rows.rows() / 9, rows.cols());
    let mut found = Vec::new();
    for atom in 0..atoms {
        let all: Vec<Vec<f64>> =
            (0..h).map(|j| part_of(compose(nine(rows, atom, j)), part)).collect();
        (0..all[0].len()).for_each(|c| found.extend(all.iter().map(|parts| parts[c])));
    }
    found
}

fn part_of(x: [[f64; 3]; 3], part: &str) -> Vec<f64> {
    let third = (x[0][0] + x[1][1] + x[2][2]) / 3.0;
    let even = |i: usize, j: usize| (x[i][j] + x[j][i]) / 2.0 - if i == j { third } else { 0.0 };
    match part {
        "I" => vec![third],
        "A" => [(2, 1), (0, 2), (1, 0)].map(|(i, j)| (x[i][j] - x[j][i]) / 2.0).to_vec(),
        "S" => [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)].map(|(i, j)| even(i, j)).to_vec(),
        _ => x.into_iter().flatten().collect(),
    }
}

fn numbers(rows: &super::number::Rows<f64>) -> &[f64] {
    rows.planes[0].data()
}

/// `k (Y M + M Y)` or `2 Y M` of a layer, by atom, entry and channel.
fn products(model: &TensorNet<f64>, batch: &Batch, layer: &LayerPass<f64>) -> Vec<f64> {
    let mut found = Vec::new();
    for atom in 0..batch.atoms() {
        let k = 1.0 + 0.1 * batch.charges[batch.molecules[atom]];
        for entry in 0..9 {
            for channel in 0..layer.mixed.cols() {
                let y = compose(nine(&layer.mixed, atom, channel));
                let m = compose(nine(&layer.message, atom, channel));
                let of = |a: [[f64; 3]; 3], b: [[f64; 3]; 3]| -> f64 {
                    (0..3).map(|j| a[entry / 3][j] * b[j][entry % 3]).sum()
                };
                found.push(match model.config().group {
                    Group::Orthogonal => k * (of(y, m) + of(m, y)),
                    Group::Rotations => 2.0 * of(y, m),
                });
            }
        }
    }
    found
}

fn check_states(set: &Set, system: &str, tolerance: f64) {
    let model = set.model::<f64>();
    let batch = set.batch(system, model.config());
    let pass: Pass<f64> = model.pass(&batch, &model.filters(&batch), None);
    let check = |key: &str, found: &[f64]| {
        if let Some(want) = set.get(system, key) {
            close(&format!("{} {system} {key}", set.path.display()), found, want, tolerance);
        }
    };
    let edges: Vec<f64> = set.need(system, "edge_d").clone();
    let listed = 2 * batch.neighbours.pairs.len() + batch.atoms();
    assert_eq!(listed, edges.len(), "edges of {system}");
    let states = [("embsum".to_owned(), &pass.sums)].into_iter();
    let mut states: Vec<_> = states.collect();
    states.push(("emb".into(), pass.layers.first().map_or(&pass.last, |layer| &layer.input)));
    for layer in 0..pass.layers.len() {
        let after = pass.layers.get(layer + 1).map_or(&pass.last, |next| &next.input);
        states.push((format!("layer{layer}"), after));
    }
    for (name, rows) in &states {
        ["I", "A", "S"].iter().for_each(|p| check(&format!("{name}.{p}"), &parts(rows, p)));
    }
    check("emb_scale", numbers(&pass.scales));
    check("invariants", numbers(&super::pass::invariants(&pass.last)));
    check("x", numbers(&pass.readout_pass[1].0));
    check("e_atom_unscaled", numbers(&pass.outputs));
    for (index, layer) in pass.layers.iter().enumerate() {
        check(&format!("layer{index}.C"), &products(&model, &batch, layer));
        for (key, rows) in [("Y", &layer.mixed), ("M", &layer.message), ("D", &layer.update)] {
            check(&format!("layer{index}.{key}"), &parts(rows, "all"));
        }
    }
    if let Some(want) = set.get(system, "rbf") {
        let functions = model.radial(edges.iter().copied()).functions;
        let found = &functions.planes[0].data()[..want.len()];
        close("rbf", found, want, tolerance);
    }
}

#[test]
fn golden_states_equal_the_reference() {
    for set in sets() {
        SYSTEMS.iter().for_each(|system| check_states(&set, system, 1e-11));
    }
}

/// Loss of a training step, with its gradients by energies and forces.
#[test]
fn golden_edges_equal_ours() {
    for set in sets() {
        let config = TensorNetConfig::from_hyperparameters(&set.about["config"]).expect("config");
        for system in SYSTEMS {
            let neighbours = set.batch(system, &config).neighbours;
            // Receiver, sender, distance, and the direction from sender to receiver.
            let mut ours: Vec<([usize; 2], [f64; 4])> =
                (0..neighbours.atoms()).map(|atom| ([atom; 2], [0.0; 4])).collect();
            for atom in 0..neighbours.atoms() {
                for entry in neighbours.of(atom) {
                    let sign = if entry.reversed { -1.0 } else { 1.0 };
                    let v = neighbours.pairs[entry.pair as usize].vector.map(|x| sign * x);
                    let d = v.iter().map(|x| x * x).sum::<f64>().sqrt();
                    let [x, y, z] = v.map(|x| x / d);
                    ours.push(([atom, entry.atom as usize], [d, x, y, z]));
                }
            }
            let need = |key: &str| set.need(system, key);
            let ends = need("edge_i").iter().zip(need("edge_j"));
            let units = triples(need("edge_u"));
            let rest = need("edge_d").iter().zip(&units).map(|(d, [x, y, z])| [*d, *x, *y, *z]);
            let ends = ends.map(|(i, j)| [*i as usize, *j as usize]);
            let mut theirs: Vec<_> = ends.zip(rest).collect();
            for edges in [&mut ours, &mut theirs] {
                edges.sort_by(|a, b| a.0.cmp(&b.0).then(a.1[0].total_cmp(&b.1[0])));
            }
            let atoms = |edges: &[([usize; 2], [f64; 4])]| {
                edges.iter().map(|(atoms, _)| *atoms).collect::<Vec<_>>()
            };
            assert_eq!(atoms(&ours), atoms(&theirs), "{} {system}", set.path.display());
            let numbers = |edges: &[([usize; 2], [f64; 4])]| {
                edges.iter().flat_map(|(_, numbers)| *numbers).collect::<Vec<_>>()
            };
            close(system, &numbers(&ours), &numbers(&theirs), 1e-12);
        }
    }
}

fn loss(set: &Set, model: &TensorNet<f64>, batch: &Batch) -> (f64, Vec<f64>, Vec<[f64; 3]>) {
    let found = f64::evaluate(model, batch, Wanted { forces: true }).expect("energies");
    let weight = |key: &str| set.about["train"][key].as_f64().expect("a weight");
    let (y, f) = (set.need("train", "y"), set.need("train", "neg_dy"));
    let (wy, wf) = (weight("y_weight") / y.len() as f64, weight("neg_dy_weight") / f.len() as f64);
    let off: Vec<f64> = found.energies.iter().zip(y).map(|(a, b)| a - b).collect();
    let of_f: Vec<f64> = found.forces.as_flattened().iter().zip(f).map(|(a, b)| a - b).collect();
    let squares = |all: &[f64]| all.iter().map(|x| x * x).sum::<f64>();
    let total = wy * squares(&off) + wf * squares(&of_f);
    let by_forces: Vec<f64> = of_f.iter().map(|x| 2.0 * wf * x).collect();
    (total, off.iter().map(|x| 2.0 * wy * x).collect(), triples(&by_forces))
}

#[test]
fn golden_training_steps_equal_the_reference() {
    for set in sets().iter().filter(|set| set.tensors.contains_key("train/losses")) {
        let mut model = set.model::<f64>();
        let system = set.about["train"]["system"].as_str().unwrap_or("batch").to_owned();
        let batch = set.batch(&system, model.config());
        let (total, by_energies, by_forces) = loss(set, &model, &batch);
        close("loss", &[total], &set.need("train", "losses")[..1], 1e-10);
        let gradients =
            model.loss_gradients((&batch, &model.filters(&batch)), &by_energies, &by_forces);
        let mut compared = 0;
        for (name, want) in set.tensors.iter().filter(|(name, _)| name.starts_with("train/grad/")) {
            let name = &name["train/grad/".len()..];
            let own = gradients.get(name).unwrap_or_else(|| panic!("no gradient of {name}"));
            close(name, own, want, 1e-10);
            compared += 1;
        }
        assert!(compared > 10, "gradients in {}", set.path.display());
        train(set, &mut model, &batch);
    }
}

/// Three steps of AdamW, in double precision.
fn train(set: &Set, model: &mut TensorNet<f64>, batch: &Batch) {
    let about = &set.about["train"];
    let number = |key: &str, default: f64| about[key].as_f64().unwrap_or(default);
    let (rate, decay) = (number("lr", 1e-4), number("weight_decay", 0.0));
    let losses = set.need("train", "losses");
    let mut moments: BTreeMap<String, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (step, want) in losses.iter().enumerate() {
        let (total, by_energies, by_forces) = loss(set, model, batch);
        close("loss", &[total], &[*want], 1e-9);
        if step + 1 == losses.len() {
            break;
        }
        let gradients =
            model.loss_gradients((batch, &model.filters(batch)), &by_energies, &by_forces);
        for tensor in model.tensors_mut() {
            let Some(gradient) = gradients.get(&tensor.name) else { continue };
            let zeros = || (vec![0.0; gradient.len()], vec![0.0; gradient.len()]);
            let (first, second) = moments.entry(tensor.name).or_insert_with(zeros);
            let t = step as i32 + 1;
            for (i, g) in gradient.iter().enumerate() {
                first[i] = 0.9 * first[i] + 0.1 * g;
                second[i] = 0.999 * second[i] + 0.001 * g * g;
                let mean = first[i] / (1.0 - 0.9f64.powi(t));
                let root = (second[i] / (1.0 - 0.999f64.powi(t))).sqrt();
                tensor.values[i] -= rate * (decay * tensor.values[i] + mean / (root + 1e-8));
            }
        }
    }
    let tensors: BTreeMap<_, _> =
        model.to_tensors().into_iter().map(|(name, _, values)| (name, values)).collect();
    for (name, want) in
        set.tensors.iter().filter(|(name, _)| name.starts_with("train/param_after3/"))
    {
        let name = &name["train/param_after3/".len()..];
        close(name, &tensors[name], want, 1e-8);
    }
}
