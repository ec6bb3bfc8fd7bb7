//! Collapse over checkpoints, as it is saved and reported.

use linwright_collapse::report::{CheckpointRow, of_checkpoints};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Collapse over the checkpoints of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollapseWatched {
    /// A row for each layer of each checkpoint.
    pub rows: Vec<CheckpointRow>,
}

impl Report for CollapseWatched {
    const KIND: &'static str = "collapse-watch";

    fn document(&self) -> Document {
        of_checkpoints(&self.rows)
    }
}
