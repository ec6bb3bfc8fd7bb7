//! Means and scatter of classes.

use crate::sums::{EXACT_FEATURES, Parts};
use crate::{ClassSums, CollapseError};
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::exact_sum;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, parallel};

/// Rows of a matrix per work item.
const BAND: usize = 16;

/// Means and scatter of the classes that have samples.
#[derive(Clone, Debug)]
pub struct ClassStatistics {
    /// Number of classes, with or without samples.
    pub classes: usize,
    /// The classes with samples, ascending.
    pub present: Vec<usize>,
    /// Samples of each of them.
    pub counts: Vec<u64>,
    /// Their means, (K, d).
    pub means: Mat<f64>,
    /// Their sums of squared distances from the mean: Σ |x - μ_k|².
    pub spreads: Vec<f64>,
    /// Pooled scatter within classes, Σ (x - μ_y)(x - μ_y)ᵀ, (d, d), if it was kept.
    pub within: Option<Mat<f64>>,
    /// Mean of all samples.
    pub mean_of_samples: Vec<f64>,
    /// Σ |x|² over all samples.
    pub squares: f64,
    /// Type of the least precise features.
    pub precision: DType,
}

impl ClassSums {
    /// Means and scatter.
    ///
    /// # Errors
    /// [`CollapseError::FewClasses`] and [`CollapseError::Overflow`].
    pub fn finish(self) -> Result<ClassStatistics, CollapseError> {
        ClassStatistics::of(&self.settled())
    }
}

impl ClassStatistics {
    pub(crate) fn of(sums: &ClassSums) -> Result<Self, CollapseError> {
        let d = sums.features();
        let present: Vec<usize> = (0..sums.classes()).filter(|k| sums.counts[*k] > 0).collect();
        if present.len() < 2 {
            let (found, classes) = (present.len(), sums.classes());
            return Err(CollapseError::FewClasses { found, classes });
        }
        let counts: Vec<u64> = present.iter().map(|class| sums.counts[*class]).collect();
        let mean = |class: usize, j: usize| {
            let (high, low) =
                exact_sum::quotient_of(sums.sums.at(class * d + j), sums.counts[class] as f64);
            high + low
        };
        let means = Mat::from_fn(present.len(), d, |k, j| mean(present[k], j));
        let spreads = parallel::map(present.clone(), |_, class| spread(sums, class));
        let mut total = Parts::zeros(d);
        let mut squares = (0.0, 0.0);
        for &class in &present {
            let of = class * d..(class + 1) * d;
            let (high, low) = (&sums.sums.high[of.clone()], &sums.sums.low[of]);
            exact_sum::merge(&mut total.high, &mut total.low, high, low);
            let (high, low) = sums.squares.at(class);
            exact_sum::add_one(&mut squares.0, &mut squares.1, high);
            squares.1 += low;
        }
        let rows = sums.rows() as f64;
        let mean_of_samples = (0..d).map(|j| {
            let (high, low) = exact_sum::quotient_of(total.at(j), rows);
            high + low
        });
        let mean_of_samples = mean_of_samples.collect();
        let within = sums.scatter.as_ref().map(|scatter| match d <= EXACT_FEATURES {
            true => within_exactly(sums, &present, &scatter.sums),
            false => within_centred(sums, (&means, &counts), &scatter.sums, &total),
        });
        let statistics = Self {
            classes: sums.classes(),
            present,
            counts,
            means,
            spreads,
            within,
            mean_of_samples,
            squares: squares.0 + squares.1,
            precision: sums.precision(),
        };
        let finite = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
        let within = statistics.within.as_ref().map_or(&[][..], Mat::data);
        let all = [
            (&statistics.spreads[..], "the scatter within classes"),
            (within, "the scatter within classes"),
            (statistics.means.data(), "the means of classes"),
            (&statistics.mean_of_samples, "the mean of all samples"),
            (&[statistics.squares], "the sum of all squares"),
        ];
        let overflown = all.into_iter().find(|(numbers, _)| !finite(numbers));
        match overflown.map(|(_, what)| what) {
            None => Ok(statistics),
            Some(what) => Err(CollapseError::Overflow { what }),
        }
    }

    /// Number of classes with samples.
    #[must_use]
    pub fn present(&self) -> usize {
        self.present.len()
    }

    /// Number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.means.cols()
    }

    /// Number of samples.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Classes with one sample.
    #[must_use]
    pub fn singletons(&self) -> usize {
        self.counts.iter().filter(|count| **count == 1).count()
    }

    /// Mean of the means of classes.
    #[must_use]
    pub fn mean_of_means(&self) -> Vec<f64> {
        column_means(&self.means)
    }

    /// Trace of the covariance within classes, tr Sw.
    #[must_use]
    pub fn within_trace(&self) -> f64 {
        self.spreads.iter().sum::<f64>() / self.rows() as f64
    }

    /// Means minus the mean of means, (K, d).
    #[must_use]
    pub fn centred_means(&self) -> Mat<f64> {
        centred(&self.means, &self.mean_of_means())
    }

    /// Variance of each class: Σ |x - μ_k|² / n_k.
    #[must_use]
    pub fn variances(&self) -> Vec<f64> {
        let pairs = self.spreads.iter().zip(&self.counts);
        pairs.map(|(spread, count)| spread / *count as f64).collect()
    }
}

