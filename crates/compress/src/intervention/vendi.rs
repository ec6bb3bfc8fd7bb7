//! Vendi cuts: projection of a weight onto the span of diverse rows.
//!
//! `W' = A B`, where B are selected rows of W and A the coefficients of the orthogonal projection
//! of every row onto their span; selected rows are unchanged. Source: the fork of LASER's code that
//! selects rows by the Vendi score, for which no accuracy is published; see
//! [`linwright_measure::vendi`].

use crate::FitError;
use crate::intervention::{Done, Kept, LaserMethod, Parts, done};
use linwright_measure::vendi::{
    Criterion, Diversity, Gamma, Goal, VendiError, reconstruct, select,
};
use linwright_tensor::Mat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of the selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VendiOptions {
    /// Whether rows of small norm are preferred, by the mean of `exp(-|x|²)`.
    pub quality: bool,
    /// Whether similar rows are selected, instead of diverse ones.
    pub minimise: bool,
    /// Parameter of the kernel `exp(-γ |x - y|² / 2)`; by default from the median distance. The
    /// paper's code (and `compat`) uses 1, for which all rows of real weights are nearly
    /// orthogonal.
    #[schemars(range(min = 0.0, max = 1e12))]
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

/// Selects `count` rows of a weight, in the order of selection.
pub fn rows(weight: &Mat<f32>, count: usize, cut: &LaserMethod) -> Result<Vec<usize>, FitError> {
    let criterion = cut.vendi.criterion(cut.compat);
    let selected = select(weight.view(), count, &criterion, &mut |_, _| true);
    selected.map(|selected| selected.indices).map_err(failed)
}

/// Projects the weight onto the span of rows.
pub fn by_rows(
    weight: &Mat<f32>,
    rows: &[usize],
    cut: &LaserMethod,
    kept: Kept,
) -> Result<Done, FitError> {
    let found = reconstruct(weight.view(), rows).map_err(failed)?;
    let basis = Mat::from_fn(rows.len(), weight.cols(), |k, j| weight.at(rows[k], j));
    let parts = Parts::Factors { u: found.coefficients.cast(), v: basis, relative_error: None };
    let mut done = done(weight, parts, cut, kept);
    done.report.rows = rows.to_vec();
    Ok(done)
}

pub(super) fn cut(
    weight: &Mat<f32>,
    rank: usize,
    cut: &LaserMethod,
    kept: Kept,
) -> Result<Done, FitError> {
    by_rows(weight, &rows(weight, rank, cut)?, cut, kept)
}

fn failed(error: VendiError) -> FitError {
    FitError::Numerics { what: "rows of the weight", reason: error.to_string() }
}
