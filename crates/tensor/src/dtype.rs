//! Storage types of weights and their conversion to and from `f32`.

use half::{bf16, f16};

/// How numbers are stored in a file. Computation runs in `f32` or `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// The upper half of a 32-bit float.
    Bf16,
    /// 64-bit float.
    F64,
}

impl DType {
    /// Bytes of one number.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Decodes little-endian `bytes` to `f32`.
    ///
    /// # Panics
    /// If `bytes` is not a whole count of numbers.
    #[must_use]
    #[track_caller]
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        assert_eq!(bytes.len() % self.size(), 0, "half a number at the end");
        match self {
            Self::F32 => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
            Self::F16 => bytes
                .chunks_exact(2)
                .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            Self::Bf16 => bytes
                .chunks_exact(2)
                .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            Self::F64 => bytes
                .chunks_exact(8)
                .map(|b| {
                    f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32
                })
                .collect(),
        }
    }

    /// Encodes to little-endian bytes, rounding to nearest.
    #[must_use]
    pub fn encode(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::F16 => values
                .iter()
                .flat_map(|v| f16::from_f32(*v).to_le_bytes())
                .collect(),
            Self::Bf16 => values
                .iter()
                .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
                .collect(),
            Self::F64 => values
                .iter()
                .flat_map(|v| f64::from(*v).to_le_bytes())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_inverts_encode_within_the_rounding_of_the_type() {
        let values = [0.0f32, 1.0, -2.5, 3.1415927, 65504.0];
        for (dtype, tolerance) in [
            (DType::F32, 0.0),
            (DType::F64, 0.0),
            (DType::F16, 1e-3),
            (DType::Bf16, 8e-3),
        ] {
            for (a, b) in values.iter().zip(dtype.decode(&dtype.encode(&values))) {
                assert!(
                    (a - b).abs() <= tolerance * a.abs(),
                    "{dtype:?}: {a} became {b}"
                );
            }
        }
    }
}
