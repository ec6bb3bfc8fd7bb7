//! Errors of a fit, from sums over samples.

use super::{FitProblem, FitReport, missing, relative};
use crate::FitError;
use linwright_measure::capture::Evidence;
use linwright_measure::stats::{InputStats, SiteStats};
use linwright_run::Measured;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef};
use linwright_train::Curve;

/// Change of the bias that goes with a fit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shift<'a> {
    /// The mean that the fit leaves over the training samples.
    Best,
    /// The bias of the original slot is lost.
    Given(&'a [f64]),
    /// None.
    Nothing,
}

impl Shift<'_> {
    fn values(self, best: impl FnOnce() -> Vec<f64>) -> Option<Vec<f64>> {
        match self {
            Self::Best => Some(best()),
            Self::Given(shift) => Some(shift.to_vec()),
            Self::Nothing => None,
        }
    }
}

/// Mean squared error over some samples, and that of the zero map.
#[derive(Clone, Copy, Debug)]
struct Quality {
    error: f64,
    power: f64,
}

impl Quality {
    /// Against the targets of the samples.
    fn of_targets(stats: &SiteStats, a: &Mat<f64>, shift: Option<&[f64]>) -> Self {
        let error = match shift {
            Some(shift) => stats.squared_error_with(a, shift),
            None => stats.squared_error(a),
        };
        Self { error, power: stats.target_power() }
    }

    /// Against the outputs of a weight (out, inp), of which the fit leaves `away`.
    fn of_outputs(
        inputs: &InputStats,
        weight: MatRef<'_, f64>,
        away: MatRef<'_, f64>,
        shift: Option<&[f64]>,
    ) -> Self {
        Self { error: Self::error_of(inputs, away, shift), power: inputs.power_of(weight) }
    }

    /// Mean of `|E x - b|²`, for what a fit leaves.
    fn error_of(inputs: &InputStats, away: MatRef<'_, f64>, shift: Option<&[f64]>) -> f64 {
        let change = |(b, mean): (&f64, f64)| b * b - 2.0 * b * mean;
        let of_shift: f64 =
            shift.unwrap_or_default().iter().zip(inputs.mean_of(away)).map(change).sum();
        (inputs.power_of(away) + of_shift).max(0.0)
    }

    fn relative(self) -> f64 {
        relative(self.error, self.power)
    }
}

/// Qualities of training and validation sums, the former twice if no samples were held out, and
/// whether some were.
fn held_out<S>(
    [train, validation]: [&S; 2],
    count: impl Fn(&S) -> u64,
    of: impl Fn(&S) -> Quality,
) -> ([Quality; 2], bool) {
    let any = count(validation) > 0;
    let of_train = of(train);
    ([of_train, if any { of(validation) } else { of_train }], any)
}

impl FitProblem<'_> {
    /// Errors of the matrix `a` (out, inp) of a fit, and the change of the bias.
    pub(super) fn judged(
        &self,
        a: &Mat<f64>,
        shift: Shift<'_>,
    ) -> Result<(FitReport, Option<Vec<f64>>), FitError> {
        let (qualities, held, shift) = match self.evidence {
            Some(Evidence::Stats { train, validation }) => {
                let shift = shift.values(|| train.mean_residual(a));
                let of = |stats: &SiteStats| Quality::of_targets(stats, a, shift.as_deref());
                let (both, held) = held_out([train, validation], |s| s.inputs.count, of);
                (both, held, shift)
            }
            Some(Evidence::Inputs { train, validation }) => {
                let weight: Mat<f64> = self.original.to_dense()?.cast();
                let away = Mat::from_fn(a.rows(), a.cols(), |i, j| weight.at(i, j) - a.at(i, j));
                let shift = shift.values(|| train.mean_of(away.view()));
                let of = |inputs: &InputStats| {
                    Quality::of_outputs(inputs, weight.view(), away.view(), shift.as_deref())
                };
                let sums = [&**train, &**validation];
                let (both, held) = held_out(sums, |inputs| inputs.count, of);
                (both, held, shift)
            }
            other => return Err(missing("sums", other)),
        };
        Ok((FitReport::of(qualities, a.rows(), held), shift))
    }
}

impl FitReport {
    /// Report of the projection of the outputs of a weight on orthonormal columns V (out, r), from
    /// sums over these outputs, and the change of the bias. Rounding of the factors to f32 is not
    /// in it: about 1e-7 of the outputs.
    pub(super) fn of_projection(
        sums: [&InputStats; 2],
        left: &Mat<f32>,
        shift: Shift<'_>,
    ) -> (Self, Option<Vec<f64>>) {
        let (out, v): (usize, Mat<f64>) = (left.rows(), left.cast());
        let mut away = Mat::identity(out);
        let transposed = Arg::Transposed(v.view());
        product(-1.0, v.view().into(), transposed, away.view_mut(), Write::Add);
        let shift = shift.values(|| sums[0].mean_of(away.view()));
        let of = |sums: &InputStats| {
            let power = (0..out).map(|o| sums.sxx.at(o, o)).sum::<f64>() / sums.count.max(1) as f64;
            let error = Quality::error_of(sums, away.view(), shift.as_deref());
            Quality { error, power }
        };
        let (both, held) = held_out(sums, |sums| sums.count, of);
        (Self::of(both, out, held), shift)
    }

    /// Report of a matrix with this number of rows; `held` says whether the second quality is of
    /// samples that were held out.
    fn of([train, validation]: [Quality; 2], out: usize, held: bool) -> Self {
        Self {
            held_out: Some(held),
            train_relative_error: train.relative(),
            target_power: validation.power / out.max(1) as f64,
            ..Self::without_text(validation.relative())
        }
    }

    /// Report of a map that was compared with the weight alone.
    pub fn without_text(relative_error: f64) -> Self {
        Self {
            relative_error,
            train_relative_error: relative_error,
            target_power: 0.0,
            held_out: None,
            ridge: None,
            dropped_directions: 0,
            shrinkage: None,
            curve: Curve::new(),
            seconds: Measured::default(),
            cut: None,
        }
    }
}
