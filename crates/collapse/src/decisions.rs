//! NC4, and cosines of single samples: a second pass, with the means of the first.
//!
//! A row is classified by the head, `argmax_k w_k · x + b_k` over all classes, and by the nearest
//! mean, `argmin_k |x - μ_k|` over classes with samples; ties go to the first. Distances are
//! computed from products, and those within rounding of the smallest are recomputed as differences.

use crate::metrics::present_rows;
use crate::pairs::{distance_squared, dot, norm};
use crate::statistics::{centred, column_means};
use crate::{ClassStatistics, CollapseError, Metrics};
use linwright_tensor::kernels::exact_sum;
use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::{Mat, MatRef, parallel};

/// Rows per work item.
const BLOCK: usize = 64;
/// Distances that differ by less than this share of all norms may be equal.
const TIE: f64 = 1e-9;

/// Sums over the samples of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Samples.
    pub rows: u64,
    /// Samples for which head and nearest mean agree.
    pub agree: u64,
    /// The same for the head without its bias.
    pub agree_without_bias: u64,
    /// Samples that the head classifies correctly.
    pub head_right: u64,
    /// Samples that the nearest mean classifies correctly.
    pub nearest_right: u64,
    cosine: (f64, f64),
    centred_cosine: (f64, f64),
}

impl Tally {
    /// Sum of cosines of samples with the row of the head.
    #[must_use]
    pub fn cosine(&self) -> f64 {
        self.cosine.0 + self.cosine.1
    }

    /// The same, both sides centred.
    #[must_use]
    pub fn centred_cosine(&self) -> f64 {
        self.centred_cosine.0 + self.centred_cosine.1
    }
}

/// A head and its bias.
struct Head {
    /// (classes, d)
    rows: Mat<f64>,
    bias: Option<Vec<f64>>,
    /// Rows minus the mean of those with samples.
    centred: Mat<f64>,
}

/// Decisions of head and nearest mean.
pub struct Decisions<'a> {
    statistics: &'a ClassStatistics,
    centre: Vec<f64>,
    means: Mat<f64>,
    squares: Vec<f64>,
    head: Option<Head>,
    /// Index of a class among those with samples.
    places: Vec<Option<u32>>,
    tallies: Vec<Tally>,
}

impl<'a> Decisions<'a> {
    /// No decisions yet, for means and optionally a head (classes, d) with its bias.
    ///
    /// # Errors
    /// [`CollapseError::Shape`] for a head of another shape.
    pub fn new(
        statistics: &'a ClassStatistics,
        head: Option<(&Mat<f64>, Option<&[f64]>)>,
    ) -> Result<Self, CollapseError> {
        let (centre, means) = (statistics.mean_of_means(), statistics.centred_means());
        let squares = (0..means.rows()).map(|k| dot(means.row(k), means.row(k))).collect();
        let head = match head {
            Some((rows, bias)) => {
                let mean = column_means(&present_rows(rows, statistics)?);
                let bias = bias.map(<[f64]>::to_vec);
                Some(Head { rows: rows.clone(), bias, centred: centred(rows, &mean) })
            }
            None => None,
        };
        let mut places = vec![None; statistics.classes];
        for (place, class) in statistics.present.iter().enumerate() {
            places[*class] = Some(place as u32);
        }
        let tallies = vec![Tally::default(); statistics.present()];
        Ok(Self { statistics, centre, means, squares, head, places, tallies })
    }

    /// Classifies rows (rows, d) and compares with their classes.
    ///
    /// # Errors
    /// [`CollapseError::Label`] for a class without a mean.
    pub fn add(&mut self, x: MatRef<'_, f64>, labels: &[u32]) -> Result<(), CollapseError> {
        let before: u64 = self.tallies.iter().map(|tally| tally.rows).sum();
        let place = |(row, label): (usize, &u32)| {
            let place = self.places.get(*label as usize).copied().flatten();
            place.ok_or_else(|| CollapseError::Label {
                label: label.to_string(),
                row: before + row as u64,
                last: self.places.len().saturating_sub(1),
            })
        };
        let own: Vec<u32> = labels.iter().enumerate().map(place).collect::<Result<Vec<_>, _>>()?;
        let starts: Vec<usize> = (0..x.rows()).step_by(BLOCK).collect();
        let decided = parallel::map(starts, |_, start| {
            let count = BLOCK.min(x.rows() - start);
            let span = start..start + count;
            self.decide(x.rows_range(start, count), &own[span.clone()], &labels[span])
        });
        for (place, one) in own.iter().zip(decided.into_iter().flatten()) {
            let tally = &mut self.tallies[*place as usize];
            tally.rows += 1;
            tally.agree += one.agree;
            tally.agree_without_bias += one.agree_without_bias;
            tally.head_right += one.head_right;
            tally.nearest_right += one.nearest_right;
            let add = |(high, low): &mut (f64, f64), term| exact_sum::add_one(high, low, term);
            add(&mut tally.cosine, one.cosine.0);
            add(&mut tally.centred_cosine, one.centred_cosine.0);
        }
        Ok(())
    }

