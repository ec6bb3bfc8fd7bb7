//! Collapse over depth, as it is saved and reported.

use linwright_collapse::depth::{DepthPlan, DepthResult};
use linwright_collapse::report;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Collapse of reference networks of several depths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollapseOverDepth {
    /// What was trained.
    pub plan: DepthPlan,
    /// Examples.
    pub examples: usize,
    /// Their classes.
    pub classes: usize,
    /// Tokens of an example.
    pub tokens: usize,
    /// The networks, and power laws in depth.
    #[serde(flatten)]
    pub networks: DepthResult,
}

impl Report for CollapseOverDepth {
    const KIND: &'static str = "collapse-depth";

    fn document(&self) -> Document {
        report::of_depths(&self.networks)
    }
}
