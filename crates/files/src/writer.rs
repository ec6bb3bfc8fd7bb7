//! Streaming writer of safetensors files: the header first, then one tensor after another.

use super::header::StoredType;
use crate::FileError;
use linwright_run::seal;
use linwright_tensor::dtype::{DType, has_non_finite};
use linwright_tensor::{Halves, parallel};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Numbers that one thread encodes at a time.
const BLOCK: usize = 1 << 18;
/// Numbers between two writes, which bounds the memory for encoded bytes.
const PIECE: usize = 16 * BLOCK;

/// Key of the file's metadata, which no tensor can have as its name.
pub const METADATA: &str = "__metadata__";

/// Name, type and shape of a tensor to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// Its storage type.
    pub dtype: StoredType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Planned {
    /// A tensor of floating-point numbers.
    #[must_use]
    pub fn values(name: String, dtype: DType, shape: Vec<usize>) -> Self {
        let count: usize = shape.iter().product();
        Self { name, dtype: dtype.into(), shape, bytes: (count * dtype.size()) as u64 }
    }

    /// A tensor of unsigned integers.
    #[must_use]
    pub fn indices(name: String, count: usize) -> Self {
        Self { name, dtype: StoredType::U32, shape: vec![count], bytes: count as u64 * 4 }
    }
}

/// Length field and header of a file with these tensors, in this order.
#[must_use]
pub fn header_bytes(tensors: &[Planned]) -> Vec<u8> {
    header_bytes_with(tensors, &BTreeMap::new())
}

/// As [`header_bytes`], with further metadata.
#[must_use]
pub fn header_bytes_with(tensors: &[Planned], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut header = Map::new();
    let mut all = json!({ "format": "pt" });
    for (key, text) in metadata {
        all[key] = json!(text);
    }
    header.insert(METADATA.into(), all);
    let mut offset = 0;
    for tensor in tensors {
        let end = offset + tensor.bytes;
        let entry = json!({
            "dtype": tensor.dtype.name(),
            "shape": tensor.shape,
            "data_offsets": [offset, end],
        });
        header.insert(tensor.name.clone(), entry);
        offset = end;
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    // Spaces align the data, as other writers do.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut text);
    bytes
}

/// As [`header_bytes_with`], sealed: the metadata has the digest of the whole file (see
/// [`linwright_run::seal`]), of which `content` gives the bytes of all tensors.
#[must_use]
pub fn sealed_header(
    tensors: &[Planned],
    mut metadata: BTreeMap<String, String>,
    content: impl FnOnce(&mut dyn FnMut(&[u8])),
) -> Vec<u8> {
    metadata.insert(seal::KEY.into(), seal::BLANK.into());
    let mut header = header_bytes_with(tensors, &metadata);
    seal::seal(&mut header, content);
    header
}

/// A writer that computes the SHA-256 of its output.
pub(crate) struct Hashed<'a> {
    inner: &'a mut dyn Write,
    hash: Sha256,
}

impl<'a> Hashed<'a> {
    pub(crate) fn new(inner: &'a mut dyn Write) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// The hash, in hexadecimal.
    pub(crate) fn finish(self) -> String {
        crate::hex(&self.hash.finalize())
    }
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// An error of writing a tensor.
#[derive(Debug)]
pub enum WriteError<E> {
    /// An I/O error.
    Io(io::Error),
    /// An error in producing the numbers.
    Content(E),
}

impl<E> From<io::Error> for WriteError<E> {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FileError> for WriteError<FileError> {
    fn from(error: FileError) -> Self {
        Self::Content(error)
    }
}

/// Writes numbers in a storage type; fails if one does not fit.
///
/// # Errors
/// [`WriteError::Io`], or [`FileError::Unstorable`] for a number that it cannot hold.
pub fn write_values<E: From<FileError>>(
    out: &mut dyn Write,
    name: &str,
    dtype: DType,
    values: &[f32],
) -> Result<(), WriteError<E>> {
    values
        .chunks(PIECE)
        .enumerate()
        .try_for_each(|(index, values)| write_piece(out, name, dtype, index * PIECE, values))
}

/// As [`write_values`], for a matrix in 16 bits, of which a piece is widened at a time.
///
/// # Errors
/// As [`write_values`].
pub fn write_halves<E: From<FileError>>(
    out: &mut dyn Write,
    name: &str,
    dtype: DType,
    values: &Halves,
) -> Result<(), WriteError<E>> {
    let mut wide = vec![0.0; PIECE.min(values.bits().len())];
    values.bits().chunks(PIECE).enumerate().try_for_each(|(index, bits)| {
        let wide = &mut wide[..bits.len()];
        values.half_type().widen(bits, wide);
        write_piece(out, name, dtype, index * PIECE, wide)
    })
}

/// Writes some numbers of a tensor, from number `first` on.
fn write_piece<E: From<FileError>>(
    out: &mut dyn Write,
    name: &str,
    dtype: DType,
    first: usize,
    values: &[f32],
) -> Result<(), WriteError<E>> {
    let blocks = parallel::map(values.chunks(BLOCK).collect(), |_, block| encode(dtype, block));
    for (block, encoded) in blocks.into_iter().enumerate() {
        match encoded {
            Ok(bytes) => out.write_all(&bytes)?,
            Err((at, value)) => {
                let error = FileError::Unstorable {
                    name: name.into(),
                    index: first + block * BLOCK + at,
                    value,
                    dtype: StoredType::from(dtype).name(),
                };
                return Err(WriteError::Content(error.into()));
            }
        }
    }
    Ok(())
}

/// Encodes a block, or returns index and value of the first number that does not fit the type.
fn encode(dtype: DType, values: &[f32]) -> Result<Vec<u8>, (usize, f32)> {
    let bytes = dtype.encode(values);
    let stored = dtype.decode(&bytes);
    if has_non_finite(&stored) {
        let bad = stored.iter().position(|v| !v.is_finite()).unwrap_or(0);
        return Err((bad, values[bad]));
    }
    Ok(bytes)
}
