//! Products of diagonal and circulant matrices, applied to many rows.
//!
//! `y = diag(d_0) circ(c_0) diag(d_1) ⋯ circ(c_{m-2}) diag(d_{m-1}) x`, n features, `circ(c)[i, j]
//! = c[(i - j) mod n]`, so that `circ(c) = F⁻¹ diag(F c) F` with the Fourier matrix F.
//!
//! Two rows a and b are packed as one complex row `a + i b`: a real circulant keeps them apart, and
//! the spectrum is never untangled. As many of these as a register has lanes form a tile (features,
//! re and im of each), and butterflies run over the features with one twiddle factor for all lanes.
//! Forward transform, product and inverse transform run for all circulants while the tile is in
//! cache.
//!
//! Numerical notes: both rows of a pair share the rounding of the larger one, so every row is first
//! scaled to the order of one by a power of two, which is exact; a non-finite row spoils its
//! partner. Parameter gradients are summed over the rows of a tile in `T` and then in `f64`; in the
//! backward pass the rows of a tile share one power of two. Spectra are computed in `f64`.

mod backward;
mod butterfly;
mod columns;
mod complex;
mod cyclic;
mod passes;
mod plan;
mod polar;
mod values;

pub use columns::dense;
pub use cyclic::CyclicTransform;
pub use polar::{exponentials, from_polar};
pub use values::log_of_product;

use crate::kernels::registers::{Job, Lanes, Pass, dispatch};
use crate::kernels::transpose::{from_columns, to_columns};
use crate::{MatMut, MatRef, Scalar, Scratch, parallel};
use complex::{Complex, numbers_for, numbers_of, registers};
use cyclic::Multiply;
use passes::there_and_back;
use std::sync::Arc;

/// Rows per work item: whole tiles of every machine.
const BLOCK_ROWS: usize = 64;
/// Multiply-adds that one thread completes before another one is awake.
const ALONE: u64 = 1 << 20;

/// A product of m diagonal and m - 1 circulant matrices, ready to apply.
#[derive(Clone, Debug)]
pub struct CirculantChain<T> {
    transform: Arc<CyclicTransform<T>>,
    /// (m, n), d_0 first.
    diagonals: Vec<T>,
    /// (m - 1, length of the plan), in transform order.
    factors: Vec<[T; 2]>,
}

/// Parameter gradients of a chain, summed over rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChainGrads {
    /// Of d_0 to d_{m-1}, (m, n).
    pub diagonals: Vec<f64>,
    /// Of the columns c_0 to c_{m-2}, (m - 1, n).
    pub columns: Vec<f64>,
}

impl<T: Scalar> CirculantChain<T> {
    /// Builds from diagonals (m, n), d_0 first, and the half spectra of the columns c_0 to c_{m-2}.
    ///
    /// # Panics
    /// If there are not m diagonals, or bins are missing.
    #[must_use]
    #[track_caller]
    pub fn new(
        transform: Arc<CyclicTransform<T>>,
        diagonals: Vec<T>,
        spectra: &[Vec<[f64; 2]>],
    ) -> Self {
        let numbers = (spectra.len() + 1) * transform.features();
        assert_eq!(diagonals.len(), numbers, "numbers of {} diagonals", spectra.len() + 1);
        let mut factors = Vec::with_capacity(spectra.len() * transform.plan.len());
        for half in spectra {
            factors.extend(transform.factors(half));
        }
        Self { transform, diagonals, factors }
    }

    /// Features n.
    #[must_use]
    pub fn features(&self) -> usize {
        self.transform.features()
    }

    fn diagonal(&self, index: usize) -> &[T] {
        &self.diagonals[index * self.features()..][..self.features()]
    }

    fn factors(&self, index: usize) -> &[[T; 2]] {
        let len = self.transform.plan.len();
        &self.factors[index * len..][..len]
    }

    fn circulants(&self) -> usize {
        self.factors.len() / self.transform.plan.len()
    }

    /// Multiply-adds for one row: see [`CyclicTransform::macs_per_row`], and one for each number of
    /// a diagonal. Powers of two are not counted.
    #[must_use]
    pub fn macs_per_row(&self) -> u64 {
        self.circulants() as u64 * self.transform.macs_per_row() + self.diagonals.len() as u64
    }

    /// Rows or columns per work item, of `count`: all of them if there is little to do. A function
    /// of the sizes only, because the bits of a row depend on the size of its work item.
    fn piece(&self, count: usize) -> usize {
        let work = (count as u64).saturating_mul(self.macs_per_row());
        if work <= ALONE { count.max(1) } else { BLOCK_ROWS }
    }

    /// `y = W x` for each row of `x` and `y` (rows, n).
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: MatRef<'_, T>, y: MatMut<'_, T>) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.features()), "input of a chain");
        assert_eq!(y.cols(), self.features(), "output of a chain");
        let piece = self.piece(x.rows());
        parallel::for_each(y.row_blocks(piece), |k, y| {
            let rows = y.rows();
            let x = x.rows_range(k * piece, rows);
            dispatch(rows, Forward { chain: self, x, y });
        });
    }
}

