//! Storage types of weights and their conversion to and from `f32`.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Storage type of numbers in a file. Computation runs in `f32` or `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// bfloat16: the upper half of a 32-bit float.
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

    /// The distance of 1 to the next number: half of it is the largest relative error of rounding.
    #[must_use]
    pub fn epsilon(self) -> f64 {
        let stored_bits = match self {
            Self::F64 => 52,
            Self::F32 => 23,
            Self::F16 => 10,
            Self::Bf16 => 7,
        };
        0.5f64.powi(stored_bits)
    }

    /// The type of larger [`Self::epsilon`].
    #[must_use]
    pub fn coarser(self, other: Self) -> Self {
        if other.epsilon() > self.epsilon() { other } else { self }
    }

    /// Decodes little-endian `bytes` to `f32`.
    ///
    /// # Panics
    /// If `bytes` is not a whole count of numbers.
    #[must_use]
    #[track_caller]
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        assert_eq!(bytes.len() % self.size(), 0, "half a number at the end");
        let mut values = vec![0.0; bytes.len() / self.size()];
        self.decode_into(bytes, &mut values);
        values
    }

    /// Decodes little-endian `bytes` into `values`. A number that overflows `f32` becomes an
    /// infinity.
    ///
    /// # Panics
    /// If `bytes` does not hold exactly as many numbers as `values`.
    #[track_caller]
    pub fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
        assert_eq!(bytes.len(), values.len() * self.size(), "bytes of {} numbers", values.len());
        match self {
            Self::F32 => {
                for (v, b) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *v = f32::from_le_bytes(*b);
                }
            }
            Self::F16 => decode_f16(bytes, values),
            // The upper half of an f32: two shifts that the compiler vectorises.
            Self::Bf16 => {
                for (v, b) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *v = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
                }
            }
            Self::F64 => {
                for (v, b) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *v = f64::from_le_bytes(*b) as f32;
                }
            }
        }
    }

    /// Encodes to little-endian bytes, rounding to nearest.
    #[must_use]
    pub fn encode(self, values: &[f32]) -> Vec<u8> {
        let mut bytes = vec![0; values.len() * self.size()];
        match self {
            Self::F32 => {
                for (b, v) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *b = v.to_le_bytes();
                }
            }
            Self::F16 => encode_f16(values, &mut bytes),
            Self::Bf16 => {
                for (b, v) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *b = bf16::from_f32(*v).to_le_bytes();
                }
            }
            Self::F64 => {
                for (b, v) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *b = f64::from(*v).to_le_bytes();
                }
            }
        }
        bytes
    }
}

/// The inverse of [`decode_f16`], in the same blocks.
fn encode_f16(values: &[f32], bytes: &mut [u8]) {
    const BLOCK: usize = 1024;
    let mut halves = [f16::ZERO; BLOCK];
    for (values, bytes) in values.chunks(BLOCK).zip(bytes.chunks_mut(2 * BLOCK)) {
        let halves = &mut halves[..values.len()];
        halves.convert_from_f32_slice(values);
        for (half, b) in halves.iter().zip(bytes.as_chunks_mut().0) {
            *b = half.to_le_bytes();
        }
    }
}

/// Converts in blocks through an aligned buffer, since the bytes of a file need not be aligned and
/// the vectorised conversion works on slices.
fn decode_f16(bytes: &[u8], values: &mut [f32]) {
    const BLOCK: usize = 1024;
    let mut halves = [f16::ZERO; BLOCK];
    for (values, bytes) in values.chunks_mut(BLOCK).zip(bytes.chunks(2 * BLOCK)) {
        let halves = &mut halves[..values.len()];
        for (half, b) in halves.iter_mut().zip(bytes.as_chunks().0) {
            *half = f16::from_le_bytes(*b);
        }
        halves.convert_to_f32_slice(values);
    }
}

/// Whether any number is infinite or NaN. Without an early exit, so that it vectorises.
#[must_use]
pub fn has_non_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    values.iter().fold(false, |found, v| found | (v.to_bits() & EXPONENT == EXPONENT))
}

const _: () = assert!(
    cfg!(target_endian = "little"),
    "files hold little-endian numbers, which are mapped as they are"
);

/// The bytes of numbers in files.
#[must_use]
pub fn little_endian_bytes(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// The bytes of indices in files.
#[must_use]
pub fn index_bytes(values: &[u32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// The numbers in the bytes of a mapped file.
///
/// # Panics
/// If the bytes are not aligned or not a whole count of numbers.
#[must_use]
pub fn floats(bytes: &[u8]) -> &[f32] {
    bytemuck::cast_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_inverts_encode_within_the_rounding_of_the_type() {
        let values = [0.0f32, 1.0, -2.5, 3.125_1, 65504.0];
        for (dtype, tolerance) in
            [(DType::F32, 0.0), (DType::F64, 0.0), (DType::F16, 1e-3), (DType::Bf16, 8e-3)]
        {
            for (a, b) in values.iter().zip(dtype.decode(&dtype.encode(&values))) {
                assert!((a - b).abs() <= tolerance * a.abs(), "{dtype:?}: {a} became {b}");
            }
        }
    }
    #[test]
    fn all_halves_decode_and_non_finite_ones_are_found() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (bits, v) in (0..=u16::MAX).zip(DType::F16.decode(&bytes)) {
            let expected = f16::from_bits(bits);
            assert!(v == expected.to_f32() || (v.is_nan() && expected.is_nan()), "{bits:#x}: {v}");
            assert_eq!(has_non_finite(&[0.0, v]), !v.is_finite());
        }
        for (bits, v) in (0..=u16::MAX).zip(DType::Bf16.decode(&bytes)) {
            assert_eq!(v.to_bits() >> 16, u32::from(bits));
            assert_eq!(has_non_finite(&[v, 1.0]), !v.is_finite());
        }
    }
}
