//! Whole inspections of files made by hand.

use super::{InspectError, Inspection, NameFilter, Options, RowCounts, TensorRecord, run};
use linwright_run::{Monitor, Store};
use linwright_tensor::{RngKey, parallel};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Name, type, shape and bytes of a tensor.
type Entry<'a> = (&'a str, &'a str, Vec<usize>, Vec<u8>);

fn floats(name: &str, shape: [usize; 2], values: impl IntoIterator<Item = f32>) -> Entry<'_> {
    (name, "F32", shape.to_vec(), values.into_iter().flat_map(f32::to_le_bytes).collect())
}

fn random(name: &str, shape: [usize; 2], seed: u64) -> Entry<'_> {
    floats(name, shape, RngKey::new(seed).stream().normals::<f32>(shape[0] * shape[1], 1.0))
}

fn write(path: &Path, entries: &[Entry<'_>]) {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in entries {
        let start = data.len();
        data.extend(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length[..], &header, &data].concat()).unwrap();
}

fn inspect(path: &Path, options: &Options) -> Result<Inspection, InspectError> {
    run(path, options, &mut Asked { most: usize::MAX, asked: AtomicUsize::new(0) })
}

/// Stops after it was asked so often.
struct Asked {
    most: usize,
    asked: AtomicUsize,
}

impl Monitor for Asked {
    fn step(&mut self, _name: &str) {}

    fn progress(&mut self, done: u64, total: u64) {
        assert!(done <= total);
    }

    fn interrupted(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.most
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

fn with_spectra(store: Option<&Store>) -> Options {
    let store = store.cloned().unwrap_or_default();
    Options { spectra: true, store, ..Options::default() }
}

fn tensor<'a>(found: &'a Inspection, name: &str) -> &'a TensorRecord {
    found.tensors.iter().find(|tensor| tensor.name == name).unwrap()
}

#[test]
fn every_kind_of_tensor_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd.safetensors");
    let mut damaged = vec![1.0f32; 12];
    (damaged[3], damaged[7], damaged[8]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    write(
        &path,
        &[
            random("h.10.w", [8, 5], 1),
            random("h.2.w", [8, 5], 2),
            floats("h.2.copy", [8, 5], RngKey::new(2).stream().normals::<f32>(40, 1.0)),
            floats("bad", [3, 4], damaged),
            floats("rows", [3, 2], [0.0, 0.0, 2.0, 2.0, 1.0, 2.0]),
            ("empty", "F32", vec![0, 7], vec![]),
            ("empty_too", "F32", vec![0, 7], vec![]),
            ("ids", "I64", vec![2, 3], vec![0; 48]),
            ("scale", "F16", vec![], vec![0, 0x3c]),
            ("fp8", "F8_E4M3", vec![2, 2], vec![1, 2, 3, 4]),
            ("packed", "F4", vec![2, 2], vec![1, 2]),
        ],
    );
    let found = inspect(&path, &with_spectra(None)).unwrap();
    let names: Vec<&str> = found.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names[4..7], ["h.2.copy", "h.2.w", "h.10.w"]);
    let bad = tensor(&found, "bad");
    let values = bad.values.unwrap();
    assert_eq!((values.nan, values.infinite, values.mean, values.std), (1, 2, 1.0, 0.0));
    assert!(bad.spectrum.is_none() && bad.no_spectrum.as_ref().unwrap().contains("3 numbers"));
    let rows = tensor(&found, "rows").rows.unwrap();
    assert_eq!((rows.zero, rows.constant), (1, 1));
    let copy = tensor(&found, "h.2.copy");
    let same = found.tensors.iter().filter(|t| t.same_as.is_some()).count();
    assert_eq!(same, 1, "tensors without bytes have nothing in common");
    assert_eq!(found.duplicates.len(), 1);
    assert_eq!(found.duplicates[0].names, ["h.2.w", "h.2.copy"]);
    assert_eq!(copy.spectrum, tensor(&found, "h.2.w").spectrum);
    assert!(copy.spectrum.as_ref().unwrap().stable_rank > 1.0);
    for (name, reason) in [("ids", "I64"), ("empty", "empty")] {
        let tensor = tensor(&found, name);
        assert!(tensor.no_spectrum.as_ref().unwrap().contains(reason), "{tensor:?}");
    }
    assert_eq!(tensor(&found, "ids").rows.unwrap().zero, 2);
    assert!(tensor(&found, "ids").values.is_none());
    assert!(tensor(&found, "fp8").spectrum.is_some());
    assert_eq!(tensor(&found, "packed").rows.unwrap(), RowCounts { zero: 0, constant: 0 });
    assert_eq!(tensor(&found, "scale").values.unwrap().mean, 1.0);
    assert_eq!(found.totals.tensors, 11);
    assert_eq!(found.totals.parameters, 120 + 12 + 6 + 6 + 1 + 4 + 4);
    assert_eq!(found.totals.bytes, 480 + 48 + 24 + 48 + 2 + 4 + 2);
    assert_eq!((found.totals.nan, found.totals.infinite), (1, 2));
    assert_eq!(found.totals.duplicate_bytes, 160);
    let group = found.groups.iter().find(|group| group.name == "h.*.w").unwrap();
    assert_eq!((group.totals.tensors, &group.shape), (2, &Some(vec![8, 5])));
    assert_eq!(group.spectra.as_ref().unwrap().matrices, 2);
    let layers: Vec<Option<usize>> = found.layers.iter().map(|layer| layer.layer).collect();
    assert_eq!(layers, [None, Some(2), Some(10)]);
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Inspection>(&json).unwrap(), found);
}

