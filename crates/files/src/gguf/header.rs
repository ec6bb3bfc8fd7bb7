//! The GGUF header, checked completely before any tensor is read.
//!
//! Layout, all little-endian: the bytes `GGUF`, a version (u32), the number of tensors and of keys
//! (u64 each); for each key its name, a type (u32) and a value; for each tensor its name, the
//! number of its dimensions (u32), its extents from the fastest-running one on (u64 each), a type
//! (u32) and an offset into the data (u64); then the data, at the next multiple of
//! `general.alignment`. A string is a length (u64) followed by its bytes.

use super::cursor::{Cursor, Place};
use super::metadata::{self, MetaValue, Metadata};
use super::stored::GgufType;
use crate::gguf::fault::ContainerFault;
use crate::header::GGUF_MAGIC as MAGIC;
use std::collections::BTreeMap;
use std::ops::Range;

/// Default alignment.
pub const ALIGNMENT: u64 = 32;
/// Key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";
/// Largest allowed alignment.
const MAX_ALIGNMENT: u64 = 1 << 20;
/// Largest number of dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;
/// Smallest size of a key in bytes: length of its name, type, a value of one byte.
const MIN_KEY_BYTES: u64 = 13;
/// Smallest size of a tensor's entry in bytes: length of its name, dimensions, type, offset.
const MIN_TENSOR_BYTES: u64 = 24;

/// A tensor as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// Storage type.
    pub dtype: GgufType,
    /// Extents, row-major: the last one runs fastest.
    pub shape: Vec<usize>,
    /// Byte range from the start of the file.
    pub bytes: Range<usize>,
    /// Index of its file, if a model has several.
    pub part: usize,
}

/// A header whose tensors are checked to lie within the file without overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Values by key.
    pub metadata: Metadata,
    /// Tensors by their GGUF names.
    pub tensors: BTreeMap<String, StoredTensor>,
}

/// An entry before the start of the data is known.
struct Entry {
    dtype: GgufType,
    shape: Vec<u64>,
    offset: u64,
    size: u64,
}