/// A block of rows in the state of a chain.
struct Forward<'a, 'b, T> {
    chain: &'a CirculantChain<T>,
    x: MatRef<'a, T>,
    y: MatMut<'b, T>,
}

impl<T: Scalar> Job<T> for Forward<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(mut self) {
        let (chain, len) = (self.chain, self.chain.transform.plan.len());
        let mut memory = Scratch::new(numbers_for::<V>(len));
        let tile = registers::<V>(&mut memory, len);
        for start in (0..self.x.rows()).step_by(2 * V::WIDTH) {
            let rows = (self.x.rows() - start).min(2 * V::WIDTH);
            load(self.x.rows_range(start, rows), tile, chain.features());
            through(chain, tile);
            let mut y = self.y.reborrow().rows_range(start, rows);
            from_columns(numbers_of(&mut tile[..chain.features()]), 2 * V::WIDTH, &mut y);
        }
    }
}

/// Applies a chain to a tile.
fn through<V: Lanes>(chain: &CirculantChain<V::Number>, tile: &mut [Complex<V>]) {
    let powers = up_to_last(chain, tile);
    V::run(Scale { tile, diagonal: chain.diagonal(0), powers });
}

/// Applies a chain without its last diagonal d_0 to a tile; returns the powers of two that must be
/// multiplied together with d_0.
fn up_to_last<V: Lanes>(chain: &CirculantChain<V::Number>, tile: &mut [Complex<V>]) -> Complex<V> {
    let one = V::run(Everywhere(V::Number::ONE));
    if chain.circulants() == 0 {
        return one;
    }
    let [mut powers, back] = powers(V::run(Largest(&*tile)));
    for j in (0..chain.circulants()).rev() {
        V::run(Scale { tile, diagonal: chain.diagonal(j + 1), powers });
        there_and_back(&chain.transform.plan, tile, &mut Multiply(chain.factors(j)));
        powers = one;
    }
    back
}

/// Broadcasts a number to all lanes.
struct Everywhere<T>(T);

impl<V: Lanes> Pass<V> for Everywhere<V::Number> {
    type Output = Complex<V>;

    #[inline(always)]
    fn run(self) -> Complex<V> {
        Complex { re: V::splat(self.0), im: V::splat(self.0) }
    }
}

/// Loads rows into the first `features` registers of a tile, the first half of the lanes as real
/// parts; the other registers become zero.
fn load<V: Lanes>(x: MatRef<'_, V::Number>, tile: &mut [Complex<V>], features: usize) {
    let (inside, beyond) = tile.split_at_mut(features);
    numbers_of(beyond).fill(V::Number::ZERO);
    let inside = numbers_of(inside);
    if x.rows() < 2 * V::WIDTH {
        inside.fill(V::Number::ZERO);
    }
    to_columns(x, 2 * V::WIDTH, inside);
}

/// The largest absolute value of each row.
struct Largest<'a, V>(&'a [Complex<V>]);

impl<V: Lanes> Pass<V> for Largest<'_, V> {
    type Output = Complex<V>;

    #[inline(always)]
    fn run(self) -> Complex<V> {
        let mut most = Complex::<V>::zero();
        for value in self.0 {
            most = Complex { re: most.re.larger(value.re), im: most.im.larger(value.im) };
        }
        most
    }
}

/// Powers of two that scale numbers of the given sizes to the order of one, and their inverses.
fn powers<V: Lanes>(sizes: Complex<V>) -> [Complex<V>; 2] {
    let (mut there, mut back) = ([sizes], [sizes]);
    for (there, back) in numbers_of(&mut there).iter_mut().zip(numbers_of(&mut back)) {
        let power = power_of(there.to_f64());
        (*there, *back) = (V::Number::from_f64(power), V::Number::from_f64(1.0 / power));
    }
    [there[0], back[0]]
}

/// The inverse of the power of two next below `size`, clamped to what `f32` can be multiplied and
/// divided by; one for zero and non-finite sizes.
fn power_of(size: f64) -> f64 {
    /// Far from the limits of `f32` exponents, -126 and 127.
    const FARTHEST: i64 = 100;
    if size == 0.0 || !size.is_finite() {
        return 1.0;
    }
    let exponent = (size.to_bits() >> 52) as i64 - 1023;
    let exponent = exponent.clamp(-FARTHEST, FARTHEST);
    f64::from_bits(((1023 - exponent) as u64) << 52)
}

/// Multiplies by a diagonal, and lane-wise by powers of two; registers beyond the diagonal become
/// zero.
struct Scale<'a, V: Lanes> {
    tile: &'a mut [Complex<V>],
    diagonal: &'a [V::Number],
    powers: Complex<V>,
}

impl<V: Lanes> Pass<V> for Scale<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (inside, beyond) = self.tile.split_at_mut(self.diagonal.len());
        for (value, &d) in inside.iter_mut().zip(self.diagonal) {
            *value = value.each_times_powers(self.powers).scaled(d);
        }
        for value in beyond {
            *value = Complex::zero();
        }
    }
}

#[cfg(test)]
mod tests;
