//! Folders of raw tensors with a known layout, without a manifest.

use super::npy;
use super::raw::RawTensor;
use crate::FileError;
use crate::json::read_object;
use linwright_tensor::dtype::DType;
use serde_json::Value;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// File name of the deeplearn.js manifest.
const MANIFEST: &str = "manifest.json";
/// Suffixes of the weight and bias file of a layer.
const WEIGHT: &str = ".w.dat";
const BIAS: &str = ".b.dat";

/// The tensors of a recognised folder, and the assumptions made.
pub(super) fn open(folder: &Path) -> Result<(Vec<RawTensor>, Vec<String>), FileError> {
    if folder.join(MANIFEST).exists() {
        return of_manifest(folder);
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(FileError::read(folder))? {
        files.push(entry.map_err(FileError::read(folder))?.path());
    }
    files.sort();
    let named = |end: &str| {
        let name = |path: &&PathBuf| path.to_str().is_some_and(|path| path.ends_with(end));
        files.iter().filter(name).collect::<Vec<_>>()
    };
    let (weights, arrays) = (named(WEIGHT), named(".npy"));
    if !weights.is_empty() {
        return of_pairs(&weights, &named(BIAS));
    }
    if arrays.is_empty() {
        return Err(FileError::Dump {
            path: folder.into(),
            reason:
                "holds no tensors.json, and its layout is not known without one; write one that \
                     says name, file, shape and dtype of each tensor"
                    .into(),
        });
    }
    Ok((arrays.into_iter().map(|path| npy::open(path)).collect::<Result<_, _>>()?, Vec::new()))
}

/// A manifest of names with `filename` and `shape`.
fn of_manifest(folder: &Path) -> Result<(Vec<RawTensor>, Vec<String>), FileError> {
    let path = folder.join(MANIFEST);
    let wrong = |name: &str| FileError::Json {
        path: path.clone(),
        reason: format!("entry {name:?} has no filename and shape"),
        expected: "names with {filename, shape}; otherwise write a tensors.json",
    };
    let mut notes =
        vec!["manifest.json: read as f32, little-endian, matrices as (inp, out)".into()];
    let mut tensors = Vec::new();
    for (name, entry) in read_object(&path)? {
        let (Some(Value::String(file)), Some(Value::Array(shape))) =
            (entry.get("filename"), entry.get("shape"))
        else {
            return Err(wrong(&name));
        };
        let extents = shape.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()));
        let shape: Vec<usize> = extents.collect::<Option<_>>().ok_or_else(|| wrong(&name))?;
        let mut parts = Path::new(file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            return Err(wrong(&name));
        }
        let file = folder.join(file);
        if shape.is_empty() && !file.exists() {
            notes.push(format!("{name} is a single number without a file and was left out"));
            continue;
        }
        // An embedding is stored with one row per token already.
        let transpose = shape.len() == 2 && !name.contains("embedding");
        let tensor = RawTensor {
            name,
            path: file,
            shape,
            dtype: DType::F32,
            big_endian: false,
            transpose,
            offset: 0,
        };
        tensor.check(true)?;
        tensors.push(tensor);
    }
    Ok((tensors, notes))
}

/// Pairs of weight and bias: the length of the bias is the number of outputs, which gives the shape
/// of the weight.
fn of_pairs(
    weights: &[&PathBuf],
    biases: &[&PathBuf],
) -> Result<(Vec<RawTensor>, Vec<String>), FileError> {
    let numbers = |path: &Path| {
        let metadata = path.metadata().map_err(FileError::read(path))?;
        let bytes = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        match bytes.is_multiple_of(4) {
            true => Ok(bytes / 4),
            false => Err(FileError::Dump {
                path: path.into(),
                reason: format!("has {bytes} bytes, expected f32 numbers of four"),
            }),
        }
    };
    let mut tensors = Vec::new();
    let tensor = |path: &Path, end: &str, word: &str, shape: Vec<usize>| {
        let stem = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{}.{word}", stem.strip_suffix(end).unwrap_or(&stem));
        let transpose = shape.len() == 2;
        let (path, dtype, offset) = (path.to_owned(), DType::F32, 0);
        RawTensor { name, path, shape, dtype, big_endian: true, transpose, offset }
    };
    for bias in biases {
        tensors.push(tensor(bias, BIAS, "bias", vec![numbers(bias)?]));
    }
    for weight in weights {
        let stem = weight.to_string_lossy();
        let bias = PathBuf::from(format!("{}{BIAS}", stem.strip_suffix(WEIGHT).unwrap_or(&stem)));
        if !bias.exists() {
            return Err(FileError::Dump {
                path: (*weight).clone(),
                reason:
                    "has no bias file beside it, which would give its shape; write a tensors.json"
                        .into(),
            });
        }
        let (count, out) = (numbers(weight)?, numbers(&bias)?);
        let shape = match count.checked_rem(out) {
            Some(0) if count == out => vec![out],
            Some(0) => vec![count / out, out],
            _ => {
                return Err(FileError::Dump {
                    path: (*weight).clone(),
                    reason: format!(
                        "has {count} numbers, which are not rows of {out} as its bias has"
                    ),
                });
            }
        };
        tensors.push(tensor(weight, WEIGHT, "weight", shape));
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let note = "files .w.dat and .b.dat: read as f32, big-endian, matrices as (inp, out)";
    Ok((tensors, vec![note.into()]))
}
