//! Common parts of methods that replace a weight by two factors, computed from sums over its input.

use super::{Fit, FitProblem, FitReport, MethodTraits, Shift, missing};
use crate::fit::regression::multiply;
use crate::fit::spectrum::{Moments, Spectrum};
use crate::operator_size::low_rank_for;
use crate::{FitError, Size, Unit};
use linwright_measure::capture::{Evidence, Needs};
use linwright_measure::stats::InputStats;
use linwright_ops::{LowRank, Op, Shape};
use linwright_tensor::Mat;

/// What a method did to the sums before it decomposed them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    /// Share of the mean second moment that was added to the diagonal, if any.
    pub ridge: Option<f64>,
    /// Share of the shrinkage towards the diagonal; zero for none.
    pub shrinkage: f64,
    /// Number of input directions without data.
    pub dropped: usize,
}

/// The given size.
pub(super) fn given(size: Option<Size>, shape: Shape) -> Result<Size, FitError> {
    size.ok_or_else(|| FitError::Size { shape, reason: "two factors need a size".into() })
}

/// The rank of the factors of a problem.
pub(super) fn rank(problem: &FitProblem<'_>) -> Result<usize, FitError> {
    let components = problem.components_of_size()?;
    let values = components.as_ref().map(|all| all.values.as_slice());
    low_rank_for(given(problem.size, problem.shape)?, problem.shape, values)
}

/// Sums over the training inputs.
pub(super) fn inputs<'a>(problem: &FitProblem<'a>) -> Result<&'a InputStats, FitError> {
    match problem.evidence {
        Some(Evidence::Inputs { train, .. }) => Ok(train),
        Some(Evidence::Stats { train, .. }) => Ok(&train.inputs),
        other => Err(missing("sums", other)),
    }
}

/// Number of training samples.
pub(super) fn count(problem: &FitProblem<'_>) -> Result<u64, FitError> {
    match problem.evidence {
        Some(Evidence::Outputs { train, .. }) => Ok(train.count),
        _ => Ok(inputs(problem)?.count),
    }
}

/// The leading directions of the output, with moments shrunk by a share.
pub(super) fn spectrum(
    problem: &FitProblem<'_>,
    centred: bool,
    shrinkage: f64,
    directions: usize,
) -> Result<Spectrum, FitError> {
    let weight = problem.original.to_dense()?;
    if let Some(Evidence::Outputs { train, .. }) = problem.evidence {
        return Spectrum::of_outputs(train.into(), &weight, centred, directions);
    }
    let moments = Moments::from(inputs(problem)?);
    if shrinkage == 0.0 {
        return Spectrum::leading(moments, &weight, centred, directions);
    }
    let second = shrunk(moments, shrinkage, centred);
    let moments = Moments { second: second.view(), ..moments };
    Spectrum::leading(moments, &weight, centred, directions)
}

/// The fit of the leading directions of the output, with the bias that absorbs what they leave of
/// the mean.
pub(super) fn projected(
    problem: &FitProblem<'_>,
    centred: bool,
    shrinkage: f64,
) -> Result<Fit, FitError> {
    let (rank, count) = (rank(problem)?, count(problem)?);
    check_samples(rank, count, shrinkage)?;
    let spectrum = spectrum(problem, centred, shrinkage, rank)?;
    let dropped = without_data(problem.shape.inp, count, shrinkage);
    let changes = Changes { ridge: None, shrinkage, dropped };
    match problem.evidence {
        Some(Evidence::Outputs { train, validation }) => {
            let shift = if problem.biased() { Shift::Best } else { Shift::Nothing };
            let (report, shift) =
                FitReport::of_projection([train, validation], &spectrum.left, shift);
            let (u, v) = spectrum.factors(rank);
            let report = FitReport { dropped_directions: dropped, ..report };
            let bias_shift = shift.map(|shift| shift.into_iter().map(|b| b as f32).collect());
            Ok(Fit { op: Op::Linear(Box::new(LowRank::new(u, v))), bias_shift, report })
        }
        _ => {
            let (u, v) = spectrum.factors(rank);
            fitted(problem, LowRank::new(u, v), changes)
        }
    }
}

/// Refuses a rank above the number of samples: its last directions would be noise. Shrinkage gives
/// all directions data.
pub(super) fn check_samples(rank: usize, count: u64, shrinkage: f64) -> Result<(), FitError> {
    let found = usize::try_from(count).unwrap_or(usize::MAX);
    if found == 0 || (shrinkage == 0.0 && found < rank) {
        return Err(FitError::TooFewSamples { found, needed: rank.max(1) });
    }
    Ok(())
}

/// Checks the option of the same name.
pub(super) fn check_shrinkage(shrinkage: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&shrinkage) {
        return Ok(());
    }
    Err(format!("has shrinkage {shrinkage}, a number from 0 to 1 is needed"))
}

/// `(1 - share) C + share diag(C)` as second moments, for the moments C about the mean or about
/// zero. Sums of the inputs stay.
pub(super) fn shrunk(moments: Moments<'_>, share: f64, centred: bool) -> Mat<f64> {
    let mut second = moments.second.to_mat();
    let n = moments.count.max(1) as f64;
    for i in 0..second.rows() {
        let mean = if centred { moments.sum[i] / n } else { 0.0 };
        for (j, value) in second.row_mut(i).iter_mut().enumerate().filter(|(j, _)| *j != i) {
            let centre = mean * moments.sum[j];
            *value = centre + (1.0 - share) * (*value - centre);
        }
    }
    second
}

/// Directions without data among `inp`, at least, after so many samples.
pub(super) fn without_data(inp: usize, count: u64, shrinkage: f64) -> usize {
    let found = usize::try_from(count).unwrap_or(usize::MAX);
    if shrinkage > 0.0 { 0 } else { inp.saturating_sub(found) }
}

/// A fit of factors U (out, rank) and V (rank, inp); the bias absorbs what they leave of the mean.
pub(super) fn fitted(
    problem: &FitProblem<'_>,
    factors: LowRank<f32>,
    changes: Changes,
) -> Result<Fit, FitError> {
    let (wide_u, wide_v): (Mat<f64>, Mat<f64>) = (factors.u().cast(), factors.v().cast());
    let a = multiply(wide_u.view().into(), wide_v.view().into());
    let op = Op::Linear(Box::new(factors));
    let best = if problem.biased() { Shift::Best } else { Shift::Nothing };
    let (report, shift) = problem.judged(&a, best)?;
    let shrinkage = (changes.shrinkage > 0.0).then_some(changes.shrinkage);
    let Changes { ridge, dropped: dropped_directions, .. } = changes;
    let report = FitReport { ridge, dropped_directions, shrinkage, ..report };
    let bias_shift = shift.map(|shift| shift.into_iter().map(|b| b as f32).collect());
    Ok(Fit { op, bias_shift, report })
}

/// Traits of methods with two factors.
pub(super) fn traits() -> MethodTraits {
    MethodTraits { needs_size: true, ..MethodTraits::new(Needs::Inputs, &Unit::ALL) }
}

/// Common parts of methods with two factors: their parameters, and themselves on a smaller layer.
macro_rules! two_factors {
    () => {
        fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
            let rank = rank_bound(factors::given(size, shape)?, shape, None)?;
            Ok(rank * (shape.out + shape.inp))
        }

        fn shrunk(&self, _by: usize) -> Self {
            *self
        }
    };
}
pub(super) use two_factors;
