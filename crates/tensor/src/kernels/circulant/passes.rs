//! Passes of butterflies over complex registers: forward transform, work on the spectrum, and
//! inverse transform.
//!
//! The forward transform decimates in frequency, the inverse in time: they mirror each other, so
//! the frequencies may stay in output order (no bit reversal), and the last forward level and the
//! first inverse level are fused in registers. The levels of a block that fits in the first-level
//! cache are completed before the next block.

use super::butterfly::butterfly;
use super::complex::Complex;
use super::plan::{FftPlan, Level};
use crate::kernels::registers::{Lanes, Pass};

/// Work on each entry of a spectrum.
pub(super) trait Spectral<V: Lanes> {
    /// Whether the inverse transform follows.
    const BACK: bool = true;

    /// The new value of the entry at `place`.
    fn at(&mut self, place: usize, value: Complex<V>) -> Complex<V>;

    /// The same for the entries from `first` on.
    #[inline(always)]
    fn at_each<const R: usize>(&mut self, first: usize, values: &mut [Complex<V>; R]) {
        for (k, value) in values.iter_mut().enumerate() {
            *value = self.at(first + k, *value);
        }
    }
}

/// Runs a pass of one constant radix.
macro_rules! run_of_radix {
    ($radix:expr, $lanes:ident, $pass:expr) => {
        match $radix {
            2 => $lanes::run(OfRadix::<_, 2>($pass)),
            3 => $lanes::run(OfRadix::<_, 3>($pass)),
            4 => $lanes::run(OfRadix::<_, 4>($pass)),
            5 => $lanes::run(OfRadix::<_, 5>($pass)),
            7 => $lanes::run(OfRadix::<_, 7>($pass)),
            8 => $lanes::run(OfRadix::<_, 8>($pass)),
            radix => unreachable!("no plan has radix {radix}"),
        }
    };
}

/// A pass whose radix is a constant.
struct OfRadix<P, const R: usize>(P);

/// Transforms `data`, applies `work` to every entry of the spectrum, and transforms back,
/// unnormalised.
///
/// # Panics
/// If `data` is not of the length of the plan.
pub(super) fn there_and_back<V: Lanes, S: Spectral<V>>(
    plan: &FftPlan<V::Number>,
    data: &mut [Complex<V>],
    work: &mut S,
) {
    assert_eq!(data.len(), plan.len(), "numbers of a transform");
    let [head, rest] = plan.parts();
    let Some((last, inner)) = rest.split_last() else {
        V::run(Alone { value: &mut data[0], work });
        return;
    };
    for level in head {
        run_of_radix!(level.radix, V, There { level, data });
    }
    for (index, block) in data.chunks_exact_mut(plan.block()).enumerate() {
        for level in inner {
            run_of_radix!(level.radix, V, There { level, data: block });
        }
        let first = index * plan.block();
        run_of_radix!(last.radix, V, Turn { level: last, data: block, first, work });
        for level in inner.iter().rev().filter(|_| S::BACK) {
            run_of_radix!(level.radix, V, Back { level, data: block });
        }
    }
    for level in head.iter().rev().filter(|_| S::BACK) {
        run_of_radix!(level.radix, V, Back { level, data });
    }
}

/// Work on one entry.
struct Alone<'a, V, S> {
    value: &'a mut Complex<V>,
    work: &'a mut S,
}

impl<V: Lanes, S: Spectral<V>> Pass<V> for Alone<'_, V, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        *self.value = self.work.at(0, *self.value);
    }
}

/// A forward level, except the last.
struct There<'a, V: Lanes> {
    level: &'a Level<V::Number>,
    data: &'a mut [Complex<V>],
}

impl<V: Lanes, const R: usize> Pass<V> for OfRadix<There<'_, V>, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let There { level, data } = self.0;
        let stride = level.stride;
        for group in data.chunks_exact_mut(R * stride) {
            let twiddles = level.twiddles.chunks_exact(R - 1);
            for (p, twiddles) in twiddles.enumerate().take(stride) {
                let mut x = [group[p]; R];
                for q in 1..R {
                    x[q] = group[p + q * stride];
                }
                butterfly(&mut x, &level.roots);
                group[p] = x[0];
                for k in 1..R {
                    group[p + k * stride] = x[k].times(&twiddles[k - 1]);
                }
            }
        }
    }
}

/// An inverse level, except the first.
struct Back<'a, V: Lanes> {
    level: &'a Level<V::Number>,
    data: &'a mut [Complex<V>],
}

impl<V: Lanes, const R: usize> Pass<V> for OfRadix<Back<'_, V>, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Back { level, data } = self.0;
        let stride = level.stride;
        for group in data.chunks_exact_mut(R * stride) {
            let twiddles = level.twiddles.chunks_exact(R - 1);
            for (p, twiddles) in twiddles.enumerate().take(stride) {
                let mut x = [group[p]; R];
                for k in 1..R {
                    x[k] = group[p + k * stride].times_conjugate(&twiddles[k - 1]);
                }
                butterfly(&mut x, &level.roots);
                group[p] = x[0];
                for q in 1..R {
                    group[p + q * stride] = x[R - q];
                }
            }
        }
    }
}

/// The last forward level, the work, and the first inverse level.
struct Turn<'a, V: Lanes, S> {
    level: &'a Level<V::Number>,
    data: &'a mut [Complex<V>],
    /// Index of the first number.
    first: usize,
    work: &'a mut S,
}

impl<V: Lanes, S: Spectral<V>, const R: usize> Pass<V> for OfRadix<Turn<'_, V, S>, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Turn { level, data, first, work } = self.0;
        for (index, group) in data.as_chunks_mut::<R>().0.iter_mut().enumerate() {
            let mut x = *group;
            butterfly(&mut x, &level.roots);
            work.at_each(first + index * R, &mut x);
            if S::BACK {
                butterfly(&mut x, &level.roots);
                group[0] = x[0];
                for q in 1..R {
                    group[q] = x[R - q];
                }
            }
        }
    }
}
