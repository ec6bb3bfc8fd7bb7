//! A composition of cuts, as it is saved and reported.

use linwright_lm::cuts::compose::Composed;
use linwright_lm::cuts::report::compose_document;
use linwright_report::{Document, Report};
use linwright_run::Provenance;
use serde::{Deserialize, Serialize};

/// A composition of cuts of a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompositionOfModel {
    /// The model.
    pub(crate) model: String,
    /// Its steps and edits.
    pub(crate) compose: Composed,
    /// Provenance.
    pub(crate) provenance: Provenance,
}

impl Report for CompositionOfModel {
    const KIND: &'static str = "compose";

    fn document(&self) -> Document {
        compose_document(&self.model, &self.compose)
    }
}
