//! Models in files: named tensors with hyper-parameters.
//!
//! A checkpoint of torchmd-net (`.ckpt`, written by Lightning) is read without executing anything
//! in
//! it. The own format is one `.safetensors` with the same names, without `model.`, and metadata as
//! JSON; Python loads it as a state dict.
//!
//! What the loader of torchmd-net translates is translated here ([`layout`]): the prefix, old
//! names of the head, a missing box, interleaved rows of old files, and old names of architectures.

mod layout;
mod operators;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{Settings, read_settings};

use crate::error::MoleculeError;
use crate::units::Units;
use linwright_files::writer::{Planned, header_bytes_with};
use linwright_files::{FileError, SINGLE, StoredType, TensorFile};
use linwright_ops::OpSpec;
use linwright_run::atomic::write_atomic;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Key of the metadata in files.
const METADATA: &str = "linwright_molecule";
/// Version of the metadata, and that of files with operators.
const VERSIONS: [u32; 2] = [1, 2];

/// Numbers of a tensor in the type that they are stored in.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision; also integers, which are exact up to 2^53.
    F64(Vec<f64>),
    /// Buffers of operators, such as permutations.
    U32(Vec<u32>),
}

/// A tensor of a checkpoint, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub numbers: Numbers,
}

/// A model as its file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Tensors by name, without `model.`.
    pub tensors: BTreeMap<String, Weight>,
    /// Hyper-parameters in the words of torchmd-net.
    pub hyper: Map<String, Value>,
    /// Units of the model.
    pub units: Units,
    /// Atomic numbers that the model was trained on, sorted; empty if unknown.
    pub species: Vec<u8>,
    /// Operators of slots in place of dense weights, by name of the slot.
    pub operators: BTreeMap<String, OpSpec>,
    /// SHA-256 of the file that the model was converted from, in hexadecimal.
    pub source: Option<String>,
    /// What was left out or translated while reading.
    pub notes: Vec<String>,
}

/// Metadata of the own format.
#[derive(Serialize, Deserialize)]
struct Metadata {
    version: u32,
    hyper_parameters: Map<String, Value>,
    units: Units,
    species: Vec<u8>,
    source_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    operators: BTreeMap<String, OpSpec>,
}

