//! Vector registers as a trait.
//!
//! A kernel is written once, generic over [`Lanes`]. Its driver, a [`Job`], is plain code; every
//! loop is a [`Pass`], which [`Lanes::run`] compiles separately for the instructions of the
//! registers: one function with all loops inlined would take minutes to compile.
//!
//! The traits are public in a private module, since [`Scalar`] refers to the registers of its type.
#![allow(
    unsafe_code,
    reason = "intrinsics are called only from functions compiled for their instructions"
)]

use crate::Scalar;
use crate::kernels::instructions::Instructions;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m256d, __m512, __m512d, _mm_add_ps, _mm256_add_pd, _mm256_add_ps, _mm256_andnot_pd,
    _mm256_andnot_ps, _mm256_castps256_ps128, _mm256_div_pd, _mm256_div_ps, _mm256_extractf128_ps,
    _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_fnmadd_pd, _mm256_fnmadd_ps, _mm256_hadd_pd,
    _mm256_hadd_ps, _mm256_max_pd, _mm256_max_ps, _mm256_mul_pd, _mm256_mul_ps,
    _mm256_permute2f128_pd, _mm256_set1_pd, _mm256_set1_ps, _mm256_sub_pd, _mm256_sub_ps,
    _mm512_add_pd, _mm512_add_ps, _mm512_andnot_pd, _mm512_andnot_ps, _mm512_castpd512_pd256,
    _mm512_castps512_ps256, _mm512_div_pd, _mm512_div_ps, _mm512_extractf32x8_ps,
    _mm512_extractf64x4_pd, _mm512_fmadd_pd, _mm512_fmadd_ps, _mm512_fnmadd_pd, _mm512_fnmadd_ps,
    _mm512_max_pd, _mm512_max_ps, _mm512_mul_pd, _mm512_mul_ps, _mm512_set1_pd, _mm512_set1_ps,
    _mm512_sub_pd, _mm512_sub_ps,
};

/// A vector register: plain memory, without padding, in which every bit pattern is a value.
pub trait Lanes: Copy {
    /// The scalar type.
    type Number: Scalar;
    /// Number of lanes.
    const WIDTH: usize;
    /// Butterfly levels that stay in registers: their numbers fill half of the machine's registers.
    const LEVELS: usize;

    /// Runs a loop in a function compiled for these registers.
    fn run<P: Pass<Self>>(pass: P) -> P::Output;

