//! Sums over features by class, in one pass.
//!
//! For features x (row) with class y:
//!
//! ```text
//! n_k = Σ [y = k]     s_k = Σ x [y = k]     p_k = Σ |x|² [y = k]     T = Σ x xᵀ
//! ```
//!
//! and from the final sums, means `s_k / n_k`, scatter within classes `Q = T - Σ s_k s_kᵀ / n_k`
//! and its trace by class `p_k - |s_k|² / n_k`.
//!
//! Memory: `16 (K d + d²)` bytes; without scatter `16 K d`. Cost of a row: `d` additions, and with
//! scatter `d²` multiply-adds, or several times that up to [`EXACT_FEATURES`].
//!
//! Numerical notes. Differences of squares cancel: for features of mean 1000 and deviation 1 single
//! precision has no digit left, double precision ten. Every sum is kept as two doubles, 106 bits,
//! of exact products ([`exact_sum`]), so 86 bits are left, and the totals are bit-identical for any
//! order, batches and merges. `T` is a product of matrices: up to [`EXACT_FEATURES`] features it is
//! computed from slices of 22 bits, whose products are exact in double precision (Ozaki et al.
//! 2012, Error-free transformations of matrix multiplication); beyond, blocks of [`BLOCK`] rows
//! have plain products in double precision, and merged sums have the bits of one pass if all but
//! the last have a multiple of [`BLOCK`] rows.
//!
//! Source: the statistics of Papyan, Han and Donoho 2020, arXiv:2008.08186. Deviation: means and
//! moments are not merged (Chan et al. 1979), since the result would depend on the order of merges.

use crate::{CollapseError, Source};
use linwright_run::{Monitor, memory};
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::elementwise::all_finite;
use linwright_tensor::kernels::exact_sum;
use linwright_tensor::kernels::gemm::{Arg, Write, product_on_this_thread};
use linwright_tensor::{Mat, MatRef, Scalar, parallel};
use std::borrow::Cow;

/// Largest number of features with exact products.
pub const EXACT_FEATURES: usize = 256;
/// Rows whose products are computed together.
pub const BLOCK: usize = 256;
/// Bits of a slice: products of two, summed over a block, have 2 * 22 + 8 of the 53 bits.
const SLICE_BITS: i32 = 22;
/// Slices of a number: 88 bits below the largest one of a column in a block.
const SLICES: usize = 4;
/// Rows of the scatter per work item.
const TILE: usize = 128;
/// Columns of the same.
const WIDTH: usize = 512;
/// Work items for sums by class.
const CLASS_ITEMS: usize = 16;

/// Smallest number of rows per read.
pub(crate) const ROWS: usize = 1024;
/// Average number of rows per class that are added together, while the sums of the class are in
/// cache.
const OF_CLASS: usize = 16;
/// Largest size in bytes of rows that are added together, if they are copied.
const MOST_BYTES: usize = 1 << 27;
/// Largest size in bytes of rows that are added together in place.
const MOST_BYTES_IN_PLACE: usize = 1 << 30;

/// Numbers stored as two parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    pub(crate) high: Vec<f64>,
    pub(crate) low: Vec<f64>,
}

impl Parts {
    pub(crate) fn zeros(count: usize) -> Self {
        Self { high: vec![0.0; count], low: vec![0.0; count] }
    }

    fn merge(&mut self, other: &Self) {
        exact_sum::merge(&mut self.high, &mut self.low, &other.high, &other.low);
    }

    fn normalise(&mut self) {
        exact_sum::normalise(&mut self.high, &mut self.low);
    }

    pub(crate) fn at(&self, index: usize) -> (f64, f64) {
        (self.high[index], self.low[index])
    }
}

/// The sum of all products, and the rows that do not fill a block yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scatter {
    /// Lower triangle of (d, d).
    pub(crate) sums: Parts,
    pub(crate) pending: Vec<f64>,
}

/// Which sums are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All: every metric can be computed.
    Scatter,
    /// Only sums by class: no metric that needs directions within classes, such as `nc1_pinv`.
    Traces,
}

/// Sums over features by class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSums {
    pub(crate) features: usize,
    /// Type of the least precise rows.
    pub(crate) precision: DType,
    pub(crate) counts: Vec<u64>,
    /// (K, d)
    pub(crate) sums: Parts,
    /// (K)
    pub(crate) squares: Parts,
    pub(crate) scatter: Option<Scatter>,
}

