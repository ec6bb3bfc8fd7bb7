//! Steps of an interaction at one atom: norms, products of tensors, and their adjoints.
//!
//! Every function takes atoms of (9, channels) numbers; `inverse` holds one number for each channel
//! of an atom.

use super::jets::Field;
use super::{COMPONENTS, PARTS, add_product, compose, decompose, inner, load, scaled, store, zero};
use crate::Scalar;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns};

/// Which product of features Y and messages M an interaction takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Square<T> {
    /// `factor (Y M + M Y)`: the same under reflections.
    Symmetric {
        /// Factor of the product.
        factor: T,
    },
    /// `2 Y M`: for rotations alone.
    OneSided,
}

impl<T: Scalar> Square<T> {
    /// Whether both orders are added, and the factor.
    #[inline(always)]
    fn of<V: Lanes<Number = T>>(self) -> (bool, V) {
        match self {
            Self::Symmetric { factor } => (true, V::splat(factor)),
            Self::OneSided => (false, V::splat(T::ONE + T::ONE)),
        }
    }
}

/// A loop over the registers of atoms, given the offsets of an atom's tensors and its channels.
pub(super) trait Step<T: Scalar> {
    fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, channel: usize, part: usize);
}

/// Runs a step for every register of channels of every atom.
struct Atoms<S> {
    atoms: usize,
    channels: usize,
    step: S,
}

struct AtomsPass<S, V>(Atoms<S>, std::marker::PhantomData<V>);

impl<T: Scalar, S: Step<T>> Job<T> for Atoms<S> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        V::run(AtomsPass(self, std::marker::PhantomData::<V>));
    }
}

impl<V: Lanes, S: Step<V::Number>> Pass<V> for AtomsPass<S, V> {
    type Output = ();
    #[inline(always)]
    fn run(mut self) {
        let channels = self.0.channels;
        for atom in 0..self.0.atoms {
            for c in (0..channels).step_by(V::WIDTH) {
                let tensor = atom * COMPONENTS * channels + c;
                self.0.step.step::<V>(tensor, atom * channels + c, atom * PARTS * channels + c);
            }
        }
    }
}

/// Checks lengths and runs: tensors, numbers for each channel, and numbers for each part.
#[track_caller]
pub(super) fn run<T: Scalar, S: Step<T>>(
    channels: usize,
    tensors: &[usize],
    singles: &[usize],
    parts: &[usize],
    step: S,
) {
    let atoms = tensors[0] / (COMPONENTS * channels).max(1);
    let fits = |lens: &[usize], numbers: usize| {
        let all = lens.iter().all(|len| *len == atoms * numbers * channels);
        assert!(all, "{lens:?} numbers of {atoms} atoms with {numbers} x {channels}");
    };
    fits(tensors, COMPONENTS);
    fits(singles, 1);
    fits(parts, PARTS);
    dispatch_columns(channels, Atoms { atoms, channels, step });
}

/// `y = x / (|x|² + 1)`, and `inverse = 1 / (|x|² + 1)`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn normalise<T: Scalar>(channels: usize, x: &[T], y: &mut [T], inverse: &mut [T]) {
    struct Normalise<'a, T>(usize, &'a [T], &'a mut [T], &'a mut [T]);
    impl<T: Scalar> Step<T> for Normalise<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, channel: usize, _: usize) {
            let Self(channels, x, y, inverse) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let x = load::<V>(x.as_ptr().add(tensor), *channels);
                let one = V::splat(T::ONE);
                let by = one.over(inner(x, x).plus(one));
                store(scaled(x, by), y.as_mut_ptr().add(tensor), *channels);
                by.store(inverse.as_mut_ptr().add(channel));
            }
        }
    }
    let lens = [x.len(), y.len()];
    run(channels, &lens, &[inverse.len()], &[], Normalise(channels, x, y, inverse));
}

/// Backward pass of [`normalise`] from its results: `g`, the gradient of `y`, is overwritten by
/// that of `x`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn normalise_backward<T: Scalar>(channels: usize, y: &[T], inverse: &[T], g: &mut [T]) {
    struct Backward<'a, T>(usize, &'a [T], &'a [T], &'a mut [T]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, channel: usize, _: usize) {
            let Self(channels, y, inverse, g) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let y = load::<V>(y.as_ptr().add(tensor), *channels);
                let by = V::load(inverse.as_ptr().add(channel));
                let at = g.as_mut_ptr().add(tensor);
                store(through_norm(y, by, load::<V>(at, *channels)), at, *channels);
            }
        }
    }
    let lens = [y.len(), g.len()];
    run(channels, &lens, &[inverse.len()], &[], Backward(channels, y, inverse, g));
}

/// Gradient through `y = x by`, `by = 1 / (|x|² + 1)`.
#[inline(always)]
pub(super) fn through_norm<F: Field>(
    y: [F; COMPONENTS],
    by: F,
    g: [F; COMPONENTS],
) -> [F; COMPONENTS] {
    let twice = inner(y, g);
    let twice = twice.plus(twice);
    let mut x = g;
    for (x, y) in x.iter_mut().zip(y) {
        *x = y.times_from(twice, x.times(by));
    }
    x
}

