//! The storage types of GGUF.

use linwright_tensor::Quantised;
use linwright_tensor::dtype::DType;

/// Encoding of a supported storage type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// One by one, without a scale.
    Plain(DType),
    /// Quantised blocks with common scales.
    Blocks(Quantised),
}

impl Numbers {
    /// Numbers per block.
    #[must_use]
    pub fn block_numbers(self) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Blocks(kind) => kind.block_numbers(),
        }
    }

    /// Bytes per block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self {
            Self::Plain(dtype) => dtype.size(),
            Self::Blocks(kind) => kind.block_bytes(),
        }
    }

    /// Decodes whole blocks of `bytes` into `values`.
    ///
    /// # Panics
    /// If `bytes` does not hold exactly as many numbers as `values`.
    #[track_caller]
    pub fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::Plain(dtype) => dtype.decode_into(bytes, values),
            Self::Blocks(kind) => kind.decode_into(bytes, values),
        }
    }
}

/// A storage type of GGUF, supported or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufType {
    /// Its name in the format.
    pub name: &'static str,
    /// Numbers per block.
    pub block_numbers: usize,
    /// Bytes per block.
    pub block_bytes: usize,
    /// Its encoding; `None` for an unsupported type.
    pub numbers: Option<Numbers>,
    id: u32,
}

const fn plain(id: u32, name: &'static str, dtype: DType, block_bytes: usize) -> GgufType {
    GgufType { name, block_numbers: 1, block_bytes, numbers: Some(Numbers::Plain(dtype)), id }
}

const fn blocks(id: u32, kind: Quantised) -> GgufType {
    let numbers = Some(Numbers::Blocks(kind));
    let (block_numbers, block_bytes) = (kind.block_numbers(), kind.block_bytes());
    GgufType { name: kind.name(), block_numbers, block_bytes, numbers, id }
}

const fn unread(id: u32, name: &'static str, block_numbers: usize, block_bytes: usize) -> GgufType {
    GgufType { name, block_numbers, block_bytes, numbers: None, id }
}

/// All types with their ids. Types removed from the format are missing: their sizes are unknown.
const TYPES: [GgufType; 34] = [
    plain(0, "F32", DType::F32, 4),
    plain(1, "F16", DType::F16, 2),
    blocks(2, Quantised::Q4_0),
    blocks(3, Quantised::Q4_1),
    blocks(6, Quantised::Q5_0),
    blocks(7, Quantised::Q5_1),
    blocks(8, Quantised::Q8_0),
    unread(9, "Q8_1", 32, 40),
    blocks(10, Quantised::Q2_K),
    blocks(11, Quantised::Q3_K),
    blocks(12, Quantised::Q4_K),
    blocks(13, Quantised::Q5_K),
    blocks(14, Quantised::Q6_K),
    blocks(15, Quantised::Q8_K),
    unread(16, "IQ2_XXS", 256, 66),
    unread(17, "IQ2_XS", 256, 74),
    unread(18, "IQ3_XXS", 256, 98),
    unread(19, "IQ1_S", 256, 50),
    unread(20, "IQ4_NL", 32, 18),
    unread(21, "IQ3_S", 256, 110),
    unread(22, "IQ2_S", 256, 82),
    unread(23, "IQ4_XS", 256, 136),
    unread(24, "I8", 1, 1),
    unread(25, "I16", 1, 2),
    unread(26, "I32", 1, 4),
    unread(27, "I64", 1, 8),
    plain(28, "F64", DType::F64, 8),
    unread(29, "IQ1_M", 256, 56),
    plain(30, "BF16", DType::Bf16, 2),
    unread(34, "TQ1_0", 256, 54),
    unread(35, "TQ2_0", 256, 66),
    unread(39, "MXFP4", 32, 17),
    unread(40, "NVFP4", 64, 36),
    unread(41, "Q1_0", 128, 18),
];

impl GgufType {
    /// The type with this id.
    pub fn of(id: u32) -> Option<Self> {
        TYPES.into_iter().find(|kind| kind.id == id)
    }

    /// The type with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TYPES.into_iter().find(|kind| kind.name == name)
    }

    /// The type that stores numbers of this dtype unquantised.
    pub fn plain(dtype: DType) -> Self {
        let same = |kind: &Self| kind.numbers == Some(Numbers::Plain(dtype));
        TYPES.into_iter().find(same).unwrap_or(TYPES[0])
    }

    /// Its id in files.
    pub fn id(self) -> u32 {
        self.id
    }

    /// Names of all supported types.
    pub fn read() -> String {
        let read = TYPES.iter().filter(|kind| kind.numbers.is_some());
        read.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_agree_with_those_of_the_kernels() {
        for kind in TYPES {
            if let Some(numbers) = kind.numbers {
                assert_eq!(kind.block_numbers, numbers.block_numbers(), "{}", kind.name);
                assert_eq!(kind.block_bytes, numbers.block_bytes(), "{}", kind.name);
            }
        }
        let read = Quantised::ALL.iter().map(|kind| Numbers::Blocks(*kind));
        assert!(read.clone().all(|numbers| TYPES.iter().any(|kind| kind.numbers == Some(numbers))));
        assert_eq!(read.count() + 4, GgufType::read().split(", ").count());
    }
}
