//! A comparison of methods, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use crate::jobs::language::calibration::CalibrationRecord;
use crate::jobs::language::compress::site_blocks;
use crate::jobs::language::saving::SavedAs;
use crate::jobs::language::tasks::{EvaluationCost, Judged};
use linwright_compare::Way;
use linwright_compress::pipeline::SiteOutcome;
use linwright_evaluate::ParameterCounts;
use linwright_lm::compare::report::{
    document, headline, notes, speed_table, table, with_provenance,
};
use linwright_lm::compare::{Asked, Candidate, Compared};
use linwright_report::number::{bytes, grouped, seconds};
use linwright_report::{Block, Document, Report, Table};
use linwright_run::{Measured, Provenance};
use serde::{Deserialize, Serialize};

/// A comparison of methods on a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompareResult {
    /// The model.
    pub(crate) model: String,
    /// The dense model and all cells.
    pub(crate) compare: Compared,
    /// The best model, if it was saved.
    pub(crate) saved: Option<SavedBest>,
    /// The calibration text.
    pub(crate) calibration: Option<CalibrationRecord>,
    /// Provenance.
    pub(crate) provenance: Provenance,
    /// Peak memory of the process.
    #[serde(default)]
    pub(crate) peak_resident_bytes: Measured<Option<u64>>,
    /// Time of all cells.
    #[serde(default)]
    pub(crate) seconds: Measured<f64>,
}

/// The best model, saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedBest {
    /// Its form.
    #[serde(flatten)]
    pub(crate) form: SavedAs,
    /// Its directory.
    pub(crate) output: String,
    /// Its method.
    pub(crate) method: String,
}

impl CompareResult {
    /// The result as the command shows it; `page` has the rest.
    pub(super) fn blocks(&self, page: &str) -> Vec<Block> {
        let mut lines = vec![headline(&self.compare)];
        lines.extend(self.saved.as_ref().map(|SavedBest { form, output, method }| {
            format!(
                "saved {method} to {output}, form {}; this text chose it, so its figures are \
                 flattered",
                form.form
            )
        }));
        lines.push(format!("report: {page}"));
        let (table, notes) = (table(&self.compare), notes(&self.compare));
        vec![text(lines), Block::Table(table), Block::Notes(notes)]
    }
}

impl Report for CompareResult {
    const KIND: &'static str = "compare";

    fn document(&self) -> Document {
        let title = format!("Comparison of methods on {}", self.model);
        with_provenance(document(&title, &self.model, &self.compare), &self.provenance)
    }

    fn times(&self) -> Vec<Block> {
        let peak = self.peak_resident_bytes.0;
        let peak = peak.map(|peak| format!("peak memory of the run: {}", bytes(peak)));
        let told = [Some(format!("{} in all", seconds(self.seconds.0))), peak];
        vec![Block::Table(speed_table(&self.compare)), text(told.into_iter().flatten())]
    }
}

/// The best model of a comparison, in the directory of its weights.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BestOfComparison {
    /// The method.
    pub(crate) method: Candidate,
    /// The share that was asked for.
    pub(crate) keep: f64,
    /// Parameters before and after.
    pub(crate) parameters: ParameterCounts,
    /// Its layers.
    pub(crate) sites: Vec<SiteOutcome>,
    /// Evaluation of the dense model and of this one.
    #[serde(flatten)]
    pub(crate) judged: Judged,
}

impl Report for BestOfComparison {
    const KIND: &'static str = "compare-best";

    fn document(&self) -> Document {
        let (name, keep) = (self.method.name(), self.keep);
        let told = format!(
            "{name} at {keep}: {} of {} parameters of these layers",
            grouped(self.parameters.targeted),
            grouped(self.parameters.targeted_dense)
        );
        let mut blocks = vec![text([told])];
        blocks.extend(self.judged.blocks());
        blocks.extend(site_blocks(&self.sites));
        page(blocks)
    }
}

/// What a comparison would cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompareCost {
    /// The evaluations.
    #[serde(flatten)]
    pub(crate) evaluation: EvaluationCost,
    /// The cells.
    pub(crate) cells: Vec<Asked>,
    /// Why a cell has no model.
    pub(crate) left_out: Vec<Option<String>>,
    /// Models that would be evaluated, the dense one among them.
    pub(crate) models: u64,
    /// Time of the fits of each cell, where there is an estimate.
    pub(crate) fit_seconds: Vec<Option<f64>>,
    /// Parameters of the targeted layers in each cell that has a model.
    pub(crate) parameters: Vec<Option<u64>>,
    /// The same of the dense model, on the first set of layers.
    pub(crate) parameters_dense: u64,
    /// The layers of each cell, where there are sets of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) layers: Vec<Vec<usize>>,
    /// Number of seeds.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) seeds: usize,
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

impl CompareCost {
    fn row(&self, at: usize) -> Vec<String> {
        let asked = &self.cells[at];
        let (parameters, kept) = match (self.parameters[at], &self.left_out[at]) {
            (Some(count), _) => {
                let share = count as f64 / self.parameters_dense.max(1) as f64;
                (grouped(count), format!("{share:.4}"))
            }
            (None, reason) => {
                (String::new(), format!("no model: {}", reason.as_deref().unwrap_or_default()))
            }
        };
        let keep = asked.keep.map_or_else(String::new, |keep| keep.to_string());
        let seconds =
            self.fit_seconds[at].map_or_else(String::new, |seconds| format!("{seconds:.1}"));
        let layers = self.layers.get(at).map(|layers| format!("{layers:?}"));
        let row = [asked.name(), keep].into_iter().chain(layers);
        row.chain([parameters, kept, seconds]).collect()
    }
}

impl Report for CompareCost {
    const KIND: &'static str = "compare-dry-run";

    fn document(&self) -> Document {
        let layers = (!self.layers.is_empty()).then_some(("layers", false));
        let columns = [("method", false), ("asked", true)].into_iter().chain(layers);
        let columns = columns.chain([("parameters", true), ("kept", false), ("fit, s", true)]);
        let rows = (0..self.cells.len()).map(|at| self.row(at));
        let of_fits = self.fit_seconds.iter().flatten().sum::<f64>() * self.seeds as f64;
        let told = format!(
            "time of the fits: about {}, each size like the first of its method, without \
             pruning, which is not estimated",
            seconds(of_fits)
        );
        let mut document = self.evaluation.document();
        document.blocks.insert(0, Block::Table(Table::new("Models", columns).with(rows)));
        document.blocks.insert(1, text([told]));
        document
    }
}
