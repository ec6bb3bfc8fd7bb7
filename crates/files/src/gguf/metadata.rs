//! GGUF metadata: keys and values.

use super::cursor::{Cursor, Place};
use crate::gguf::fault::ContainerFault;
use std::collections::BTreeMap;
use std::ops::Range;

/// Deepest nesting of arrays; no known file nests any.
const MAX_DEPTH: usize = 4;

/// Values by key.
pub type Metadata = BTreeMap<String, MetaValue>;

/// A metadata value. Arrays stay in the file: a vocabulary takes no memory until it is read.
#[derive(Clone, Debug, PartialEq)]
pub enum MetaValue {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array.
    Array(MetaArray),
}

/// A checked array that stays in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct MetaArray {
    kind: Kind,
    count: u64,
    bytes: Range<usize>,
}

/// A value type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned byte.
    U8,
    /// A signed byte.
    I8,
    /// 16 bits, unsigned.
    U16,
    /// 16 bits, signed.
    I16,
    /// 32 bits, unsigned.
    U32,
    /// 32 bits, signed.
    I32,
    /// A single-precision number.
    F32,
    /// A boolean.
    Bool,
    /// UTF-8, preceded by its length.
    Text,
    /// Values of one type.
    Array,
    /// 64 bits, unsigned.
    U64,
    /// 64 bits, signed.
    I64,
    /// A double-precision number.
    F64,
}

impl Kind {
    /// Types by their ids in files.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::Text,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Self, ContainerFault> {
        let at = cursor.at() as u64;
        let found = cursor.u32(Place::Value(key))?;
        let unknown = || ContainerFault::UnknownValueType { key: key.into(), at, found };
        Self::ALL.get(found as usize).copied().ok_or_else(unknown)
    }

    /// Smallest size of a value in bytes.
    fn min_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Text => 8,
            Self::Array => 12,
        }
    }
}

/// Reads a value.
pub(crate) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<MetaValue, ContainerFault> {
    let kind = Kind::read(cursor, key)?;
    read_value(cursor, kind, key, 0)
}

fn read_value(
    cursor: &mut Cursor<'_>,
    kind: Kind,
    key: &str,
    depth: usize,
) -> Result<MetaValue, ContainerFault> {
    let place = Place::Value(key);
    Ok(match kind {
        Kind::U8 => MetaValue::Unsigned(u64::from(u8::from_le_bytes(cursor.array(place)?))),
        Kind::U16 => MetaValue::Unsigned(u64::from(u16::from_le_bytes(cursor.array(place)?))),
        Kind::U32 => MetaValue::Unsigned(u64::from(cursor.u32(place)?)),
        Kind::U64 => MetaValue::Unsigned(cursor.u64(place)?),
        Kind::I8 => MetaValue::Signed(i64::from(i8::from_le_bytes(cursor.array(place)?))),
        Kind::I16 => MetaValue::Signed(i64::from(i16::from_le_bytes(cursor.array(place)?))),
        Kind::I32 => MetaValue::Signed(i64::from(i32::from_le_bytes(cursor.array(place)?))),
        Kind::I64 => MetaValue::Signed(i64::from_le_bytes(cursor.array(place)?)),
        Kind::F32 => MetaValue::F32(f32::from_le_bytes(cursor.array(place)?)),
        Kind::F64 => MetaValue::F64(f64::from_le_bytes(cursor.array(place)?)),
        Kind::Bool => {
            let at = cursor.at() as u64;
            match cursor.array(place)? {
                [0] => MetaValue::Bool(false),
                [1] => MetaValue::Bool(true),
                [found] => return Err(ContainerFault::NotBool { key: key.into(), at, found }),
            }
        }
        Kind::Text => MetaValue::Text(cursor.text(place)?.to_owned()),
        Kind::Array => MetaValue::Array(read_array(cursor, key, depth + 1)?),
    })
}

/// Checks an array to its end and records its byte range.
fn read_array(
    cursor: &mut Cursor<'_>,
    key: &str,
    depth: usize,
) -> Result<MetaArray, ContainerFault> {
    let at = cursor.at() as u64;
    if depth > MAX_DEPTH {
        return Err(ContainerFault::TooDeep { key: key.into(), at, limit: MAX_DEPTH });
    }
    let kind = Kind::read(cursor, key)?;
    let count = cursor.u64(Place::Value(key))?;
    cursor.expect(count, kind.min_bytes(), Place::Value(key))?;
    let start = cursor.at();
    match kind {
        Kind::Text => {
            for _ in 0..count {
                cursor.text(Place::Value(key))?;
            }
        }
        Kind::Bool | Kind::Array => {
            for _ in 0..count {
                read_value(cursor, kind, key, depth)?;
            }
        }
        // The product was checked above.
        _ => drop(cursor.take(count * kind.min_bytes(), Place::Value(key))?),
    }
    Ok(MetaArray { kind, count, bytes: start..cursor.at() })
}

impl MetaArray {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        // At most the length of the file.
        self.count as usize
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The strings of an array of strings, from the bytes of the file; otherwise `None`.
    pub fn texts<'a>(&self, file: &'a [u8]) -> Option<impl Iterator<Item = &'a str>> {
        let mut cursor = Cursor::new(&file[self.bytes.clone()]);
        let texts = (0..self.count).map_while(move |_| cursor.text(Place::Header).ok());
        (self.kind == Kind::Text).then_some(texts)
    }

    /// The numbers of an array of numbers; otherwise `None`.
    pub fn numbers(&self, file: &[u8]) -> Option<impl Iterator<Item = f64>> {
        let mut cursor = Cursor::new(&file[self.bytes.clone()]);
        let kind = self.kind;
        let values = (0..self.count)
            .map_while(move |_| read_value(&mut cursor, kind, "", MAX_DEPTH).ok()?.as_f64());
        (!matches!(kind, Kind::Text | Kind::Array | Kind::Bool)).then_some(values)
    }
}

impl MetaValue {
    /// A non-negative integer.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// A number. A 32-bit float becomes the 64-bit float with the same shortest decimal form: 1e-5
    /// as written is read as 1e-5.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::F32(value) => value.to_string().parse().ok(),
            Self::F64(value) => Some(*value),
            _ => None,
        }
    }

    /// A description for messages; long strings are cut.
    pub fn describe(&self) -> String {
        const SHOWN: usize = 60;
        match self {
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::F32(value) => value.to_string(),
            Self::F64(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Text(text) if text.chars().count() > SHOWN => {
                format!("{:?}...", text.chars().take(SHOWN).collect::<String>())
            }
            Self::Text(text) => format!("{text:?}"),
            Self::Array(array) => format!("an array of {} values", array.count),
        }
    }
}
