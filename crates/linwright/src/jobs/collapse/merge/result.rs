//! Collapse of merged sums, as it is saved and reported.

use linwright_collapse::{LayerReport, report};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Collapse of features whose sums were merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollapseMerged {
    /// Files of the sums.
    pub parts: Vec<String>,
    /// One layer.
    pub layers: Vec<LayerReport>,
}

impl Report for CollapseMerged {
    const KIND: &'static str = "collapse-merge";

    fn document(&self) -> Document {
        report::of_layers("merge", &self.layers)
    }
}
