//! Rotors: trained. The first start is near the identity.

use super::kind::{Effort, KindFit, LeastSquares};
use super::{Context, Found};
use crate::FitError;
use linwright_ops::{OpSpec, RotorInit, RotorSpec};

/// Typical number of iterations until convergence for real layers, if more are allowed.
const ITERATIONS: f64 = 100.0;

impl KindFit for RotorSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        problem.trained(context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        effort.trained(ITERATIONS.min(effort.iterations))
    }

    fn first_start(&self) -> Option<OpSpec> {
        Some(OpSpec::Rotor(Self { init: RotorInit::NearIdentity, ..*self }))
    }
}