    fn decide(&self, x: MatRef<'_, f64>, own: &[u32], labels: &[u32]) -> Vec<Tally> {
        let centred = Mat::from_fn(x.rows(), x.cols(), |i, j| x.at(i, j) - self.centre[j]);
        let mut products = Mat::zeros(x.rows(), self.means.rows());
        linear(centred.view(), self.means.view(), products.view_mut(), Write::Set);
        let mut scores =
            Mat::zeros(x.rows(), self.head.as_ref().map_or(0, |head| head.rows.rows()));
        if let Some(head) = &self.head {
            linear(x, head.rows.view(), scores.view_mut(), Write::Set);
        }
        let decide = |i: usize| {
            let (place, label) = (own[i] as usize, labels[i] as usize);
            let nearest = self.nearest(centred.row(i), products.row(i));
            let mut one = Tally { nearest_right: u64::from(nearest == place), ..Tally::default() };
            if let Some(head) = &self.head {
                let class = self.statistics.present[nearest];
                let plain = first_largest(scores.row(i).iter().copied());
                let with_bias = head.bias.as_ref().map_or(plain, |bias| {
                    first_largest(scores.row(i).iter().zip(bias).map(|(score, bias)| score + bias))
                });
                one.agree = u64::from(with_bias == class);
                one.agree_without_bias = u64::from(plain == class);
                one.head_right = u64::from(with_bias == label);
                one.cosine.0 = cosine(x.row(i), head.rows.row(label));
                one.centred_cosine.0 = cosine(centred.row(i), head.centred.row(label));
            }
            one
        };
        (0..x.rows()).map(decide).collect()
    }

    /// The nearest mean of a centred row, by its products with them.
    fn nearest(&self, row: &[f64], products: &[f64]) -> usize {
        let far = |k: usize| self.squares[k] - 2.0 * products[k];
        let least = (0..products.len()).map(far).fold(f64::INFINITY, f64::min);
        let largest = self.squares.iter().copied().fold(0.0, f64::max);
        let bound = least + TIE * (dot(row, row) + largest);
        let mut best = (f64::INFINITY, 0);
        let mut near = (0..products.len()).filter(|k| far(*k) <= bound);
        let (first, second) = (near.next(), near.next());
        let Some(second) = second else { return first.unwrap_or(0) };
        for k in first.into_iter().chain([second]).chain(near) {
            let distance = distance_squared(row, self.means.row(k));
            if distance < best.0 {
                best = (distance, k);
            }
        }
        best.1
    }

    /// Sums by class, in the order of the classes with samples.
    #[must_use]
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut all = Metrics::default();
        let rows: u64 = self.tallies.iter().map(|tally| tally.rows).sum();
        let share = |get: &dyn Fn(&Tally) -> u64| {
            self.tallies.iter().map(get).sum::<u64>() as f64 / rows as f64
        };
        if self.head.is_some() {
            let mean = |get: &dyn Fn(&Tally) -> (f64, f64)| {
                let mut total = (0.0, 0.0);
                for (high, low) in self.tallies.iter().map(get) {
                    exact_sum::add_one(&mut total.0, &mut total.1, high);
                    total.1 += low;
                }
                (total.0 + total.1) / rows as f64
            };
            all.put("nc3_sample_1mcos", 1.0 - mean(&|tally| tally.cosine));
            all.put("nc3_sample_1mcos_centred", 1.0 - mean(&|tally| tally.centred_cosine));
            all.put("nc4_agree", share(&|tally| tally.agree));
            all.put("nc4_agree_nobias", share(&|tally| tally.agree_without_bias));
            let with_rows: Vec<&Tally> = self.tallies.iter().filter(|t| t.rows > 0).collect();
            let of_class = with_rows.iter().map(|t| t.agree as f64 / t.rows as f64).sum::<f64>();
            all.put("nc4_agree_class_mean", of_class / with_rows.len() as f64);
            all.put("acc_lin", share(&|tally| tally.head_right));
        }
        all.put("acc_ncc", share(&|tally| tally.nearest_right));
        all
    }
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (norm(a) * norm(b))
}

fn first_largest(scores: impl Iterator<Item = f64>) -> usize {
    let mut best = (f64::NEG_INFINITY, 0);
    for (class, score) in scores.enumerate() {
        if score > best.0 {
            best = (score, class);
        }
    }
    best.1
}
