//! Import of tensors without a model: raw files, numpy files, or any weight file.
//!
//! The result is a folder with `model.safetensors`, in which matrices are (out, inp). Four kinds of
//! input are supported:
//!
//! - a folder with `tensors.json`, or that file: a manifest of raw files, see [`Manifest`];
//! - a folder of a known layout: `manifest.json` of names with `filename` and `shape` (f32
//!   little-endian, as deeplearn.js wrote TensorFlow checkpoints), or pairs `X.w.dat` and `X.b.dat`
//!   (f32 big-endian, as Java writes), in both of which matrices are (inp, out) and are transposed;
//! - `.npy` files, a folder of them, or an `.npz` file, taken unchanged;
//! - a weight file of any [`Format`](super::Format), whose floating-point tensors are taken
//!   unchanged.

mod manifest;
mod npy;
mod raw;
mod recognised;

pub use manifest::{ByteOrder, Manifest, ManifestTensor};

use super::tensor_file::TensorFile;
use super::weights::SINGLE;
use super::writer::{METADATA, Planned, header_bytes, write_values};
use crate::{DirWriter, FileError};
use linwright_run::atomic::AtomicDir;
use linwright_run::shown;
use linwright_tensor::dtype::DType;
use raw::RawTensor;
use std::path::Path;

/// File name of the manifest.
const MANIFEST: &str = "tensors.json";

/// Tensors written to a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedTensors {
    /// Names and shapes of the written tensors.
    pub tensors: Vec<(String, Vec<usize>)>,
    /// Assumptions made and tensors left out.
    pub notes: Vec<String>,
}

impl ImportedTensors {
    /// Number of parameters.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.tensors.iter().map(|(_, s)| s.iter().map(|&n| n as u64).product::<u64>()).sum()
    }
}

/// The tensors of an import, read one at a time.
struct TensorImport {
    tensors: Vec<(Planned, Origin)>,
    notes: Vec<String>,
}

/// Source of a tensor's numbers.
enum Origin {
    Raw(RawTensor),
    /// A tensor of the weight file, by name.
    File,
}

/// Writes the tensors of `path` to `model.safetensors` in the folder `out`.
///
/// Numbers keep their type, except that f64 becomes f32. `beside` lists further files for the
/// folder: name and content.
///
/// # Errors
/// [`FileError`]; `out` is then unchanged.
pub fn import_tensors(
    path: &Path,
    out: &Path,
    force: bool,
    beside: &[(String, Vec<u8>)],
) -> Result<ImportedTensors, FileError> {
    let (plan, file) = plan(path)?;
    if plan.tensors.iter().any(|(planned, _)| planned.name == METADATA) {
        let reason = format!(
            "names a tensor {METADATA}, which safetensors reserves for text about the file; rename it"
        );
        return Err(FileError::Dump { path: path.into(), reason });
    }
    if plan.tensors.is_empty() {
        let reason = "holds no tensors of floating-point numbers".into();
        return Err(FileError::Dump { path: path.into(), reason });
    }
    let mut writer = DirWriter::new(AtomicDir::create(out, force)?);
    writer.stream(SINGLE, |out| {
        let planned: Vec<Planned> = plan.tensors.iter().map(|(p, _)| p.clone()).collect();
        out.write_all(&header_bytes(&planned))?;
        for (planned, origin) in &plan.tensors {
            let values = match (origin, &file) {
                (Origin::Raw(tensor), _) => tensor.read()?,
                (Origin::File, Some(file)) => file.read(&planned.name, &planned.shape)?.values,
                (Origin::File, None) => Vec::new(),
            };
            let dtype = planned.dtype.float().unwrap_or(DType::F32);
            write_values(out, &planned.name, dtype, &values)?;
        }
        Ok(())
    })?;
    TensorFile::open(&writer.target.path().join(SINGLE))?;
    for (name, bytes) in beside {
        writer.text(name, bytes)?;
    }
    writer.checksums()?;
    writer.commit()?;
    let tensors = plan.tensors.into_iter().map(|(p, _)| (p.name, p.shape)).collect();
    Ok(ImportedTensors { tensors, notes: plan.notes })
}

/// The tensors to read, and the weight file if the input is one.
fn plan(path: &Path) -> Result<(TensorImport, Option<TensorFile>), FileError> {
    let is_dir = path.metadata().map_err(FileError::read(path))?.is_dir();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let (tensors, notes) = match extension {
        _ if is_dir && path.join(MANIFEST).exists() => {
            (Manifest::read(&path.join(MANIFEST))?.open(path)?, Vec::new())
        }
        _ if is_dir => recognised::open(path)?,
        Some("json") => {
            let folder = path.parent().unwrap_or(Path::new("."));
            (Manifest::read(path)?.open(folder)?, Vec::new())
        }
        Some("npy") => (vec![npy::open(path)?], Vec::new()),
        Some("npz") => npy::open_archive(path)?,
        _ => return of_file(path),
    };
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = tensors.iter().find(|tensor| !seen.insert(tensor.name.clone())) {
        let reason = format!("names tensor {} twice", shown(&twice.name));
        return Err(FileError::Dump { path: path.into(), reason });
    }
    check_shares(path, &tensors)?;
    let planned = |tensor: RawTensor| {
        let planned =
            Planned::values(tensor.name.clone(), stored(tensor.dtype), tensor.out_shape());
        (planned, Origin::Raw(tensor))
    };
    Ok((TensorImport { tensors: tensors.into_iter().map(planned).collect(), notes }, None))
}

/// Rejects tensors that read the same bytes: a short manifest could otherwise request any number of
/// copies of one file.
fn check_shares(path: &Path, tensors: &[RawTensor]) -> Result<(), FileError> {
    let mut places: Vec<(&Path, u64, u64, &str)> = tensors
        .iter()
        .filter_map(|tensor| tensor.place().map(|place| (tensor, place)))
        .filter(|(_, (start, end))| start < end)
        .map(|(tensor, (start, end))| (tensor.path.as_path(), start, end, tensor.name.as_str()))
        .collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        let [(file, _, end, first), (other, start, _, second)] = [pair[0], pair[1]];
        if file == other && start < end {
            let [first, second] = [first, second].map(shown);
            let file = file.file_name().unwrap_or_default().display().to_string();
            let reason = format!(
                "gives tensors {first} and {second} the same bytes of {}; name each part of a file once",
                shown(&file)
            );
            return Err(FileError::Dump { path: path.into(), reason });
        }
    }
    Ok(())
}

/// The type in which numbers are written.
fn stored(dtype: DType) -> DType {
    match dtype {
        // Everything is read as f32, so f64 output would invent digits.
        DType::F64 => DType::F32,
        other => other,
    }
}

/// All floating-point tensors of a weight file.
fn of_file(path: &Path) -> Result<(TensorImport, Option<TensorFile>), FileError> {
    let file = TensorFile::open(path)?;
    let (mut tensors, mut notes) = (Vec::new(), file.notes().to_vec());
    for (name, info) in file.tensors() {
        match info.dtype.float() {
            Some(dtype) => {
                let planned = Planned::values(name.clone(), stored(dtype), info.shape.clone());
                tensors.push((planned, Origin::File));
            }
            None => {
                let (name, dtype) = (shown(name), info.dtype.name());
                notes.push(format!("{name} has type {dtype} and was left out"));
            }
        }
    }
    Ok((TensorImport { tensors, notes }, Some(file)))
}
