//! How the numbers of a tensor are encoded, for inspection.

use crate::header::StoredType;
use linwright_tensor::Quantised;
use linwright_tensor::dtype::DType;

/// Encoding of numbers that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A weight type.
    Plain(DType),
    /// A float of at most eight bits, without a scale.
    Small(SmallFloat),
    /// Quantised blocks with common scales.
    Blocks(Quantised),
}

/// Floats of at most eight bits, as in the formats of the Open Compute Project and their variants
/// without a negative zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallFloat {
    /// Four bits of exponent, three of mantissa; NaN and no infinity.
    E4m3,
    /// Five bits of exponent, two of mantissa.
    E5m2,
    /// Eight bits of exponent: powers of two, and NaN.
    E8m0,
    /// As [`Self::E4m3`], with another bias, and NaN in place of a negative zero.
    E4m3Fnuz,
    /// Likewise of [`Self::E5m2`], without infinities.
    E5m2Fnuz,
    /// Two bits of exponent, one of mantissa: two numbers in a byte, the first in its lower half.
    E2m1,
}

impl Encoding {
    /// The encoding of a storage type, if it can be decoded.
    #[must_use]
    pub fn of(dtype: StoredType) -> Option<Self> {
        Some(match dtype {
            StoredType::F8_E4M3 => Self::Small(SmallFloat::E4m3),
            StoredType::F8_E5M2 => Self::Small(SmallFloat::E5m2),
            StoredType::F8_E8M0 => Self::Small(SmallFloat::E8m0),
            StoredType::F8_E4M3Fnuz => Self::Small(SmallFloat::E4m3Fnuz),
            StoredType::F8_E5M2Fnuz => Self::Small(SmallFloat::E5m2Fnuz),
            StoredType::F4 => Self::Small(SmallFloat::E2m1),
            other => Self::Plain(other.float()?),
        })
    }

    /// Numbers and bytes of the smallest part that can be decoded separately.
    #[must_use]
    pub fn unit(self) -> (usize, usize) {
        match self {
            Self::Plain(dtype) => (1, dtype.size()),
            Self::Small(SmallFloat::E2m1) => (2, 1),
            Self::Small(_) => (1, 1),
            Self::Blocks(kind) => (kind.block_numbers(), kind.block_bytes()),
        }
    }

    /// Decodes whole units.
    ///
    /// # Panics
    /// If `bytes` does not hold exactly as many numbers as `values`.
    #[track_caller]
    pub fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::Plain(dtype) => dtype.decode_into(bytes, values),
            Self::Blocks(kind) => kind.decode_into(bytes, values),
            Self::Small(SmallFloat::E2m1) => {
                assert_eq!(values.len(), 2 * bytes.len(), "numbers of {} bytes", bytes.len());
                for (pair, byte) in values.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
                    *pair = [byte & 15, byte >> 4].map(|bits| SmallFloat::E2m1.value(bits));
                }
            }
            Self::Small(kind) => {
                assert_eq!(values.len(), bytes.len(), "numbers of {} bytes", bytes.len());
                for (value, bits) in values.iter_mut().zip(bytes) {
                    *value = kind.value(*bits);
                }
            }
        }
    }
}

impl SmallFloat {
    /// The number with these bits.
    #[must_use]
    pub fn value(self, bits: u8) -> f32 {
        // Bits of the mantissa, and the bias of the exponent.
        let (mantissa_bits, bias) = match self {
            Self::E8m0 if bits == 0xff => return f32::NAN,
            Self::E8m0 => return (f32::from(bits) - 127.0).exp2(),
            Self::E4m3 if bits & 0x7f == 0x7f => return f32::NAN,
            Self::E4m3Fnuz | Self::E5m2Fnuz if bits == 0x80 => return f32::NAN,
            Self::E5m2 if bits & 0x7f > 0x7c => return f32::NAN,
            Self::E5m2 if bits & 0x7f == 0x7c => {
                return if bits >> 7 == 1 { f32::NEG_INFINITY } else { f32::INFINITY };
            }
            Self::E4m3 => (3, 7),
            Self::E5m2 => (2, 15),
            Self::E4m3Fnuz => (3, 8),
            Self::E5m2Fnuz => (2, 16),
            Self::E2m1 => (1, 1),
        };
        let width = if self == Self::E2m1 { 4 } else { 8 };
        let sign = if bits >> (width - 1) & 1 == 1 { -1.0 } else { 1.0 };
        let magnitude = bits & ((1 << (width - 1)) - 1);
        let (exponent, mantissa) =
            (magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1));
        let fraction = f32::from(mantissa) / f32::from(1u8 << mantissa_bits);
        let scale = |exponent: i32| (exponent as f32).exp2();
        match exponent {
            0 => sign * fraction * scale(1 - bias),
            _ => sign * (1.0 + fraction) * scale(i32::from(exponent) - bias),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_have_the_values_of_torch() {
        // By torch 2.15: bits and values, among them the largest, the smallest and the odd ones.
        let table: [(SmallFloat, &[(u8, f32)]); 6] = [
            (
                SmallFloat::E4m3,
                &[
                    (0x38, 1.0),
                    (0x7e, 448.0),
                    (0xfe, -448.0),
                    (0x01, 0.001_953_125),
                    (0x08, 0.015_625),
                    (0x80, 0.0),
                    (0xb9, -1.125),
                ],
            ),
            (
                SmallFloat::E5m2,
                &[
                    (0x3c, 1.0),
                    (0x7b, 57_344.0),
                    (0x01, 1.525_878_9e-5),
                    (0x7c, f32::INFINITY),
                    (0xfc, f32::NEG_INFINITY),
                    (0xc1, -2.5),
                ],
            ),
            (
                SmallFloat::E8m0,
                &[(127, 1.0), (128, 2.0), (0, 5.877_472e-39), (254, 1.701_411_8e38)],
            ),
            (
                SmallFloat::E4m3Fnuz,
                &[(0x40, 1.0), (0x7f, 240.0), (0x01, 0.000_976_562_5), (0xc4, -1.5)],
            ),
            (
                SmallFloat::E5m2Fnuz,
                &[(0x40, 1.0), (0x7f, 57_344.0), (0x01, 7.629_394_5e-6), (0xc2, -1.5)],
            ),
            (
                SmallFloat::E2m1,
                &[
                    (0, 0.0),
                    (1, 0.5),
                    (2, 1.0),
                    (3, 1.5),
                    (4, 2.0),
                    (5, 3.0),
                    (6, 4.0),
                    (7, 6.0),
                    (15, -6.0),
                    (9, -0.5),
                ],
            ),
        ];
        for (kind, values) in table {
            for (bits, value) in values {
                assert_eq!(kind.value(*bits), *value, "{kind:?} {bits:#x}");
            }
        }
        for (kind, bits) in [
            (SmallFloat::E4m3, 0x7f),
            (SmallFloat::E4m3, 0xff),
            (SmallFloat::E5m2, 0x7d),
            (SmallFloat::E8m0, 0xff),
            (SmallFloat::E4m3Fnuz, 0x80),
            (SmallFloat::E5m2Fnuz, 0x80),
        ] {
            assert!(kind.value(bits).is_nan(), "{kind:?} {bits:#x}");
        }
        let mut pair = [0.0; 2];
        Encoding::Small(SmallFloat::E2m1).decode_into(&[0x72], &mut pair);
        assert_eq!(pair, [1.0, 6.0], "the first number is in the lower half");
    }
}
