//! Cutting a weight to what some of its rows tell, chosen for their diversity.
//!
//! `W' = A B` with B the chosen rows of W and A the coefficients of the orthogonal projection of
//! every row on their span, so that chosen rows stay as they are. Source: the fork of LASER's code
//! that selects rows by the Vendi score, of which no accuracy was ever published; see
//! [`linwright_measure::vendi`].

use super::{Cut, Done, Kept, Parts, done};
use crate::FitError;
use linwright_measure::vendi::{
    Criterion, Diversity, Gamma, Goal, VendiError, reconstruct, select,
};
use linwright_tensor::Mat;
use serde::{Deserialize, Serialize};

/// What rows are chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VendiOptions {
    /// Whether short rows are preferred, by the mean of `exp(-|x|²)`.
    pub quality: bool,
    /// Whether rows are to be as alike as can be.
    pub minimise: bool,
    /// Width of the kernel `exp(-γ |x - y|² / 2)`; by the median of the distances if none. The
    /// paper's code has 1, for which real weights are all nearly orthogonal: `compat` takes that.
    pub gamma: Option<f64>,
}

impl VendiOptions {
    fn criterion(self, compat: bool) -> Criterion {
        let gamma = match self.gamma {
            Some(gamma) => Gamma::Value(gamma),
            None if compat => Gamma::Value(1.0),
            None => Gamma::Median,
        };
        let goal = if self.minimise { Goal::Least } else { Goal::Most };
        Criterion { diversity: Diversity::One, goal, gamma, quality: self.quality }
    }
}

/// The rows of a weight in the order of choice, so many of them.
pub(super) fn rows(weight: &Mat<f32>, count: usize, cut: &Cut) -> Result<Vec<usize>, FitError> {
    let criterion = cut.vendi.criterion(cut.compat);
    let selected = select(weight.view(), count, &criterion, &mut |_, _| true);
    selected.map(|selected| selected.indices).map_err(failed)
}

/// The weight told by some of its rows.
pub(super) fn by_rows(
    weight: &Mat<f32>,
    rows: &[usize],
    cut: &Cut,
    kept: Kept,
) -> Result<Done, FitError> {
    let found = reconstruct(weight.view(), rows).map_err(failed)?;
    let basis = Mat::from_fn(rows.len(), weight.cols(), |k, j| weight.at(rows[k], j));
    let parts = Parts::Factors(found.coefficients.cast(), basis, None);
    let mut done = done(weight, parts, cut, kept);
    done.report.rows = rows.to_vec();
    Ok(done)
}

pub(super) fn cut(weight: &Mat<f32>, rank: usize, cut: &Cut, kept: Kept) -> Result<Done, FitError> {
    by_rows(weight, &rows(weight, rank, cut)?, cut, kept)
}

fn failed(error: VendiError) -> FitError {
    FitError::Numerics { what: "rows of the weight", reason: error.to_string() }
}
