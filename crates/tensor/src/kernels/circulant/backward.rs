//! Gradients of a chain: the forward pass is recomputed tile by tile, so that nothing is kept
//! between calls.
//!
//! With z_j and u_j the input and output of circulant j, and g the gradient at diagonal j: `d_j`
//! gets `g u_j`, the column c_j the correlation `Σ_t g_t z_{t-k}`, whose spectrum is `conj(Z) G`.
//! For two rows packed in one complex row, the cross terms end up in the imaginary part of the
//! correlation, which is dropped.

use super::complex::{Complex, numbers_for, numbers_of, registers};
use super::passes::{Spectral, there_and_back};
use super::{BLOCK_ROWS, ChainGrads, CirculantChain, Everywhere, Largest, Scale, load, powers};
use crate::kernels::registers::{Job, Lanes, Pass, dispatch, sum_of_lanes};
use crate::kernels::transpose::from_columns;
use crate::{MatMut, MatRef, Scalar, Scratch, parallel};

/// Largest number of blocks with their own gradient sums of 4 m n numbers.
const PIECES: usize = 64;

impl<T: Scalar> CirculantChain<T> {
    /// From `x` and the gradient `dy` (rows, n) of a loss with respect to `y = W x`, the gradients
    /// of diagonals and columns, and that of `x` in `dx` if requested.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn backward(
        &self,
        x: MatRef<'_, T>,
        dy: MatRef<'_, T>,
        dx: Option<MatMut<'_, T>>,
    ) -> ChainGrads {
        let features = self.features();
        assert_eq!((x.rows(), x.cols()), (dy.rows(), features), "input of a chain");
        assert_eq!(dy.cols(), features, "output of a chain");
        if let Some(dx) = &dx {
            assert_eq!((dx.rows(), dx.cols()), (x.rows(), features), "gradient of the input");
        }
        let sums = sums_of(self, x, dy, dx);
        let len = self.transform.plan.len();
        let spectra = sums.spectra.chunks_exact(len);
        let columns = spectra.flat_map(|sums| self.transform.correlations(sums)).collect();
        ChainGrads { diagonals: sums.diagonals, columns }
    }
}

/// Gradient sums over rows.
struct Sums {
    /// `g u` for each number of each diagonal.
    diagonals: Vec<f64>,
    /// `conj(Z) G` for each circulant, in transform order.
    spectra: Vec<[f64; 2]>,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.diagonals.iter_mut().zip(&other.diagonals).for_each(|(a, b)| *a += b);
        let spectra = self.spectra.iter_mut().flatten();
        spectra.zip(other.spectra.iter().flatten()).for_each(|(a, b)| *a += b);
    }
}

fn no_sums<T: Scalar>(chain: &CirculantChain<T>) -> Sums {
    let (diagonals, spectra) = (chain.diagonals.len(), chain.factors.len());
    Sums { diagonals: vec![0.0; diagonals], spectra: vec![[0.0; 2]; spectra] }
}

fn sums_of<T: Scalar>(
    chain: &CirculantChain<T>,
    x: MatRef<'_, T>,
    dy: MatRef<'_, T>,
    dx: Option<MatMut<'_, T>>,
) -> Sums {
    let block = x.rows().div_ceil(PIECES).next_multiple_of(BLOCK_ROWS);
    let mut d_blocks = dx.map(|dx| dx.row_blocks(block)).unwrap_or_default().into_iter();
    let starts = (0..x.rows()).step_by(block.max(1));
    let pieces = starts.map(|start| (start, d_blocks.next())).collect();
    let parts = parallel::map(pieces, |_, (start, dx): (usize, Option<MatMut<'_, T>>)| {
        let rows = block.min(x.rows() - start);
        let (x, dy) = (x.rows_range(start, rows), dy.rows_range(start, rows));
        let ones = vec![T::ONE; chain.features()];
        dispatch(rows, Backward { chain, x, dy, dx, sums: no_sums(chain), ones })
    });
    let mut total = no_sums(chain);
    parts.iter().for_each(|part| total.add(part));
    total
}

/// State of a block of rows in the forward and backward pass.
struct Backward<'a, 'b, T> {
    chain: &'a CirculantChain<T>,
    x: MatRef<'a, T>,
    dy: MatRef<'a, T>,
    dx: Option<MatMut<'b, T>>,
    sums: Sums,
    /// A diagonal (n) of ones.
    ones: Vec<T>,
}

/// Multiplies by a spectrum and keeps its input.
struct Save<'a, V: Lanes> {
    factors: &'a [[V::Number; 2]],
    saved: &'a mut [Complex<V>],
}

impl<V: Lanes> Spectral<V> for Save<'_, V> {
    #[inline(always)]
    fn at(&mut self, place: usize, value: Complex<V>) -> Complex<V> {
        self.saved[place] = value;
        value.times(&self.factors[place])
    }
}

/// Multiplies by the conjugate of a spectrum and adds `conj(Z) G` to sums.
struct Correlate<'a, V: Lanes> {
    factors: &'a [[V::Number; 2]],
    saved: &'a [Complex<V>],
    sums: &'a mut [[f64; 2]],
    /// Factor of the products.
    weight: f64,
}