/// Parses and checks the header; `bytes` is the whole file.
pub fn parse(bytes: &[u8]) -> Result<Header, ContainerFault> {
    let mut cursor = Cursor::new(bytes);
    let version = read_version(&mut cursor)?;
    let (tensors, keys) = (cursor.u64(Place::Header)?, cursor.u64(Place::Header)?);
    cursor.expect(keys, MIN_KEY_BYTES, Place::Header)?;
    cursor.expect(tensors, MIN_TENSOR_BYTES, Place::Header)?;
    let metadata = read_metadata(&mut cursor, keys)?;
    let alignment = alignment(&metadata)?;
    let entries = read_entries(&mut cursor, tensors, alignment)?;
    // The alignment is a small power of two, and a file is far shorter than the largest integer.
    let base = (cursor.at() as u64).next_multiple_of(alignment).min(bytes.len() as u64);
    let tensors = place(entries, base, bytes.len() as u64 - base)?;
    Ok(Header { version, metadata, tensors })
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, ContainerFault> {
    let magic: [u8; 4] = cursor.array(Place::Header)?;
    if magic != MAGIC {
        let advice = match &magic {
            b"lmgg" | b"fmgg" | b"tjgg" | b"algg" | b"ggml" | b"ggmf" | b"ggjt" | b"ggla" => {
                "this format precedes GGUF: convert the original model again"
            }
            b"FUGG" => "the file is big-endian: convert it to little-endian",
            _ => "this is not a GGUF file",
        };
        let found = String::from_utf8_lossy(&magic).into_owned();
        return Err(ContainerFault::Magic { found, advice });
    }
    let found = cursor.u32(Place::Header)?;
    let advice = match found {
        2 | 3 => return Ok(found),
        1 => "version 1 is not supported: convert the original model again",
        _ if (1..=3).contains(&found.swap_bytes()) => {
            "the file is big-endian: convert it to little-endian"
        }
        _ => "the file is damaged or of a newer version",
    };
    Err(ContainerFault::Version { found, advice })
}

fn read_metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<Metadata, ContainerFault> {
    let mut metadata = Metadata::new();
    for index in 0..count {
        let at = cursor.at() as u64;
        let key = cursor.text(Place::Key(index))?;
        let value = metadata::read(cursor, key)?;
        if metadata.insert(key.to_owned(), value).is_some() {
            return Err(ContainerFault::Duplicate { what: "key", name: key.into(), at });
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &Metadata) -> Result<u64, ContainerFault> {
    let Some(value) = metadata.get(ALIGNMENT_KEY) else {
        return Ok(ALIGNMENT);
    };
    match value.as_u64() {
        Some(found) if found.is_power_of_two() && found <= MAX_ALIGNMENT => Ok(found),
        Some(found) => Err(ContainerFault::Alignment { found, limit: MAX_ALIGNMENT }),
        None => Err(wrong_type(ALIGNMENT_KEY, value, "an integer")),
    }
}

/// The error for a key of another type.
pub fn wrong_type(key: &str, value: &MetaValue, expected: &'static str) -> ContainerFault {
    ContainerFault::Key { key: key.into(), found: value.describe(), expected }
}

fn read_entries(
    cursor: &mut Cursor<'_>,
    count: u64,
    alignment: u64,
) -> Result<BTreeMap<String, Entry>, ContainerFault> {
    let mut entries = BTreeMap::new();
    for index in 0..count {
        let at = cursor.at() as u64;
        let name = cursor.text(Place::TensorName(index))?;
        let entry = read_entry(cursor, name, alignment)?;
        if entries.insert(name.to_owned(), entry).is_some() {
            return Err(ContainerFault::Duplicate { what: "tensor", name: name.into(), at });
        }
    }
    Ok(entries)
}

fn read_entry(
    cursor: &mut Cursor<'_>,
    name: &str,
    alignment: u64,
) -> Result<Entry, ContainerFault> {
    let (place, at) = (Place::Tensor(name), cursor.at() as u64);
    let found = cursor.u32(place)?;
    if found > MAX_DIMENSIONS {
        return Err(ContainerFault::Dimensions {
            name: name.into(),
            at,
            found,
            limit: MAX_DIMENSIONS,
        });
    }
    let mut shape = (0..found).map(|_| cursor.u64(place)).collect::<Result<Vec<u64>, _>>()?;
    shape.reverse();
    let at = cursor.at() as u64;
    let found = cursor.u32(place)?;
    let unknown = || ContainerFault::UnknownTensorType { name: name.into(), at, found };
    let dtype = GgufType::of(found).ok_or_else(unknown)?;
    let (columns, block) = (shape.last().copied().unwrap_or(1), dtype.block_numbers as u64);
    if !columns.is_multiple_of(block) {
        return Err(ContainerFault::PartBlock {
            name: name.into(),
            columns,
            dtype: dtype.name,
            block: dtype.block_numbers,
        });
    }
    let overflow = || ContainerFault::ShapeOverflow { name: name.into(), shape: shape.clone() };
    let numbers = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
    let size = numbers
        .map(|numbers| numbers / block)
        .and_then(|blocks| blocks.checked_mul(dtype.block_bytes as u64))
        .ok_or_else(overflow)?;
    let offset = cursor.u64(place)?;
    if !offset.is_multiple_of(alignment) {
        return Err(ContainerFault::Misaligned { name: name.into(), offset, alignment });
    }
    Ok(Entry { dtype, shape, offset, size })
}

/// Checks that the tensors lie in the `data` bytes from `base` on, and that no two overlap.
fn place(
    entries: BTreeMap<String, Entry>,
    base: u64,
    data: u64,
) -> Result<BTreeMap<String, StoredTensor>, ContainerFault> {
    let mut tensors = BTreeMap::new();
    for (name, Entry { dtype, shape, offset, size }) in entries {
        if offset.checked_add(size).is_none_or(|end| end > data) {
            return Err(ContainerFault::BeyondFile { name, offset, size, data });
        }
        let extents: Option<Vec<usize>> = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
        let Some(extents) = extents else {
            return Err(ContainerFault::ShapeOverflow { name, shape });
        };
        // Both ends are at most the length of a slice.
        let bytes = (base + offset) as usize..(base + offset + size) as usize;
        tensors.insert(name, StoredTensor { dtype, shape: extents, bytes, part: 0 });
    }
    let mut order: Vec<(&String, &StoredTensor)> = tensors.iter().collect();
    order.sort_by_key(|(_, tensor)| (tensor.bytes.start, tensor.bytes.end));
    for pair in order.windows(2) {
        let [(first, a), (second, b)] = [pair[0], pair[1]];
        if b.bytes.start < a.bytes.end {
            let at = b.bytes.start as u64 - base;
            return Err(ContainerFault::Overlap {
                first: first.clone(),
                second: second.clone(),
                at,
            });
        }
    }
    Ok(tensors)
}
