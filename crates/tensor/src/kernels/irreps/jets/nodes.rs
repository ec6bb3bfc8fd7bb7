//! Norms, products of tensors and updates at one atom, with the adjoints of each.

use super::super::nodes::{normalised_product, through_norm};
use super::super::{add_product, compose, decompose, inner, scaled, zero};
use super::{Field, Jets, JetsMut, Place, Step, run};
use crate::Scalar;

/// Which product of features Y and messages M an interaction takes, with a factor for each atom.
#[derive(Clone, Copy, Debug)]
pub enum JetSquare<'a, T> {
    /// `factor (Y M + M Y)`: the same under reflections.
    Symmetric {
        /// Factors of atoms.
        factors: &'a [T],
    },
    /// `2 Y M`: for rotations alone.
    OneSided,
}

impl<T: Scalar> JetSquare<'_, T> {
    #[inline(always)]
    fn of<F: Field<Number = T>>(&self, atom: usize) -> (bool, F) {
        match self {
            Self::Symmetric { factors } => (true, factor(factors, atom)),
            Self::OneSided => (false, F::constant(2.0)),
        }
    }
}

#[inline(always)]
fn factor<F: Field>(factors: &[F::Number], atom: usize) -> F {
    F::constant(factors[atom].to_f64())
}

/// `y = x / (|x|² + 1)`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn normalise<T: Scalar>(channels: usize, x: Jets<'_, T>, y: JetsMut<'_, T>) {
    struct Normalise<'a, T>(Jets<'a, T>, JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Normalise<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = at.nine::<F>(&self.0);
                let by = inner(x, x).plus(F::constant(1.0)).inverse();
                at.set_nine(scaled(x, by), &mut self.1);
            }
        }
    }
    run(channels, &[x.lens(), y.lens()], &[], &[], Normalise(x, y));
}

/// Backward pass of [`normalise`] from the sum of two gradients of `y`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn normalise_backward<T: Scalar>(
    channels: usize,
    x: Jets<'_, T>,
    g: [Jets<'_, T>; 2],
    dx: JetsMut<'_, T>,
) {
    struct Backward<'a, T>([Jets<'a, T>; 3], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self([x, a, b], dx) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = at.nine::<F>(x);
                let mut g = at.nine::<F>(a);
                for (g, b) in g.iter_mut().zip(at.nine::<F>(b)) {
                    *g = g.plus(b);
                }
                let by = inner(x, x).plus(F::constant(1.0)).inverse();
                at.set_nine(through_norm(scaled(x, by), by, g), dx);
            }
        }
    }
    let lens = [x.lens(), g[0].lens(), g[1].lens(), dx.lens()];
    run(channels, &lens, &[], &[], Backward([x, g[0], g[1]], dx));
}

/// The product of features `y` and messages `m`, divided by its squared norm plus one, into `p`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn product<T: Scalar>(
    channels: usize,
    square: JetSquare<'_, T>,
    y: Jets<'_, T>,
    m: Jets<'_, T>,
    p: JetsMut<'_, T>,
) {
    struct Product<'a, T>(JetSquare<'a, T>, [Jets<'a, T>; 2], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Product<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self(square, [y, m], p) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (y, m) = (compose(at.nine::<F>(y)), compose(at.nine::<F>(m)));
                let (product, _) = normalised_product(square.of(at.atom), &y, &m);
                at.set_nine(product, p);
            }
        }
    }
    run(channels, &[y.lens(), m.lens(), p.lens()], &[], &[], Product(square, [y, m], p));
}

/// Backward pass of [`product`] from the gradient `g` of its result to those of `y` and `m`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn product_backward<T: Scalar>(
    channels: usize,
    square: JetSquare<'_, T>,
    [y, m, g]: [Jets<'_, T>; 3],
    [dy, dm]: [JetsMut<'_, T>; 2],
) {
    struct Backward<'a, T>(JetSquare<'a, T>, [Jets<'a, T>; 3], [JetsMut<'a, T>; 2]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self(square, [y, m, g], [dy, dm]) = self;
            let (symmetric, factor) = square.of::<F>(at.atom);
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (y, m) = (compose(at.nine::<F>(y)), compose(at.nine::<F>(m)));
                let (p, by) = normalised_product((symmetric, factor), &y, &m);
                let g = through_norm(p, by, at.nine::<F>(g));
                let g = compose(scaled(g, factor));
                let (mut of_y, mut of_m) = (zero(), zero());
                add_product::<F, false, true>(&g, &m, &mut of_y);
                add_product::<F, true, false>(&y, &g, &mut of_m);
                if symmetric {
                    add_product::<F, true, false>(&m, &g, &mut of_y);
                    add_product::<F, false, true>(&g, &y, &mut of_m);
                }
                at.set_nine(decompose(of_y), dy);
                at.set_nine(decompose(of_m), dm);
            }
        }
    }
    let lens = [y.lens(), m.lens(), g.lens(), dy.lens(), dm.lens()];
    run(channels, &lens, &[], &[], Backward(square, [y, m, g], [dy, dm]));
}

/// `x = y + d + factor d d`, with the product of matrices and a factor for each atom.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn update<T: Scalar>(
    channels: usize,
    factors: &[T],
    [y, d]: [Jets<'_, T>; 2],
    x: JetsMut<'_, T>,
) {
    struct Update<'a, T>(&'a [T], [Jets<'a, T>; 2], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Update<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self(factors, [y, d], x) = self;
            let by = factor::<F>(factors, at.atom);
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (mut y, parts) = (at.nine::<F>(y), at.nine::<F>(d));
                let (d, mut square) = (compose(parts), zero());
                add_product::<F, false, false>(&d, &d, &mut square);
                for ((y, d), square) in y.iter_mut().zip(parts).zip(decompose(square)) {
                    *y = square.times_plus(by, y.plus(d));
                }
                at.set_nine(y, x);
            }
        }
    }
    run(channels, &[y.lens(), d.lens(), x.lens()], &[], &[], Update(factors, [y, d], x));
}

/// Backward pass of [`update`] for `d`: from the gradient `g` of `x`, which is also that of `y`, to
/// `dd = g + factor (g dᵀ + dᵀ g)`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn update_backward<T: Scalar>(
    channels: usize,
    factors: &[T],
    [d, g]: [Jets<'_, T>; 2],
    dd: JetsMut<'_, T>,
) {
    struct Backward<'a, T>(&'a [T], [Jets<'a, T>; 2], JetsMut<'a, T>);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<F: Field<Number = T>>(&mut self, at: Place) {
            let Self(factors, [d, g], dd) = self;
            let by = factor::<F>(factors, at.atom);
            // SAFETY: `run` checked the lengths.
            unsafe {
                let (d, mut parts) = (compose(at.nine::<F>(d)), at.nine::<F>(g));
                let (g, mut both) = (compose(parts), zero());
                add_product::<F, false, true>(&g, &d, &mut both);
                add_product::<F, true, false>(&d, &g, &mut both);
                for (part, both) in parts.iter_mut().zip(decompose(both)) {
                    *part = both.times_plus(by, *part);
                }
                at.set_nine(parts, dd);
            }
        }
    }
    run(channels, &[d.lens(), g.lens(), dd.lens()], &[], &[], Backward(factors, [d, g], dd));
}
