//! Optima of regularised training in closed form, with features free to choose.
//!
//! [`Ufm`] is the unconstrained features model: head and features are penalised; [`Gufm`] has
//! features after a LayerNorm, with mean zero and a given length, and penalises only the head. Deep
//! regularised ResNets and transformers approach the latter as they get deeper (Sukenik, Lampert
//! and Mondelli 2025, arXiv:2505.15239), so its optimum bounds their objective from below.
//! [`minimise`] finds the same optima from random starts, [`Comparison`] compares a trained head
//! with one.

mod comparison;
mod gufm;
mod numeric;
#[cfg(test)]
mod tests;
mod ufm;

pub use comparison::Comparison;
pub use gufm::{Gufm, GufmOptimum};
pub use numeric::{NumericOptimum, Problem, minimise};
pub(crate) use numeric::{fit_of_row, layer_norm_back};
pub use ufm::{Ufm, UfmOptimum};

use crate::CollapseError;
use serde::{Deserialize, Serialize};

/// What fits the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Mean cross-entropy of the softmax.
    #[default]
    CrossEntropy,
    /// `1/(2N) Σ |W h - e_y|²`.
    SquaredError,
    /// The same with a bias that is not penalised.
    SquaredErrorBias,
}

impl Fit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CrossEntropy, Self::SquaredError, Self::SquaredErrorBias];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossEntropy => "cross-entropy",
            Self::SquaredError => "squared-error",
            Self::SquaredErrorBias => "squared-error-bias",
        }
    }

    /// Whether the optimum is a simplex frame, not an orthogonal one.
    #[must_use]
    pub fn is_simplex(self) -> bool {
        self != Self::SquaredError
    }
}

/// Refuses a number that is not above zero and finite.
fn check_positive(what: &'static str, value: f64) -> Result<(), CollapseError> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(CollapseError::Setting {
            what,
            found: value.to_string(),
            expected: "a number above zero".into(),
        }),
    }
}

fn check_classes(classes: usize) -> Result<(), CollapseError> {
    match classes >= 2 {
        true => Ok(()),
        false => Err(CollapseError::Setting {
            what: "the number of classes",
            found: classes.to_string(),
            expected: "2 or more".into(),
        }),
    }
}
