//! State of the check of a description.

use crate::NetError;
use linwright_run::memory::product;

/// State of the check of a description.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The current layer: its number and name.
    pub(crate) label: String,
    pub(crate) prefix: String,
    pub(crate) depth: usize,
    pub(crate) names: Vec<String>,
    /// Numbers of the dense weight of each slot.
    pub(crate) weights: Vec<(String, u64)>,
    /// Number of activations of an example after all layers.
    pub(crate) activations: u64,
}

impl Chain {
    /// Counts the dense weight of a slot.
    pub(crate) fn weight(&mut self, slot: &str, [out, inp]: [usize; 2]) {
        self.weights.push((slot.to_owned(), product(&[out as u64, inp as u64])));
    }

    /// The current layer: its number and name.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// An error in the current layer.
    pub(crate) fn refuse(&self, found: impl Into<String>, expected: impl Into<String>) -> NetError {
        NetError::layer(&self.label, found, expected)
    }

    /// Checks that an option is at least zero and below a bound.
    pub(crate) fn below(&self, what: &str, value: f64, bound: f64) -> Result<(), NetError> {
        match value >= 0.0 && value < bound {
            true => Ok(()),
            false => {
                let expected = format!("at least 0 and below {bound}");
                Err(self.refuse(format!("{what} {value}"), expected))
            }
        }
    }
}
