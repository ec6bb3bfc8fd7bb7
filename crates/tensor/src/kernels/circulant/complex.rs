//! Complex numbers in registers, real and imaginary part each.
#![allow(unsafe_code, reason = "memory is read as the registers that it holds")]

use crate::Scalar;
use crate::kernels::registers::Lanes;

/// A complex number in each lane.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<V> {
    /// Real parts.
    pub(super) re: V,
    /// Imaginary parts.
    pub(super) im: V,
}

impl<V: Lanes> Complex<V> {
    #[inline(always)]
    pub(super) fn zero() -> Self {
        let zero = V::splat(V::Number::ZERO);
        Self { re: zero, im: zero }
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        Self { re: self.re.plus(other.re), im: self.im.plus(other.im) }
    }

    #[inline(always)]
    pub(super) fn minus(self, other: Self) -> Self {
        Self { re: self.re.minus(other.re), im: self.im.minus(other.im) }
    }

    /// `self - i other`.
    #[inline(always)]
    pub(super) fn minus_i(self, other: Self) -> Self {
        Self { re: self.re.plus(other.im), im: self.im.minus(other.re) }
    }

    /// `self + i other`.
    #[inline(always)]
    pub(super) fn plus_i(self, other: Self) -> Self {
        Self { re: self.re.minus(other.im), im: self.im.plus(other.re) }
    }

    /// Product with one complex number, whose parts are loaded one by one: copying it as a pair
    /// would go through integer registers.
    #[inline(always)]
    pub(super) fn times(self, factor: &[V::Number; 2]) -> Self {
        let (re, im) = (V::splat(factor[0]), V::splat(factor[1]));
        Self {
            re: self.im.times_from(im, self.re.times(re)),
            im: self.im.times_plus(re, self.re.times(im)),
        }
    }

    /// The product with the conjugate of one complex number.
    #[inline(always)]
    pub(super) fn times_conjugate(self, factor: &[V::Number; 2]) -> Self {
        let (re, im) = (V::splat(factor[0]), V::splat(factor[1]));
        Self {
            re: self.im.times_plus(im, self.re.times(re)),
            im: self.re.times_from(im, self.im.times(re)),
        }
    }

    /// The product with one real number.
    #[inline(always)]
    pub(super) fn scaled(self, factor: V::Number) -> Self {
        let factor = V::splat(factor);
        Self { re: self.re.times(factor), im: self.im.times(factor) }
    }

    /// Products of the real parts and of the imaginary parts with powers of two.
    #[inline(always)]
    pub(super) fn each_times_powers(self, other: Self) -> Self {
        Self { re: self.re.times_powers(other.re), im: self.im.times_powers(other.im) }
    }
}

/// Length of a buffer that holds `len` complex registers at any alignment.
pub(super) fn numbers_for<V: Lanes>(len: usize) -> usize {
    2 * V::WIDTH * (len + 1)
}

/// The first `len` complex registers of `memory`, aligned to cache lines.
#[inline(always)]
pub(super) fn registers<V: Lanes>(memory: &mut [V::Number], len: usize) -> &mut [Complex<V>] {
    // SAFETY: lanes are plain memory of which every pattern of bits is a value.
    let (_, registers, _) = unsafe { memory.align_to_mut::<Complex<V>>() };
    &mut registers[..len]
}

/// The numbers of complex registers: real parts, then imaginary parts of each.
#[inline(always)]
pub(super) fn numbers_of<V: Lanes>(registers: &mut [Complex<V>]) -> &mut [V::Number] {
    // SAFETY: as in `registers`; numbers need no more than what registers are aligned to.
    let (_, numbers, _) = unsafe { registers.align_to_mut::<V::Number>() };
    numbers
}
