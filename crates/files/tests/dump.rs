//! Tensors without a model: every layout gives the same numbers, and what does not fit is refused.

use linwright_files::dump::{ImportedTensors, import_tensors};
use linwright_files::{FileError, TensorFile};
use serde_json::json;
use std::fs;
use std::path::Path;

/// A matrix of (inp 2, out 3) as it is dumped, and what it is as (out, inp).
const DUMPED: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const TURNED: [f32; 6] = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
const BIAS: [f32; 3] = [0.5, -0.5, 0.25];

fn little(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn big(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// Imports a folder or file, and gives it with the file that was written.
fn import(path: &Path) -> Result<(ImportedTensors, TensorFile), FileError> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let imported = import_tensors(path, &out, false, &[])?;
    assert!(out.join("SHA256SUMS").exists());
    Ok((imported, TensorFile::open(&out.join("model.safetensors"))?))
}

fn read(file: &TensorFile, name: &str, shape: &[usize]) -> Vec<f32> {
    file.read(name, shape).unwrap().values
}

#[test]
fn a_list_says_order_type_place_and_direction() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w"), big(&DUMPED)).unwrap();
    fs::write(dir.path().join("both"), [little(&BIAS), little(&DUMPED)].concat()).unwrap();
    let doubles: Vec<u8> = BIAS.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
    fs::write(dir.path().join("double"), doubles).unwrap();
    let list = json!({"tensors": [
        {"name": "a", "file": "w", "shape": [2, 3], "dtype": "f32", "byte_order": "big",
         "transpose": true},
        {"name": "b", "file": "both", "shape": [3], "dtype": "f32", "offset": 0},
        {"name": "c", "file": "both", "shape": [2, 3], "dtype": "f32", "offset": 12},
        {"name": "d", "file": "double", "shape": [3, 1], "dtype": "f64"},
    ]});
    fs::write(dir.path().join("tensors.json"), list.to_string()).unwrap();
    for path in [dir.path().to_owned(), dir.path().join("tensors.json")] {
        let (imported, file) = import(&path).unwrap();
        assert_eq!((imported.tensors.len(), imported.parameters()), (4, 18));
        assert_eq!(read(&file, "a", &[3, 2]), TURNED);
        assert_eq!(read(&file, "b", &[3]), BIAS);
        assert_eq!(read(&file, "c", &[2, 3]), DUMPED);
        assert_eq!(read(&file, "d", &[3, 1]), BIAS);
        assert_eq!(file.tensors()["d"].dtype.name(), "F32");
    }
}

#[test]
fn a_list_cannot_make_more_of_its_files_than_they_hold() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w"), little(&DUMPED)).unwrap();
    let entry = |name: &str, offset: u64, shape: usize| json!({"name": name, "file": "w", "shape": [shape], "dtype": "f32", "offset": offset});
    let refused = |tensors: Vec<serde_json::Value>, said: &str| {
        fs::write(dir.path().join("tensors.json"), json!({"tensors": tensors}).to_string())
            .unwrap();
        let error = import(dir.path()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    let copies = (0..2000).map(|copy| entry(&format!("t{copy:04}"), 0, 6)).collect();
    refused(copies, "tensors t0000 and t0001 the same bytes of w");
    refused(vec![entry("b", 8, 3), entry("a", 0, 3)], "tensors a and b the same bytes of w");
    // Parts side by side, and parts of nothing, are not copies.
    let parts = [entry("b", 12, 3), entry("a", 0, 3), entry("none", 4, 0)];
    fs::write(dir.path().join("tensors.json"), json!({"tensors": parts}).to_string()).unwrap();
    let (imported, file) = import(dir.path()).unwrap();
    assert_eq!((imported.tensors.len(), read(&file, "b", &[3])), (3, DUMPED[3..].to_vec()));
}

#[test]
fn the_name_that_the_format_keeps_for_itself_is_no_tensor() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w"), little(&DUMPED)).unwrap();
    let tensor = json!({"name": "__metadata__", "file": "w", "shape": [6], "dtype": "f32"});
    fs::write(dir.path().join("tensors.json"), json!({"tensors": [tensor]}).to_string()).unwrap();
    let npy = npy("<f4", false, "(6,)", &little(&DUMPED));
    fs::write(dir.path().join("__metadata__.npy"), npy).unwrap();
    for path in [dir.path().to_owned(), dir.path().join("__metadata__.npy")] {
        let error = import(&path).unwrap_err().to_string();
        assert!(error.contains("a tensor __metadata__, which safetensors reserves"), "{error}");
    }
}

