//! Criterion and cost of a selection.

use super::gaussian::Gamma;
use serde::{Deserialize, Serialize};

/// Order of the Vendi score of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Diversity {
    /// Order 1, Shannon entropy.
    #[serde(rename = "1")]
    One,
    /// Order 2, which needs no eigenvalues.
    #[serde(rename = "2")]
    Two,
}

impl Diversity {
    /// All orders.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];

    /// Its name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
        }
    }
}

/// Direction of the optimisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Largest score: diverse rows.
    Most,
    /// Smallest score: similar rows.
    Least,
}

/// Criterion of a selection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Order of the score.
    pub diversity: Diversity,
    /// Direction.
    pub goal: Goal,
    /// Kernel width.
    pub gamma: Gamma,
    /// Whether the score is multiplied by the mean of `s(x) = exp(-|x|²)`, which prefers rows of
    /// small norm.
    pub quality: bool,
}

impl Default for Criterion {
    /// Order 1, largest, γ = 1, without quality.
    fn default() -> Self {
        Self {
            diversity: Diversity::One,
            goal: Goal::Most,
            gamma: Gamma::Value(1.0),
            quality: false,
        }
    }
}

/// Cost of a selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Number of candidates whose spectrum was computed by the secular equation.
    pub spectra: u64,
    /// Number of candidates excluded by a bound.
    pub excluded: u64,
    /// Number of candidates compared by a decomposition.
    pub decompositions: u64,
}
