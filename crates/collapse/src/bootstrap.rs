//! Intervals by resampling classes.
//!
//! As many classes as there are are drawn with replacement; class k counts c_k times. A metric of a
//! draw weighs classes by c_k and pairs of distinct classes by c_j c_k, with means centred again;
//! the interval is the central 95 % of the draws. Metrics of a whole frame, such as
//! `nc2_etf_err_M`, have no interval, since repeated vectors do not form a frame.

use crate::decisions::Tally;
use crate::metrics::present_rows;
use crate::pairs::{dot, norm};
use crate::{ClassStatistics, CollapseError};
use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::{Mat, RngKey, parallel};
use serde::{Deserialize, Serialize};

/// Largest number of classes for intervals of pair metrics.
pub const MOST_CLASSES: usize = 512;

/// The central 95 % of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The metric.
    pub name: String,
    /// The 2.5 % quantile.
    pub low: f64,
    /// The 97.5 % quantile.
    pub high: f64,
}

/// Data for computing draws.
struct Classes<'a> {
    statistics: &'a ClassStatistics,
    variances: Vec<f64>,
    means: Mat<f64>,
    /// M Mᵀ, if there are few classes.
    gram: Option<Mat<f64>>,
    head: Option<Mat<f64>>,
    tallies: &'a [Tally],
}

/// Intervals of the metrics that have one, from a number of draws.
///
/// # Errors
/// [`CollapseError::Shape`] for a head of another shape.
pub fn intervals(
    statistics: &ClassStatistics,
    (head, tallies): (Option<&Mat<f64>>, &[Tally]),
    draws: usize,
    key: RngKey,
) -> Result<Vec<Interval>, CollapseError> {
    let means = statistics.centred_means();
    let gram = (statistics.present() <= MOST_CLASSES).then(|| {
        let mut gram = Mat::zeros(means.rows(), means.rows());
        linear(means.view(), means.view(), gram.view_mut(), Write::Set);
        gram
    });
    let head = head.map(|head| present_rows(head, statistics)).transpose()?;
    let variances = statistics.variances();
    let classes = Classes { statistics, variances, means, gram, head, tallies };
    let all = parallel::map((0..draws as u64).collect(), |_, draw| {
        let mut stream = key.fold("classes").fold_index(draw).stream();
        let mut counts = vec![0.0; statistics.present()];
        (0..counts.len()).for_each(|_| counts[stream.below(statistics.present())] += 1.0);
        classes.draw(&counts)
    });
    let names: Vec<&'static str> =
        all.first().map(|draw| draw.iter().map(|(name, _)| *name).collect()).unwrap_or_default();
    let interval = |(index, name): (usize, &'static str)| {
        let values = all.iter().map(|draw| draw[index].1).filter(|value| value.is_finite());
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| Interval {
            name: name.to_owned(),
            low: quantile(&values, 0.025),
            high: quantile(&values, 0.975),
        })
    };
    Ok(names.into_iter().enumerate().filter_map(interval).collect())
}

/// A quantile of sorted values, linear between them.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let at = share * (values.len() - 1) as f64;
    let (below, rest) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(values.len() - 1);
    values[below] + rest * (values[above] - values[below])
}

impl Classes<'_> {
    fn draw(&self, counts: &[f64]) -> Vec<(&'static str, f64)> {
        let total: f64 = counts.iter().sum();
        let mut shift = vec![0.0; self.means.cols()];
        for (k, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let row = shift.iter_mut().zip(self.means.row(k));
            row.for_each(|(shift, mean)| *shift += count * mean / total);
        }
        let weighted = |get: &dyn Fn(usize) -> f64| {
            let pairs = counts.iter().enumerate().filter(|(_, count)| **count > 0.0);
            pairs.map(|(k, count)| count * get(k)).sum::<f64>()
        };
        let square = |k: usize| -> f64 {
            let row = self.means.row(k).iter().zip(&shift);
            row.map(|(mean, shift)| (mean - shift).powi(2)).sum()
        };
        let rows = weighted(&|k| self.statistics.counts[k] as f64);
        let within = weighted(&|k| self.statistics.spreads[k]) / rows;
        let mut all = vec![("nc1_quotient", within / (weighted(&square) / total))];
        let cv = |norms: &dyn Fn(usize) -> f64| {
            let mean = weighted(norms) / total;
            (weighted(&|k| (norms(k) - mean).powi(2)) / total).sqrt() / mean
        };
        all.push(("nc2_norm_cv_M", cv(&|k| square(k).sqrt())));
        all.extend(self.pairs(counts, &shift));
        if let Some(head) = &self.head {
            all.push(("nc2_norm_cv_W", cv(&|k| norm(head.row(k)))));
            let cosine = |k: usize| {
                let mean: Vec<f64> = self
                    .means
                    .row(k)
                    .iter()
                    .zip(&shift)
                    .map(|(mean, shift)| mean - shift)
                    .collect();
                dot(head.row(k), &mean) / (norm(head.row(k)) * norm(&mean))
            };
            all.push(("nc3_cos_mean", weighted(&cosine) / total));
        }
        if !self.tallies.is_empty() {
            let rows = weighted(&|k| self.tallies[k].rows as f64);
            let share = |get: &dyn Fn(&Tally) -> f64| weighted(&|k| get(&self.tallies[k])) / rows;
            if self.head.is_some() {
                all.push(("nc3_sample_1mcos", 1.0 - share(&Tally::cosine)));
                all.push(("nc3_sample_1mcos_centred", 1.0 - share(&Tally::centred_cosine)));
                all.push(("nc4_agree", share(&|tally| tally.agree as f64)));
                all.push(("acc_lin", share(&|tally| tally.head_right as f64)));
            }
            all.push(("acc_ncc", share(&|tally| tally.nearest_right as f64)));
        }
        all
    }

    /// Metrics of pairs of distinct classes.
    fn pairs(&self, counts: &[f64], shift: &[f64]) -> Vec<(&'static str, f64)> {
        let Some(gram) = &self.gram else { return Vec::new() };
        let classes = counts.len();
        let along: Vec<f64> = (0..classes).map(|k| dot(self.means.row(k), shift)).collect();
        let of_shift = dot(shift, shift);
        let moved = |i: usize, j: usize| gram.at(i, j) - along[i] - along[j] + of_shift;
        let simplex = -1.0 / (classes as f64 - 1.0);
        let (mut weight, mut of_apart, mut distance, mut from_simplex) = (0.0, 0.0, 0.0, 0.0);
        let mut cosines = [0.0; 2];
        for i in (0..classes).filter(|i| counts[*i] > 0.0) {
            for j in (0..i).filter(|j| counts[*j] > 0.0) {
                let both = counts[i] * counts[j];
                let apart = gram.at(i, i) + gram.at(j, j) - 2.0 * gram.at(i, j);
                weight += both;
                if apart > 0.0 {
                    of_apart += both;
                    distance += both * (self.variances[i] + self.variances[j]) / (2.0 * apart);
                }
                let cosine = moved(i, j) / (moved(i, i) * moved(j, j)).sqrt();
                from_simplex += both * (cosine - simplex).abs();
                let more = cosine - simplex;
                cosines = [cosines[0] + both * more, cosines[1] + both * more * more];
            }
        }
        let [mean, square] = cosines.map(|sum| sum / weight);
        vec![
            ("cdnv_mean", distance / of_apart),
            ("nc2_equiang_std_M", (square - mean * mean).max(0.0).sqrt()),
            ("nc2_maxangle_M", from_simplex / weight),
        ]
    }
}
