//! Products of circulant and diagonal matrices: alternating least squares and Gauss-Newton, then
//! training.
//!
//! The product is linear in every factor while the others are fixed; two diagonals with one
//! circulant between them are recovered in closed form from the logarithms of a weight. See
//! [`linwright_tensor::linalg::fit_circulant`], whose starts run in parallel. Its result
//! initialises the parameters of the operator, which are trained to rounding error. A single
//! diagonal has a closed form.

use super::regression::Regression;
use super::{Context, Found, Procedure, trained};
use crate::FitError;
use linwright_ops::{CirculantDiagonal, CirculantDiagonalSpec, Op, OpSpec};
use linwright_tensor::linalg::{CirculantEffort, CirculantTarget, fit_circulant};
use linwright_train::TrainError;

/// Largest number of sweeps; each solves a system of n unknowns per factor.
const SWEEPS: u32 = 200;

pub(super) fn fit(
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
    let op = CirculantDiagonal::new(spec.parameterisation, &found.into())?;
    let found = trained::descend(Op::Linear(Box::new(op)), &regression.rows(), context)?;
    let procedure = if spec.factors == 1 { Procedure::Closed } else { Procedure::Alternating };
    Ok(Found { procedure, ..found })
}

#[cfg(test)]
mod tests {
    use crate::fit::FitOptions;
    use crate::fit::planted::recovered;
    use linwright_ops::{
        CirculantDiagonalSpec, CirculantInit, CirculantParameterisation, OpSpec, Shape,
    };

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
