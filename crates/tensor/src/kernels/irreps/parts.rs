//! Norms of the irreducible parts of tensors, and factors for them.

use super::nodes::{Step, run};
use super::{COMPONENTS, PART_OF, PARTS, load, store};
use crate::Scalar;
use crate::kernels::registers::Lanes;

/// Squared norms of the parts of `x`, (3, channels) for each atom.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn squares<T: Scalar>(channels: usize, x: &[T], norms: &mut [T]) {
    struct Squares<'a, T>(usize, &'a [T], &'a mut [T]);
    impl<T: Scalar> Step<T> for Squares<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, part: usize) {
            let Self(channels, x, norms) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = load::<V>(x.as_ptr().add(tensor), *channels);
                let sums = sums_by_part(x, x);
                for (p, sum) in sums.into_iter().enumerate() {
                    sum.store(norms.as_mut_ptr().add(part + p * *channels));
                }
            }
        }
    }
    run(channels, &[x.len()], &[], &[norms.len()], Squares(channels, x, norms));
}

#[inline(always)]
fn sums_by_part<V: Lanes>(a: [V; COMPONENTS], b: [V; COMPONENTS]) -> [V; PARTS] {
    let mut sums = [V::splat(V::Number::ZERO); PARTS];
    for c in 0..COMPONENTS {
        sums[PART_OF[c]] = a[c].times_plus(b[c], sums[PART_OF[c]]);
    }
    sums
}

/// Backward pass of [`squares`]: adds `2 x g` by part to `dx`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn squares_backward<T: Scalar>(channels: usize, x: &[T], g: &[T], dx: &mut [T]) {
    struct Backward<'a, T>(usize, [&'a [T]; 2], &'a mut [T]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, part: usize) {
            let Self(channels, [x, g], dx) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = load::<V>(x.as_ptr().add(tensor), *channels);
                let at = dx.as_mut_ptr().add(tensor);
                let mut dx = load::<V>(at, *channels);
                for c in 0..COMPONENTS {
                    let g = V::load(g.as_ptr().add(part + PART_OF[c] * *channels));
                    dx[c] = x[c].times_plus(g.plus(g), dx[c]);
                }
                store(dx, at, *channels);
            }
        }
    }
    run(channels, &[x.len(), dx.len()], &[], &[g.len()], Backward(channels, [x, g], dx));
}

/// Multiplies the parts of `x` by factors, (3, channels) for each atom, into `y`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn scale_parts<T: Scalar>(channels: usize, factors: &[T], x: &[T], y: &mut [T]) {
    struct Scale<'a, T>(usize, [&'a [T]; 2], &'a mut [T]);
    impl<T: Scalar> Step<T> for Scale<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, part: usize) {
            let Self(channels, [factors, x], y) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let mut x = load::<V>(x.as_ptr().add(tensor), *channels);
                for c in 0..COMPONENTS {
                    x[c] = x[c].times(V::load(factors.as_ptr().add(part + PART_OF[c] * *channels)));
                }
                store(x, y.as_mut_ptr().add(tensor), *channels);
            }
        }
    }
    let lens = [x.len(), y.len()];
    run(channels, &lens, &[], &[factors.len()], Scale(channels, [factors, x], y));
}

/// Backward pass of [`scale_parts`]: `g`, the gradient of `y`, is overwritten by that of `x`, and
/// that of the factors goes to `df`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn scale_parts_backward<T: Scalar>(
    channels: usize,
    factors: &[T],
    x: &[T],
    g: &mut [T],
    df: &mut [T],
) {
    struct Backward<'a, T>(usize, [&'a [T]; 2], [&'a mut [T]; 2]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, part: usize) {
            let Self(channels, [factors, x], [g, df]) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = load::<V>(x.as_ptr().add(tensor), *channels);
                let at = g.as_mut_ptr().add(tensor);
                let mut g = load::<V>(at, *channels);
                for (p, sum) in sums_by_part(g, x).into_iter().enumerate() {
                    sum.store(df.as_mut_ptr().add(part + p * *channels));
                }
                for c in 0..COMPONENTS {
                    g[c] = g[c].times(V::load(factors.as_ptr().add(part + PART_OF[c] * *channels)));
                }
                store(g, at, *channels);
            }
        }
    }
    let lens = [x.len(), g.len()];
    let parts = [factors.len(), df.len()];
    run(channels, &lens, &[], &parts, Backward(channels, [factors, x], [g, df]));
}
