//! Norms of tensors and of their irreducible parts, and factors of parts.

use super::super::{COMPONENTS, PART_OF, PARTS, inner};
use super::{Field, Jets, JetsMut, Place, Step, run};
use crate::Scalar;

#[inline(always)]
fn sums_by_part<F: Field>(a: [F; COMPONENTS], b: [F; COMPONENTS]) -> [F; PARTS] {
    let mut sums = [F::constant(0.0); PARTS];
    for c in 0..COMPONENTS {
        sums[PART_OF[c]] = a[c].times_plus(b[c], sums[PART_OF[c]]);
    }
    sums
}

/// Squared norms of tensors (atoms, channels).
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn norms<T: Scalar>(channels: usize, x: Jets<'_, T>, sums: JetsMut<'_, T>) {
    struct Norms<'a, T>(Jets<'a, T>, JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Norms<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = at.nine::<F>(&self.0);
                inner(x, x).write(&mut self.1, at.channel);
            }
        }
    }
    run(channels, &[x.lens()], &[sums.lens()], &[], Norms(x, sums));
}

/// Backward pass of [`norms`]: adds `2 x g` to `dx`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn norms_backward<T: Scalar>(
    channels: usize,
    x: Jets<'_, T>,
    g: Jets<'_, T>,
    dx: JetsMut<'_, T>,
) {
    struct Backward<'a, T>([Jets<'a, T>; 2], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self([x, g], dx) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (x, g) = (at.nine::<F>(x), F::read(g, at.channel));
                let twice = g.plus(g);
                let mut sums = at.nine::<F>(&dx.as_ref());
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = x.times_plus(twice, *sum);
                }
                at.set_nine(sums, dx);
            }
        }
    }
    run(channels, &[x.lens(), dx.lens()], &[g.lens()], &[], Backward([x, g], dx));
}

/// Squared norms of the parts of `x`, (atoms, 3, channels).
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn squares<T: Scalar>(channels: usize, x: Jets<'_, T>, sums: JetsMut<'_, T>) {
    struct Squares<'a, T>(Jets<'a, T>, JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Squares<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = at.nine::<F>(&self.0);
                at.set_three(sums_by_part(x, x), &mut self.1);
            }
        }
    }
    run(channels, &[x.lens()], &[], &[sums.lens()], Squares(x, sums));
}

/// Backward pass of [`squares`]: `dx = 2 x g` by part.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn squares_backward<T: Scalar>(
    channels: usize,
    x: Jets<'_, T>,
    g: Jets<'_, T>,
    dx: JetsMut<'_, T>,
) {
    struct Backward<'a, T>([Jets<'a, T>; 2], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self([x, g], dx) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (mut x, g) = (at.nine::<F>(x), at.three::<F>(g));
                for (x, part) in x.iter_mut().zip(PART_OF) {
                    *x = x.times(g[part].plus(g[part]));
                }
                at.set_nine(x, dx);
            }
        }
    }
    run(channels, &[x.lens(), dx.lens()], &[], &[g.lens()], Backward([x, g], dx));
}

/// Multiplies the parts of `x` by factors, (atoms, 3, channels), into `y`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn scale_parts<T: Scalar>(
    channels: usize,
    factors: Jets<'_, T>,
    x: Jets<'_, T>,
    y: JetsMut<'_, T>,
) {
    struct Scale<'a, T>([Jets<'a, T>; 2], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Scale<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self([factors, x], y) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (factors, mut x) = (at.three::<F>(factors), at.nine::<F>(x));
                for (x, part) in x.iter_mut().zip(PART_OF) {
                    *x = x.times(factors[part]);
                }
                at.set_nine(x, y);
            }
        }
    }
    run(channels, &[x.lens(), y.lens()], &[], &[factors.lens()], Scale([factors, x], y));
}

/// Backward pass of [`scale_parts`] from the gradient `g` of `y` to those of `x` and the factors.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn scale_parts_backward<T: Scalar>(
    channels: usize,
    [factors, x, g]: [Jets<'_, T>; 3],
    [dx, df]: [JetsMut<'_, T>; 2],
) {
    struct Backward<'a, T>([Jets<'a, T>; 3], [JetsMut<'a, T>; 2]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self([factors, x, g], [dx, df]) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (factors, x) = (at.three::<F>(factors), at.nine::<F>(x));
                let mut g = at.nine::<F>(g);
                at.set_three(sums_by_part(g, x), df);
                for (g, part) in g.iter_mut().zip(PART_OF) {
                    *g = g.times(factors[part]);
                }
                at.set_nine(g, dx);
            }
        }
    }
    let tensors = [x.lens(), g.lens(), dx.lens()];
    let parts = [factors.lens(), df.lens()];
    run(channels, &tensors, &[], &parts, Backward([factors, x, g], [dx, df]));
}
