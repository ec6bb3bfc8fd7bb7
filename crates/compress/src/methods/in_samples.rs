//! Closed forms where there are fewer samples than input features: their report comes from the
//! samples, since sums over inputs would be larger than these.

use super::{Fit, FitProblem, FitReport, relative};
use crate::FitError;
use crate::fit::sample_space::{Factors, reduced_rank};
use linwright_measure::samples::{Samples, power};
use linwright_ops::{LowRank, Op, Workspace};
use linwright_tensor::{Mat, MatRef};
use linwright_train::Curve;

/// Rows predicted at a time.
const BLOCK: usize = 512;

/// Sums over samples of residuals `y - op(x)`.
struct Residuals {
    /// Σ (y - op(x)), (out).
    sums: Vec<f64>,
    /// Σ |y - op(x)|².
    squares: f64,
    count: f64,
}

impl Residuals {
    fn of(op: &Op<f32>, x: MatRef<'_, f32>, y: MatRef<'_, f32>) -> Self {
        let (mut sums, mut squares) = (vec![0.0; y.cols()], 0.0);
        let (mut predicted, mut workspace) = (Mat::default(), Workspace::default());
        for start in (0..x.rows()).step_by(BLOCK) {
            let rows = BLOCK.min(x.rows() - start);
            let into = predicted.view_mut_of(rows, y.cols());
            op.map().forward(x.rows_range(start, rows), into, None, &mut workspace);
            for i in 0..rows {
                let both = y.row(start + i).iter().zip(predicted.row(i));
                for (sum, (y, predicted)) in sums.iter_mut().zip(both) {
                    let residual = f64::from(*y) - f64::from(*predicted);
                    *sum += residual;
                    squares += residual * residual;
                }
            }
        }
        Self { sums, squares, count: x.rows().max(1) as f64 }
    }

    fn means(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum / self.count).collect()
    }

    /// Mean over samples of `|y - op(x) - shift|²`.
    fn squared_error(&self, shift: &[f64]) -> f64 {
        let terms = self.sums.iter().zip(shift);
        let shifted = terms.map(|(sum, b)| b * b - 2.0 * b * sum / self.count).sum::<f64>();
        (self.squares / self.count + shifted).max(0.0)
    }
}

impl FitProblem<'_> {
    /// Low-rank factors by reduced-rank regression on fewer samples than input features.
    pub(super) fn low_rank_in_samples(
        &self,
        samples: &Samples,
        rank: usize,
    ) -> Result<Fit, FitError> {
        let Factors { u, v, dropped } = reduced_rank(samples, rank, self.biased())?;
        let op = Op::Linear(Box::new(LowRank::new(u, v)));
        let [(x, y), (other_x, other_y)] = [samples.training(), samples.validation()];
        let (train, validation) = (Residuals::of(&op, x, y), Residuals::of(&op, other_x, other_y));
        let shift = if self.biased() { train.means() } else { vec![0.0; self.shape.out] };
        let [train_power, validation_power] = [y, other_y].map(power);
        let report = FitReport {
            relative_error: relative(validation.squared_error(&shift), validation_power),
            train_relative_error: relative(train.squared_error(&shift), train_power),
            target_power: validation_power / self.shape.out.max(1) as f64,
            ridge: None,
            dropped_directions: dropped,
            shrinkage: None,
            curve: Curve::new(),
            seconds: 0.0,
            cut: None,
        };
        let bias_shift = self.biased().then(|| shift.iter().map(|b| *b as f32).collect());
        Ok(Fit { op, bias_shift, report })
    }
}

#[cfg(test)]
mod tests {
    use crate::Size;
    use crate::fit::planted::Losses;
    use crate::methods::{FitProblem, LowRankMethod, Method};
    use linwright_measure::capture::Evidence;
    use linwright_measure::samples::{Rows, Samples};
    use linwright_measure::stats::SiteStats;
    use linwright_ops::{Dense, Op, Shape, SiteId};
    use linwright_tensor::{Mat, RngKey};

    #[test]
    fn samples_and_their_sums_give_the_same_fit_and_report() {
        let shape = Shape { out: 9, inp: 24 };
        let normals = |count, seed| RngKey::new(seed).stream().normals(count, 1.0);
        let x = Mat::from_vec(20, 24, normals(20 * 24, 1));
        let y = Mat::from_vec(20, 9, normals(20 * 9, 2));
        let y = Mat::from_fn(20, 9, |i, o| y.at(i, o) + 1.0 + x.at(i, o));
        let part = |start, count| {
            let (x, y) = (x.view(), y.view());
            SiteStats::of(x.rows_range(start, count), y.rows_range(start, count))
        };
        let sums = Evidence::Stats { train: part(0, 15), validation: part(15, 5) };
        let (x, y) = (Rows::of(x.clone()), Rows::of(y));
        let samples = Evidence::Samples(Samples { x, y, train: 15 });
        let original = Op::Linear(Box::new(Dense::new(Mat::zeros(9, 24))));
        let site = SiteId("a site".into());
        let zeros = [0.0; 9];
        for biased in [false, true] {
            let [a, b] = [&sums, &samples].map(|evidence| {
                let problem = FitProblem {
                    site: &site,
                    shape,
                    original: &original,
                    size: Some(Size::Rank(4)),
                    evidence: Some(evidence),
                    components: None,
                    bias: biased.then_some(&zeros),
                    key: RngKey::new(0),
                    checkpoint: None,
                    part_rows: None,
                };
                LowRankMethod::default().fit(&problem, &mut Losses::default()).expect("fits")
            });
            for (a, b) in [
                (a.report.relative_error, b.report.relative_error),
                (a.report.train_relative_error, b.report.train_relative_error),
                (a.report.target_power, b.report.target_power),
            ] {
                assert!((a - b).abs() < 1e-4 * a, "{biased}: {a} and {b}");
            }
            assert_eq!(a.report.dropped_directions, b.report.dropped_directions);
            let close = |a: &f32, b: &f32| (a - b).abs() < 1e-3;
            let shifts = a.bias_shift.iter().flatten().zip(b.bias_shift.iter().flatten());
            assert!(
                shifts.clone().all(|(a, b)| close(a, b))
                    && shifts.count() == 9 * usize::from(biased)
            );
            let [a, b] = [a, b].map(|fit| fit.op.to_dense().expect("is linear"));
            assert!(a.data().iter().zip(b.data()).all(|(a, b)| close(a, b)), "{biased}");
        }
    }
}
