//! Golden vectors: every set `<stem>.json` with `<stem>.safetensors` and
//! `<stem>_weights.safetensors` in `tensornet` of `$LINWRIGHT_GOLDEN`, by default
//! `testdata/golden` of the workspace.
//!
//! A set may have any systems with any of the known tensors, and must have those in its
//! description. Everything present is compared, and a test with nothing to compare in any set
//! fails. Tolerances are those of the set, if given.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

pub(super) mod states;
pub(super) mod training;

use super::{Batch, Precision, TensorNet, TensorNetConfig};
use crate::{Cell, Neighbours, Structure, Wanted};
use linwright_tensor::Scalar;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(super) type Tensors = BTreeMap<String, Vec<f64>>;

/// Default tolerances, by precision and quantity.
const TOLERANCES: [(&str, &str, f64); 5] = [
    ("f64", "energ", 1e-10),
    ("f64", "force", 1e-10),
    ("f64", "intermediate", 1e-11),
    ("f32", "energ", 1e-5),
    ("f32", "force", 4e-5),
];

/// The largest relative rounding of a number in single precision, in which a set may keep those of
/// an update.
const SINGLE: f64 = f32::EPSILON as f64 / 2.0;

/// The tolerance of a set for a quantity, from texts such as `abs 1e-5 energy, 4e-5 force`, where a
/// number applies to the words after it. Text in brackets is a comment.
fn stated(about: &Value, precision: &str, quantity: &str) -> Option<f64> {
    let texts = about["tolerance"].as_object()?;
    let (_, text) = texts.iter().find(|(key, _)| key.starts_with(precision))?;
    let text = text.as_str()?.split('(').next()?;
    let mut number = None;
    for word in text.split([' ', ',', ';']) {
        number = word.parse::<f64>().ok().or(number);
        if word.starts_with(quantity) {
            return number;
        }
    }
    None
}

