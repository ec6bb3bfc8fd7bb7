//! Submatrices, whose positions are drawn: trained.

use super::kind::{Effort, KindFit, LeastSquares};
use super::{Context, Found};
use crate::FitError;
use linwright_ops::SubmatrixSpec;

impl KindFit for SubmatrixSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        problem.trained(context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        effort.trained(effort.iterations)
    }
}
