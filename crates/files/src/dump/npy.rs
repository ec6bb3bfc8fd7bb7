//! numpy arrays.
//!
//! `.npy`: magic, version, length of a header, the header as the text of a Python dict with
//! `descr`, `fortran_order` and `shape`, then the numbers. `.npz`: a zip archive of such files.
//! Source: the format's description in `numpy.lib.format`.

use super::raw::RawTensor;
use crate::{FileError, zip};
use linwright_run::input;
use linwright_tensor::MappedFile;
use linwright_tensor::dtype::DType;
use std::path::Path;

const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// Longest header that is read.
const HEADER_BYTES: usize = 1 << 16;

/// The header of an array.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    dtype: DType,
    big_endian: bool,
    shape: Vec<usize>,
    /// Whether the array is column-major.
    by_columns: bool,
    /// Offset in bytes of the first number.
    start: usize,
}

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
            None => notes.push(format!("{} is no array and was left out", entry.name)),
        }
    }
    Ok((tensors, notes))
}

/// An array that begins at `offset` of a file; `bytes` is the whole file.
fn tensor(path: &Path, name: String, bytes: &[u8], offset: usize) -> Result<RawTensor, FileError> {
    let wrong = |reason: String| FileError::Dump { path: path.into(), reason };
    let header = parse(bytes).map_err(|reason| wrong(format!("array {name}: {reason}")))?;
    let Header { dtype, big_endian, mut shape, by_columns, start } = header;
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

/// Parses the header of an array. The error is a description in words.
fn parse(bytes: &[u8]) -> Result<Header, String> {
    let [major, _, rest @ ..] = bytes.strip_prefix(&MAGIC).ok_or("is no numpy file")? else {
        return Err("is truncated".into());
    };
    let (length, width) = match (major, rest) {
        (1, [a, b, ..]) => (usize::from(u16::from_le_bytes([*a, *b])), 2),
        (2 | 3, [a, b, c, d, ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 4),
        (1..=3, _) => return Err("is truncated".into()),
        _ => return Err(format!("has version {major}, expected 1 to 3")),
    };
    let text = rest.get(width..).and_then(|rest| rest.get(..length.min(HEADER_BYTES)));
    let text = text.and_then(|text| str::from_utf8(text).ok()).ok_or("has a broken header")?;
    let value = |key: &str| {
        let quoted = format!("'{key}':");
        let at = text.find(&quoted).ok_or_else(|| format!("has no {key} in its header"))?;
        Ok::<_, String>(text[at + quoted.len()..].trim_start())
    };
    let descr = value("descr")?;
    let descr = descr.strip_prefix('\'').and_then(|d| d.split('\'').next()).unwrap_or("a record");
    let (dtype, big_endian) = match descr {
        "<f4" => (DType::F32, false),
        ">f4" => (DType::F32, true),
        "<f2" => (DType::F16, false),
        ">f2" => (DType::F16, true),
        "<f8" => (DType::F64, false),
        ">f8" => (DType::F64, true),
        other => return Err(format!("holds {other}, expected f2, f4 or f8")),
    };
    let order = value("fortran_order")?;
    let by_columns = order.starts_with("True");
    if !by_columns && !order.starts_with("False") {
        return Err("has a fortran_order that is neither True nor False".into());
    }
    let shape = value("shape")?.strip_prefix('(').and_then(|s| s.split_once(')'));
    let (shape, _) = shape.ok_or("has a shape that is no tuple")?;
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape: Result<Vec<usize>, _> = extents.map(str::parse).collect();
    let shape = shape.map_err(|_| "has a shape that is no tuple of numbers")?;
    let start = MAGIC.len() + 2 + width + length;
    if start > bytes.len() {
        return Err("is truncated".into());
    }
    Ok(Header { dtype, big_endian, shape, by_columns, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(header: &str, numbers: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + numbers, 0);
        bytes
    }

    #[test]
    fn headers_are_read_and_odd_ones_refused() {
        let good = "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4), }\n";
        let header = parse(&array(good, 48)).unwrap();
        assert_eq!((header.dtype, header.big_endian, header.by_columns), (DType::F32, true, true));
        assert_eq!((header.shape, header.start), (vec![3, 4], 10 + good.len()));
        assert!(parse(&array(&good.replace("(3, 4)", "()"), 4)).unwrap().shape.is_empty());
        for (bytes, said) in [
            (b"hello".to_vec(), "no numpy file"),
            (MAGIC.to_vec(), "truncated"),
            (array(good, 0)[..20].to_vec(), "broken header"),
            (array("{}", 0), "no descr"),
            (array(&good.replace(">f4", "|O"), 0), "holds |O"),
            (array(&good.replace("'>f4'", "[('a', '<f4')]"), 0), "a record"),
            (array(&good.replace("True", "1"), 0), "neither True nor False"),
            (array(&good.replace("(3, 4)", "3"), 0), "no tuple"),
            (array(&good.replace("3, 4", "3, -4"), 0), "no tuple of numbers"),
            (array(&good.replace("3, 4", "99999999999999999999"), 0), "no tuple of numbers"),
        ] {
            let error = parse(&bytes).unwrap_err();
            assert!(error.contains(said), "{said:?} in {error}");
        }
    }
}