pub(super) fn read(path: &Path) -> Tensors {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let numbers = |view: &safetensors::tensor::TensorView<'_>| -> Vec<f64> {
        let (fours, eights) = (view.data().as_chunks::<4>().0, view.data().as_chunks::<8>().0);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the types of safetensors are many")]
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

/// All sets of models, at least one.
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
    pub(super) fn config(&self) -> TensorNetConfig {
        let config = TensorNetConfig::from_hyperparameters(&self.about["config"]);
        config.unwrap_or_else(|e| panic!("{}: config: {e}", self.path.display()))
    }

    pub(super) fn model<T: Scalar>(&self) -> TensorNet<T> {
        let model = TensorNet::from_tensors(self.config(), |name, _| {
            let values = self.weights.get(name).unwrap_or_else(|| panic!("no tensor {name}"));
            Ok(values.iter().map(|value| T::from_f64(*value)).collect())
        });
        model.expect("a model")
    }

    /// The tolerance of a quantity, compared with the reference in this precision.
    pub(super) fn tolerance(&self, precision: &str, quantity: &str) -> f64 {
        let ours = TOLERANCES.iter().find(|(p, q, _)| (*p, *q) == (precision, quantity));
        let ours = ours.map_or(TOLERANCES[0].2, |(_, _, tolerance)| *tolerance);
        stated(&self.about, precision, quantity).unwrap_or(ours)
    }

    /// Compares numbers that the set may keep in single precision, where each is as good as its
    /// rounding.
    #[track_caller]
    fn close(&self, (what, quantity): (&str, &str), found: &[f64], stored: &[f64], ours: f64) {
        let tolerance = stated(&self.about, "f64", quantity).unwrap_or(ours).max(ours);
        let is_single = stored.iter().all(|value| f64::from(*value as f32) == *value);
        let rounded = |(found, stored): (&f64, &f64)| {
            let most = if is_single { SINGLE * found.abs() } else { 0.0 };
            found + (stored - found).clamp(-most, most)
        };
        assert_eq!(found.len(), stored.len(), "{what}: numbers");
        let found: Vec<f64> = found.iter().zip(stored).map(rounded).collect();
        close(what, &found, stored, tolerance);
    }

    /// Whether the description names a tensor of a system with this prefix.
    fn announces(&self, start: &str) -> bool {
        let keys = |list: &str| self.about[list].as_object().into_iter().flat_map(|all| all.keys());
        let mut all = keys("keys_per_system").chain(keys("extra_keys_mol"));
        all.any(|key| key.split([',', '/', ' ']).any(|name| name.starts_with(start)))
    }

    /// Systems: prefixes before a slash, wherever there are species and positions.
    pub(super) fn systems(&self) -> Vec<&str> {
        let names = self.tensors.keys().filter_map(|key| key.split_once('/'));
        let names: BTreeSet<&str> = names.map(|(system, _)| system).collect();
        let has = |system: &str, key: &str| self.get(system, key).is_some();
        names.into_iter().filter(|name| has(name, "z") && has(name, "pos")).collect()
    }

    fn get(&self, system: &str, key: &str) -> Option<&Vec<f64>> {
        self.tensors.get(&format!("{system}/{key}"))
    }

    /// Tensors whose names begin with a prefix, by what follows it.
    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Vec<f64>)> {
        let all = self.tensors.iter();
        all.filter_map(move |(name, values)| Some((name.strip_prefix(prefix)?, values)))
    }

    pub(super) fn need(&self, system: &str, key: &str) -> &Vec<f64> {
        let missing = || panic!("{} has no {system}/{key}", self.path.display());
        self.get(system, key).unwrap_or_else(missing)
    }

    pub(super) fn structures(&self, system: &str) -> Vec<Structure> {
        let (z, positions) = (self.need(system, "z"), triples(self.need(system, "pos")));
        let molecules = self.get(system, "batch").cloned().unwrap_or_else(|| vec![0.0; z.len()]);
        assert!(molecules.is_sorted(), "{system}: molecules are mixed");
        let cells: Vec<Cell> = triples(self.get(system, "box").map_or(&[], Vec::as_slice))
            .as_chunks()
            .0
            .iter()
            .map(|rows| Cell { rows: *rows, periodic: [true; 3] })
            .collect();
        let charges = self.get(system, "q").map_or(&[][..], Vec::as_slice);
        let count = molecules.last().map_or(0, |last| *last as usize + 1);
        let one = |molecule: usize| {
            let atoms = (0..z.len()).filter(|i| molecules[*i] as usize == molecule);
            Structure {
                species: atoms.clone().map(|i| z[i] as u8).collect(),
                positions: atoms.map(|i| positions[i]).collect(),
                charge: charges.get(molecule).copied().unwrap_or(0.0),
                cell: cells.get(molecule).or(cells.first()).copied(),
                ..Structure::default()
            }
        };
        (0..count).map(one).collect()
    }

    pub(super) fn batch(&self, system: &str, config: &TensorNetConfig) -> Batch {
        let structures = self.structures(system);
        let all: Vec<&Structure> = structures.iter().collect();
        let neighbours = Neighbours::of_batch(structures.iter(), config.cutoff());
        Batch::with_neighbours(&all, neighbours.expect("pairs"), config).expect("a batch")
    }
}

fn triples(values: &[f64]) -> Vec<[f64; 3]> {
    values.as_chunks::<3>().0.to_vec()
}

/// Compares with a tolerance that is absolute for numbers up to one, and relative for larger ones.
#[track_caller]
pub(super) fn close(what: &str, found: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(found.len(), want.len(), "{what}: numbers");
    let off = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let largest = want.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    let is_close = off <= tolerance * largest && found.iter().all(|x| x.is_finite());
    assert!(is_close, "{what} is off by {off:e}, of numbers up to {largest:e}");
}

/// Compares the values in a set, and counts them.
pub(super) struct Comparison<'a> {
    set: &'a Set,
    system: &'a str,
    pub(super) compared: usize,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(set: &'a Set, system: &'a str) -> Self {
        Self { set, system, compared: 0 }
    }

    #[track_caller]
    fn check(&mut self, key: &str, found: &[f64], tolerance: f64) {
        if let Some(want) = self.set.get(self.system, key) {
            let what = format!("{} {}/{key}", self.set.path.display(), self.system);
            close(&what, found, want, tolerance);
            self.compared += 1;
        }
    }
}

