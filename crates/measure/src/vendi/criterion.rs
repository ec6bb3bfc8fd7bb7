//! What rows are chosen by, and what choosing them took.

use super::gaussian::Gamma;

/// The order of the score that rows are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diversity {
    /// Order 1, Shannon's entropy.
    One,
    /// Order 2, which needs no eigenvalues.
    Two,
}

impl Diversity {
    /// All orders.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];

    /// Its number.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
        }
    }
}

/// Which scores are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The largest: rows as different as can be.
    Most,
    /// The smallest: rows as alike as can be.
    Least,
}

/// What rows are chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Order of the score.
    pub diversity: Diversity,
    /// Largest or smallest.
    pub goal: Goal,
    /// Width of the kernel.
    pub gamma: Gamma,
    /// Whether the score is multiplied by the mean of `s(x) = exp(-|x|²)`, which prefers short
    /// rows.
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

/// What a selection took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Candidates whose spectrum was computed by the secular equation.
    pub spectra: u64,
    /// Candidates that a bound excluded.
    pub excluded: u64,
    /// Candidates that were decomposed to be compared again.
    pub decompositions: u64,
}