/// Means of columns.
pub(crate) fn column_means(a: &Mat<f64>) -> Vec<f64> {
    let mut parts = Parts::zeros(a.cols());
    (0..a.rows()).for_each(|i| exact_sum::add_wide(&mut parts.high, &mut parts.low, a.row(i)));
    let sums = parts.high.iter().zip(&parts.low);
    sums.map(|(high, low)| (high + low) / a.rows() as f64).collect()
}

/// Rows minus a row.
pub(crate) fn centred(a: &Mat<f64>, centre: &[f64]) -> Mat<f64> {
    Mat::from_fn(a.rows(), a.cols(), |i, j| a.at(i, j) - centre[j])
}

/// `p_k - |s_k|² / n_k`. Values below 2^-100 of `p_k` are rounding errors and may be negative: they
/// become zero.
fn spread(sums: &ClassSums, class: usize) -> f64 {
    let d = sums.features();
    let (mut high, mut low) = sums.squares.at(class);
    let floor = high * 2f64.powi(-100);
    for j in class * d..(class + 1) * d {
        let sum = sums.sums.at(j);
        let mean = exact_sum::quotient_of(sum, sums.counts[class] as f64);
        let (square, lost) = exact_sum::product_of(sum, mean);
        exact_sum::add_one(&mut high, &mut low, -square);
        low -= lost;
    }
    let spread = high + low;
    if spread.abs() <= floor { 0.0 } else { spread }
}

/// `T - Σ s_k s_kᵀ / n_k`, in 104 bits.
fn within_exactly(sums: &ClassSums, present: &[usize], total: &Parts) -> Mat<f64> {
    let d = sums.features();
    let mut within = Mat::zeros(d, d);
    let bands: Vec<_> = within.data_mut().chunks_mut(BAND * d.max(1)).enumerate().collect();
    parallel::for_each(bands, |_, (band, rows)| {
        for (i, row) in rows.chunks_mut(d).enumerate() {
            let i = band * BAND + i;
            let (mut high, mut low) =
                (total.high[i * d..=i * d + i].to_vec(), total.low[i * d..=i * d + i].to_vec());
            for &class in present {
                let (a, a_low) =
                    exact_sum::quotient_of(sums.sums.at(class * d + i), sums.counts[class] as f64);
                let of = class * d..=class * d + i;
                let other = (&sums.sums.high[of.clone()], &sums.sums.low[of]);
                exact_sum::add_scaled(&mut high, &mut low, (-a, -a_low), other);
            }
            // As for variances, rounding errors become zero.
            let floor = total.high[i * d + i].abs() * 2f64.powi(-100);
            for (to, (high, low)) in row.iter_mut().zip(high.into_iter().zip(low)) {
                let value = high + low;
                *to = if value.abs() <= floor { 0.0 } else { value };
            }
        }
    });
    mirrored(within)
}

/// The same from sums about the mean of all samples g: `T - N g gᵀ` in 104 bits, less
/// `Σ n_k (μ_k - g)(μ_k - g)ᵀ` in double precision.
fn within_centred(
    sums: &ClassSums,
    (means, counts): (&Mat<f64>, &[u64]),
    total: &Parts,
    sum: &Parts,
) -> Mat<f64> {
    let (d, rows) = (sums.features(), sums.rows() as f64);
    let mut within = Mat::zeros(d, d);
    let bands: Vec<_> = within.data_mut().chunks_mut(BAND * d.max(1)).enumerate().collect();
    parallel::for_each(bands, |_, (band, band_rows)| {
        for (i, row) in band_rows.chunks_mut(d).enumerate() {
            let i = band * BAND + i;
            let (mut high, mut low) =
                (total.high[i * d..=i * d + i].to_vec(), total.low[i * d..=i * d + i].to_vec());
            let (a, a_low) = exact_sum::quotient_of(sum.at(i), rows);
            let other = (&sum.high[..=i], &sum.low[..=i]);
            exact_sum::add_scaled(&mut high, &mut low, (-a, -a_low), other);
            for (to, (high, low)) in row.iter_mut().zip(high.into_iter().zip(low)) {
                *to = high + low;
            }
        }
    });
    let mean: Vec<f64> = (0..d).map(|j| sum.high[j] / rows).collect();
    let scaled = Mat::from_fn(means.rows(), d, |k, j| {
        (means.at(k, j) - mean[j]) * (counts[k] as f64).sqrt()
    });
    let (left, right) = (Arg::Transposed(scaled.view()), Arg::Plain(scaled.view()));
    product(-1.0, left, right, within.view_mut(), Write::Add);
    mirrored(within)
}

/// The symmetric matrix of a lower triangle.
fn mirrored(mut a: Mat<f64>) -> Mat<f64> {
    for i in 0..a.rows() {
        for j in 0..i {
            *a.at_mut(j, i) = a.at(i, j);
        }
    }
    a
}
