//! Sums over samples while they are captured.
//!
//! Rows arrive in batches. A batch is divided into blocks of [`BLOCK`] rows; products within a
//! block are in `f32`, sums of blocks exact ([`exact_sum`]). So the totals are bit-identical for
//! any order of batches and any division over shards. Against products in double precision, entry
//! (i, j) of the second moments is off by less than `1e-6 √(S_ii S_jj)`, and after a few thousand
//! rows by a third of that: see the test.

use super::{InputStats, SiteStats};
use linwright_tensor::kernels::exact_sum;
use linwright_tensor::kernels::gemm::{Arg, Write, product_on_this_thread};
use linwright_tensor::{Mat, MatRef, parallel};
use std::sync::Arc;

/// Rows of a block, whose products are summed in `f32`.
const BLOCK: usize = 256;
/// Rows of a sum of products that are computed together.
const TILE: usize = 128;
/// Columns of the same: both parts of the sums of a tile take 1 MiB.
const WIDTH: usize = 512;

/// A matrix of exact sums.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExactSums {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) high: Vec<f64>,
    pub(super) low: Vec<f64>,
}

impl ExactSums {
    fn new(rows: usize, cols: usize) -> Self {
        // Written, not only reserved: a page whose first access is a read costs two faults, and the
        // second interrupts the other threads.
        let zeros = || {
            let mut zeros = Vec::with_capacity(rows * cols);
            zeros.resize(rows * cols, 0.0);
            zeros
        };
        Self { rows, cols, high: zeros(), low: zeros() }
    }

    /// Adds `aᵀ b` for a (n, rows) and b (n, cols), block by block; for a symmetric sum only the
    /// lower triangle, up to whole tiles. A tile takes all blocks before the next one, so that it
    /// stays in the cache.
    fn add_products(&mut self, a: MatRef<'_, f32>, b: MatRef<'_, f32>, is_symmetric: bool) {
        let (rows, cols) = (self.rows, self.cols);
        let band = TILE * cols.max(1);
        let bands = self.high.chunks_mut(band).zip(self.low.chunks_mut(band)).enumerate();
        // The longest first, so that the last work items are small.
        let bands: Vec<_> = bands.rev().collect();
        parallel::for_each(bands, |_, (index, (high, low))| {
            let start = index * TILE;
            let count = TILE.min(rows - start);
            let end = if is_symmetric { start + count } else { cols };
            let mut products = Mat::zeros(count, WIDTH.min(end));
            for first in (0..end).step_by(WIDTH) {
                let width = WIDTH.min(end - first);
                products.resize(count, width);
                for (row, rows) in blocks(a.rows()) {
                    let left = Arg::Transposed(a.rows_range(row, rows).columns(start, count));
                    let right = Arg::Plain(b.rows_range(row, rows).columns(first, width));
                    product_on_this_thread(1.0, left, right, products.view_mut(), Write::Set);
                    for i in 0..count {
                        let here = i * cols + first..i * cols + first + width;
                        exact_sum::add(&mut high[here.clone()], &mut low[here], products.row(i));
                    }
                }
            }
        });
    }

    /// Adds rows to sums of one row.
    fn add_rows(&mut self, rows: MatRef<'_, f32>) {
        (0..rows.rows()).for_each(|i| exact_sum::add(&mut self.high, &mut self.low, rows.row(i)));
    }

    #[track_caller]
    fn merge(&mut self, other: &Self) {
        let shape = |sums: &Self| (sums.rows, sums.cols);
        assert_eq!(shape(self), shape(other), "sums of different sites");
        exact_sum::merge(&mut self.high, &mut self.low, &other.high, &other.low);
    }

    /// The totals, each rounded once.
    fn finish(mut self) -> Mat<f64> {
        self.high.iter_mut().zip(&self.low).for_each(|(high, low)| *high += low);
        Mat::from_vec(self.rows, self.cols, self.high)
    }

    fn finish_row(self) -> Vec<f64> {
        self.finish().into_vec()
    }
}

/// Blocks of a batch.
fn blocks(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(BLOCK).map(move |start| (start, BLOCK.min(rows - start)))
}

