//! Conversion from held types to `f32`, in loops that vectorise.

use super::instructions::vectorised;

/// A type in which numbers are held.
pub(crate) trait Held: Copy + Send + Sync + 'static {
    /// The bits of a number.
    type Bits: Copy + Send + Sync;

    /// Exact conversion.
    fn number(bits: Self::Bits) -> f32;
}

/// `f32` itself.
#[derive(Clone, Copy)]
pub(crate) struct Full;
/// bfloat16: the upper half of an `f32`.
#[derive(Clone, Copy)]
pub(crate) struct Bf16;
/// IEEE half precision: sign, five bits of exponent, ten of fraction.
#[derive(Clone, Copy)]
pub(crate) struct F16;

impl Held for Full {
    type Bits = f32;

    #[inline(always)]
    fn number(bits: f32) -> f32 {
        bits
    }
}

impl Held for Bf16 {
    type Bits = u16;

    #[inline(always)]
    fn number(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
}

impl Held for F16 {
    type Bits = u16;

    /// Exponent and fraction moved to their places in an `f32` give a number that is too small by
    /// the difference of the exponent biases, 127 - 15, also for subnormal numbers. The largest
    /// exponent, of infinities and NaN, becomes the largest.
    #[inline(always)]
    fn number(bits: u16) -> f32 {
        const BIAS: f32 = f32::from_bits((127 + 112) << 23);
        let size = u32::from(bits & 0x7fff) << 13;
        let scaled = (f32::from_bits(size) * BIAS).to_bits();
        let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 | size } else { scaled };
        f32::from_bits(special | u32::from(bits & 0x8000) << 16)
    }
}

vectorised! {
    /// Widens numbers; both slices have equal length.
    pub(crate) fn widen<const FUSED: bool, H: Held>(_of: H, from: &[H::Bits], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = H::number(*from);
        }
    }
}