impl<V: Lanes> Spectral<V> for Correlate<'_, V> {
    #[inline(always)]
    fn at(&mut self, place: usize, value: Complex<V>) -> Complex<V> {
        let saved = self.saved[place];
        let re = saved.re.times_plus(value.re, saved.im.times(value.im));
        let im = saved.im.times_from(value.re, saved.re.times(value.im));
        let sums = &mut self.sums[place];
        sums[0] += self.weight * sum_of_lanes(re).to_f64();
        sums[1] += self.weight * sum_of_lanes(im).to_f64();
        value.times_conjugate(&self.factors[place])
    }
}

impl<T: Scalar> Job<T> for Backward<'_, '_, T> {
    type Output = Sums;

    fn run<V: Lanes<Number = T>>(mut self) -> Sums {
        let (chain, len) = (self.chain, self.chain.transform.plan.len());
        let circulants = chain.circulants();
        let tiles = 2 * circulants + 2;
        let mut memory = Scratch::new(numbers_for::<V>(tiles * len));
        let (tile, rest) = registers::<V>(&mut memory, tiles * len).split_at_mut(len);
        for start in (0..self.x.rows()).step_by(2 * V::WIDTH) {
            let rows = (self.x.rows() - start).min(2 * V::WIDTH);
            let (spectra, outputs) = rest.split_at_mut(circulants * len);
            let x_power = self.there(start, rows, spectra, outputs);
            load(self.dy.rows_range(start, rows), tile, chain.features());
            let [power, dx_power] = power_of_all(tile);
            V::run(Scale { tile, diagonal: &self.ones, powers: power });
            let weight = (lane(x_power) * lane(power)).recip();
            self.back(tile, spectra, outputs, weight);
            if let Some(dx) = &mut self.dx {
                let diagonal = chain.diagonal(circulants);
                V::run(Scale { tile, diagonal, powers: dx_power });
                let mut dx = dx.reborrow().rows_range(start, rows);
                from_columns(numbers_of(&mut tile[..chain.features()]), 2 * V::WIDTH, &mut dx);
            }
        }
        self.sums
    }
}

impl<T: Scalar> Backward<'_, '_, T> {
    /// Fills the spectra of the inputs of all circulants, and the outputs u_0 to u_{m-2}, then x.
    /// Returns the power of two that x was scaled by.
    fn there<V: Lanes<Number = T>>(
        &self,
        start: usize,
        rows: usize,
        spectra: &mut [Complex<V>],
        outputs: &mut [Complex<V>],
    ) -> Complex<V> {
        let (chain, len) = (self.chain, self.chain.transform.plan.len());
        let circulants = chain.circulants();
        let last = &mut outputs[circulants * len..];
        load(self.x.rows_range(start, rows), last, chain.features());
        let [power, _] = power_of_all(last);
        V::run(Scale { tile: last, diagonal: &self.ones, powers: power });
        let one = V::run(Everywhere(T::ONE));
        for j in (0..circulants).rev() {
            let (outputs, before) = outputs.split_at_mut((j + 1) * len);
            let output = &mut outputs[j * len..];
            output.copy_from_slice(&before[..len]);
            V::run(Scale { tile: output, diagonal: chain.diagonal(j + 1), powers: one });
            let saved = &mut spectra[j * len..][..len];
            let mut save = Save { factors: chain.factors(j), saved };
            there_and_back(&chain.transform.plan, output, &mut save);
        }
        power
    }

    /// Takes g in `tile` from d_0 back to d_{m-1}, without the product with the latter, and adds
    /// `weight` times the gradients to the sums.
    fn back<V: Lanes<Number = T>>(
        &mut self,
        tile: &mut [Complex<V>],
        spectra: &[Complex<V>],
        outputs: &[Complex<V>],
        weight: f64,
    ) {
        let (chain, len) = (self.chain, self.chain.transform.plan.len());
        let (features, one) = (chain.features(), V::run(Everywhere(T::ONE)));
        for j in 0..=chain.circulants() {
            let sums = &mut self.sums.diagonals[j * features..][..features];
            V::run(AddProducts { sums, pairs: [tile, &outputs[j * len..]], weight });
            if j < chain.circulants() {
                V::run(Scale { tile, diagonal: chain.diagonal(j), powers: one });
                let mut correlate = Correlate {
                    factors: chain.factors(j),
                    saved: &spectra[j * len..][..len],
                    sums: &mut self.sums.spectra[j * len..][..len],
                    weight,
                };
                there_and_back(&chain.transform.plan, tile, &mut correlate);
            }
        }
    }
}

/// Adds the sum of a product over the lanes to each number.
struct AddProducts<'a, V> {
    sums: &'a mut [f64],
    pairs: [&'a [Complex<V>]; 2],
    weight: f64,
}

impl<V: Lanes> Pass<V> for AddProducts<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [left, right] = self.pairs;
        for ((sum, g), u) in self.sums.iter_mut().zip(left).zip(right) {
            let both = g.re.times_plus(u.re, g.im.times(u.im));
            *sum += self.weight * sum_of_lanes(both).to_f64();
        }
    }
}

/// One power of two for all rows of a tile, in all lanes, and its inverse.
fn power_of_all<V: Lanes>(tile: &[Complex<V>]) -> [Complex<V>; 2] {
    let mut most = [V::run(Largest(tile))];
    let numbers = numbers_of(&mut most);
    let most = numbers.iter().fold(V::Number::ZERO, |most, &n| if n > most { n } else { most });
    powers(V::run(Everywhere(most)))
}

/// Broadcasts a number to all lanes.
fn lane<V: Lanes>(value: Complex<V>) -> f64 {
    numbers_of(&mut [value])[0].to_f64()
}
