//! Registers of numbers, and complex numbers whose parts are registers.
//!
//! A transform is written once over [`Lanes`]. Its driver, chosen by [`dispatch`], is plain code; every
//! loop is a [`Pass`] that [`Lanes::run`] compiles for the instructions of the registers, each by
//! itself: one function with all of them inlined takes a compiler minutes.
#![allow(
    unsafe_code,
    reason = "intrinsics are called only from functions compiled for their instructions"
)]

use crate::kernels::instructions::Instructions;
use crate::{Counted, Scalar};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m256d, __m512, __m512d, _mm256_add_pd, _mm256_add_ps, _mm256_andnot_pd,
    _mm256_andnot_ps, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_fnmadd_pd, _mm256_fnmadd_ps,
    _mm256_max_pd, _mm256_max_ps, _mm256_mul_pd, _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps,
    _mm256_sub_pd, _mm256_sub_ps, _mm512_add_pd, _mm512_add_ps, _mm512_andnot_pd, _mm512_andnot_ps,
    _mm512_fmadd_pd, _mm512_fmadd_ps, _mm512_fnmadd_pd, _mm512_fnmadd_ps, _mm512_max_pd,
    _mm512_max_ps, _mm512_mul_pd, _mm512_mul_ps, _mm512_set1_pd, _mm512_set1_ps, _mm512_sub_pd,
    _mm512_sub_ps,
};

/// Numbers that one instruction handles: plain memory, without padding, every pattern of bits a
/// value.
pub(super) trait Lanes: Copy {
    /// The numbers.
    type Number: Scalar;
    /// How many there are.
    const WIDTH: usize;

    /// Runs a loop in a function compiled for these registers.
    fn run<P: Pass<Self>>(pass: P) -> P::Output;

    /// The same number in all lanes.
    fn splat(number: Self::Number) -> Self;
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
    /// `self - other`.
    fn minus(self, other: Self) -> Self;
    /// `self · other`.
    fn times(self, other: Self) -> Self;
    /// `self · factor + other`.
    fn times_plus(self, factor: Self, other: Self) -> Self;
    /// `other - self · factor`.
    fn times_from(self, factor: Self, other: Self) -> Self;
    /// The larger of the absolute values.
    fn larger(self, other: Self) -> Self;
    /// `self · powers`, powers of two, which no cost counts.
    #[inline(always)]
    fn times_powers(self, powers: Self) -> Self {
        self.times(powers)
    }
}

/// `WIDTH` lanes on any machine.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Plain<T, const WIDTH: usize>([T; WIDTH]);

impl<T: Scalar, const WIDTH: usize> Plain<T, WIDTH> {
    /// The number of the first lane.
    #[inline(always)]
    pub(super) fn first(self) -> T {
        self.0[0]
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        let mut result = self.0;
        for (a, b) in result.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        Self(result)
    }
}

impl<T: Scalar, const LANES: usize> Lanes for Plain<T, LANES> {
    type Number = T;
    const WIDTH: usize = LANES;

    #[inline(never)]
    fn run<P: Pass<Self>>(pass: P) -> P::Output {
        pass.run()
    }

