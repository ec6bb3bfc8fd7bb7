//! The header of numpy arrays.
//!
//! A `.npy` file is magic, version, length of a header, the header as the text of a Python dict
//! with `descr`, `fortran_order` and `shape`, then the numbers.
//! Source: the format's description in `numpy.lib.format`.

use crate::StoredType;
use linwright_run::shown;

/// The first bytes of every file.
pub const NPY_MAGIC: [u8; 6] = *b"\x93NUMPY";
/// Longest header that is read.
const HEADER_BYTES: usize = 1 << 16;

/// The header of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// Storage type: an integer or a float.
    pub dtype: StoredType,
    /// Whether numbers have their highest byte first.
    pub big_endian: bool,
    /// Shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Whether the array is column-major.
    pub by_columns: bool,
    /// Offset in bytes of the first number, at most the size of the file.
    pub start: usize,
}

impl NpyHeader {
    /// Parses the header of the file with these bytes. The numbers themselves are not checked.
    ///
    /// # Errors
    /// A description in words, as the end of a sentence about the array.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let Described { descr, shape, by_columns, start } = Described::parse(bytes)?;
        let (dtype, big_endian) = number_type(descr)?;
        Ok(Self { dtype, big_endian, shape, by_columns, start })
    }
}

/// A header for numbers of any type.
struct Described<'a> {
    descr: &'a str,
    shape: Vec<usize>,
    by_columns: bool,
    start: usize,
}

impl<'a> Described<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let [major, _, rest @ ..] = bytes.strip_prefix(&NPY_MAGIC).ok_or("is not a numpy file")?
        else {
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
        let descr = value(text, "descr")?;
        let descr =
            descr.strip_prefix('\'').and_then(|d| d.split('\'').next()).unwrap_or("a record");
        let order = value(text, "fortran_order")?;
        let by_columns = order.starts_with("True");
        if !by_columns && !order.starts_with("False") {
            return Err("has a fortran_order that is neither True nor False".into());
        }
        let shape = value(text, "shape")?.strip_prefix('(').and_then(|s| s.split_once(')'));
        let (shape, _) = shape.ok_or("has a shape that is not a tuple")?;
        let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
        let shape: Result<Vec<usize>, _> = extents.map(str::parse).collect();
        let shape = shape.map_err(|_| "has a shape that is not a tuple of numbers")?;
        let start = NPY_MAGIC.len() + 2 + width + length;
        if start > bytes.len() {
            return Err("is truncated".into());
        }
        Ok(Self { descr, shape, by_columns, start })
    }
}

/// The text of an array of one string, with four bytes or one per character; none if it does not
/// hold strings.
///
/// # Errors
/// As [`NpyHeader::parse`].
pub(crate) fn npy_text(bytes: &[u8]) -> Result<Option<String>, String> {
    let Described { descr, shape, start, .. } = Described::parse(bytes)?;
    let (order, kind, length) = match descr.as_bytes() {
        [order, kind @ (b'U' | b'S'), length @ ..] => (order, kind, length),
        _ => return Ok(None),
    };
    let count: usize =
        shape.iter().try_fold(1, |n: usize, extent| n.checked_mul(*extent)).unwrap_or(0);
    if count != 1 {
        return Err(format!("of shape {shape:?} holds {count} texts, expected one"));
    }
    let length = str::from_utf8(length).ok().and_then(|length| length.parse::<usize>().ok());
    let size = if *kind == b'U' { 4 } else { 1 };
    let (found, needed) = (bytes.len() - start, length.and_then(|length| length.checked_mul(size)));
    if needed != Some(found) {
        let expected = needed.map_or_else(|| "fewer".to_owned(), |needed| needed.to_string());
        return Err(format!("has {found} bytes of text, expected {expected}"));
    }
    let content = &bytes[start..];
    let characters: Option<String> = match kind {
        b'S' => Some(content.iter().map(|byte| char::from(*byte)).collect()),
        _ => content
            .as_chunks()
            .0
            .iter()
            .map(|bytes| {
                char::from_u32(if *order == b'>' {
                    u32::from_be_bytes(*bytes)
                } else {
                    u32::from_le_bytes(*bytes)
                })
            })
            .collect(),
    };
    let characters = characters.ok_or("has an empty text")?;
    Ok(Some(characters.trim_end_matches('\0').to_owned()))
}

/// The rest of the header from the value of a key on.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let quoted = format!("'{key}':");
    let at = text.find(&quoted).ok_or_else(|| format!("has no {key} in its header"))?;
    Ok(text[at + quoted.len()..].trim_start())
}

/// Type and byte order of a `descr` such as `<f4`.
fn number_type(descr: &str) -> Result<(StoredType, bool), String> {
    let unknown = || format!("holds `{}`, expected integers or floats", shown(descr));
    let mut letters = descr.chars();
    let big_endian = match letters.next() {
        Some('<' | '|') => false,
        Some('>') => true,
        _ => return Err(unknown()),
    };
    let dtype = match letters.as_str() {
        "u1" => StoredType::U8,
        "i1" => StoredType::I8,
        "u2" => StoredType::U16,
        "i2" => StoredType::I16,
        "u4" => StoredType::U32,
        "i4" => StoredType::I32,
        "u8" => StoredType::U64,
        "i8" => StoredType::I64,
        "f2" => StoredType::F16,
        "f4" => StoredType::F32,
        "f8" => StoredType::F64,
        _ => return Err(unknown()),
    };
    Ok((dtype, big_endian))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(header: &str, numbers: usize) -> Vec<u8> {
        let mut bytes = NPY_MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + numbers, 0);
        bytes
    }

    #[test]
    fn headers_are_read_and_odd_ones_refused() {
        let good = "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4), }\n";
        let parse = |bytes: &[u8]| NpyHeader::parse(bytes);
        let header = parse(&array(good, 48)).unwrap();
        let dtype = (header.dtype, header.big_endian, header.by_columns);
        assert_eq!(dtype, (StoredType::F32, true, true));
        assert_eq!((header.shape, header.start), (vec![3, 4], 10 + good.len()));
        assert!(parse(&array(&good.replace("(3, 4)", "()"), 4)).unwrap().shape.is_empty());
        let bytes = parse(&array(&good.replace(">f4", "|u1"), 12)).unwrap();
        assert_eq!((bytes.dtype, bytes.big_endian), (StoredType::U8, false));
        for (bytes, said) in [
            (b"hello".to_vec(), "not a numpy file"),
            (NPY_MAGIC.to_vec(), "truncated"),
            (array(good, 0)[..20].to_vec(), "broken header"),
            (array("{}", 0), "no descr"),
            (array(&good.replace(">f4", "|O"), 0), "holds `|O`"),
            (array(&good.replace("'>f4'", "[('a', '<f4')]"), 0), "a record"),
            (array(&good.replace("True", "1"), 0), "neither True nor False"),
            (array(&good.replace("(3, 4)", "3"), 0), "not a tuple"),
            (array(&good.replace("3, 4", "3, -4"), 0), "not a tuple of numbers"),
            (array(&good.replace("3, 4", "99999999999999999999"), 0), "not a tuple of numbers"),
        ] {
            let error = parse(&bytes).unwrap_err();
            assert!(error.contains(said), "{said:?} in {error}");
        }
    }
}
