//! The damping of a curvature, and what multiplies gradients by a damped inverse.

use crate::AttributeError;
use linwright_tensor::Mat;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Smallest damping relative to the largest eigenvalue: below it, rounding errors dominate.
pub(crate) const SMALLEST: f64 = 1e-13;

/// Value added to the diagonal of a Fisher matrix: `relative:D`, `D` for short, or `absolute:D`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Damping {
    /// This times the mean of the diagonal, for each layer.
    Relative(f64),
    /// The number itself.
    Absolute(f64),
}

impl fmt::Display for Damping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(number) => write!(f, "relative:{number}"),
            Self::Absolute(number) => write!(f, "absolute:{number}"),
        }
    }
}

impl FromStr for Damping {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let (kind, number): (fn(f64) -> Self, &str) = match text.split_once(':') {
            Some(("absolute", number)) => (Self::Absolute, number),
            Some(("relative", number)) => (Self::Relative, number),
            _ => (Self::Relative, text),
        };
        let refused = || AttributeError::Setting {
            name: "damping",
            found: text.into(),
            expected: "a number of at least 0, such as 0.1, or absolute:0.1".into(),
        };
        match number.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(kind(number)),
            _ => Err(refused()),
        }
    }
}

impl From<Damping> for String {
    fn from(damping: Damping) -> Self {
        damping.to_string()
    }
}

impl TryFrom<String> for Damping {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}

/// A map that multiplies gradients by a damped inverse.
pub(crate) trait Precondition {
    /// Replaces rows (.., numbers of the layers) by the damped inverse times them.
    fn precondition(&self, rows: &mut Mat<f64>, damping: Damping) -> Result<(), AttributeError>;

    /// The product of every row with its replacement.
    fn self_influence(
        &self,
        rows: &Mat<f64>,
        damping: Damping,
    ) -> Result<Vec<f64>, AttributeError> {
        let mut conditioned = rows.clone();
        self.precondition(&mut conditioned, damping)?;
        let dot = |i: usize| rows.row(i).iter().zip(conditioned.row(i)).map(|(a, b)| a * b).sum();
        Ok((0..rows.rows()).map(dot).collect())
    }
}
