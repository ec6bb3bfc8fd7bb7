//! The header of a safetensors file, checked completely before any tensor is touched.
//!
//! Layout: the length `n` of the header (u64, little-endian), `n` bytes of JSON that maps names to
//! `{dtype, shape, data_offsets}`, then the data, which the tensors tile without gap or overlap.

use super::error::FileFault;
use linwright_tensor::dtype::DType;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Longest header that is read, in bytes: the bound of the format's own implementation.
pub(super) const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Bytes of the length field.
const LENGTH_BYTES: usize = 8;
/// Name under which a header holds text about the file.
const METADATA: &str = "__metadata__";

macro_rules! stored_types {
    ($($name:ident $text:literal $bits:literal,)*) => {
        /// How a tensor is stored: all types of the format, read or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are those of the format")]
        #[allow(non_camel_case_types, reason = "the names are those of the format")]
        pub enum StoredType { $($name,)* }

        impl StoredType {
            /// The name in a header.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The type of this name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            fn bits(self) -> u64 {
                match self { $(Self::$name => $bits,)* }
            }
        }
    };
}

stored_types! {
    Bool "BOOL" 8,
    F4 "F4" 4,
    F6_E2M3 "F6_E2M3" 6,
    F6_E3M2 "F6_E3M2" 6,
    U8 "U8" 8,
    I8 "I8" 8,
    F8_E5M2 "F8_E5M2" 8,
    F8_E4M3 "F8_E4M3" 8,
    F8_E8M0 "F8_E8M0" 8,
    F8_E4M3Fnuz "F8_E4M3FNUZ" 8,
    F8_E5M2Fnuz "F8_E5M2FNUZ" 8,
    I16 "I16" 16,
    U16 "U16" 16,
    F16 "F16" 16,
    Bf16 "BF16" 16,
    I32 "I32" 32,
    U32 "U32" 32,
    F32 "F32" 32,
    C64 "C64" 64,
    F64 "F64" 64,
    I64 "I64" 64,
    U64 "U64" 64,
}

impl StoredType {
    /// The type as one that weights can have.
    #[must_use]
    pub fn float(self) -> Option<DType> {
        match self {
            Self::F32 => Some(DType::F32),
            Self::F16 => Some(DType::F16),
            Self::Bf16 => Some(DType::Bf16),
            Self::F64 => Some(DType::F64),
            _ => None,
        }
    }
}

impl From<DType> for StoredType {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32,
            DType::F16 => Self::F16,
            DType::Bf16 => Self::Bf16,
            DType::F64 => Self::F64,
        }
    }
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// How its numbers are stored.
    pub dtype: StoredType,
    /// Extents, row-major.
    pub shape: Vec<usize>,
    /// Its bytes, counted from the start of the file.
    pub bytes: Range<usize>,
}

/// A header whose tensors are known to lie within the file, side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// An entry as it stands in the JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The JSON of a header, in file order: a map would silently keep one of two equal names.
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

/// Reads and checks the header of a file of which `bytes` is the whole.
pub(super) fn parse(bytes: &[u8]) -> Result<Header, FileFault> {
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
        .map_err(|error| FileFault::Header { reason: error.to_string() })?;
    let base = LENGTH_BYTES + json.len();
    let mut tensors = BTreeMap::new();
    for (name, tensor) in raw.tensors {
        let info = check(&name, &tensor, base, data.len())?;
        if tensors.insert(name.clone(), info).is_some() {
            return Err(FileFault::Duplicate { name });
        }
    }
    check_tiling(&tensors, base, data.len())?;
    Ok(Header { tensors, metadata: raw.metadata })
}

/// Checks one entry by itself.
fn check(name: &str, raw: &RawTensor, base: usize, data: usize) -> Result<TensorInfo, FileFault> {
    let dtype = StoredType::parse(&raw.dtype)
        .ok_or_else(|| FileFault::UnknownType { name: name.into(), found: raw.dtype.clone() })?;
    let (start, end) = raw.data_offsets;
    let found = end.checked_sub(start).ok_or_else(|| FileFault::Backwards {
        name: name.into(),
        start,
        end,
    })?;
    let overflow = || FileFault::ShapeOverflow { name: name.into(), shape: raw.shape.clone() };
    let count = raw.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
    let bits = count.and_then(|n| n.checked_mul(dtype.bits())).ok_or_else(overflow)?;
    let shape: Option<Vec<usize>> = raw.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let shape = shape.ok_or_else(overflow)?;
    if !bits.is_multiple_of(8) || bits / 8 != found {
        return Err(FileFault::WrongSize {
            name: name.into(),
            shape: raw.shape.clone(),
            dtype: dtype.name(),
            expected: bits.div_ceil(8),
            found,
        });
    }
    if end > data as u64 {
        return Err(FileFault::DataSize { expected: end, found: data as u64 });
    }
    // Both offsets are at most `data`, the length of a slice.
    Ok(TensorInfo { dtype, shape, bytes: base + start as usize..base + end as usize })
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
            return Err(FileFault::Overlap { first: last.into(), second: name.clone(), at });
        }
        if bytes.start > covered {
            return Err(FileFault::Gap {
                start: (covered - base) as u64,
                end: (bytes.start - base) as u64,
                before: name.clone(),
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
