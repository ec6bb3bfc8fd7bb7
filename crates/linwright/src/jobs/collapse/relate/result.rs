//! Collapse against the cost of changes, as it is saved and reported.

use linwright_collapse::relation::{Group, Relation};
use linwright_collapse::report;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// How the collapse of inputs is related to the cost of changed layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollapseRelated {
    /// The metric of inputs.
    pub metric: String,
    /// Random orders, and resamples.
    pub draws: usize,
    /// Groups of layers with the same change.
    pub rows: Vec<Group>,
    /// Correlations of all groups, by model and by group.
    #[serde(flatten)]
    pub relation: Relation,
}

impl Report for CollapseRelated {
    const KIND: &'static str = "collapse-relate";

    fn document(&self) -> Document {
        report::of_relation(&self.metric, &self.rows, &self.relation)
    }
}
