//! numpy arrays: `.npy` files, and `.npz`, a zip archive of such files.

use super::raw::RawTensor;
use crate::{FileError, NpyHeader, zip};
use linwright_run::input;
use linwright_tensor::MappedFile;
use std::path::Path;

/// The array of a `.npy` file, named after the file.
pub(super) fn open(path: &Path) -> Result<RawTensor, FileError> {
    let map = input::open(path).and_then(MappedFile::of).map_err(FileError::read(path))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    tensor(path, name, map.bytes(), 0)
}

/// The arrays of a `.npz` file.
pub(super) fn open_archive(path: &Path) -> Result<(Vec<RawTensor>, Vec<String>), FileError> {
    let map = input::open(path).and_then(MappedFile::of).map_err(FileError::read(path))?;
    let entries = zip::entries(map.bytes())
        .map_err(|fault| FileError::Dump { path: path.into(), reason: fault.to_string() })?;
    let (mut tensors, mut notes) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry.name.strip_suffix(".npy") {
            Some(name) => {
                let bytes = &map.bytes()[entry.bytes.clone()];
                tensors.push(tensor(path, name.into(), bytes, entry.bytes.start)?);
            }
            None => notes.push(format!("{} is not an array and was left out", entry.name)),
        }
    }
    Ok((tensors, notes))
}

/// An array that begins at `offset` of a file; `bytes` is the whole file.
fn tensor(path: &Path, name: String, bytes: &[u8], offset: usize) -> Result<RawTensor, FileError> {
    let wrong = |reason: String| FileError::Dump { path: path.into(), reason };
    let header =
        NpyHeader::parse(bytes).map_err(|reason| wrong(format!("array {name}: {reason}")))?;
    let NpyHeader { dtype, big_endian, mut shape, by_columns, start } = header;
    let dtype = dtype.float().ok_or_else(|| {
        wrong(format!("array {name}: holds {}, expected f2, f4 or f8", dtype.name()))
    })?;
    let transpose = by_columns && shape.len() > 1;
    if transpose {
        shape.reverse();
    }
    let count = shape.iter().try_fold(dtype.size(), |n, &extent| n.checked_mul(extent));
    if count != Some(bytes.len() - start) {
        let found = bytes.len() - start;
        return Err(wrong(format!("array {name} of shape {shape:?} has {found} bytes of numbers")));
    }
    let path = path.to_owned();
    let offset = (offset + start) as u64;
    let tensor = RawTensor { name, path, shape, dtype, big_endian, transpose, offset };
    tensor.check(false)?;
    Ok(tensor)
}