/// Compares all systems of all sets, which must have something to compare: each set whose
/// description names such a tensor.
fn every_system(start: &str, mut compare: impl FnMut(&mut Comparison<'_>)) {
    let mut all = 0;
    for set in sets() {
        let mut compared = 0;
        for system in set.systems() {
            let mut one = Comparison::new(&set, system);
            compare(&mut one);
            compared += one.compared;
        }
        let what = set.path.display();
        assert!(compared > 0 || !set.announces(start), "{what}: no {start} of any system");
        all += compared;
    }
    assert!(all > 0, "no golden set has {start} of any system");
}

/// Single precision is compared with that of the reference, or else with its double precision.
pub(super) fn check_predictions<T: Precision>(one: &mut Comparison<'_>) {
    let precision = if size_of::<T>() == 8 { "f64" } else { "f32" };
    let tolerances = ["energ", "force"].map(|quantity| one.set.tolerance(precision, quantity));
    let model = one.set.model::<T>();
    let batch = one.set.batch(one.system, model.config());
    let found = T::evaluate(&model, &batch, Wanted { forces: true }).expect("energies");
    let name = |key: &str| {
        let single = format!("{key}_f32");
        let is_single = size_of::<T>() == 4 && one.set.get(one.system, &single).is_some();
        if is_single { single } else { key.to_owned() }
    };
    let (energy, forces) = (name("energy"), name("forces"));
    one.check(&energy, &found.energies, tolerances[0]);
    one.check(&forces, found.forces.as_flattened(), tolerances[1]);
    if size_of::<T>() == 8 {
        one.check("virial", found.virial.as_flattened(), 1e-9);
    }
}

#[test]
fn golden_energies_forces_and_virials_equal_the_reference() {
    every_system("energ", check_predictions::<f64>);
}

#[test]
fn golden_energies_and_forces_equal_the_reference_in_single_precision() {
    every_system("energ", check_predictions::<f32>);
}

/// Receiver, sender, distance, and the direction from sender to receiver.
type Edge = ([usize; 2], [f64; 4]);

fn own_edges(neighbours: &Neighbours) -> Vec<Edge> {
    let mut found: Vec<Edge> = (0..neighbours.atoms()).map(|i| ([i; 2], [0.0; 4])).collect();
    for atom in 0..neighbours.atoms() {
        for entry in neighbours.of(atom) {
            let sign = if entry.reversed { -1.0 } else { 1.0 };
            let v = neighbours.pairs[entry.pair as usize].vector.map(|x| sign * x);
            let d = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let [x, y, z] = v.map(|x| x / d);
            found.push(([atom, entry.atom as usize], [d, x, y, z]));
        }
    }
    found
}

pub(super) fn check_edges(one: &mut Comparison<'_>) {
    let ends = [one.set.get(one.system, "edge_i"), one.set.get(one.system, "edge_j")];
    let [Some(receivers), Some(senders)] = ends else { return };
    let mut ours = own_edges(&one.set.batch(one.system, &one.set.config()).neighbours);
    let (lengths, units) = (one.set.get(one.system, "edge_d"), one.set.get(one.system, "edge_u"));
    let units = units.map(|all| triples(all));
    let mut theirs: Vec<Edge> = (0..receivers.len())
        .map(|k| {
            // Numbers missing in a set are replaced by ours after sorting.
            let d = lengths.map_or(f64::NAN, |all| all[k]);
            let [x, y, z] = units.as_ref().map_or([f64::NAN; 3], |all| all[k]);
            ([receivers[k] as usize, senders[k] as usize], [d, x, y, z])
        })
        .collect();
    for edges in [&mut ours, &mut theirs] {
        edges.sort_by(|a, b| a.0.cmp(&b.0).then(a.1[0].total_cmp(&b.1[0])));
    }
    let atoms = |edges: &[Edge]| edges.iter().map(|(atoms, _)| *atoms).collect::<Vec<_>>();
    let what = format!("{} {}", one.set.path.display(), one.system);
    assert_eq!(atoms(&ours), atoms(&theirs), "{what}");
    let numbers: (Vec<f64>, Vec<f64>) = ours
        .iter()
        .zip(&theirs)
        .flat_map(|(own, other)| own.1.into_iter().zip(other.1))
        .filter(|(_, other)| !other.is_nan())
        .unzip();
    close(&what, &numbers.0, &numbers.1, 1e-12);
    one.compared += 1;
}

#[test]
fn golden_edges_equal_ours() {
    every_system("edge_", check_edges);
}
