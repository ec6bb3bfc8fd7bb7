//! The header of a weight file of any format: names, types, shapes and byte ranges of tensors.

use super::gather::gather;
use linwright_tensor::dtype::DType;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Magic bytes of GGUF.
pub const GGUF_MAGIC: [u8; 4] = *b"GGUF";

macro_rules! stored_types {
    ($($name:ident $text:literal $bits:literal,)*) => {
        /// Storage type of a tensor: all types of safetensors, readable or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are those of the format")]
        #[allow(non_camel_case_types, reason = "the names are those of the format")]
        pub enum StoredType { $($name,)* }

        impl StoredType {
            /// Name of the type in headers.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The type with this name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            /// Bits of one number.
            #[must_use]
            pub fn bits(self) -> u64 {
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
    /// The corresponding weight type, if there is one.
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
    /// Storage type.
    pub dtype: StoredType,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Byte range in the file, from the first number to the last.
    pub bytes: Range<usize>,
    /// Strides in numbers, for a tensor that is not row-major; no two indices share a number.
    pub strides: Option<Vec<usize>>,
}

impl TensorInfo {
    /// The stored bytes of a range of its numbers in row-major order, gathered. `file` is the whole
    /// file of the header.
    ///
    /// # Panics
    /// If a number is out of range, or the tensor is not from this file.
    #[must_use]
    pub fn stored<'a>(&self, file: &'a [u8], numbers: Range<usize>) -> Cow<'a, [u8]> {
        // Types of less than a byte are packed, and are never read by number.
        let size = (self.dtype.bits() / 8) as usize;
        let bytes = &file[self.bytes.clone()];
        match &self.strides {
            None => Cow::Borrowed(&bytes[numbers.start * size..numbers.end * size]),
            Some(strides) => Cow::Owned(gather(bytes, &self.shape, strides, size, numbers)),
        }
    }
}

/// The parsed header of a file. Every tensor lies within the file and has the bytes that its type,
/// shape and strides need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// All tensors by name. Some formats let tensors share bytes.
    pub tensors: BTreeMap<String, TensorInfo>,
    /// Metadata text of the file.
    pub metadata: BTreeMap<String, String>,
    /// Notes for the reader: parts of the file that were left out.
    pub notes: Vec<String>,
}
