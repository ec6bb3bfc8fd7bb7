//! A sweep, as it is saved and reported.

use linwright_lm::cuts::report::sweep_document;
use linwright_lm::cuts::sweep::Swept;
use linwright_report::{Document, Report};
use linwright_run::{Measured, Provenance};
use serde::{Deserialize, Serialize};

/// A sweep of a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SweepOfModel {
    /// The model.
    pub(crate) model: String,
    /// Its cells.
    pub(crate) sweep: Swept,
    /// Provenance.
    pub(crate) provenance: Provenance,
    /// Time of all cells.
    #[serde(default)]
    pub(crate) seconds: Measured<f64>,
}

impl Report for SweepOfModel {
    const KIND: &'static str = "sweep";

    fn document(&self) -> Document {
        sweep_document(&format!("Sweep of {}", self.model), &self.model, &self.sweep)
    }
}
