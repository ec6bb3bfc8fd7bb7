//! Round to nearest in blocks: the encoders of Q8_0 and Q4_0.
//!
//! Q8_0: `d = max|x| / 127`, `q = round(x / d)`, halves away from zero. Q4_0: `d = m / -8` for the
//! number `m` of largest size, the first of several, and `q = min(15, trunc(x / d + 8.5))`. The
//! scale is stored as a half, and numbers are divided by the scale before it is rounded.
//!
//! Source: `quantize_row_q8_0_ref` and `quantize_row_q4_0_ref` of llama.cpp.

use super::{Quantised, SMALL};
use half::f16;

/// Half a block.
const HALF: usize = SMALL / 2;

impl Quantised {
    /// The blocks of `values`, rounded to nearest; none for a type that is only read.
    ///
    /// # Panics
    /// If the number of values is not a multiple of [`Self::block_numbers`].
    #[must_use]
    #[track_caller]
    pub fn encode(self, values: &[f32]) -> Option<Vec<u8>> {
        let block = match self {
            Self::Q8_0 => q8_0,
            Self::Q4_0 => q4_0,
            Self::Q4_1
            | Self::Q5_0
            | Self::Q5_1
            | Self::Q2_K
            | Self::Q3_K
            | Self::Q4_K
            | Self::Q5_K
            | Self::Q6_K
            | Self::Q8_K => return None,
        };
        let (blocks, rest) = values.as_chunks::<SMALL>();
        assert!(rest.is_empty(), "{} numbers in blocks of {SMALL}", values.len());
        let mut bytes = Vec::with_capacity(blocks.len() * self.block_bytes());
        blocks.iter().for_each(|values| block(values, &mut bytes));
        Some(bytes)
    }
}

/// One over a scale, or zero for a block of zeros.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

fn put_scale(scale: f32, bytes: &mut Vec<u8>) {
    bytes.extend(f16::from_f32(scale).to_le_bytes());
}

fn q8_0(values: &[f32; SMALL], bytes: &mut Vec<u8>) {
    let largest = values.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    put_scale(scale, bytes);
    bytes.extend(values.iter().map(|x| ((x * inverse).round() as i8).cast_unsigned()));
}

fn q4_0(values: &[f32; SMALL], bytes: &mut Vec<u8>) {
    let mut largest = 0.0f32;
    for &x in values {
        if x.abs() > largest.abs() {
            largest = x;
        }
    }
    let scale = largest / -8.0;
    let inverse = inverse(scale);
    put_scale(scale, bytes);
    let four = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    let (low, high) = values.split_at(HALF);
    bytes.extend(low.iter().zip(high).map(|(low, high)| four(*low) | four(*high) << 4));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    fn decoded(kind: Quantised, values: &[f32]) -> Vec<f32> {
        let bytes = kind.encode(values).expect("has an encoder");
        assert_eq!(bytes.len(), values.len() / SMALL * kind.block_bytes());
        let mut back = vec![0.0; values.len()];
        kind.decode_into(&bytes, &mut back);
        back
    }

    #[test]
    fn numbers_come_back_within_half_a_step() {
        let values = RngKey::new(1).stream().normals(64 * SMALL, 1.0);
        for (kind, steps) in [(Quantised::Q8_0, 127.0), (Quantised::Q4_0, 8.0)] {
            let back = decoded(kind, &values);
            for (block, back) in values.chunks(SMALL).zip(back.chunks(SMALL)) {
                let step = block.iter().fold(0.0f32, |m, x| m.max(x.abs())) / steps;
                // Q4_0 has no 8th positive step, so the other end is a whole step away at most.
                let most = if kind == Quantised::Q4_0 { 1.0 } else { 0.5 };
                for (x, y) in block.iter().zip(back) {
                    assert!((x - y).abs() <= (most + 0.1) * step, "{kind:?}: {x} became {y}");
                }
            }
        }
    }

    #[test]
    fn blocks_by_hand() {
        let mut values = [0.0f32; SMALL];
        (values[0], values[1], values[2], values[31]) = (127.0, -2.5, 2.4, -127.0);
        let bytes = Quantised::Q8_0.encode(&values).expect("has an encoder");
        // Halves are rounded away from zero; the scale is one.
        assert_eq!(bytes[..5], [0x00, 0x3c, 127, (-3i8).cast_unsigned(), 2]);
        assert_eq!(bytes[33], (-127i8).cast_unsigned());
        let mut values = [0.0f32; SMALL];
        (values[0], values[1], values[16]) = (-8.0, 8.0, 2.6);
        let bytes = Quantised::Q4_0.encode(&values).expect("has an encoder");
        // The first of the largest is -8, so the scale is one, and 8 is cut to 7.
        assert_eq!(bytes[..4], [0x00, 0x3c, 0xb0, 0x8f]);
        assert_eq!(decoded(Quantised::Q4_0, &values)[..2], [-8.0, 7.0]);
    }

    #[test]
    fn zeros_stay_zeros_and_what_was_rounded_stays_as_it_is() {
        assert_eq!(decoded(Quantised::Q8_0, &[0.0; SMALL]), [0.0; SMALL]);
        assert_eq!(decoded(Quantised::Q4_0, &[0.0; SMALL]), [0.0; SMALL]);
        let whole: Vec<f32> = (0..64).map(|i| ((i * 37) % 255) as f32 - 127.0).collect();
        assert_eq!(decoded(Quantised::Q8_0, &whole)[..32], whole[..32]);
        assert!(Quantised::Q6_K.encode(&[0.0; 256]).is_none());
    }
}