    /// Broadcasts a number to all lanes.
    fn splat(number: Self::Number) -> Self;
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
    /// `self - other`.
    fn minus(self, other: Self) -> Self;
    /// `self · other`.
    fn times(self, other: Self) -> Self;
    /// `self / other`.
    fn over(self, other: Self) -> Self;
    /// `self · factor + other`.
    fn times_plus(self, factor: Self, other: Self) -> Self;
    /// `other - self · factor`.
    fn times_from(self, factor: Self, other: Self) -> Self;
    /// Maximum of the absolute values.
    fn larger(self, other: Self) -> Self;
    /// Horizontal sums of several registers.
    #[inline(always)]
    fn sums(values: [Self; 4]) -> [Self::Number; 4] {
        values.map(sum_of_lanes)
    }
    /// Loads from an address.
    ///
    /// # Safety
    /// As many can be read there.
    #[inline(always)]
    unsafe fn load(from: *const Self::Number) -> Self {
        // SAFETY: the caller's contract; lanes are plain memory.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    /// Stores to an address.
    ///
    /// # Safety
    /// As many can be written there.
    #[inline(always)]
    unsafe fn store(self, to: *mut Self::Number) {
        // SAFETY: the caller's contract.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    /// `self · powers`, for powers of two, which are not counted as cost.
    #[inline(always)]
    fn times_powers(self, powers: Self) -> Self {
        self.times(powers)
    }
}

/// `WIDTH` lanes on any machine.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Plain<T, const WIDTH: usize>([T; WIDTH]);

impl<T: Scalar, const WIDTH: usize> Plain<T, WIDTH> {
    /// The number of the first lane.
    #[inline(always)]
    pub fn first(self) -> T {
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
    const LEVELS: usize = 3;

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
    fn over(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
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
    ($features:literal $register:ident of $width:literal $number:ident, $levels:literal levels:
        $set:ident $add:ident $sub:ident $mul:ident $div:ident $fmadd:ident $fnmadd:ident $max:ident
        $andnot:ident $sums:ident) => {
        impl Lanes for $register {
            type Number = $number;
            const WIDTH: usize = $width;
            const LEVELS: usize = $levels;

            #[inline(always)]
            fn run<P: Pass<Self>>(pass: P) -> P::Output {
                #[target_feature(enable = $features)]
                #[inline(never)]
                fn compiled<P: Pass<$register>>(pass: P) -> P::Output {
                    pass.run()
                }
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { compiled(pass) }
            }
            #[inline(always)]
            fn splat(number: $number) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $set(number) }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            fn over(self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $div(self, other) }
            }
            #[inline(always)]
            fn times_plus(self, factor: Self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $fmadd(self, factor, other) }
            }
            #[inline(always)]
            fn times_from(self, factor: Self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $fnmadd(self, factor, other) }
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe {
                    // Minus zero has only the sign bit.
                    let sign = $set(-0.0);
                    $max($andnot(sign, self), $andnot(sign, other))
                }
            }
            #[inline(always)]
            fn sums(values: [Self; 4]) -> [$number; 4] {
                // SAFETY: only dispatching names this type, where the instructions are found.
                unsafe { $sums(values) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
register!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" __m512 of 16 f32, 4 levels:
    _mm512_set1_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_fmadd_ps _mm512_fnmadd_ps
    _mm512_max_ps _mm512_andnot_ps sums_of_sixteen);
#[cfg(target_arch = "x86_64")]
register!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" __m512d of 8 f64, 4 levels:
    _mm512_set1_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_fmadd_pd _mm512_fnmadd_pd
    _mm512_max_pd _mm512_andnot_pd sums_of_eight_double);
#[cfg(target_arch = "x86_64")]
register!("avx2,fma" __m256 of 8 f32, 3 levels:
    _mm256_set1_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_div_ps _mm256_fmadd_ps _mm256_fnmadd_ps
    _mm256_max_ps _mm256_andnot_ps sums_of_eight);
#[cfg(target_arch = "x86_64")]
register!("avx2,fma" __m256d of 4 f64, 3 levels:
    _mm256_set1_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_div_pd _mm256_fmadd_pd _mm256_fnmadd_pd
    _mm256_max_pd _mm256_andnot_pd sums_of_four_double);

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn sums_of_sixteen(values: [__m512; 4]) -> [f32; 4] {
    let half = |v| _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
    sums_of_eight([half(values[0]), half(values[1]), half(values[2]), half(values[3])])
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx2,fma")]
fn sums_of_eight_double(values: [__m512d; 4]) -> [f64; 4] {
    let half = |v| _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd::<1>(v));
    sums_of_four_double([half(values[0]), half(values[1]), half(values[2]), half(values[3])])
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sums_of_eight([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
    let fours = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    let sums = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps::<1>(fours));
    // SAFETY: both are four numbers, and every pattern of bits is a value.
    unsafe { std::mem::transmute(sums) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sums_of_four_double([a, b, c, d]: [__m256d; 4]) -> [f64; 4] {
    let (ab, cd) = (_mm256_hadd_pd(a, b), _mm256_hadd_pd(c, d));
    let low = _mm256_permute2f128_pd::<0x20>(ab, cd);
    let sums = _mm256_add_pd(low, _mm256_permute2f128_pd::<0x31>(ab, cd));
    // SAFETY: as above.
    unsafe { std::mem::transmute(sums) }
}

/// A loop over registers, run by [`Lanes::run`]. Everything it calls must be `#[inline(always)]`,
/// otherwise it is compiled without the instructions.
pub trait Pass<V: Lanes> {
    /// Its result.
    type Output;
    /// Runs the loop.
    fn run(self) -> Self::Output;
}

/// A driver of passes on rows, generic over registers.
pub(crate) trait Job<T: Scalar> {
    /// Its result.
    type Output;
    /// Runs the job.
    fn run<V: Lanes<Number = T>>(self) -> Self::Output;
}

/// Runs a job in the best registers of this machine; for `rows` of one or two, which would leave
/// most of a register empty, in scalar code.
pub(crate) fn dispatch<T: Scalar, J: Job<T>>(rows: usize, job: J) -> J::Output {
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

/// Runs a job in the best registers of this machine whose number of lanes divides `width`.
pub(crate) fn dispatch_columns<T: Scalar, J: Job<T>>(width: usize, job: J) -> J::Output {
    let here = Instructions::here();
    #[cfg(target_arch = "x86_64")]
    {
        if here >= Instructions::Avx512 && width.is_multiple_of(T::Avx512::WIDTH) {
            return job.run::<T::Avx512>();
        }
        if here >= Instructions::Avx2 && width.is_multiple_of(T::Avx2::WIDTH) {
            return job.run::<T::Avx2>();
        }
    }
    if here == Instructions::Common && width.is_multiple_of(4) {
        return job.run::<Plain<T, 4>>();
    }
    job.run::<Plain<T, 1>>()
}

/// Sums of a fixed number of values over the lanes, pairwise.
#[inline(always)]
pub(crate) fn sum_of_lanes<V: Lanes>(value: V) -> V::Number {
    let mut lanes = [V::Number::ZERO; 16];
    // SAFETY: lanes are plain memory; the copy is as long as the register, at most sixteen numbers.
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
