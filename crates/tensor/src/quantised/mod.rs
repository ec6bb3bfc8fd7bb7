//! Numbers stored as small integers in blocks with common scales, as GGUF files hold them, and
//! their conversion to `f32`.
//!
//! A block holds 32 or 256 integers `q` of 2 to 8 bits. Of 32, they share one scale `d`, and some
//! types a smallest value `m`: the numbers are `d q` or `d q + m`. Of 256 (the types named K) each
//! run of 16 or 32 has a scale of few bits of its own, so that the numbers are `(d s) q` or
//! `(d s) q - (d' s')`.
//!
//! Source: the format that llama.cpp writes; every type is held against the reference of the Python
//! package `gguf`, bit for bit (`tools/golden/gguf.py`). Products and sums are rounded one by one,
//! as there: no fused multiply-adds, so that all machines give the same bits.
//!
//! A damaged scale gives numbers that are not finite; they are passed on for the caller to find.

mod kblocks;
mod small;

use crate::kernels::instructions::vectorised;

/// Numbers in a block of one of the small types.
const SMALL: usize = 32;
/// Numbers in a block of one of the K types.
const LARGE: usize = 256;

macro_rules! types {
    ($($(#[$meta:meta])* $name:ident $text:literal $numbers:ident $bytes:literal $kernel:path,)*) => {
        /// How numbers are stored in blocks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "the names are those of the format")]
        pub enum Quantised { $($(#[$meta])* $name,)* }

        impl Quantised {
            /// Every type.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// The name in messages: that of the format.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Numbers of a block.
            #[must_use]
            pub const fn block_numbers(self) -> usize {
                match self { $(Self::$name => $numbers,)* }
            }

            /// Bytes of a block.
            #[must_use]
            pub const fn block_bytes(self) -> usize {
                match self { $(Self::$name => $bytes,)* }
            }

            /// Decodes whole blocks of `bytes` into `values`.
            ///
            /// # Panics
            /// If `bytes` does not hold exactly as many numbers as `values`.
            #[track_caller]
            pub fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
                let (numbers, size) = (self.block_numbers(), self.block_bytes());
                assert!(
                    bytes.len().is_multiple_of(size)
                        && values.len().is_multiple_of(numbers)
                        && bytes.len() / size == values.len() / numbers,
                    "{} bytes of {}, {} numbers", bytes.len(), self.name(), values.len()
                );
                match self {
                    $(Self::$name => decode::$name(bytes, values),)*
                }
            }
        }

        /// One loop over blocks for each type, compiled for each kind of machine.
        #[allow(non_snake_case, reason = "the names are those of the format")]
        mod decode {
            use super::{LARGE, SMALL, kblocks, small, vectorised};

            $(vectorised! {
                pub(super) fn $name<const FUSED: bool>(bytes: &[u8], values: &mut [f32]) {
                    let blocks = bytes.as_chunks::<$bytes>().0;
                    let values = values.as_chunks_mut::<$numbers>().0;
                    for (block, out) in blocks.iter().zip(values) {
                        $kernel(block, out);
                    }
                }
            })*
        }
    };
}

types! {
    /// 4 bits, a scale.
    Q4_0 "Q4_0" SMALL 18 small::q4_0,
    /// 4 bits, a scale and a smallest value.
    Q4_1 "Q4_1" SMALL 20 small::q4_1,
    /// 5 bits, a scale.
    Q5_0 "Q5_0" SMALL 22 small::q5_0,
    /// 5 bits, a scale and a smallest value.
    Q5_1 "Q5_1" SMALL 24 small::q5_1,
    /// 8 bits, a scale.
    Q8_0 "Q8_0" SMALL 34 small::q8_0,
    /// 2 bits, runs of 16 with scale and smallest value of 4 bits.
    Q2_K "Q2_K" LARGE 84 kblocks::q2,
    /// 3 bits, runs of 16 with a scale of 6 bits.
    Q3_K "Q3_K" LARGE 110 kblocks::q3,
    /// 4 bits, runs of 32 with scale and smallest value of 6 bits.
    Q4_K "Q4_K" LARGE 144 kblocks::q4,
    /// 5 bits, runs of 32 with scale and smallest value of 6 bits.
    Q5_K "Q5_K" LARGE 176 kblocks::q5,
    /// 6 bits, runs of 16 with a scale of 8 bits.
    Q6_K "Q6_K" LARGE 210 kblocks::q6,
    /// 8 bits, a scale in `f32`, and sums that nothing here needs.
    Q8_K "Q8_K" LARGE 292 kblocks::q8,
}

/// The 16-bit float at byte `at`, exactly. Written out since the conversion of `half` looks for
/// instructions at every call.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    /// Takes the exponent from the bias 15 to the bias 127.
    const REBIAS: f32 = f32::from_bits((254 - 15) << 23);
    let bits = u32::from(u16::from_le_bytes([block[at], block[at + 1]]));
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    // The product is exact, also of halves below the normal ones.
    let finite = (f32::from_bits(rest) * REBIAS).to_bits();
    let magnitude = if rest >= 0x0f80_0000 { rest | 0x7f80_0000 } else { finite };
    f32::from_bits(magnitude | sign)
}

#[cfg(test)]
mod tests;
