//! The fast path against energies, forces and virials of torchmd-net.

use linwright_molecule::tensornet::{Group, TensorNet, TensorNetConfig, TensorNetPotential};
use linwright_molecule::{Cell, FastOptions, FastTensorNet, Potential, Structure, Wanted};
use linwright_tensor::RngKey;
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
    #[expect(clippy::wildcard_enum_match_arm, reason = "the types of safetensors are many")]
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

/// All structures of the systems.
fn all_structures() -> Vec<Structure> {
    let bytes = file("a.safetensors");
    let a = SafeTensors::deserialize(&bytes).expect("golden vectors");
    SYSTEMS.iter().flat_map(|system| structures(&a, system)).map(|(_, one)| one).collect()
}

#[test]
fn results_do_not_depend_on_the_structures_before() {
    let model = model(Group::Orthogonal);
    let new = || FastTensorNet::new(&model, FastOptions::default()).expect("a model");
    let (all, mut used) = (all_structures(), new());
    for order in [1, 3, 4] {
        for index in 0..all.len() {
            // Molecules and crystals of several sizes, in another order each time.
            let structure = &all[index * order % all.len()];
            let wanted = Wanted { forces: (index + order) % 3 != 0 };
            let found = used.predict(structure, wanted).expect("a prediction");
            assert_eq!(found, new().predict(structure, wanted).expect("a prediction"), "{index}");
        }
    }
}

#[test]
fn a_walk_with_kept_pairs_has_the_bits_of_one_without() {
    let model = model(Group::Orthogonal);
    let new = || FastTensorNet::new(&model, FastOptions::default()).expect("a model");
    for (index, mut structure) in all_structures().into_iter().enumerate() {
        let mut random = RngKey::new(26).fold("walk").fold_index(index as u64).stream();
        let (mut kept, mut fresh) = (new(), new());
        kept.keep_pairs(0.4).expect("a skin");
        let mut exact = TensorNetPotential::new(model.cast::<f64>().expect("a model"));
        let mut exact_kept = exact.clone();
        exact_kept.keep_pairs(0.4).expect("a skin");
        for step in 0..40 {
            for x in structure.positions.iter_mut().flatten() {
                *x += 0.02 * random.normal();
            }
            let found = kept.predict(&structure, FORCES).expect("a prediction");
            let want = fresh.predict(&structure, FORCES).expect("a prediction");
            assert_eq!(found, want, "structure {index}, step {step}");
            if step % 10 == 9 {
                let want = exact.predict(&structure, FORCES).expect("a prediction");
                assert_eq!(exact_kept.predict(&structure, FORCES).expect("a prediction"), want);
            }
        }
    }
    let mut potential = new();
    let error = potential.keep_pairs(-1.0).expect_err("no skin").to_string();
    assert!(error.contains("cutoff"), "{error}");
}

#[test]
fn tables_are_close_to_exact_filters_in_double_precision() {
    let single = model(Group::Orthogonal);
    let mut exact = TensorNetPotential::new(single.cast::<f64>().expect("a model"));
    for intervals in [256, 1024] {
        let options = FastOptions { intervals: Some(intervals) };
        let mut fast = FastTensorNet::new(&single, options).expect("a model");
        for (index, structure) in all_structures().iter().enumerate() {
            let found = fast.predict(structure, FORCES).expect("a prediction");
            let want = exact.predict(structure, FORCES).expect("a prediction");
            let energy = (found.energy - want.energy).abs() / want.energy.abs().max(1.0);
            assert!(energy < ENERGY, "structure {index}: {energy:e}");
            let all = found.forces.iter().flatten().zip(want.forces.iter().flatten());
            let largest = all.clone().map(|(_, want)| want.abs()).fold(0.0, f64::max);
            for (found, want) in all {
                let error = (found - want).abs();
                assert!(error <= TABLE_FORCE * largest, "structure {index}: {error} of {largest}");
            }
        }
    }
}

/// A pair of atoms beside a third one.
fn pair_at(distance: f64) -> Structure {
    Structure {
        species: vec![6, 8, 1],
        positions: vec![[0.0; 3], [distance, 0.0, 0.0], [-0.3, 1.0, 0.0]],
        ..Structure::default()
    }
}

#[test]
fn energies_and_forces_are_continuous_at_the_cutoff() {
    const CUTOFF: f64 = 4.5;
    let model = model(Group::Orthogonal);
    let mut exact = TensorNetPotential::new(model.cast::<f64>().expect("a model"));
    let mut fast = FastTensorNet::new(&model, FastOptions::default()).expect("a model");
    // The third atom is kept out of reach of the second, whose force is that of the pair alone.
    let at = |potential: &mut dyn Potential, distance: f64| {
        let mut structure = pair_at(distance);
        structure.positions[2] = [-1.0, 0.2, 0.0];
        let found = potential.predict(&structure, FORCES).expect("a prediction");
        (found.energy, found.forces[1][0])
    };
    let (inside, outside) = (at(&mut exact, CUTOFF - 1e-6), at(&mut exact, CUTOFF + 1e-6));
    assert!((inside.0 - outside.0).abs() < 1e-10, "{} {}", inside.0, outside.0);
    assert!(inside.1.abs() < 1e-5 && outside.1 == 0.0, "{} {}", inside.1, outside.1);
    let (inside, outside) = (at(&mut fast, CUTOFF - 1e-6), at(&mut fast, CUTOFF + 1e-6));
    assert!((inside.0 - outside.0).abs() < 1e-6, "{} {}", inside.0, outside.0);
    assert!(inside.1.abs() < 1e-5 && outside.1 == 0.0, "{} {}", inside.1, outside.1);
    // A scan through the cutoff has no steps: energies change as their forces say.
    let scan: Vec<(f64, f64)> =
        (0..=400).map(|k| at(&mut exact, CUTOFF - 0.2 + 1e-3 * f64::from(k))).collect();
    for pair in scan.windows(2) {
        let by_force = -0.5e-3 * (pair[0].1 + pair[1].1);
        let change = pair[1].0 - pair[0].0;
        assert!((change - by_force).abs() < 1e-8, "{change:e} {by_force:e}");
    }
    assert!(scan[0].1.abs() > 1e-6, "the scan starts where there is a force");
}

#[test]
fn atoms_a_tenth_of_an_angstrom_apart_have_finite_forces() {
    let model = model(Group::Orthogonal);
    let mut exact = TensorNetPotential::new(model.cast::<f64>().expect("a model"));
    let mut fast = FastTensorNet::new(&model, FastOptions::default()).expect("a model");
    for distance in [0.1, 0.3, 0.499_999, 0.5] {
        let structure = pair_at(distance);
        let want = exact.predict(&structure, FORCES).expect("a prediction");
        let found = fast.predict(&structure, FORCES).expect("a prediction");
        assert!((found.energy - want.energy).abs() < ENERGY * want.energy.abs().max(1.0));
        for (found, want) in found.forces.iter().flatten().zip(want.forces.iter().flatten()) {
            assert!(want.is_finite() && (found - want).abs() < 5.0 * FORCE, "{found} {want}");
        }
    }
    let error = fast.predict(&pair_at(0.0), FORCES).expect_err("coincident atoms").to_string();
    assert!(error.contains("atoms 0 and 1"), "{error}");
}