impl ClassSums {
    /// Sums over no samples.
    #[must_use]
    pub fn new(classes: usize, features: usize, keep: Keep) -> Self {
        let scatter = || Scatter { sums: Parts::zeros(features * features), pending: Vec::new() };
        Self {
            features,
            precision: DType::F64,
            counts: vec![0; classes],
            sums: Parts::zeros(classes * features),
            squares: Parts::zeros(classes),
            scatter: (keep == Keep::Scatter).then(scatter),
        }
    }

    /// As [`Self::new`], for untrusted sizes.
    ///
    /// # Errors
    /// [`CollapseError::Memory`] if they do not fit.
    pub fn checked(classes: usize, features: usize, keep: Keep) -> Result<Self, CollapseError> {
        Self::check_memory(1, classes, features, keep)?;
        Ok(Self::new(classes, features, keep))
    }

    /// Empty sums, if there is memory for this many.
    ///
    /// # Errors
    /// [`CollapseError::Memory`].
    pub fn check_memory(
        count: usize,
        classes: usize,
        features: usize,
        keep: Keep,
    ) -> Result<(), CollapseError> {
        let what =
            || format!("{count} times the sums of {classes} classes over {features} features");
        let d = features as u64;
        let scatter = if keep == Keep::Scatter { memory::product(&[d, d]) } else { 0 };
        // For each class also its count and its squares.
        let of_classes = memory::product(&[classes as u64, d.saturating_add(2)]);
        let numbers = of_classes.saturating_add(scatter);
        let of_number = 2 * size_of::<f64>() as u64;
        Ok(memory::check(what, &[numbers, count as u64, of_number])?)
    }

    /// Number of classes, with or without samples.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.counts.len()
    }

    /// Number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of samples.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Which sums are kept.
    #[must_use]
    pub fn keep(&self) -> Keep {
        if self.scatter.is_some() { Keep::Scatter } else { Keep::Traces }
    }

    /// The type of the least precise rows, which bounds the rounding error in directions.
    #[must_use]
    pub fn precision(&self) -> DType {
        self.precision
    }

    /// Declares the original type of rows, such as one of 16 bits before they were widened.
    pub fn came_in(&mut self, precision: DType) {
        self.precision = self.precision.coarser(precision);
    }

    /// Adds features (rows, d) with their classes. Their precision is that of `T`, or the one set
    /// by [`Self::came_in`]. Many rows at once are faster: each class is then visited once for all
    /// of its rows.
    ///
    /// # Errors
    /// [`CollapseError::NonFinite`] and [`CollapseError::Label`], with nothing added.
    ///
    /// # Panics
    /// Unless there is one label for each row, and the number of features matches.
    #[track_caller]
    pub fn add<T: Scalar>(
        &mut self,
        x: MatRef<'_, T>,
        labels: &[u32],
    ) -> Result<(), CollapseError> {
        assert_eq!((x.rows(), x.cols()), (labels.len(), self.features), "a label for each row");
        let first = self.rows();
        check_finite("features", x, first)?;
        let classes = self.classes();
        if let Some(row) = labels.iter().position(|label| *label as usize >= classes) {
            let (label, row) = (labels[row].to_string(), first + row as u64);
            return Err(CollapseError::Label { label, row, last: classes.saturating_sub(1) });
        }
        if T::EPSILON.to_f64() > DType::F64.epsilon() {
            self.came_in(DType::F32);
        }
        self.add_by_class(x, labels);
        if let Some(scatter) = &mut self.scatter {
            scatter.add(x);
        }
        Ok(())
    }

    /// Adds all rows of a source.
    ///
    /// # Errors
    /// As [`Self::add`], errors of the source, and [`CollapseError::Interrupted`].
    pub fn add_all(
        &mut self,
        source: &dyn Source,
        monitor: &mut dyn Monitor,
    ) -> Result<(), CollapseError> {
        accumulate(self, source, source.labels(), monitor)
    }

    fn add_by_class<T: Scalar>(&mut self, x: MatRef<'_, T>, labels: &[u32]) {
        let (classes, d) = (self.classes(), self.features.max(1));
        let (starts, order) = sorted_by_class(labels, classes);
        labels.iter().for_each(|label| self.counts[*label as usize] += 1);
        let each = classes.div_ceil(CLASS_ITEMS).max(1);
        let sums = self.sums.high.chunks_mut(each * d).zip(self.sums.low.chunks_mut(each * d));
        let squares = self.squares.high.chunks_mut(each).zip(self.squares.low.chunks_mut(each));
        let items: Vec<_> = sums.zip(squares).collect();
        parallel::for_each(items, |item, ((high, low), (square_high, square_low))| {
            let first = item * each;
            for class in 0..square_high.len() {
                let of_class = class * d..(class + 1) * d;
                for &row in &order[starts[first + class]..starts[first + class + 1]] {
                    let (high, low) = (&mut high[of_class.clone()], &mut low[of_class.clone()]);
                    let (square, lost) = exact_sum::add_row(high, low, x.row(row as usize));
                    exact_sum::add_one(&mut square_high[class], &mut square_low[class], square);
                    square_low[class] += lost;
                }
            }
        });
    }

    /// Adds the sums of other samples, such as another shard. Sums of different [`Keep`] lose their
    /// scatter.
    ///
    /// # Errors
    /// [`CollapseError::Mismatch`] if classes or features differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), CollapseError> {
        let shape = |sums: &Self| format!("{} classes, {} features", sums.classes(), sums.features);
        let (found, expected) = (shape(other), shape(self));
        if found != expected {
            return Err(CollapseError::Mismatch { found, expected });
        }
        self.came_in(other.precision);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.sums.merge(&other.sums);
        self.squares.merge(&other.squares);
        match (&mut self.scatter, &other.scatter) {
            (Some(own), Some(other)) => own.merge(other, self.features),
            _ => self.scatter = None,
        }
        Ok(())
    }

    /// The sums over all rows, in a form that does not depend on how they were added.
    #[must_use]
    pub fn settled(mut self) -> Self {
        if let Some(scatter) = &mut self.scatter {
            scatter.flush(self.features);
            scatter.sums.normalise();
        }
        self.sums.normalise();
        self.squares.normalise();
        self
    }
}

