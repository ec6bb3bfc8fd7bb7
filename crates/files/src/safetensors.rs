//! The safetensors header, checked completely before any tensor is read.
//!
//! Layout: the length `n` of the header (u64, little-endian), `n` bytes of JSON that maps names to
//! `{dtype, shape, data_offsets}`, then the data, which the tensors cover without gap or overlap.

use super::fault::{FileFault, shown_shape};
use super::header::{Header, StoredType, TensorInfo};
use super::writer::METADATA;
use linwright_run::{shown, shown_reason};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Longest header in bytes: the bound of the reference implementation.
pub(crate) const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Bytes of the length field.
const LENGTH_BYTES: usize = 8;

/// An entry of the JSON header.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The entries of a header in file order: a map would silently drop one of two equal names.
#[derive(Debug, Default)]
struct RawHeader {
    tensors: Vec<(String, RawTensor)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut header = RawHeader::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        header.metadata.extend(map.next_value::<BTreeMap<String, String>>()?);
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Whether a file begins with a length and a JSON object.
pub(crate) fn looks_like(bytes: &[u8]) -> bool {
    let start = bytes.split_first_chunk::<LENGTH_BYTES>();
    start.is_some_and(|(length, rest)| {
        u64::from_le_bytes(*length) <= MAX_HEADER_BYTES && rest.first() == Some(&b'{')
    })
}

/// Parses and checks the header; `bytes` is the whole file.
pub(crate) fn parse(bytes: &[u8]) -> Result<Header, FileFault> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(FileFault::TooShort { size: bytes.len() });
    };
    let (header, left) = (u64::from_le_bytes(*length), rest.len() as u64);
    if header > left {
        return Err(FileFault::HeaderBeyondFile { header, left });
    }
    if header > MAX_HEADER_BYTES {
        return Err(FileFault::HeaderTooLarge { header, limit: MAX_HEADER_BYTES });
    }
    // `header <= left`, which is the length of a slice.
    let (json, data) = rest.split_at(header as usize);
    let raw: RawHeader = serde_json::from_slice(json)
        .map_err(|error| FileFault::Header { reason: shown_reason(&error.to_string()) })?;
    let base = LENGTH_BYTES + json.len();
    let mut tensors = BTreeMap::new();
    for (name, tensor) in raw.tensors {
        let info = check(&name, &tensor, base, data.len())?;
        if tensors.insert(name.clone(), info).is_some() {
            return Err(FileFault::Duplicate { name: shown(&name) });
        }
    }
    check_tiling(&tensors, base, data.len())?;
    Ok(Header { tensors, metadata: raw.metadata, notes: Vec::new() })
}

/// Checks one entry by itself.
fn check(name: &str, raw: &RawTensor, base: usize, data: usize) -> Result<TensorInfo, FileFault> {
    let named = || shown(name);
    let dtype = StoredType::parse(&raw.dtype)
        .ok_or_else(|| FileFault::UnknownType { name: named(), found: shown(&raw.dtype) })?;
    let (start, end) = raw.data_offsets;
    let found =
        end.checked_sub(start).ok_or_else(|| FileFault::Backwards { name: named(), start, end })?;
    let overflow = || FileFault::ShapeOverflow { name: named(), shape: shown_shape(&raw.shape) };
    let count = raw.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
    let bits = count.and_then(|n| n.checked_mul(dtype.bits())).ok_or_else(overflow)?;
    let shape: Option<Vec<usize>> = raw.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let shape = shape.ok_or_else(overflow)?;
    if !bits.is_multiple_of(8) || bits / 8 != found {
        return Err(FileFault::WrongSize {
            name: named(),
            shape: shown_shape(&raw.shape),
            dtype: dtype.name(),
            expected: bits.div_ceil(8),
            found,
        });
    }
    if end > data as u64 {
        return Err(FileFault::DataSize { expected: end, found: data as u64 });
    }
    // Both offsets are at most `data`, the length of a slice.
    let bytes = base + start as usize..base + end as usize;
    Ok(TensorInfo { dtype, shape, bytes, strides: None })
}

/// Checks that the tensors cover the data, each byte once.
fn check_tiling(
    tensors: &BTreeMap<String, TensorInfo>,
    base: usize,
    data: usize,
) -> Result<(), FileFault> {
    let mut order: Vec<(&String, &Range<usize>)> =
        tensors.iter().map(|(name, info)| (name, &info.bytes)).collect();
    order.sort_by_key(|(_, bytes)| (bytes.start, bytes.end));
    let mut covered = base;
    let mut last = "";
    for (name, bytes) in order {
        if bytes.start < covered {
            let at = (bytes.start - base) as u64;
            let [first, second] = [last, name].map(shown);
            return Err(FileFault::Overlap { first, second, at });
        }
        if bytes.start > covered {
            return Err(FileFault::Gap {
                start: (covered - base) as u64,
                end: (bytes.start - base) as u64,
                before: shown(name),
            });
        }
        (covered, last) = (bytes.end, name);
    }
    if covered - base != data {
        let expected = (covered - base) as u64;
        return Err(FileFault::DataSize { expected, found: data as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
