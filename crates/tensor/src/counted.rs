//! A scalar that counts operations, for tests of the declared costs of operators.
//!
//! One multiplication is one step, and so is one addition or subtraction, unless it adds the
//! product of the step just before: then both are one multiply-add, one step. Work inside
//! [`Scalar::uncounted`] is not counted, nor are comparisons, changes of sign, and functions of one
//! number.
//!
//! Kernels run this scalar on their generic path, without vector instructions.
#![allow(unsafe_code, reason = "plain memory of two numbers is declared as such")]

use crate::Scalar;
#[cfg(target_arch = "x86_64")]
use crate::kernels::registers::Plain;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::fmt::{Display, Formatter, Result};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};
use std::thread::LocalKey;

/// An `f64` whose additions and multiplications are counted per thread.
///
/// ```
/// use linwright_tensor::{Counted, Scalar};
///
/// let [a, b, c] = [2.0, 3.0, 4.0].map(Counted::from_f64);
/// assert_eq!(Counted::steps_of(|| a * b + c), 1);
/// assert_eq!(Counted::steps_of(|| a + b - c), 2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Counted {
    value: f64,
    /// Number of the step that computed it, if that was a multiplication; otherwise zero.
    product: u64,
}

// SAFETY: two numbers of eight bytes without padding; all bits zero are the number zero.
unsafe impl bytemuck::Zeroable for Counted {}
// SAFETY: as above, and every pattern of bits is a value: steps are only compared.
unsafe impl bytemuck::Pod for Counted {}

/// Counter of a thread.
#[derive(Clone, Copy, Default)]
struct Counter {
    steps: u64,
    /// Whether the last step was a multiplication without an addition so far.
    multiplied: bool,
    paused: bool,
}

thread_local! {
    static COUNTER: Cell<Counter> = const {
        Cell::new(Counter { steps: 0, multiplied: false, paused: false })
    };
}

impl Counter {
    /// Number of the current step.
    fn multiplication(&mut self) -> u64 {
        if self.paused {
            return 0;
        }
        (self.steps, self.multiplied) = (self.steps + 1, true);
        self.steps
    }

    fn addition(&mut self, terms: [Counted; 2]) {
        if self.paused {
            return;
        }
        let fused = self.multiplied && terms.iter().any(|term| term.product == self.steps);
        self.steps += u64::from(!fused);
        self.multiplied = false;
    }
}

/// Updates the counter of this thread.
fn counter<R>(change: impl FnOnce(&mut Counter) -> R) -> R {
    let mut counter = COUNTER.get();
    let result = change(&mut counter);
    COUNTER.set(counter);
    result
}

impl Counted {
    /// Number of steps of `work` on this thread.
    pub fn steps_of<R>(work: impl FnOnce() -> R) -> u64 {
        COUNTER.set(Counter::default());
        work();
        COUNTER.get().steps
    }

    fn plain(value: f64) -> Self {
        Self { value, product: 0 }
    }

    fn sum_of(self, other: Self, value: f64) -> Self {
        counter(|counter| counter.addition([self, other]));
        Self::plain(value)
    }

    fn product_of(value: f64) -> Self {
        Self { value, product: counter(Counter::multiplication) }
    }
}

impl Add for Counted {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.sum_of(other, self.value + other.value)
    }
}

impl Sub for Counted {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.sum_of(other, self.value - other.value)
    }
}

impl Mul for Counted {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::product_of(self.value * other.value)
    }
}

impl Div for Counted {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self::product_of(self.value / other.value)
    }
}

impl Neg for Counted {
    type Output = Self;
    fn neg(self) -> Self {
        Self { value: -self.value, ..self }
    }
}

impl AddAssign for Counted {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Counted {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Counted {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl Sum for Counted {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::ZERO, Add::add)
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl Display for Counted {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.value.fmt(f)
    }
}

impl Scalar for Counted {
    const ZERO: Self = Self { value: 0.0, product: 0 };
    const ONE: Self = Self { value: 1.0, product: 0 };
    const NAME: &'static str = "counted";
    const EPSILON: Self = Self { value: f64::EPSILON, product: 0 };

    // The cost of a row does not depend on the number of rows in a block.
    #[cfg(target_arch = "x86_64")]
    type Avx512 = Plain<Self, 1>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = Plain<Self, 1>;

    fn from_f64(value: f64) -> Self {
        Self::plain(value)
    }
    fn to_f64(self) -> f64 {
        self.value
    }
    fn sqrt(self) -> Self {
        Self::plain(self.value.sqrt())
    }
    fn exp(self) -> Self {
        Self::plain(self.value.exp())
    }
    fn abs(self) -> Self {
        Self::plain(self.value.abs())
    }
    fn is_finite(self) -> bool {
        self.value.is_finite()
    }
    fn mul_add(self, a: Self, b: Self) -> Self {
        self * a + b
    }
    fn uncounted<R>(work: impl FnOnce() -> R) -> R {
        let pause = |paused| counter(|counter| std::mem::replace(&mut counter.paused, paused));
        let before = pause(true);
        let result = work();
        pause(before);
        result
    }
    fn pool() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>> {
        thread_local! {
            static POOL: RefCell<Vec<Vec<Counted>>> = const { RefCell::new(Vec::new()) };
        }
        &POOL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_added_for_nothing_by_the_next_step() {
        let [a, b, c, d] = [2.0, 3.0, 4.0, 5.0].map(Counted::from_f64);
        let steps: [(&str, u64, u64); 8] = [
            ("a b", Counted::steps_of(|| a * b), 1),
            ("a b + c d", Counted::steps_of(|| a * b + c * d), 2),
            ("a b + c + d", Counted::steps_of(|| a * b + c + d), 2),
            ("fused", Counted::steps_of(|| a.mul_add(b, c)), 1),
            ("scaled sum", Counted::steps_of(|| (a + b) * c), 2),
            ("a negative product", Counted::steps_of(|| c - -(a * b)), 1),
            ("nothing", Counted::steps_of(|| Counted::uncounted(|| a * b + c)), 0),
            ("comparison", Counted::steps_of(|| a > b || a == -c), 0),
        ];
        for (what, found, expected) in steps {
            assert_eq!(found, expected, "{what}");
        }
        let twice = || {
            let product = a * b;
            [c + product, c - product]
        };
        assert_eq!(Counted::steps_of(twice), 2);
        let later = || {
            let products = [a * b, c * d];
            products[0] + a
        };
        assert_eq!(Counted::steps_of(later), 3);
        assert_eq!((a * b + c - d).to_f64(), 5.0);
    }
}
