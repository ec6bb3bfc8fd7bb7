//! A comparison of what replaces the layers of a network, as it is saved and reported.

use crate::jobs::kit::outcome::text;
use linwright_compare::Compared;
use linwright_compare::report::{document, headline, notes, speed_table, table, with_provenance};
use linwright_report::number::{bytes, seconds};
use linwright_report::{Block, Document};
use linwright_run::{Measured, Provenance};
use linwright_trial::{PassMacs, PassSpeed};
use serde::{Deserialize, Serialize};

/// A comparison of what replaces the layers of a network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SlotsCompared {
    /// The network.
    pub(crate) model: String,
    /// The dense network and all cells.
    pub(crate) compare: Compared<PassMacs, PassSpeed>,
    /// Provenance.
    pub(crate) provenance: Provenance,
    /// Peak memory of the process.
    #[serde(default)]
    pub(crate) peak_resident_bytes: Measured<Option<u64>>,
    /// Time of all cells.
    #[serde(default)]
    pub(crate) seconds: Measured<f64>,
}

impl SlotsCompared {
    /// The result as the command shows it; `page` has the rest.
    pub(super) fn blocks(&self, page: &str) -> Vec<Block> {
        let lines = [headline(&self.compare), format!("report: {page}")];
        let (table, notes) = (table(&self.compare), notes(&self.compare));
        vec![text(lines), Block::Table(table), Block::Notes(notes)]
    }

    /// The page.
    pub(in crate::jobs) fn document(&self) -> Document {
        let title = format!("Comparison of methods on {}", self.model);
        with_provenance(document(&title, &self.model, &self.compare), &self.provenance)
    }

    /// What was measured.
    pub(in crate::jobs) fn times(&self) -> Vec<Block> {
        let peak = self.peak_resident_bytes.0;
        let peak = peak.map(|peak| format!("peak memory of the run: {}", bytes(peak)));
        let told = [Some(format!("{} in all", seconds(self.seconds.0))), peak];
        vec![Block::Table(speed_table(&self.compare)), text(told.into_iter().flatten())]
    }
}
