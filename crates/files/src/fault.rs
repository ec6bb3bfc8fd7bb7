//! Errors in the bytes of a weight file.

use super::pickle::PickleFault;
use linwright_run::shown;

/// Errors in the bytes of a weight file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// An invalid file of `torch.save`.
    #[error(transparent)]
    Pickle(#[from] PickleFault),
    /// A GGUF file where single tensors are read.
    #[error(
        "this is a GGUF file, a whole model whose tensors are not read one by one here; `linwright inspect FILE` reports on them, `linwright inspect FILE --slots` shows its linear layers, and `linwright export FILE -o DIR` makes a directory of it"
    )]
    Gguf,
    /// An invalid GGUF file.
    #[cfg(feature = "gguf")]
    #[error(transparent)]
    Container(#[from] crate::gguf::ContainerFault),
    /// A file shorter than its length field.
    #[error("the file has {size} bytes, a safetensors file at least 8; it is truncated")]
    TooShort {
        /// Bytes of the file.
        size: usize,
    },
    /// A header length above the bound.
    #[error(
        "the header claims {header} bytes, at most {limit} are allowed; this is not a safetensors file"
    )]
    HeaderTooLarge {
        /// Header length by the length field.
        header: u64,
        /// The bound.
        limit: u64,
    },
    /// A header that ends beyond the file.
    #[error(
        "the header claims {header} bytes, the file has {left} after the length field; it is truncated or not a safetensors file"
    )]
    HeaderBeyondFile {
        /// Header length by the length field.
        header: u64,
        /// Bytes after the length field.
        left: u64,
    },
    /// A header that is not valid JSON of the expected form.
    #[error("the header is not valid: {reason}; this is not a safetensors file, or it is damaged")]
    Header {
        /// The parser's error.
        reason: String,
    },
    /// Two tensors of one name.
    #[error("tensor {name} occurs twice in the header; the file is damaged", name = shown(name))]
    Duplicate {
        /// The name.
        name: String,
    },
    /// An unknown storage type.
    #[error(
        "tensor {name} has the unknown type \"{found}\"; the file is damaged or of a newer version", name = shown(name), found = shown(found)
    )]
    UnknownType {
        /// The tensor.
        name: String,
        /// The type.
        found: String,
    },
    /// An end offset before the start.
    #[error(
        "tensor {name} lies from byte {start} to {end} of the data; the end is before the start", name = shown(name)
    )]
    Backwards {
        /// The tensor.
        name: String,
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
    },
    /// A shape whose size overflows.
    #[error("tensor {name} has the impossible shape {shape:?}", name = shown(name))]
    ShapeOverflow {
        /// The tensor.
        name: String,
        /// The shape.
        shape: Vec<u64>,
    },
    /// A tensor whose byte count does not match shape and type.
    #[error(
        "tensor {name} takes {found} bytes, its shape {shape:?} of {dtype} needs {expected}", name = shown(name)
    )]
    WrongSize {
        /// The tensor.
        name: String,
        /// The shape.
        shape: Vec<u64>,
        /// The type.
        dtype: &'static str,
        /// Bytes by shape and type.
        expected: u64,
        /// Bytes by the offsets.
        found: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensors {first} and {second} overlap at byte {at} of the data", first = shown(first), second = shown(second))]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// The other.
        second: String,
        /// Offset of the second.
        at: u64,
    },
    /// Bytes between tensors.
    #[error("bytes {start} to {end} of the data before tensor {before} belong to no tensor")]
    Gap {
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
        /// The next tensor.
        before: String,
    },
    /// A data size that differs from the sum of the tensors.
    #[error(
        "the header describes {expected} bytes of data, the file has {found}; it is truncated or damaged, fetch it again"
    )]
    DataSize {
        /// Bytes by the header.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
}

/// A shape from a file, shortened for a message.
pub(crate) fn shown_shape(shape: &[u64]) -> Vec<u64> {
    const SHOWN: usize = 8;
    shape[..shape.len().min(SHOWN)].to_vec()
}
