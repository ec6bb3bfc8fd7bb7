//! Closed forms where there are fewer samples than input features: their report comes from the
//! samples, since sums over inputs would be larger than these.

use super::{Fit, FitProblem, FitReport, factors, relative};
use crate::FitError;
use crate::fit::low_rank::{Projection, Second};
use crate::fit::regression::multiply;
use crate::fit::{Ridge, sample_space};
use linwright_measure::samples::{Samples, power};
use linwright_ops::{LowRank, Op, Workspace};
use linwright_run::Measured;
use linwright_tensor::{Mat, MatRef};
use linwright_train::Curve;

/// Rows predicted at a time.
const BLOCK: usize = 512;

/// Errors over samples.
#[derive(Clone, Copy)]
struct Errors {
    /// Mean of `|y - op(x) - shift|²`.
    squared: f64,
    /// Mean of `|y|²`.
    power: f64,
}

impl Errors {
    fn of(op: &Op<f32>, x: MatRef<'_, f32>, y: MatRef<'_, f32>, shift: &[f64]) -> Self {
        let (mut predicted, mut workspace) = (Mat::default(), Workspace::default());
        let mut squares = 0.0;
        for start in (0..x.rows()).step_by(BLOCK) {
            let rows = BLOCK.min(x.rows() - start);
            let into = predicted.view_mut_of(rows, y.cols());
            op.map().forward(x.rows_range(start, rows), into, None, &mut workspace);
            for i in 0..rows {
                let both = y.row(start + i).iter().zip(predicted.row(i)).zip(shift);
                let square =
                    |((y, p), b): ((&f32, &f32), &f64)| (f64::from(*y) - f64::from(*p) - b).powi(2);
                squares += both.map(square).sum::<f64>();
            }
        }
        Self { squared: squares / x.rows().max(1) as f64, power: power(y) }
    }
}

impl FitProblem<'_> {
    /// Low-rank factors by a regression of fewer samples than input features.
    pub(super) fn low_rank_in_samples(
        &self,
        samples: &Samples,
        rank: usize,
        ridge: Ridge,
    ) -> Result<Fit, FitError> {
        factors::check_samples(1, samples.train as u64, 0.0)?;
        // A ridge that is known leaves nothing to choose with the validation samples.
        let whole = self.ridge.map(|_| Samples { train: samples.x.rows(), ..samples.clone() });
        let samples = whole.as_ref().unwrap_or(samples);
        let weight: Mat<f64> = self.original.to_dense()?.cast();
        let ridge = self.ridge.map_or(ridge, Ridge::Share);
        let pulled = sample_space::regression(samples, &weight, ridge, self.biased())?;
        let [training, held_out] = [samples.training(), samples.validation()];
        let (x, means) = (training.0, means(training.0, self.biased()));
        let second = Second::Samples { x, means: &means, ridge: pulled.ridge };
        let (u, v) = Projection::new(&pulled.map, &second)?.factors(rank);
        let shift = pulled.shift(&multiply(u.view().into(), v.view().into()), &means);
        let op = Op::Linear(Box::new(LowRank::new(u.cast(), v.cast())));
        let own = shift.clone().unwrap_or_else(|| vec![0.0; self.shape.out]);
        let train = Errors::of(&op, training.0, training.1, &own);
        // Without held-out samples, the error is that of all.
        let judged = if held_out.0.rows() > 0 {
            Errors::of(&op, held_out.0, held_out.1, &own)
        } else {
            train
        };
        let report = FitReport {
            relative_error: relative(judged.squared, judged.power),
            train_relative_error: relative(train.squared, train.power),
            target_power: judged.power / self.shape.out.max(1) as f64,
            held_out: Some(held_out.0.rows() > 0),
            ridge: pulled.share,
            dropped_directions: 0,
            shrinkage: None,
            curve: Curve::new(),
            seconds: Measured::default(),
            cut: None,
        };
        let bias_shift = shift.map(|shift| shift.into_iter().map(|b| b as f32).collect());
        Ok(Fit { op, bias_shift, report })
    }
}

/// Means of columns, or zeros.
fn means(rows: MatRef<'_, f32>, centred: bool) -> Vec<f64> {
    let mut means = vec![0.0; rows.cols()];
    for i in 0..if centred { rows.rows() } else { 0 } {
        means.iter_mut().zip(rows.row(i)).for_each(|(mean, v)| *mean += f64::from(*v));
    }
    means.iter_mut().for_each(|mean| *mean /= rows.rows().max(1) as f64);
    means
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
                    ridge: None,
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