/// Adds all rows with these labels.
pub(crate) fn accumulate(
    sums: &mut ClassSums,
    source: &dyn Source,
    labels: &[u32],
    monitor: &mut dyn Monitor,
) -> Result<(), CollapseError> {
    let d = source.features();
    sums.came_in(source.precision());
    let in_place = matches!(source.narrow(0, source.rows().min(1)), Some(Cow::Borrowed(_)));
    let most = if in_place { MOST_BYTES_IN_PLACE } else { MOST_BYTES };
    let most = most / (size_of::<f32>() * d.max(1));
    let rows = (OF_CLASS * sums.classes()).min(most).max(ROWS);
    let mut start = 0;
    while start < labels.len() {
        if monitor.interrupted() {
            return Err(CollapseError::Interrupted);
        }
        let count = rows.min(labels.len() - start);
        let own = &labels[start..start + count];
        match source.narrow(start, count) {
            Some(x) => sums.add(MatRef::new(&x, count, d), own)?,
            None => sums.add(source.block(start, count)?.view(), own)?,
        }
        start += count;
        monitor.progress(start as u64, source.rows() as u64);
    }
    Ok(())
}

impl Scatter {
    fn add<T: Scalar>(&mut self, x: MatRef<'_, T>) {
        let d = x.cols();
        for i in 0..x.rows() {
            self.pending.extend(x.row(i).iter().map(|number| number.to_f64()));
            if self.pending.len() == BLOCK * d {
                self.flush(d);
            }
        }
    }