#[test]
fn known_folders_need_no_list() {
    let dir = tempfile::tempdir().unwrap();
    let pairs = dir.path().join("pairs");
    fs::create_dir(&pairs).unwrap();
    for (name, values) in
        [("att.w", &DUMPED[..]), ("att.b", &BIAS), ("norm.w", &BIAS), ("norm.b", &BIAS)]
    {
        fs::write(pairs.join(format!("{name}.dat")), big(values)).unwrap();
    }
    let (imported, file) = import(&pairs).unwrap();
    assert!(imported.notes[0].contains("big-endian"), "{:?}", imported.notes);
    assert_eq!(read(&file, "att.weight", &[3, 2]), TURNED);
    assert_eq!(read(&file, "norm.weight", &[3]), BIAS);
    assert_eq!(read(&file, "att.bias", &[3]), BIAS);

    let listed = dir.path().join("listed");
    fs::create_dir(&listed).unwrap();
    fs::write(listed.join("kernel"), little(&DUMPED)).unwrap();
    fs::write(listed.join("embedding"), little(&DUMPED)).unwrap();
    let manifest = json!({
        "step": {"filename": "step", "shape": []},
        "cell/kernel": {"filename": "kernel", "shape": [2, 3]},
        "embedding": {"filename": "embedding", "shape": [2, 3]},
    });
    fs::write(listed.join("manifest.json"), manifest.to_string()).unwrap();
    let (imported, file) = import(&listed).unwrap();
    assert!(imported.notes[1].starts_with("step"), "{:?}", imported.notes);
    assert_eq!(read(&file, "cell/kernel", &[3, 2]), TURNED);
    assert_eq!(read(&file, "embedding", &[2, 3]), DUMPED);
}

/// A `.npy` file of version 1.
fn npy(descr: &str, by_columns: bool, shape: &str, numbers: &[u8]) -> Vec<u8> {
    let order = if by_columns { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), numbers].concat()
}

#[test]
fn arrays_of_numpy_are_taken_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.npy"), npy("<f4", false, "(2, 3)", &little(&DUMPED))).unwrap();
    fs::write(dir.path().join("b.npy"), npy(">f4", true, "(3, 2)", &big(&DUMPED))).unwrap();
    let (imported, file) = import(dir.path()).unwrap();
    assert_eq!(imported.tensors.len(), 2);
    assert_eq!(read(&file, "a", &[2, 3]), DUMPED);
    assert_eq!(read(&file, "b", &[3, 2]), TURNED);
    let (_, file) = import(&dir.path().join("b.npy")).unwrap();
    assert_eq!(read(&file, "b", &[3, 2]), TURNED);
}

#[test]
fn weight_files_lose_what_is_no_weight_with_a_note() {
    let pickles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pickles/good");
    let (imported, file) = import(&pickles.join("types.pt")).unwrap();
    assert_eq!(imported.tensors.len(), 4);
    assert_eq!(imported.notes.len(), 14);
    assert_eq!(file.tensors()["bfloat16"].dtype.name(), "BF16");
    let (_, strided) = import(&pickles.join("strided.pt")).unwrap();
    assert!(strided.tensors().values().all(|info| info.strides.is_none()));
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let tensor = |change: serde_json::Value| {
        let mut tensor = json!({"name": "a", "file": "w", "shape": [2, 3], "dtype": "f32"});
        for (key, value) in change.as_object().unwrap() {
            tensor[key] = value.clone();
        }
        json!({"tensors": [tensor]}).to_string()
    };
    let twice = {
        let one = json!({"name": "a", "file": "w", "shape": [2, 3], "dtype": "f32"});
        json!({"tensors": [one, one]}).to_string()
    };
    for (list, said) in [
        (
            tensor(json!({"shape": [2, 4]})),
            "has 24 bytes, tensor a of shape [2, 4] ends at byte 32",
        ),
        (tensor(json!({"shape": [2, 2]})), "ends at byte 16"),
        (tensor(json!({"shape": [6], "transpose": true})), "only a matrix"),
        (tensor(json!({"shape": [1_u64 << 40, 1_u64 << 40]})), "impossible shape"),
        (tensor(json!({"offset": 4})), "ends at byte 28"),
        (tensor(json!({"offset": u64::MAX})), "impossible shape"),
        (tensor(json!({"dtype": "f8"})), "expected f32, f16, bf16 or f64"),
        (tensor(json!({"file": "../w"})), "not a plain file name"),
        (tensor(json!({"file": "/etc/passwd"})), "not a plain file name"),
        (tensor(json!({"file": "none"})), "none"),
        (tensor(json!({"colour": 1})), "unknown field"),
        (tensor(json!({"file": "nan"})), "NaN at index 2"),
        (twice, "tensor a twice"),
        ("{\"tensors\": []}".into(), "holds no tensors"),
        ("[".into(), "tensors.json"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("w"), little(&DUMPED)).unwrap();
        fs::write(dir.path().join("nan"), little(&[1.0, 2.0, f32::NAN, 0.0, 0.0, 0.0])).unwrap();
        fs::write(dir.path().join("tensors.json"), list).unwrap();
        let out = dir.path().join("out");
        let error = import_tensors(dir.path(), &out, false, &[]).unwrap_err().to_string();
        assert!(error.contains(said), "{said:?} in {error}");
        assert!(!out.exists());
    }
    let dir = tempfile::tempdir().unwrap();
    let error = import(dir.path()).unwrap_err().to_string();
    assert!(error.contains("write one that says name, file, shape"), "{error}");
    fs::write(dir.path().join("a.w.dat"), little(&DUMPED)).unwrap();
    assert!(import(dir.path()).unwrap_err().to_string().contains("no bias file beside it"));
    fs::write(dir.path().join("a.b.dat"), little(&DUMPED[..4])).unwrap();
    assert!(import(dir.path()).unwrap_err().to_string().contains("not rows of 4"));
}
