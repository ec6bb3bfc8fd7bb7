//! Block quantisation of GGUF files: small integers in blocks with common scales, and their
//! conversion to `f32`.
//!
//! A block holds 32 or 256 integers `q` of 2 to 8 bits. A block of 32 has one scale `d`, and in
//! some types a minimum `m`: the numbers are `d q` or `d q + m`. In a block of 256 (the K types)
//! each run of 16 or 32 has its own scale of few bits, so that the numbers are `(d s) q` or `(d s)
//! q - (d' s')`.
//!
//! Source: the format of llama.cpp; every type is tested bit for bit against the reference of the
//! Python package `gguf` (`tools/golden/gguf.py`). Products and sums are rounded separately, as
//! there: no fused multiply-adds, so all machines give the same bits.
//!
//! A damaged scale gives non-finite numbers; the caller must check.

mod encode;
mod kblocks;
mod small;

use crate::kernels::instructions::vectorised;

/// Numbers in a block of one of the small types.
const SMALL: usize = 32;
/// Numbers in a block of one of the K types.
const LARGE: usize = 256;

macro_rules! types {
    ($($(#[$meta:meta])* $name:ident $text:literal $numbers:ident $bytes:literal $kernel:path,)*) => {
        /// Type of block quantisation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "the names are those of the format")]
        pub enum Quantised { $($(#[$meta])* $name,)* }

        impl Quantised {
            /// Every type.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// Name of the type in the format.
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

        /// One loop over blocks for each type, compiled for each instruction set.
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
    /// 4 bits, with a scale.
    Q4_0 "Q4_0" SMALL 18 small::q4_0,
    /// 4 bits, with a scale and a minimum.
    Q4_1 "Q4_1" SMALL 20 small::q4_1,
    /// 5 bits, with a scale.
    Q5_0 "Q5_0" SMALL 22 small::q5_0,
    /// 5 bits, with a scale and a minimum.
    Q5_1 "Q5_1" SMALL 24 small::q5_1,
    /// 8 bits, with a scale.
    Q8_0 "Q8_0" SMALL 34 small::q8_0,
    /// 2 bits, runs of 16 with 4-bit scale and minimum.
    Q2_K "Q2_K" LARGE 84 kblocks::q2,
    /// 3 bits, runs of 16 with a 6-bit scale.
    Q3_K "Q3_K" LARGE 110 kblocks::q3,
    /// 4 bits, runs of 32 with 6-bit scale and minimum.
    Q4_K "Q4_K" LARGE 144 kblocks::q4,
    /// 5 bits, runs of 32 with 6-bit scale and minimum.
    Q5_K "Q5_K" LARGE 176 kblocks::q5,
    /// 6 bits, runs of 16 with an 8-bit scale.
    Q6_K "Q6_K" LARGE 210 kblocks::q6,
    /// 8 bits, with an `f32` scale and unused block sums.
    Q8_K "Q8_K" LARGE 292 kblocks::q8,
}

/// The 16-bit float at byte `at`, exactly. Implemented here since the conversion of `half` detects
/// instructions at every call.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    /// Converts the exponent from bias 15 to bias 127.
    const REBIAS: f32 = f32::from_bits((254 - 15) << 23);
    let bits = u32::from(u16::from_le_bytes([block[at], block[at + 1]]));
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    // The product is exact, also for subnormal halves.
    let finite = (f32::from_bits(rest) * REBIAS).to_bits();
    let magnitude = if rest >= 0x0f80_0000 { rest | 0x7f80_0000 } else { finite };
    f32::from_bits(magnitude | sign)
}

#[cfg(test)]
mod tests;