    /// Adds the products of the pending rows.
    fn flush(&mut self, d: usize) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let block = Mat::from_vec(pending.len() / d, d, pending);
        let slices = if d <= EXACT_FEATURES { slices(block) } else { vec![block] };
        let Parts { high, low } = &mut self.sums;
        let bands = high.chunks_mut(TILE * d).zip(low.chunks_mut(TILE * d)).enumerate();
        // The longest first, so that the last work items are small.
        let bands: Vec<_> = bands.collect::<Vec<_>>().into_iter().rev().collect();
        parallel::for_each(bands, |_, (band, (high, low))| {
            let start = band * TILE;
            let count = TILE.min(d - start);
            let end = start + count;
            let mut products = Mat::zeros(count, WIDTH.min(end));
            for first in (0..end).step_by(WIDTH) {
                let width = WIDTH.min(end - first);
                products.resize(count, width);
                for (a, left) in slices.iter().enumerate() {
                    // Products of later slices are below the 106 bits of a sum.
                    for right in slices.iter().take(SLICES + 1 - a) {
                        let left = Arg::Transposed(left.view().columns(start, count));
                        let right = Arg::Plain(right.view().columns(first, width));
                        product_on_this_thread(1.0, left, right, products.view_mut(), Write::Set);
                        for i in 0..count {
                            let here = i * d + first..i * d + first + width;
                            let (high, low) = (&mut high[here.clone()], &mut low[here]);
                            exact_sum::add_wide(high, low, products.row(i));
                        }
                    }
                }
            }
        });
    }

    fn merge(&mut self, other: &Self, d: usize) {
        self.flush(d);
        self.sums.merge(&other.sums);
        self.pending.clone_from(&other.pending);
    }
}

/// Matrices whose sum is `x` up to 88 bits below the largest number of each column, and whose
/// entries are multiples, of at most 22 bits, of a power of two of their column.
fn slices(mut rest: Mat<f64>) -> Vec<Mat<f64>> {
    let (rows, d) = (rest.rows(), rest.cols());
    let mut slices = Vec::new();
    while slices.len() < SLICES {
        let mut largest = vec![0.0f64; d];
        for i in 0..rows {
            for (largest, number) in largest.iter_mut().zip(rest.row(i)) {
                *largest = largest.max(number.abs());
            }
        }
        if largest.iter().all(|largest| *largest == 0.0) {
            break;
        }
        // A power of two that scales the largest number to 22 bits before the point, as two factors
        // that do not overflow.
        let units: Vec<(f64, f64)> = largest.iter().map(|largest| unit(*largest)).collect();
        let mut slice = Mat::zeros(rows, d);
        for i in 0..rows {
            let row = slice.row_mut(i).iter_mut().zip(rest.row_mut(i));
            for ((slice, rest), (up, down)) in row.zip(&units) {
                *slice = (*rest * up).round() * down;
                *rest -= *slice;
            }
        }
        slices.push(slice);
    }
    slices
}

/// The power of two that brings a number below `2^22`, and its inverse.
fn unit(largest: f64) -> (f64, f64) {
    if largest == 0.0 {
        return (1.0, 1.0);
    }
    let exponent = (largest.log2().floor() as i32 + 1 - SLICE_BITS).clamp(-1000, 1000);
    (2f64.powi(-exponent), 2f64.powi(exponent))
}

/// The first row of each class, and rows sorted by class, in their order within one.
fn sorted_by_class(labels: &[u32], classes: usize) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0; classes + 1];
    labels.iter().for_each(|label| starts[*label as usize + 1] += 1);
    for class in 0..classes {
        starts[class + 1] += starts[class];
    }
    let mut next = starts.clone();
    let mut order = vec![0; labels.len()];
    for (row, label) in labels.iter().enumerate() {
        let place = &mut next[*label as usize];
        order[*place] = row as u32;
        *place += 1;
    }
    (starts, order)
}

/// Rejects numbers that are not finite, naming their position; `first` is the number of the first
/// row.
pub(crate) fn check_finite<T: Scalar>(
    what: &str,
    x: MatRef<'_, T>,
    first: u64,
) -> Result<(), CollapseError> {
    if x.stride() == x.cols() && all_finite(x.data()) {
        return Ok(());
    }
    for i in 0..x.rows() {
        let row = x.row(i);
        // Zero times anything finite is zero. Without an early exit the loop has no branch.
        if row.iter().fold(true, |fine, number| fine & (*number * T::ZERO == T::ZERO)) {
            continue;
        }
        if let Some(column) = row.iter().position(|number| !number.is_finite()) {
            let (row, value) = (first + i as u64, row[column].to_f64());
            return Err(CollapseError::NonFinite { what: what.into(), row, column, value });
        }
    }
    Ok(())
}