impl Weight {
    /// The numbers in double precision.
    #[must_use]
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.numbers {
            Numbers::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Numbers::F64(values) => values.clone(),
            Numbers::U32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        }
    }

    /// The numbers in single precision.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        match &self.numbers {
            Numbers::F32(values) => values.clone(),
            Numbers::F64(values) => values.iter().map(|value| *value as f32).collect(),
            Numbers::U32(values) => values.iter().map(|value| *value as f32).collect(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match &self.numbers {
            Numbers::F32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Numbers::F64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Numbers::U32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    fn planned(&self, name: &str) -> Planned {
        let values = |dtype| Planned::values(name.to_owned(), dtype, self.shape.clone());
        match &self.numbers {
            Numbers::F32(_) => values(DType::F32),
            Numbers::F64(_) => values(DType::F64),
            Numbers::U32(values) => Planned::indices(name.to_owned(), values.len()),
        }
    }
}

impl Checkpoint {
    /// The file of a model: itself, or `model.safetensors` in a directory.
    #[must_use]
    pub fn file_of(path: &Path) -> PathBuf {
        if path.is_dir() { path.join(SINGLE) } else { path.to_owned() }
    }

    /// Whether a path holds a molecular potential, by what its file says of itself.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        let has_hyper = |file: TensorFile| {
            file.metadata().contains_key(METADATA)
                || matches!(file.entry("hyper_parameters"), Ok(Some(Value::Object(_))))
        };
        TensorFile::open(&Self::file_of(path)).is_ok_and(has_hyper)
    }

    /// Opens a `.ckpt` of torchmd-net, a `.safetensors`, or a directory with `model.safetensors`.
    ///
    /// # Errors
    /// A file that cannot be read, that has no hyper-parameters, or tensors that do not fit them.
    pub fn open(path: &Path) -> Result<Self, MoleculeError> {
        let path = &Self::file_of(path);
        let file = TensorFile::open(path)?;
        let mut checkpoint = Self { notes: file.notes().to_vec(), ..Self::default() };
        for (name, info) in file.tensors() {
            let count = info.shape.iter().product();
            let numbers = numbers(info.dtype, &file.stored(info, 0..count));
            match numbers {
                Some(numbers) => {
                    check_finite(path, name, &numbers)?;
                    let weight = Weight { shape: info.shape.clone(), numbers };
                    checkpoint.tensors.insert(name.clone(), weight);
                }
                None => checkpoint
                    .notes
                    .push(format!("tensor {name} of type {} was left out", info.dtype.name())),
            }
        }
        match file.metadata().get(METADATA) {
            Some(text) => checkpoint.describe(path, text)?,
            None => {
                let wrong = |what: &str| damaged(path, what.into());
                let Some(Value::Object(hyper)) = file.entry("hyper_parameters")? else {
                    return Err(wrong(
                        "has no hyper-parameters; expected a checkpoint of torchmd-net or of this program",
                    ));
                };
                checkpoint.hyper = hyper;
                checkpoint.source = Some(file_sha256(path)?);
            }
        }
        layout::translate(&mut checkpoint).map_err(|what| damaged(path, what))?;
        Ok(checkpoint)
    }

    fn describe(&mut self, path: &Path, text: &str) -> Result<(), MoleculeError> {
        let metadata: Metadata = serde_json::from_str(text)
            .map_err(|error| damaged(path, format!("has damaged metadata: {error}")))?;
        if !VERSIONS.contains(&metadata.version) {
            let (found, [first, last]) = (metadata.version, VERSIONS);
            let what = format!("has metadata of version {found}, expected {first} to {last}");
            return Err(damaged(path, what));
        }
        self.hyper = metadata.hyper_parameters;
        (self.units, self.species) = (metadata.units, metadata.species);
        (self.source, self.operators) = (metadata.source_sha256, metadata.operators);
        Ok(())
    }

    /// Writes the model as one `.safetensors`, atomically, with its metadata.
    ///
    /// # Errors
    /// An error of the system.
    pub fn save(&self, path: &Path) -> Result<(), MoleculeError> {
        let bytes = self.to_bytes(path)?;
        write_atomic(path, &bytes).map_err(|e| MoleculeError::File(e.into()))
    }

    /// The content of the `.safetensors`, whose path is for messages.
    pub(crate) fn to_bytes(&self, path: &Path) -> Result<Vec<u8>, MoleculeError> {
        let metadata = Metadata {
            version: VERSIONS[usize::from(!self.operators.is_empty())],
            hyper_parameters: self.hyper.clone(),
            units: self.units,
            species: self.species.clone(),
            source_sha256: self.source.clone(),
            operators: self.operators.clone(),
        };
        let text = serde_json::to_string(&metadata)
            .map_err(|error| damaged(path, format!("cannot hold the metadata: {error}")))?;
        let planned = self.tensors.iter().map(|(name, weight)| weight.planned(name));
        let planned: Vec<Planned> = planned.collect();
        let metadata = BTreeMap::from([(METADATA.to_owned(), text)]);
        let mut bytes = header_bytes_with(&planned, &metadata);
        self.tensors.values().for_each(|weight| bytes.extend(weight.bytes()));
        Ok(bytes)
    }

    /// The tensor of a name, in this shape.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Weight, MoleculeError> {
        let found = self.tensors.get(name);
        found.filter(|weight| weight.shape == shape).ok_or_else(|| MoleculeError::Weight {
            name: name.into(),
            expected: shape.to_vec(),
            found: found.map_or("nothing".into(), |weight| format!("{:?}", weight.shape)),
        })
    }
}

/// The numbers of stored bytes; none for types that models do not have.
fn numbers(dtype: StoredType, bytes: &[u8]) -> Option<Numbers> {
    let wide = |decoded: Vec<f64>| Some(Numbers::F64(decoded));
    match dtype {
        StoredType::F64 => {
            wide(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
        }
        StoredType::F32 | StoredType::F16 | StoredType::Bf16 => {
            dtype.float().map(|float| Numbers::F32(float.decode(bytes)))
        }
        StoredType::I64 => {
            wide(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect())
        }
        StoredType::I32 => {
            wide(bytes.as_chunks().0.iter().map(|b| f64::from(i32::from_le_bytes(*b))).collect())
        }
        StoredType::I8 => wide(bytes.iter().map(|byte| f64::from(*byte as i8)).collect()),
        StoredType::U32 => {
            let words = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
            Some(Numbers::U32(words.collect()))
        }
        StoredType::U8 => wide(bytes.iter().map(|byte| f64::from(*byte)).collect()),
        _ => None,
    }
}

fn check_finite(path: &Path, name: &str, numbers: &Numbers) -> Result<(), MoleculeError> {
    let finite = match numbers {
        Numbers::F32(values) => values.iter().all(|value| value.is_finite()),
        Numbers::F64(values) => values.iter().all(|value| value.is_finite()),
        Numbers::U32(_) => true,
    };
    let what =
        || format!("has numbers in tensor {name} that are not finite; fetch or train it again");
    if finite { Ok(()) } else { Err(damaged(path, what())) }
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// Those of reading.
pub fn file_sha256(path: &Path) -> Result<String, MoleculeError> {
    Ok(linwright_run::sha256_of_file(path).map_err(FileError::read(path))?)
}

fn damaged(path: &Path, what: String) -> MoleculeError {
    MoleculeError::Checkpoint { path: path.to_owned(), what: linwright_run::shown_reason(&what) }
}