/// Sums over the inputs of a site, or of several that read one input.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSums {
    /// Of x xᵀ: lower triangle.
    pub(super) second: ExactSums,
    /// Of x.
    pub(super) first: ExactSums,
    /// Of |x|.
    pub(super) absolute: ExactSums,
    pub(super) count: u64,
}

impl InputSums {
    /// Sums over no samples.
    #[must_use]
    pub fn new(inp: usize) -> Self {
        let row = || ExactSums::new(1, inp);
        Self { second: ExactSums::new(inp, inp), first: row(), absolute: row(), count: 0 }
    }

    /// Numbers of features, of both sides of the products.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.second.rows, self.second.cols]
    }

    /// Adds a batch of inputs (rows, inp).
    ///
    /// # Panics
    /// If the inputs have another number of features.
    #[track_caller]
    pub fn add(&mut self, x: MatRef<'_, f32>) {
        assert_eq!(x.cols(), self.first.cols, "features of an input");
        self.second.add_products(x, x, true);
        self.first.add_rows(x);
        for (start, count) in blocks(x.rows()) {
            let absolute = Mat::from_fn(count, x.cols(), |i, j| x.at(start + i, j).abs());
            self.absolute.add_rows(absolute.view());
        }
        self.count += x.rows() as u64;
    }

    /// Adds the sums of other samples, such as another shard.
    ///
    /// # Panics
    /// If the numbers of features differ.
    #[track_caller]
    pub fn merge(&mut self, other: &Self) {
        self.second.merge(&other.second);
        self.first.merge(&other.first);
        self.absolute.merge(&other.absolute);
        self.count += other.count;
    }

    /// The totals.
    #[must_use]
    pub fn finish(self) -> InputStats {
        let mut sxx = self.second.finish();
        for i in 0..sxx.rows() {
            for j in 0..i {
                *sxx.at_mut(j, i) = sxx.at(i, j);
            }
        }
        let (sx, absolute) = (self.first.finish_row(), self.absolute.finish_row());
        InputStats::new(sxx, sx, absolute, self.count)
    }
}

/// Sums over the targets of a site together with its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSums {
    /// Of y xᵀ.
    pub(super) cross: ExactSums,
    /// Of y.
    pub(super) first: ExactSums,
    /// Of |y|²: the rounded sum and what rounding lost.
    pub(super) power: [f64; 2],
}

impl TargetSums {
    /// Sums over no samples.
    #[must_use]
    pub fn new(out: usize, inp: usize) -> Self {
        let (cross, first) = (ExactSums::new(out, inp), ExactSums::new(1, out));
        Self { cross, first, power: [0.0; 2] }
    }