#[test]
fn pieces_and_threads_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.safetensors");
    // More than a block, and rows that cross blocks; the copy differs in its last number.
    let mut values: Vec<f32> = RngKey::new(1).stream().normals(1031 * 211, 0.5);
    values[500 * 211..501 * 211].fill(0.0);
    let mut other = values.clone();
    *other.last_mut().unwrap() += 1.0;
    write(&path, &[floats("a", [1031, 211], values.clone()), floats("b", [1031, 211], other)]);
    let one = parallel::with_threads(1, || inspect(&path, &with_spectra(None)).unwrap()).unwrap();
    let three = parallel::with_threads(3, || inspect(&path, &with_spectra(None)).unwrap()).unwrap();
    assert_eq!(one, three);
    assert!(one.duplicates.is_empty());
    let found = tensor(&one, "a");
    assert_eq!(found.rows.unwrap().zero, 1);
    let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64;
    assert!((found.values.unwrap().mean - mean).abs() < 1e-12);
    assert!((found.values.unwrap().std - 0.5).abs() < 0.01);
}

#[test]
fn a_directory_needs_no_configuration() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("b.safetensors"), &[random("two", [3, 3], 1)]);
    write(&dir.path().join("a.safetensors"), &[random("one", [3, 3], 1)]);
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    let found = inspect(dir.path(), &Options::default()).unwrap();
    assert_eq!(found.files.len(), 2);
    assert!(found.files[0].path.ends_with("a.safetensors"));
    assert_eq!(tensor(&found, "two").same_as.as_deref(), Some("one"));
    assert!(found.tensors.iter().all(|t| t.spectrum.is_none() && t.no_spectrum.is_none()));
    let empty = tempfile::tempdir().unwrap();
    let error = inspect(empty.path(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("holds no weights"), "{error}");
    assert!(inspect(&dir.path().join("none"), &Options::default()).is_err());
}

#[test]
fn filters_choose_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    let half = ("h.0.v", "F16", vec![2, 2], vec![0; 8]);
    write(&path, &[random("h.0.w", [2, 2], 1), random("h.1.w", [2, 2], 2), half]);
    let names = |options: Options| {
        let found = inspect(&path, &options).unwrap();
        assert_eq!(found.notes.len(), 1);
        found.tensors.into_iter().map(|t| t.name).collect::<Vec<_>>()
    };
    let filter = || Some(NameFilter::parse("*.w").unwrap());
    assert_eq!(names(Options { filter: filter(), ..Options::default() }), ["h.0.w", "h.1.w"]);
    let layers = Some(vec![0]);
    assert_eq!(names(Options { filter: filter(), layers, ..Options::default() }), ["h.0.w"]);
    let dtype = || Some("F16".to_owned());
    assert_eq!(names(Options { dtype: dtype(), ..Options::default() }), ["h.0.v"]);
    let none = Options { filter: filter(), dtype: dtype(), ..Options::default() };
    let error = inspect(&path, &none).unwrap_err().to_string();
    for word in ["3 tensors", "*.w", "F16", "h.0.w"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn floats_of_eight_bits_and_less_are_read_and_what_is_not_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    // One NaN; 448, the largest number; a row of zeros, of which one is negative.
    let mut e4m3 = vec![0x38; 16];
    (e4m3[0], e4m3[1]) = (0x7f, 0x7e);
    e4m3[8..].fill(0);
    e4m3[9] = 0x80;
    let e5m2 = vec![0x7c; 8];
    // Sixteen numbers of four bits: 6 and -6, then 1 throughout.
    let e2m1 = [vec![0x7f; 4], vec![0x22; 4]].concat();
    let entries: [Entry<'_>; 4] = [
        ("a", "F8_E4M3", vec![2, 8], e4m3),
        ("b", "F8_E5M2", vec![8], e5m2),
        ("c", "F4", vec![2, 8], e2m1),
        ("d", "F6_E2M3", vec![2, 4], vec![0; 6]),
    ];
    write(&path, &entries);
    let found = inspect(&path, &with_spectra(None)).unwrap();
    let values = |index: usize| found.tensors[index].values.as_ref().unwrap();
    assert_eq!((values(0).nan, values(0).abs_max), (1, 448.0));
    assert_eq!(found.tensors[0].rows.unwrap(), RowCounts { zero: 1, constant: 0 });
    assert_eq!((values(1).infinite, found.totals.infinite), (8, 8));
    assert_eq!((values(2).abs_max, values(2).mean), (6.0, 0.5));
    assert_eq!(found.tensors[2].rows.unwrap(), RowCounts { zero: 0, constant: 1 });
    assert!(found.tensors[2].spectrum.is_some() && found.tensors[0].no_spectrum.is_some());
    assert!(found.tensors[3].values.is_none());
    let note = "the numbers of 1 tensors of the types F6_E2M3 are not read";
    assert!(found.notes[0].starts_with(note), "{:?}", found.notes);
}

