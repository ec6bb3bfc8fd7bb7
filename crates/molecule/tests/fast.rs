//! The fast path against energies, forces and virials of torchmd-net.

use linwright_molecule::tensornet::{Group, TensorNet, TensorNetConfig};
use linwright_molecule::{Cell, FastOptions, FastTensorNet, Potential, Structure, Wanted};
use linwright_tensor::parallel::with_threads;
use safetensors::SafeTensors;
use std::path::Path;

/// Single precision against double, of energies relative and of forces absolute.
const ENERGY: f64 = 1e-5;
const FORCE: f64 = 4e-5;
/// Tables against exact filters: of energies by atom, and of the largest force.
const TABLE_ENERGY: f64 = 1e-6;
const TABLE_FORCE: f64 = 2e-5;

fn file(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet");
    let path = root.join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn numbers(of: &SafeTensors<'_>, name: &str) -> Vec<f64> {
    let tensor = of.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let bytes = tensor.data();
    match tensor.dtype() {
        safetensors::Dtype::F64 => {
            bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
        }
        safetensors::Dtype::F32 => {
            bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        }
        safetensors::Dtype::I64 => {
            bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect()
        }
        other => panic!("{name} of {other:?}"),
    }
}

fn model(group: Group) -> TensorNet<f32> {
    let bytes = file("a_weights.safetensors");
    let weights = SafeTensors::deserialize(&bytes).expect("weights");
    let config = TensorNetConfig { species: 20, group, ..TensorNetConfig::new(16, 1, 16, 4.5) };
    let mut model = TensorNet::from_tensors(config, |name, _| {
        Ok(match name {
            "mean" => vec![0.0],
            "std" => vec![1.0],
            _ => numbers(&weights, name).into_iter().map(|number| number as f32).collect(),
        })
    })
    .expect("a model");
    model.set_offset_and_scale(-0.375, 1.75);
    model
}

fn triples(numbers: &[f64]) -> Vec<[f64; 3]> {
    numbers.as_chunks().0.to_vec()
}

/// The molecules of a system, with the first atom of each.
fn structures(of: &SafeTensors<'_>, system: &str) -> Vec<(usize, Structure)> {
    let get = |name: &str| numbers(of, &format!("{system}/{name}"));
    let (z, positions) = (get("z"), triples(&get("pos")));
    let batch = get("batch");
    let has = |name: &str| of.tensor(&format!("{system}/{name}")).is_ok();
    let charges = if has("q") { get("q") } else { Vec::new() };
    let cell = has("box").then(|| {
        let rows = triples(&get("box"));
        Cell { rows: [rows[0], rows[1], rows[2]], periodic: [true; 3] }
    });
    let molecules = batch.last().map_or(0, |last| *last as usize + 1);
    let one = |molecule: usize| {
        let first = batch.iter().position(|b| *b as usize == molecule).expect("an atom");
        let atoms = first..first + batch.iter().filter(|b| **b as usize == molecule).count();
        let structure = Structure {
            species: z[atoms.clone()].iter().map(|z| *z as u8).collect(),
            positions: positions[atoms].to_vec(),
            cell,
            charge: charges.get(molecule).copied().unwrap_or(0.0),
            ..Structure::default()
        };
        (first, structure)
    };
    (0..molecules).map(one).collect()
}

const FORCES: Wanted = Wanted { forces: true };
const SYSTEMS: [&str; 5] = ["mol", "batch", "pbc_orth", "pbc_tric", "edge"];

/// Compares with energies and forces under a prefix.
fn check(
    fast: &mut FastTensorNet,
    a: &SafeTensors<'_>,
    of: (&SafeTensors<'_>, &str),
    system: &str,
) {
    let get = |name: &str| numbers(of.0, &format!("{}{system}/{name}", of.1));
    let (energies, forces) = (get("energy"), triples(&get("forces")));
    let mut virial = [[0.0; 3]; 3];
    for ((first, structure), energy) in structures(a, system).iter().zip(energies) {
        let found = fast.predict(structure, FORCES).expect("a prediction");
        let error = (found.energy - energy).abs() / energy.abs().max(1.0);
        assert!(error < ENERGY, "{system}: {} is not {energy}", found.energy);
        for (found, want) in found.forces.iter().zip(&forces[*first..]) {
            for (found, want) in found.iter().zip(want) {
                assert!((found - want).abs() < FORCE, "{system}: {found} is not {want}");
            }
        }
        for (sum, found) in virial.iter_mut().flatten().zip(found.virial.iter().flatten()) {
            *sum += found;
        }
    }
    if of.0.tensor(&format!("{}{system}/virial", of.1)).is_ok() {
        for (found, want) in virial.iter().flatten().zip(get("virial")) {
            assert!((found - want).abs() < 10.0 * FORCE, "{system}: virial {found} is not {want}");
        }
    }
}

#[test]
fn energies_forces_and_virials_are_reproduced() {
    let bytes = file("a.safetensors");
    let a = SafeTensors::deserialize(&bytes).expect("golden vectors");
    for intervals in [Some(256), Some(1024), None] {
        let options = FastOptions { intervals };
        let mut fast = FastTensorNet::new(&model(Group::Orthogonal), options).expect("a model");
        SYSTEMS.iter().for_each(|system| check(&mut fast, &a, (&a, ""), system));
    }
}

#[test]
fn rotations_alone_are_reproduced() {
    let (bytes, extra) = (file("a.safetensors"), file("extra.safetensors"));
    let a = SafeTensors::deserialize(&bytes).expect("golden vectors");
    let extra = SafeTensors::deserialize(&extra).expect("golden vectors");
    let mut fast =
        FastTensorNet::new(&model(Group::Rotations), FastOptions::default()).expect("a model");
    ["mol", "batch", "pbc_tric"]
        .iter()
        .for_each(|system| check(&mut fast, &a, (&extra, "so3/"), system));
}

#[test]
fn systems_have_the_same_bits_on_any_number_of_threads_and_tables_are_close() {
    let bytes = file("a.safetensors");
    let a = SafeTensors::deserialize(&bytes).expect("golden vectors");
    let new = |intervals| {
        FastTensorNet::new(&model(Group::Orthogonal), FastOptions { intervals }).expect("a model")
    };
    let (mut tables, mut exact) = (new(Some(256)), new(None));
    for system in SYSTEMS {
        for (_, structure) in structures(&a, system) {
            let mut on = |threads| {
                with_threads(threads, || tables.predict(&structure, FORCES).expect("a prediction"))
                    .expect("threads")
            };
            let one = on(1);
            assert_eq!(one, on(2), "{system}");
            assert_eq!(one, on(4), "{system}");
            let close = exact.predict(&structure, FORCES).expect("a prediction");
            let atoms = structure.species.len() as f64;
            assert!((one.energy - close.energy).abs() < TABLE_ENERGY * atoms, "{system}");
            let all = one.forces.iter().flatten().zip(close.forces.iter().flatten());
            let largest = all.clone().map(|(a, _)| a.abs()).fold(0.0, f64::max);
            for (found, want) in all {
                let error = (found - want).abs();
                assert!(error <= TABLE_FORCE * largest, "{system}: {error} of {largest}");
            }
        }
    }
}
