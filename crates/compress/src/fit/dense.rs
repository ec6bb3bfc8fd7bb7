//! Dense weights: the target itself, or the least-squares solution `D S⁺`.

use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::Regression;
use super::{Context, Found, Procedure};
use crate::FitError;
use linwright_ops::{Dense, DenseSpec, Op};

impl KindFit for DenseSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        _context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        Ok(fit(problem.regression))
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        Ok(effort.error())
    }
}

fn fit(regression: &Regression<'_>) -> Found {
    let weight = regression.least_squares();
    let error = regression.error(&weight);
    let op = Op::Linear(Box::new(Dense::new(weight)));
    Found { op, error, procedure: Procedure::Closed, iterations: 0 }
}

#[cfg(test)]
mod tests {
    use crate::fit::planted::assert_recovers;
    use linwright_ops::{DenseSpec, OpSpec, Shape};

    #[test]
    fn weights_are_recovered() {
        assert_recovers(&OpSpec::Dense(DenseSpec {}), Shape { out: 5, inp: 9 });
    }
}
