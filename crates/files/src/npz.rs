//! Archives of `numpy.savez`: arrays by name, as numbers in double precision.

use crate::npy::npy_text;
use crate::{FileError, NPY_MAGIC, NpyHeader, StoredType, zip};
use linwright_run::{input, shown};
use linwright_tensor::MappedFile;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A `.npz`, mapped or in memory.
#[derive(Debug)]
pub struct NpzFile {
    path: PathBuf,
    content: Content,
    arrays: Vec<Stored>,
    inflate: Option<Inflate>,
}

/// Decompresses deflate data to a known number of bytes; an error is the end of a sentence about
/// them.
pub type Inflate = fn(&[u8], u64) -> Result<Vec<u8>, String>;

/// An array of an archive.
#[derive(Debug)]
struct Stored {
    name: String,
    bytes: Range<usize>,
    /// Size after decompression, if it is compressed.
    inflated: Option<u64>,
}

/// The bytes of an archive.
#[derive(Debug)]
enum Content {
    Mapped(MappedFile),
    Read(Vec<u8>),
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map.bytes(),
            Self::Read(bytes) => bytes,
        }
    }
}

/// Numbers of an array, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct NpzArray {
    /// Shape; empty for a single number.
    pub shape: Vec<usize>,
    /// The numbers; integers beyond 2^53 are rounded.
    pub numbers: Vec<f64>,
}

impl NpzFile {
    /// Opens an archive.
    ///
    /// # Errors
    /// An unreadable file, one that is not a zip archive, or one with compressed arrays.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::of(path, Content::Mapped(mapped(path)?), None)
    }

    /// The same for an archive whose arrays may be compressed, as by `numpy.savez_compressed`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_packed(path: &Path, inflate: Inflate) -> Result<Self, FileError> {
        Self::of(path, Content::Mapped(mapped(path)?), Some(inflate))
    }

    /// An archive in memory, called `path` in errors; arrays may be compressed.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(path: &Path, bytes: Vec<u8>, inflate: Inflate) -> Result<Self, FileError> {
        Self::of(path, Content::Read(bytes), Some(inflate))
    }

    fn of(path: &Path, content: Content, inflate: Option<Inflate>) -> Result<Self, FileError> {
        let entries = match inflate {
            Some(_) => zip::all_entries(content.bytes()),
            None => zip::entries(content.bytes()),
        };
        let entries = entries.map_err(|fault| wrong(path, fault.to_string()))?;
        let named = entries.into_iter().filter_map(|entry| {
            let name = entry.name.strip_suffix(".npy")?.to_owned();
            Some(Stored { name, bytes: entry.bytes, inflated: entry.inflated })
        });
        let arrays = named.collect();
        Ok(Self { path: path.to_owned(), content, arrays, inflate })
    }

    /// Names of the arrays, in the order of the archive.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.iter().map(|array| array.name.as_str())
    }

    /// The array with this name, if any.
    ///
    /// # Errors
    /// An array that is damaged, column-major or not numeric.
    pub fn array(&self, name: &str) -> Result<Option<NpzArray>, FileError> {
        self.read(name, NpzArray::parse)
    }

    /// The text of an array of one string; none if there is no such array, or if it is numeric.
    ///
    /// # Errors
    /// A damaged array, or one of several strings.
    pub fn text(&self, name: &str) -> Result<Option<String>, FileError> {
        self.read(name, npy_text).map(Option::flatten)
    }

    /// Destination of the bytes of an array.
    fn read<T>(
        &self,
        name: &str,
        made: fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, FileError> {
        let Some(array) = self.arrays.iter().find(|array| array.name == name) else {
            return Ok(None);
        };
        let bytes = &self.content.bytes()[array.bytes.clone()];
        let made = match (array.inflated, self.inflate) {
            (Some(size), Some(inflate)) => inflate(bytes, size).and_then(|bytes| made(&bytes)),
            _ => made(bytes),
        };
        let refused = |reason: String| wrong(&self.path, format!("array {} {reason}", shown(name)));
        made.map(Some).map_err(refused)
    }
}

fn mapped(path: &Path) -> Result<MappedFile, FileError> {
    input::open(path).and_then(MappedFile::of).map_err(FileError::read(path))
}

