//! Products of circulant and diagonal matrices: alternating least squares and Gauss-Newton, then
//! training.
//!
//! The product is linear in every factor while the others are fixed; two diagonals with one
//! circulant between them are recovered in closed form from the logarithms of a weight. See
//! [`linwright_tensor::linalg::fit_circulant`], whose starts run in parallel. Its result
//! initialises the parameters of the operator, which are trained to rounding error. A single
//! diagonal has a closed form.

use super::kind::{Effort, KindFit, LeastSquares, Timing};
use super::regression::Regression;
use super::{Context, Found, Procedure, trained, work};
use crate::FitError;
use linwright_ops::{
    CirculantDiagonal, CirculantDiagonalSpec, CirculantFactors, CirculantParameterisation, Op,
    OpSpec,
};
use linwright_tensor::linalg::{CirculantEffort, CirculantTarget, fit_circulant};
use linwright_train::TrainError;

/// Largest number of sweeps; each solves a system of n unknowns per factor.
const SWEEPS: u32 = 200;
/// Share of the largest number of a diagonal that stands for a zero.
const LEAST: f64 = 1e-12;

/// Largest number of derivatives for joint steps on all factors.
const MOST_DERIVATIVES: f64 = 16_777_216.0;
/// Typical number of joint steps on all factors.
const JOINT_STEPS: f64 = 30.0;

impl KindFit for CirculantDiagonalSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        match problem.from {
            Some(_) => problem.trained(context),
            None => fit(self, problem.regression, context),
        }
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        let ((_, inp), iterations) = (work::sides(effort.shape), effort.iterations);
        let count = 2.0 * self.factors as f64 - 1.0;
        let sweep = 8.0 * count * inp.powi(3);
        // Small ones take joint steps after some sweeps.
        let start = match count > 1.0 && count * inp.powi(3) <= MOST_DERIVATIVES {
            true => {
                40f64.min(iterations) * sweep
                    + JOINT_STEPS.min(iterations) * count * count * inp.powi(4)
            }
            false => iterations * sweep,
        };
        Ok(effort.starts * start + effort.descent(iterations)?)
    }

    fn timing(&self) -> Timing {
        let count = self.factors.saturating_mul(2).saturating_sub(1).max(1) as f64;
        let least_side = (MOST_DERIVATIVES / count).cbrt() as usize + 1;
        Timing { least_side, parallel_starts: true, ..Timing::USUAL }
    }
}

fn fit(
    spec: &CirculantDiagonalSpec,
    regression: &Regression<'_>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let shape = regression.shape();
    // Rejects non-square shapes and empty products.
    OpSpec::CirculantDiagonal(*spec).random::<f64>(shape, context.options.key)?;
    if context.control.interrupted() {
        return Err(TrainError::Interrupted { name: super::NAME.into(), step: 0 }.into());
    }
    let target = CirculantTarget {
        inputs: regression.second().cloned(),
        cross: regression.cross().clone(),
        size: regression.power(),
    };
    let effort = CirculantEffort {
        factors: spec.factors,
        sweeps: context.options.iterations.min(SWEEPS) as usize,
        starts: context.options.starts.max(1) as usize,
    };
    let found = fit_circulant(&target, effort, context.options.key.fold("circulant"));
    let mut factors: CirculantFactors = found.into();
    if spec.parameterisation == CirculantParameterisation::Polar {
        factors.diagonals.iter_mut().for_each(|diagonal| without_zeros(diagonal));
    }
    let op = CirculantDiagonal::new(spec.parameterisation, &factors)?;
    let found = trained::descend(Op::Linear(Box::new(op)), &regression.rows(), context)?;
    let procedure = if spec.factors == 1 { Procedure::Closed } else { Procedure::Alternating };
    Ok(Found { procedure, ..found })
}

/// Replaces zeros by numbers that do not matter. The best approximation of a matrix with zeros,
/// such as a permutation, may have some, which polar parameters cannot hold.
fn without_zeros(diagonal: &mut [f64]) {
    let most = diagonal.iter().fold(0.0, |most: f64, d| most.max(d.abs()));
    let least = LEAST * if most > 0.0 { most } else { 1.0 };
    diagonal.iter_mut().filter(|d| **d == 0.0).for_each(|d| *d = least);
}

#[cfg(test)]
mod tests {
    use super::without_zeros;
    use crate::fit::FitOptions;
    use crate::fit::planted::recovered;
    use linwright_ops::{
        CirculantDiagonal, CirculantDiagonalSpec, CirculantFactors, CirculantInit,
        CirculantParameterisation, OpSpec, Shape,
    };

    #[test]
    fn zeros_of_an_approximation_are_held_by_polar_parameters() {
        let mut factors = CirculantFactors {
            diagonals: vec![vec![2.0, 0.0, -4.0], vec![0.0; 3]],
            columns: vec![vec![1.0, 0.25, 0.0]],
        };
        let polar = CirculantParameterisation::Polar;
        assert!(CirculantDiagonal::<f64>::new(polar, &factors).is_err());
        factors.diagonals.iter_mut().for_each(|diagonal| without_zeros(diagonal));
        assert_eq!(factors.diagonals, [[2.0, 4e-12, -4.0], [1e-12; 3]]);
        CirculantDiagonal::<f64>::new(polar, &factors).unwrap();
    }

    fn spec(factors: usize, parameterisation: CirculantParameterisation) -> OpSpec {
        let init = CirculantInit::Random;
        OpSpec::CirculantDiagonal(CirculantDiagonalSpec { factors, parameterisation, init })
    }

    #[test]
    fn members_are_recovered_whatever_holds_them() {
        let options = FitOptions { starts: 8, tolerance: 1e-12, ..FitOptions::default() };
        for factors in [1, 2] {
            for held in [CirculantParameterisation::Time, CirculantParameterisation::Polar] {
                let found = recovered(&spec(factors, held), Shape { out: 7, inp: 7 }, 1, &options);
                assert!(found.iter().all(|away| *away < 1e-9), "{factors}, {held:?}: {found:?}");
            }
        }
    }
}