    /// Numbers of features of targets and inputs.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.cross.rows, self.cross.cols]
    }

    /// Adds a batch of targets (rows, out) with their inputs (rows, inp).
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn add(&mut self, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        assert_eq!(x.rows(), y.rows(), "one target for each input");
        assert_eq!((y.cols(), x.cols()), (self.cross.rows, self.cross.cols), "features of a site");
        self.cross.add_products(y, x, false);
        self.first.add_rows(y);
        let [high, low] = &mut self.power;
        // The square of a number in f32 is exact in f64.
        let squares = (0..y.rows()).flat_map(|i| y.row(i)).map(|y| f64::from(*y).powi(2));
        squares.for_each(|square| exact_sum::add_one(high, low, square));
    }

    /// Adds the sums of other samples.
    ///
    /// # Panics
    /// If the shapes differ.
    #[track_caller]
    pub fn merge(&mut self, other: &Self) {
        self.cross.merge(&other.cross);
        self.first.merge(&other.first);
        let ([high, low], [of_high, of_low]) = (&mut self.power, other.power);
        let one = std::slice::from_mut;
        exact_sum::merge(one(high), one(low), &[of_high], &[of_low]);
    }

    /// The totals, with those of the inputs.
    #[must_use]
    pub fn finish(self, inputs: Arc<InputStats>) -> SiteStats {
        let [high, low] = self.power;
        let (syx, sy) = (self.cross.finish(), self.first.finish_row());
        SiteStats { inputs, syx, syy: high + low, sy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;
    use linwright_tensor::kernels::gemm::product;

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        let numbers = RngKey::new(seed).stream().normals(rows * cols, 1.0);
        // Features of very different size, as in language models.
        let size = |j: usize| ((j % 7) as f32 - 3.0).exp2();
        let plain: Mat<f32> = Mat::from_vec(rows, cols, numbers);
        Mat::from_fn(rows, cols, |i, j| size(j) * (0.3 + plain.at(i, j)))
    }

    fn batches(x: &Mat<f32>, y: &Mat<f32>, order: &[usize]) -> SiteStats {
        let (mut inputs, mut targets) =
            (InputSums::new(x.cols()), TargetSums::new(y.cols(), x.cols()));
        for group in order.chunks(2) {
            let mut own = (InputSums::new(x.cols()), TargetSums::new(y.cols(), x.cols()));
            for &index in group {
                let (start, count) = (index * 700, 700.min(x.rows() - index * 700));
                let (x, y) = (x.view().rows_range(start, count), y.view().rows_range(start, count));
                own.0.add(x);
                own.1.add(x, y);
            }
            inputs.merge(&own.0);
            targets.merge(&own.1);
        }
        targets.finish(Arc::new(inputs.finish()))
    }

    #[test]
    fn neither_order_nor_shards_nor_threads_change_a_bit() {
        let (x, y) = (random(3000, 150, 1), random(3000, 40, 2));
        let expected = batches(&x, &y, &[0, 1, 2, 3, 4]);
        assert_eq!(expected.inputs.count, 3000);
        for order in [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
            assert!(batches(&x, &y, &order) == expected, "order {order:?}");
        }
        let one = parallel::with_threads(1, || batches(&x, &y, &[0, 1, 2, 3, 4]));
        assert!(one.expect("a thread") == expected);
        let (sxx, syx) = (&expected.inputs.sxx, &expected.syx);
        assert!((0..150).all(|i| (0..i).all(|j| sxx.at(i, j).to_bits() == sxx.at(j, i).to_bits())));
        assert_eq!((syx.rows(), syx.cols()), (40, 150));
    }

    #[test]
    fn they_are_off_by_less_than_1e_6_of_products_in_double_precision() {
        for (rows, most) in [(BLOCK, 1e-6), (16 * BLOCK, 3e-7)] {
            let (x, y) = (random(rows, 90, 3), random(rows, 50, 4));
            let found = SiteStats::of(x.view(), y.view());
            let (wide_x, wide_y): (Mat<f64>, Mat<f64>) = (x.cast(), y.cast());
            let exact = |a: &Mat<f64>, b: &Mat<f64>| {
                let mut c = Mat::zeros(a.cols(), b.cols());
                let a = Arg::Transposed(a.view());
                product(1.0, a, b.view().into(), c.view_mut(), Write::Set);
                c
            };
            let (sxx, syx) = (exact(&wide_x, &wide_x), exact(&wide_y, &wide_x));
            let syy = exact(&wide_y, &wide_y);
            let mut worst = 0.0f64;
            for i in 0..90 {
                for j in 0..90 {
                    let size = (sxx.at(i, i) * sxx.at(j, j)).sqrt();
                    worst = worst.max((sxx.at(i, j) - found.inputs.sxx.at(i, j)).abs() / size);
                }
                for o in 0..50 {
                    let size = (sxx.at(i, i) * syy.at(o, o)).sqrt();
                    worst = worst.max((syx.at(o, i) - found.syx.at(o, i)).abs() / size);
                }
            }
            assert!(worst > 0.0 && worst < most, "{rows} rows: {worst:e}");
            let power: f64 = wide_y.data().iter().map(|y| y * y).sum();
            assert!((found.syy / power - 1.0).abs() < 1e-13);
            let sum: f64 = (0..rows).map(|i| wide_x.at(i, 7)).sum();
            assert!((found.inputs.sx[7] - sum).abs() < 1e-11 * found.inputs.absolute[7]);
        }
    }
}