impl NpzArray {
    /// Reads a `.npy` file.
    ///
    /// # Errors
    /// An unreadable file, or an array that is damaged, column-major or not numeric.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::parse(mapped(path)?.bytes())
            .map_err(|reason| wrong(path, format!("as an array {reason}")))
    }

    /// The array of the bytes of a `.npy` file.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let header = NpyHeader::parse(bytes)?;
        if header.by_columns && header.shape.len() > 1 {
            return Err("is column-major; save it with numpy.ascontiguousarray".into());
        }
        let size = (header.dtype.bits() / 8).max(1) as usize;
        let needed = header.shape.iter().try_fold(size, |n, extent| n.checked_mul(*extent));
        let numbers = &bytes[header.start..];
        if needed != Some(numbers.len()) {
            let (shape, found) = (&header.shape, numbers.len());
            let expected = needed.map_or_else(|| "fewer".to_owned(), |needed| needed.to_string());
            return Err(format!(
                "of shape {shape:?} has {found} bytes of numbers, expected {expected}; fetch or \
                 save the file again"
            ));
        }
        let mut straight = numbers.to_vec();
        if header.big_endian {
            straight.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        let numbers = decoded(header.dtype, &straight)
            .ok_or_else(|| format!("holds {}, expected numbers", header.dtype.name()))?;
        Ok(Self { shape: header.shape, numbers })
    }

    /// The bytes of a `.npy` file of these numbers, in single precision.
    ///
    /// # Panics
    /// If there are not as many numbers as the shape says.
    #[must_use]
    #[track_caller]
    pub fn file_of(shape: &[usize], numbers: &[f32]) -> Vec<u8> {
        assert_eq!(shape.iter().product::<usize>(), numbers.len(), "numbers of {shape:?}");
        let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({extents}), }}");
        // Magic, version and length are ten bytes; the header ends on a multiple of 64.
        let padded = (NPY_MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64);
        let spaces = padded - NPY_MAGIC.len() - 4 - text.len() - 1;
        let mut bytes = NPY_MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend(((text.len() + spaces + 1) as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend(std::iter::repeat_n(b' ', spaces));
        bytes.push(b'\n');
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }
}

fn wrong(path: &Path, reason: String) -> FileError {
    FileError::Dump { path: path.into(), reason }
}

