//! A search of ranks, as it is saved and reported.

use crate::jobs::kit::outcome::text;
use crate::jobs::language::calibration::CalibrationRecord;
use crate::jobs::language::saving::SavedAs;
use linwright_lm::search::Found;
use linwright_lm::search::report::{decisions_table, document, figures_blocks, headline};
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use linwright_run::{Measured, Provenance, StepTime};
use serde::{Deserialize, Serialize};

/// A search of ranks for a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SearchResult {
    /// The model.
    pub(crate) model: String,
    /// The decisions and their scores.
    pub(crate) search: Found,
    /// The calibration text.
    pub(crate) calibration: CalibrationRecord,
    /// Provenance.
    pub(crate) provenance: Provenance,
    /// The saved model; no file in its directory names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) saved: Option<SavedAs>,
    /// Its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Times of the steps.
    #[serde(default)]
    pub(crate) stages: Measured<Vec<StepTime>>,
}

impl SearchResult {
    /// The result as the command shows it.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks = vec![text([headline(&self.search)])];
        blocks.extend(figures_blocks(&self.search.figures));
        let saved = self.saved.iter().map(SavedAs::line);
        let output = self.output.iter().map(|output| format!("saved to {output}"));
        blocks.push(text(saved.chain(output)));
        blocks.push(Block::Table(decisions_table(&self.search)));
        blocks
    }
}

impl Report for SearchResult {
    const KIND: &'static str = "search";

    fn document(&self) -> Document {
        document(&format!("Search of {}", self.model), &self.model, &self.search)
    }

    fn times(&self) -> Vec<Block> {
        let effort = *self.search.effort;
        vec![text([format!(
            "stages x tokens: {} computed, {} or more by the published steps; {:.1} s for {} layers",
            grouped(effort.passes),
            grouped(self.search.published_passes),
            effort.seconds,
            self.search.decisions.len()
        )])]
    }
}