    #[inline(always)]
    fn splat(number: T) -> Self {
        Self([number; LANES])
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    fn times_plus(self, factor: Self, other: Self) -> Self {
        let mut result = other.0;
        for ((sum, a), b) in result.iter_mut().zip(self.0).zip(factor.0) {
            *sum = a * b + *sum;
        }
        Self(result)
    }
    #[inline(always)]
    fn times_from(self, factor: Self, other: Self) -> Self {
        let mut result = other.0;
        for ((difference, a), b) in result.iter_mut().zip(self.0).zip(factor.0) {
            *difference -= a * b;
        }
        Self(result)
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.zip(other, |a, b| if a.abs() > b.abs() { a.abs() } else { b.abs() })
    }
    #[inline(always)]
    fn times_powers(self, powers: Self) -> Self {
        T::uncounted(|| self.times(powers))
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($features:literal $register:ident of $width:literal $number:ident:
        $set:ident $add:ident $sub:ident $mul:ident $fmadd:ident $fnmadd:ident $max:ident
        $andnot:ident) => {
        impl Lanes for $register {
            type Number = $number;
            const WIDTH: usize = $width;

            #[inline(always)]
            fn run<P: Pass<Self>>(pass: P) -> P::Output {
                #[target_feature(enable = $features)]
                #[inline(never)]
                fn compiled<P: Pass<$register>>(pass: P) -> P::Output {
                    pass.run()
                }
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { compiled(pass) }
            }
            #[inline(always)]
            fn splat(number: $number) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { $set(number) }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            fn times_plus(self, factor: Self, other: Self) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { $fmadd(self, factor, other) }
            }
            #[inline(always)]
            fn times_from(self, factor: Self, other: Self) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe { $fnmadd(self, factor, other) }
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                // SAFETY: only `dispatch` names this type, where it has found the instructions.
                unsafe {
                    // Minus zero is the bit of the sign.
                    let sign = $set(-0.0);
                    $max($andnot(sign, self), $andnot(sign, other))
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
register!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" __m512 of 16 f32: _mm512_set1_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps
    _mm512_fmadd_ps _mm512_fnmadd_ps _mm512_max_ps _mm512_andnot_ps);
#[cfg(target_arch = "x86_64")]
register!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" __m512d of 8 f64: _mm512_set1_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd
    _mm512_fmadd_pd _mm512_fnmadd_pd _mm512_max_pd _mm512_andnot_pd);
#[cfg(target_arch = "x86_64")]
register!("avx2,fma" __m256 of 8 f32: _mm256_set1_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps
    _mm256_fmadd_ps _mm256_fnmadd_ps _mm256_max_ps _mm256_andnot_ps);
#[cfg(target_arch = "x86_64")]
register!("avx2,fma" __m256d of 4 f64: _mm256_set1_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd
    _mm256_fmadd_pd _mm256_fnmadd_pd _mm256_max_pd _mm256_andnot_pd);

/// Scalars with registers of their own.
pub(super) trait Number: Scalar {
    /// A register of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Lanes<Number = Self>;
    /// A register of AVX2.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Lanes<Number = Self>;
}

impl Number for f32 {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = __m512;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = __m256;
}

impl Number for f64 {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = __m512d;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = __m256d;
}

/// What a row costs does not depend on how many stand side by side.
impl Number for Counted {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = Plain<Self, 1>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = Plain<Self, 1>;
}

/// A loop over registers, run by [`Lanes::run`]. All that it calls must be `#[inline(always)]`, or it
/// is compiled without the instructions.
pub(super) trait Pass<V: Lanes> {
    /// What it gives.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

/// Work on rows that is written for any registers, out of passes.
pub(super) trait Job<T: Number> {
    /// What it gives.
    type Output;
    /// Does it.
    fn run<V: Lanes<Number = T>>(self) -> Self::Output;
}

/// Runs a job in the best registers of this machine; `rows` of one or two, which leave most of a
/// register empty, number by number.
pub(super) fn dispatch<T: Number, J: Job<T>>(rows: usize, job: J) -> J::Output {
    if rows <= 2 {
        return job.run::<Plain<T, 1>>();
    }
    match Instructions::here() {
        Instructions::Common => job.run::<Plain<T, 4>>(),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => job.run::<T::Avx2>(),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => job.run::<T::Avx512>(),
    }
}

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

    /// The product with one complex number.
    #[inline(always)]
    pub(super) fn times(self, [re, im]: [V::Number; 2]) -> Self {
        let (re, im) = (V::splat(re), V::splat(im));
        Self {
            re: self.im.times_from(im, self.re.times(re)),
            im: self.im.times_plus(re, self.re.times(im)),
        }
    }

    /// The product with the conjugate of one complex number.
    #[inline(always)]
    pub(super) fn times_conjugate(self, [re, im]: [V::Number; 2]) -> Self {
        let (re, im) = (V::splat(re), V::splat(im));
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

/// Numbers that hold `len` complex registers at any place in memory.
pub(super) fn numbers_for<V: Lanes>(len: usize) -> usize {
    2 * V::WIDTH * (len + 1)
}

/// The first `len` complex registers of `memory`, on borders of cache lines.
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

/// Sum over the lanes of `numbers`, a fixed number of them, in pairs.
#[inline(always)]
pub(super) fn sum_of_lanes<V: Lanes>(value: V) -> V::Number {
    let mut lanes = [V::Number::ZERO; 16];
    // SAFETY: as in `registers`; the copy is as long as the register, at most sixteen numbers.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast(), lanes.as_mut_ptr(), V::WIDTH);
    }
    let mut width = V::WIDTH / 2;
    while width > 0 {
        for lane in 0..width {
            let other = lanes[lane + width];
            lanes[lane] += other;
        }
        width /= 2;
    }
    lanes[0]
}