fn decoded(dtype: StoredType, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! integers {
        ($type:ty) => {
            bytes.as_chunks().0.iter().map(|b| <$type>::from_le_bytes(*b) as f64).collect()
        };
    }
    Some(match dtype {
        StoredType::F64 => integers!(f64),
        StoredType::F32 | StoredType::F16 | StoredType::Bf16 => {
            dtype.float()?.decode(bytes).into_iter().map(f64::from).collect()
        }
        StoredType::I64 => integers!(i64),
        StoredType::I32 => integers!(i32),
        StoredType::I16 => integers!(i16),
        StoredType::I8 => integers!(i8),
        StoredType::U8 => integers!(u8),
        StoredType::U16 => integers!(u16),
        StoredType::U32 => integers!(u32),
        StoredType::U64 => integers!(u64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        for shape in [vec![2, 3], vec![6], vec![1, 6, 1]] {
            let numbers: Vec<f32> = (0..6).map(|k| k as f32 - 2.5).collect();
            let bytes = NpzArray::file_of(&shape, &numbers);
            assert!((bytes.len() - 24).is_multiple_of(64), "{shape:?}");
            std::fs::write(&path, &bytes).unwrap();
            let read = NpzArray::open(&path).unwrap();
            let wide: Vec<f64> = numbers.iter().map(|v| f64::from(*v)).collect();
            assert_eq!((read.shape, read.numbers), (shape.clone(), wide));
            std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            let error = NpzArray::open(&path).unwrap_err().to_string();
            let said = format!("{} as an array of shape {shape:?} has 23", path.display());
            assert!(error.starts_with(&said), "{error}");
            assert!(error.contains("bytes of numbers, expected 24"), "{error}");
        }
    }

    /// A stored zip entry of this name, and its record in the directory.
    fn entry(name: &str, content: &[u8], at: u32) -> (Vec<u8>, Vec<u8>) {
        let size = (content.len() as u32).to_le_bytes();
        let length = (name.len() as u16).to_le_bytes();
        // Version, flags, method, time, date; checksum; both sizes.
        let fields = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &size, &size].concat();
        let local = [b"PK\x03\x04", &fields[..], &length, &[0, 0], name.as_bytes(), content];
        let record = [
            b"PK\x01\x02",
            &[20, 0][..],
            &fields,
            &length,
            &[0; 12],
            &at.to_le_bytes(),
            name.as_bytes(),
        ];
        (local.concat(), record.concat())
    }

    fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in arrays {
            let (local, record) = entry(name, content, file.len() as u32);
            file.extend(local);
            directory.extend(record);
        }
        let (start, size) = (file.len() as u32, directory.len() as u32);
        let count = (arrays.len() as u16).to_le_bytes();
        let end = [
            b"PK\x05\x06",
            &[0; 4][..],
            &count,
            &count,
            &size.to_le_bytes(),
            &start.to_le_bytes(),
            &[0, 0],
        ];
        [file, directory, end.concat()].concat()
    }

    fn npy(descr: &str, order: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), numbers].concat()
    }

    fn opened(arrays: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, NpzFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.npz");
        std::fs::write(&path, npz(arrays)).unwrap();
        let file = NpzFile::open(&path).unwrap();
        (folder, file)
    }

    #[test]
    fn numbers_of_every_type_and_byte_order_are_read() {
        let wide: Vec<u8> = [1.5_f64, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
        let arrays = [
            ("z.npy", npy("|u1", "False", "(3,)", &[6, 1, 8])),
            ("E.npy", npy(">f8", "False", "(2, 1)", &wide)),
            ("n.npy", npy("<i2", "False", "()", &(-7_i16).to_le_bytes())),
            ("note.txt", b"text".to_vec()),
        ];
        let (_folder, file) = opened(&arrays);
        assert_eq!(file.names().collect::<Vec<_>>(), ["z", "E", "n"]);
        let array = |name: &str| file.array(name).unwrap().unwrap();
        assert_eq!(array("z"), NpzArray { shape: vec![3], numbers: vec![6.0, 1.0, 8.0] });
        assert_eq!(array("E"), NpzArray { shape: vec![2, 1], numbers: vec![1.5, -2.0] });
        assert_eq!(array("n"), NpzArray { shape: vec![], numbers: vec![-7.0] });
        assert_eq!(file.array("R").unwrap(), None);
    }

    #[test]
    fn texts_are_read_in_both_byte_orders_and_widths() {
        let wide = |text: &str, order: fn(u32) -> [u8; 4]| -> Vec<u8> {
            text.chars().flat_map(|c| order(u32::from(c))).collect()
        };
        let arrays = [
            ("a.npy", npy("<U4", "False", "()", &wide("Ång\0", u32::to_le_bytes))),
            ("b.npy", npy(">U2", "False", "(1,)", &wide("eV", u32::to_be_bytes))),
            ("c.npy", npy("|S4", "False", "()", b"eV\0\0")),
            ("d.npy", npy("<f8", "False", "()", &[0; 8])),
            ("two.npy", npy("<U1", "False", "(2,)", &[0; 8])),
            ("cut.npy", npy("<U9", "False", "()", &[0; 8])),
            ("odd.npy", npy("<U1", "False", "()", &[255; 4])),
        ];
        let (_folder, file) = opened(&arrays);
        let text = |name: &str| file.text(name).unwrap();
        assert_eq!(text("a").as_deref(), Some("Ång"));
        assert_eq!((text("b").as_deref(), text("c").as_deref()), (Some("eV"), Some("eV")));
        assert_eq!((text("d"), text("none")), (None, None));
        for (name, said) in [("two", "2 texts"), ("cut", "36"), ("odd", "an empty text")] {
            let error = file.text(name).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn compressed_arrays_are_read_by_those_who_can_decompress() {
        // The second byte of the method in both records.
        let (mut local, mut record) = entry("x.npy", b"packed", 0);
        local[8] = 8;
        record[10] = 8;
        let place = local.len() as u32;
        let end = [
            &b"PK\x05\x06\0\0\0\0\x01\0\x01\0"[..],
            &(record.len() as u32).to_le_bytes(),
            &place.to_le_bytes(),
            &[0, 0],
        ];
        let bytes = [local, record, end.concat()].concat();
        fn inflate(bytes: &[u8], size: u64) -> Result<Vec<u8>, String> {
            assert_eq!((bytes, size), (&b"packed"[..], 6));
            Ok(NpzArray::file_of(&[2], &[1.0, 2.0]))
        }
        let path = Path::new("x.npz");
        let file = NpzFile::from_bytes(path, bytes.clone(), inflate).unwrap();
        assert_eq!(file.array("x").unwrap().unwrap().numbers, [1.0, 2.0]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        std::fs::write(&path, bytes).unwrap();
        let error = NpzFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("x.npy") && error.contains("compressed"), "{error}");
    }

    #[test]
    fn damaged_arrays_are_refused_by_name() {
        let arrays = [
            ("short.npy", npy("<f4", "False", "(2,)", &[0; 4])),
            ("huge.npy", npy("<f4", "False", "(18446744073709551615, 9)", &[0; 4])),
            ("turned.npy", npy("<f4", "True", "(1, 1)", &[0; 4])),
            ("text.npy", b"no array".to_vec()),
        ];
        let (_folder, file) = opened(&arrays);
        for name in ["short", "huge", "turned", "text"] {
            let error = file.array(name).expect_err(name).to_string();
            assert!(error.contains("set.npz") && error.contains(name), "{error}");
        }
    }
}
