//! The two scalar types of computation; a third one, [`crate::Counted`], counts operations.

use crate::kernels::registers::Lanes;
use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};
use std::thread::LocalKey;

/// `f32` or `f64`: the scalar of all operators. Half precisions are storage types only, see
/// [`crate::dtype`].
pub trait Scalar:
    Copy
    + Debug
    + Default
    + Display
    + PartialOrd
    + Send
    + Sync
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + bytemuck::Pod
    + 'static
{
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;
    /// The name used in archives and messages: `f32` or `f64`.
    const NAME: &'static str;
    /// Distance from one to the next larger number.
    const EPSILON: Self;

    /// AVX-512 register of this scalar.
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    type Avx512: Lanes<Number = Self>;
    /// AVX2 register of this scalar.
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    type Avx2: Lanes<Number = Self>;

    /// Rounds from double precision.
    fn from_f64(value: f64) -> Self;
    /// Widens to double precision.
    fn to_f64(self) -> f64;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Exponential.
    fn exp(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Whether the value is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// `self * a + b`, fused where the machine can.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Runs `work` without counting its steps in [`crate::Counted`]: changes of sign and exponent,
    /// nonlinear functions, the factor of a whole product.
    #[doc(hidden)]
    #[inline(always)]
    fn uncounted<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    /// Buffers of this thread, see [`crate::Scratch`].
    #[doc(hidden)]
    fn pool() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>>;
}

macro_rules! scalar {
    ($type:ident, $avx512:ident, $avx2:ident) => {
        impl Scalar for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAME: &'static str = stringify!($type);
            const EPSILON: Self = $type::EPSILON;

            #[cfg(target_arch = "x86_64")]
            type Avx512 = std::arch::x86_64::$avx512;
            #[cfg(target_arch = "x86_64")]
            type Avx2 = std::arch::x86_64::$avx2;

            #[inline]
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline]
            fn exp(self) -> Self {
                self.exp()
            }
            #[inline]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            #[inline]
            fn mul_add(self, a: Self, b: Self) -> Self {
                self.mul_add(a, b)
            }
            fn pool() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>> {
                thread_local! {
                    static POOL: RefCell<Vec<Vec<$type>>> = const { RefCell::new(Vec::new()) };
                }
                &POOL
            }
        }
    };
}

scalar!(f32, __m512, __m256);
scalar!(f64, __m512d, __m256d);
