//! Models in files: named tensors with hyper-parameters.
//!
//! A checkpoint of torchmd-net (`.ckpt`, written by Lightning) is read without executing anything
//! in it, and written. The native format is one `.safetensors` file with the same names, without
//! `model.`, and metadata as JSON; Python loads it as a state dict.
//!
//! Like the loader of torchmd-net, this translates ([`layout`]): the prefix, old names of the head,
//! a missing box, interleaved rows of old files, and old names of architectures.

mod layout;
mod lightning;
mod operators;
mod settings;
#[cfg(test)]
mod tests;
mod trained;

pub use settings::{Settings, parse_settings, read_settings};

use crate::error::MoleculeError;
use crate::structure::Structure;
use crate::units::Units;
use linwright_files::writer::{Planned, header_bytes_with};
use linwright_files::{
    FileError, Format, SINGLE, StoredType, TensorFile, TensorInfo, archived_files, check_listed,
};
use linwright_ops::OpSpec;
use linwright_run::atomic::{AtomicFile, OutputError, Replace};
use linwright_run::{input, sha256_hex};
use linwright_tensor::MappedFile;
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
    /// Opens a `.ckpt` of torchmd-net, a `.safetensors`, or a directory with `model.safetensors`.
    ///
    /// # Errors
    /// A file that cannot be read, that has no hyper-parameters, or tensors that do not fit them.
    pub fn open(path: &Path) -> Result<Self, MoleculeError> {
        if path.extension().is_some_and(|end| end == "zip") {
            let what = "is an archive of several models; expected one model, such as a .ckpt of it";
            return Err(damaged(path, what.into()));
        }
        let path = &Self::file_of(path);
        let checkpoint = Self::parse(path, mapped(path)?.bytes())?;
        if path.extension().is_some_and(|end| end == "safetensors") {
            check_listed(path)?;
        }
        Ok(checkpoint)
    }

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

    /// The checkpoints of an ensemble of torchmd-net: all `.ckpt` and `.safetensors` in a zip
    /// archive, by name, with their names within it.
    ///
    /// # Errors
    /// A file that is not a zip archive of uncompressed files, or has no checkpoint, and those of
    /// [`Checkpoint::open`].
    pub fn open_archive(path: &Path) -> Result<Vec<(PathBuf, Self)>, MoleculeError> {
        let map = mapped(path)?;
        let malformed = |fault| FileError::Malformed { path: path.into(), fault };
        let mut files = archived_files(map.bytes()).map_err(malformed)?;
        files.retain(|(name, _)| is_checkpoint(Path::new(name)));
        files.sort_by_key(|(name, _)| *name);
        if files.is_empty() {
            let what = "is an archive without checkpoints; expected .ckpt files in it";
            return Err(damaged(path, what.into()));
        }
        let open = |(name, bytes): (&str, &[u8])| {
            let path = path.join(name);
            let checkpoint = Self::parse(&path, bytes)?;
            Ok((path, checkpoint))
        };
        files.into_iter().map(open).collect()
    }

    /// The same of the bytes of a file, which messages call by `path`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, MoleculeError> {
        let malformed = |fault| FileError::Malformed { path: path.into(), fault };
        let format = Format::of(path, bytes);
        let header = format.parse(bytes).map_err(malformed)?;
        let mut checkpoint = Self { notes: header.notes, ..Self::default() };
        for (name, info) in header.tensors {
            match numbers(&info, bytes) {
                Some(numbers) => {
                    check_finite(path, &name, &numbers)?;
                    checkpoint.tensors.insert(name, Weight { shape: info.shape, numbers });
                }
                None => checkpoint
                    .notes
                    .push(format!("tensor {name} of type {} was left out", info.dtype.name())),
            }
        }
        let own = match header.metadata.get(METADATA) {
            Some(text) => Some(text.clone()),
            // A checkpoint for torchmd-net that was written here.
            None => match format.entry(bytes, METADATA).map_err(malformed)? {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
        };
        match own {
            Some(text) => checkpoint.describe(path, &text)?,
            None => {
                let wrong = |what: &str| damaged(path, what.into());
                let entry = format.entry(bytes, "hyper_parameters").map_err(malformed)?;
                let Some(Value::Object(hyper)) = entry else {
                    return Err(wrong(
                        "has no hyper-parameters; expected a checkpoint of torchmd-net or of this program",
                    ));
                };
                checkpoint.hyper = hyper;
                checkpoint.source = Some(sha256_hex(bytes));
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

    /// Writes the model as one `.safetensors` with its metadata, or for an ending `.ckpt` as a
    /// checkpoint that torchmd-net opens, atomically. Another model is replaced, any other file
    /// is not.
    ///
    /// # Errors
    /// An error of the system, and those of [`Self::to_lightning`].
    pub fn save(&self, path: &Path) -> Result<(), MoleculeError> {
        let failed = |error: OutputError| MoleculeError::File(error.into());
        let replace = Replace::Ours(|path| Self::open(path).is_ok());
        let mut file = AtomicFile::create(path, replace).map_err(failed)?;
        let parts = self.file_parts(path)?;
        parts.iter().try_for_each(|part| file.write(part)).map_err(failed)?;
        file.commit().map_err(failed)
    }

    /// The bytes of the file that [`Self::save`] writes to `path`, in parts.
    ///
    /// # Errors
    /// Those of [`Self::to_parts`] and [`Self::to_lightning`].
    pub fn file_parts(&self, path: &Path) -> Result<Vec<Vec<u8>>, MoleculeError> {
        match path.extension().is_some_and(|end| end == "ckpt") {
            true => Ok(vec![self.to_lightning(path)?]),
            false => self.to_parts(path),
        }
    }

    /// The bytes of the own format, in parts.
    ///
    /// # Errors
    /// Metadata that cannot be written as JSON.
    pub fn to_parts(&self, path: &Path) -> Result<Vec<Vec<u8>>, MoleculeError> {
        let text = self.metadata(path)?;
        let planned = self.tensors.iter().map(|(name, weight)| weight.planned(name));
        let planned: Vec<Planned> = planned.collect();
        let metadata = BTreeMap::from([(METADATA.to_owned(), text)]);
        let mut parts = vec![header_bytes_with(&planned, &metadata)];
        parts.extend(self.tensors.values().map(Weight::bytes));
        Ok(parts)
    }

    /// The metadata of the own format, as JSON.
    fn metadata(&self, path: &Path) -> Result<String, MoleculeError> {
        let metadata = Metadata {
            version: VERSIONS[usize::from(!self.operators.is_empty())],
            hyper_parameters: self.hyper.clone(),
            units: self.units,
            species: self.species.clone(),
            source_sha256: self.source.clone(),
            operators: self.operators.clone(),
        };
        serde_json::to_string(&metadata)
            .map_err(|error| damaged(path, format!("cannot hold the metadata: {error}")))
    }

    /// Refuses a structure with an element that the model was not trained on, where that is known.
    ///
    /// # Errors
    /// The first such atom.
    pub fn check_species(&self, structure: &Structure) -> Result<(), MoleculeError> {
        let is_new = |number: &u8| !self.species.is_empty() && !self.species.contains(number);
        match structure.species.iter().position(is_new) {
            Some(atom) => Err(MoleculeError::Untrained {
                atom,
                number: structure.species[atom],
                known: self.species.clone(),
            }),
            None => Ok(()),
        }
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

/// The numbers of a tensor; none for types that models do not have.
fn numbers(info: &TensorInfo, file: &[u8]) -> Option<Numbers> {
    let bytes = || info.stored(file, 0..info.shape.iter().product());
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers report an unsupported type")]
    match info.dtype {
        StoredType::F64 => wide(&bytes(), f64::from_le_bytes),
        StoredType::F32 | StoredType::F16 | StoredType::Bf16 => {
            info.dtype.float().map(|float| Numbers::F32(float.decode(&bytes())))
        }
        StoredType::I64 => wide(&bytes(), |b| i64::from_le_bytes(b) as f64),
        StoredType::I32 => wide(&bytes(), |b| f64::from(i32::from_le_bytes(b))),
        StoredType::I8 => wide(&bytes(), |b| f64::from(i8::from_le_bytes(b))),
        StoredType::U32 => {
            let words = bytes();
            let words = words.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
            Some(Numbers::U32(words.collect()))
        }
        StoredType::U8 => wide(&bytes(), |b| f64::from(u8::from_le_bytes(b))),
        _ => None,
    }
}

fn wide<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Option<Numbers> {
    Some(Numbers::F64(bytes.as_chunks().0.iter().map(|b| number(*b)).collect()))
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

fn mapped(path: &Path) -> Result<MappedFile, MoleculeError> {
    Ok(input::open(path).and_then(MappedFile::of).map_err(FileError::read(path))?)
}

/// Whether a file is a checkpoint by its name.
pub(crate) fn is_checkpoint(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "ckpt" || end == "safetensors")
}

fn damaged(path: &Path, what: String) -> MoleculeError {
    MoleculeError::Checkpoint { path: path.to_owned(), what: linwright_run::shown_reason(&what) }
}