/// The product of features `y` and messages `m`, divided by its squared norm plus one, into `p`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn product<T: Scalar>(channels: usize, square: Square<T>, y: &[T], m: &[T], p: &mut [T]) {
    struct Product<'a, T>(usize, Square<T>, &'a [T], &'a [T], &'a mut [T]);
    impl<T: Scalar> Step<T> for Product<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, _: usize) {
            let Self(channels, square, y, m, p) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let y = compose(load::<V>(y.as_ptr().add(tensor), *channels));
                let m = compose(load::<V>(m.as_ptr().add(tensor), *channels));
                let (product, _) = normalised_product(square.of::<V>(), &y, &m);
                store(product, p.as_mut_ptr().add(tensor), *channels);
            }
        }
    }
    let lens = [y.len(), m.len(), p.len()];
    run(channels, &lens, &[], &[], Product(channels, square, y, m, p));
}

/// The product and one over its squared norm plus one; `2 y m` or `factor (y m + m y)`.
#[inline(always)]
pub(super) fn normalised_product<F: Field>(
    (symmetric, factor): (bool, F),
    y: &super::Tensor<F>,
    m: &super::Tensor<F>,
) -> ([F; COMPONENTS], F) {
    let mut sum = zero();
    add_product::<F, false, false>(y, m, &mut sum);
    if symmetric {
        add_product::<F, false, false>(m, y, &mut sum);
    }
    let p = scaled(decompose(sum), factor);
    let by = inner(p, p).plus(F::constant(1.0)).inverse();
    (scaled(p, by), by)
}

/// Backward pass of [`product`]: `g`, the gradient of its result, is overwritten by that of `m`,
/// and that of `y` goes to `dy`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn product_backward<T: Scalar>(
    channels: usize,
    square: Square<T>,
    y: &[T],
    m: &[T],
    g: &mut [T],
    dy: &mut [T],
) {
    struct Backward<'a, T>(usize, Square<T>, [&'a [T]; 2], [&'a mut [T]; 2]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, _: usize) {
            let Self(channels, square, [y, m], [g, dy]) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let y = compose(load::<V>(y.as_ptr().add(tensor), *channels));
                let m = compose(load::<V>(m.as_ptr().add(tensor), *channels));
                let (p, by) = normalised_product(square.of::<V>(), &y, &m);
                let at = g.as_mut_ptr().add(tensor);
                let g = through_norm(p, by, load::<V>(at, *channels));
                let (mut of_y, mut of_m) = (zero(), zero());
                match *square {
                    Square::Symmetric { factor } => {
                        let g = compose(scaled(g, V::splat(factor)));
                        add_product::<V, false, true>(&g, &m, &mut of_y);
                        add_product::<V, true, false>(&m, &g, &mut of_y);
                        add_product::<V, false, true>(&g, &y, &mut of_m);
                        add_product::<V, true, false>(&y, &g, &mut of_m);
                    }
                    Square::OneSided => {
                        let g = compose(scaled(g, V::splat(T::ONE + T::ONE)));
                        add_product::<V, false, true>(&g, &m, &mut of_y);
                        add_product::<V, true, false>(&y, &g, &mut of_m);
                    }
                }
                store(decompose(of_m), at, *channels);
                store(decompose(of_y), dy.as_mut_ptr().add(tensor), *channels);
            }
        }
    }
    let lens = [y.len(), m.len(), g.len(), dy.len()];
    run(channels, &lens, &[], &[], Backward(channels, square, [y, m], [g, dy]));
}

/// `x = y + d + factor d d`, with the product of matrices.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn update<T: Scalar>(channels: usize, factor: T, y: &[T], d: &[T], x: &mut [T]) {
    struct Update<'a, T>(usize, T, [&'a [T]; 2], &'a mut [T]);
    impl<T: Scalar> Step<T> for Update<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, _: usize) {
            let Self(channels, factor, [y, d], x) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let mut y = load::<V>(y.as_ptr().add(tensor), *channels);
                let parts = load::<V>(d.as_ptr().add(tensor), *channels);
                let (d, mut square) = (compose(parts), zero());
                add_product::<V, false, false>(&d, &d, &mut square);
                for ((y, d), square) in y.iter_mut().zip(parts).zip(decompose(square)) {
                    *y = square.times_plus(V::splat(*factor), y.plus(d));
                }
                store(y, x.as_mut_ptr().add(tensor), *channels);
            }
        }
    }
    let lens = [y.len(), d.len(), x.len()];
    run(channels, &lens, &[], &[], Update(channels, factor, [y, d], x));
}

/// Backward pass of [`update`] for `d`: from the gradient `g` of `x`, which is also that of `y`, to
/// `dd = g + factor (g dᵀ + dᵀ g)`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn update_backward<T: Scalar>(channels: usize, factor: T, d: &[T], g: &[T], dd: &mut [T]) {
    struct Backward<'a, T>(usize, T, [&'a [T]; 2], &'a mut [T]);
    impl<T: Scalar> Step<T> for Backward<'_, T> {
        #[inline(always)]
        fn step<V: Lanes<Number = T>>(&mut self, tensor: usize, _: usize, _: usize) {
            let Self(channels, factor, [d, g], dd) = self;
            // SAFETY: `run` checked the lengths.
            unsafe {
                let d = compose(load::<V>(d.as_ptr().add(tensor), *channels));
                let mut parts = load::<V>(g.as_ptr().add(tensor), *channels);
                let (g, mut both) = (compose(parts), zero());
                add_product::<V, false, true>(&g, &d, &mut both);
                add_product::<V, true, false>(&d, &g, &mut both);
                for (part, both) in parts.iter_mut().zip(decompose(both)) {
                    *part = both.times_plus(V::splat(*factor), *part);
                }
                store(parts, dd.as_mut_ptr().add(tensor), *channels);
            }
        }
    }
    let lens = [d.len(), g.len(), dd.len()];
    run(channels, &lens, &[], &[], Backward(channels, factor, [d, g], dd));
}