#[test]
fn tensors_of_gguf_are_inspected_like_others_in_one_file_and_in_parts() {
    let models = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/gguf"));
    let whole = inspect(&models.join("models/mistral.gguf"), &with_spectra(None)).unwrap();
    assert!(whole.tensors.iter().any(|tensor| tensor.dtype == "Q4_0" && tensor.values.is_some()));
    let quantised =
        |tensor: &&TensorRecord| tensor.dtype.starts_with('Q') && tensor.shape.len() == 2;
    for tensor in whole.tensors.iter().filter(quantised) {
        assert!(tensor.spectrum.is_some() && tensor.rows.is_some(), "{}", tensor.name);
    }
    for given in ["split", "split/mistral-00001-of-00003.gguf", "split/mistral-00003-of-00003.gguf"]
    {
        let parts = inspect(&models.join(given), &with_spectra(None)).unwrap();
        assert_eq!(parts.files.len(), 3);
        assert_eq!(parts.totals, whole.totals, "{given}");
        let plain = |tensor: &TensorRecord| TensorRecord { file: 0, ..tensor.clone() };
        let all = |of: &Inspection| of.tensors.iter().map(plain).collect::<Vec<_>>();
        assert_eq!(all(&parts), all(&whole), "{given}");
    }
    let options = Options { dtype: Some("Q4_0".into()), ..Options::default() };
    assert!(inspect(&models.join("split"), &options).unwrap().tensors.len() < whole.tensors.len());
}

#[test]
fn the_store_gives_the_same_figures_and_its_damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, &[random("w", [20, 30], 1), random("v", [30, 20], 2)]);
    let plain = inspect(&path, &with_spectra(None)).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let with = with_spectra(Some(&store));
    assert_eq!(inspect(&path, &with).unwrap(), plain);
    let entries = store.entries().unwrap();
    assert_eq!(entries.len(), 4, "singular values and Vendi scores of two matrices");
    assert_eq!(inspect(&path, &with).unwrap(), plain);
    for entry in &entries {
        fs::write(entry.path(), "damaged").unwrap();
        let mended = inspect(&path, &with).unwrap();
        assert_eq!(mended.tensors, plain.tensors);
        assert!(mended.notes[0].contains("computed again"), "{:?}", mended.notes);
        assert!(inspect(&path, &with).unwrap().notes.is_empty());
    }
}

#[test]
fn a_weight_is_known_again_in_another_type() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    // Numbers that bf16 represents.
    let values: Vec<f32> = (0..42u16).map(|i| f32::from(i * i % 37) - 11.0).collect();
    let half = values.iter().flat_map(|v| (v.to_bits() >> 16).to_le_bytes()[..2].to_vec());
    let (wide, narrow) = (dir.path().join("f32.safetensors"), dir.path().join("bf16.safetensors"));
    write(&wide, &[floats("w", [6, 7], values.clone())]);
    write(&narrow, &[("w", "BF16", vec![6, 7], half.collect())]);
    let of = |path: &Path| inspect(path, &with_spectra(Some(&store))).unwrap();
    let first = tensor(&of(&wide), "w").spectrum.clone();
    assert_eq!(store.entries().unwrap().len(), 2);
    assert_eq!(tensor(&of(&narrow), "w").spectrum, first);
    assert_eq!(store.entries().unwrap().len(), 2, "nothing was computed again");
}

#[test]
fn it_stops_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, &[random("w", [20, 30], 1), random("v", [30, 20], 2), random("w2", [20, 30], 1)]);
    // At every question that is asked until the work is done.
    for most in 0.. {
        let mut asked = Asked { most, asked: AtomicUsize::new(0) };
        match run(&path, &with_spectra(None), &mut asked) {
            Err(error) => assert!(matches!(error, InspectError::Interrupted), "{error}"),
            Ok(_) => {
                assert!(most >= 4, "{most}");
                break;
            }
        }
    }
}
