//! Rotor networks: trained on samples, since they are not linear.

use super::kind::{Effort, KindFit, LeastSquares};
use super::{Context, Found};
use crate::FitError;
use linwright_ops::RotorNetworkSpec;

impl KindFit for RotorNetworkSpec {
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
