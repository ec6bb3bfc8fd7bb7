//! A compression, as it is saved and reported.

use super::allocation::Allocated;
use super::budget::Budgeted;
use super::memory::Peak;
use super::recovery;
use super::site_tables::{pruned_table, site_blocks};
use super::summary::{estimate_with, weight_bytes};
use crate::jobs::kit::outcome::{page, table, text};
use crate::jobs::language::calibration::CalibrationRecord;
use crate::jobs::language::saving::SavedAs;
use crate::jobs::language::tasks::Judged;
use linwright_compress::pipeline::SiteOutcome;
use linwright_compress::recover::{RecoveryEstimate, RecoveryReport};
use linwright_compress::{Estimate, Plan};
use linwright_evaluate::ParameterCounts;
use linwright_lm::prune::{Cut, PruneSpec, SiteSize};
use linwright_model::checkpoint::export::Exported;
use linwright_report::number::{bytes, grouped};
use linwright_report::{Block, Document, Report};
use linwright_run::memory::peak_resident_bytes;
use linwright_run::{Measured, StepTime};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What was done to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Change {
    /// Layers were narrowed together.
    Pruning(PruningChange),
    /// Layers were replaced, each by itself.
    Plan(Plan),
}

/// A pruning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PruningChange {
    /// The method.
    pub(crate) pruning: PruneSpec,
    /// How much is kept, and of which layers.
    pub(crate) cut: Cut,
}

/// A compressed model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompressResult {
    /// The model.
    pub(crate) model: String,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// What was done.
    pub(crate) plan: Change,
    /// The form that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) saved: Option<SavedAs>,
    /// Sizes after it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Summary>,
    /// Parameters before and after.
    pub(crate) parameters: ParameterCounts,
    /// The replaced layers.
    pub(crate) sites: Vec<SiteOutcome>,
    /// Evaluation before and after.
    #[serde(flatten)]
    pub(crate) judged: Judged,
    /// The calibration text.
    pub(crate) calibration: Option<CalibrationRecord>,
    /// The division of the budget over layers, unless it is uniform.
    pub(crate) allocation: Option<Allocated>,
    /// Training of the replaced layers.
    pub(crate) recovery: Option<RecoveryReport>,
    /// What was tried within a budget.
    pub(crate) budget: Option<Budgeted>,
    /// Times of the steps.
    #[serde(default)]
    pub(crate) stages: Measured<Vec<StepTime>>,
    /// Speed of scoring text before.
    #[serde(default)]
    pub(crate) tokens_per_second_before: Measured<f64>,
    /// The same after.
    #[serde(default)]
    pub(crate) tokens_per_second: Measured<f64>,
}

/// Sizes of the model before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    targeted_dense: u64,
    targeted: u64,
    keep: f64,
    model_dense: u64,
    model: u64,
    weight_bytes_before: u64,
    weight_bytes: u64,
    #[serde(default)]
    peak_resident_bytes: Measured<Option<u64>>,
    max_logit_difference: f64,
    relative_logit_difference: f64,
}

impl Summary {
    pub(super) fn new(counts: &ParameterCounts, source: &Path, saved: &Exported) -> Self {
        Self {
            targeted_dense: counts.targeted_dense,
            targeted: counts.targeted,
            keep: counts.keep(),
            model_dense: counts.model_dense,
            model: counts.model,
            weight_bytes_before: weight_bytes(source),
            weight_bytes: weight_bytes(&saved.saved.dir),
            peak_resident_bytes: Measured(peak_resident_bytes()),
            max_logit_difference: f64::from(saved.saved.gap.largest),
            relative_logit_difference: saved.saved.gap.relative,
        }
    }
}

impl CompressResult {
    /// Sizes, form and place.
    fn lines(&self) -> Vec<String> {
        let counts = &self.parameters;
        let replaced = format!(
            "replaced layers: {} -> {} parameters (keep {:.4})",
            grouped(counts.targeted_dense),
            grouped(counts.targeted),
            counts.keep(),
        );
        let weights = self.summary.as_ref().map(|summary| {
            let [before, after] = [summary.weight_bytes_before, summary.weight_bytes].map(grouped);
            format!(", {before} -> {after} bytes of weights")
        });
        let model = format!(
            "model: {} -> {} parameters{}",
            grouped(counts.model_dense),
            grouped(counts.model),
            weights.unwrap_or_default()
        );
        let form = self.saved.as_ref().map(SavedAs::line);
        let wrote = self.output.as_ref().zip(self.summary.as_ref()).map(|(output, summary)| {
            let logits = round_trip(summary.relative_logit_difference);
            format!("wrote {output}; loaded back, {logits}")
        });
        [replaced, model].into_iter().chain(form).chain(wrote).collect()
    }
}

/// How far the logits of a saved model are from those in memory.
fn round_trip(relative: f64) -> String {
    if relative == 0.0 {
        return "logits are the same".to_owned();
    }
    format!("logits differ by {relative:.1e} of their spread (root mean square)")
}

impl Report for CompressResult {
    const KIND: &'static str = "compress";

    fn document(&self) -> Document {
        let mut blocks = vec![text(self.lines())];
        blocks.extend(self.calibration.as_ref().map(|record| text([record.line()])));
        blocks.extend(self.judged.blocks());
        blocks.extend(self.recovery.as_ref().map(recovery::block));
        blocks.extend(self.budget.iter().flat_map(Budgeted::blocks));
        blocks.extend(self.allocation.iter().flat_map(Allocated::blocks));
        blocks.extend(site_blocks(&self.sites));
        page(blocks)
    }

    fn times(&self) -> Vec<Block> {
        let speed = format!(
            "scoring text: {:.0} -> {:.0} tokens/s",
            self.tokens_per_second_before.0, self.tokens_per_second.0,
        );
        let peak = self.summary.as_ref().and_then(|summary| *summary.peak_resident_bytes);
        let peak = peak.map(|peak| format!("peak memory: {}", bytes(peak)));
        let recovery = self.recovery.as_ref().map(recovery::time);
        vec![text([Some(speed), peak, recovery].into_iter().flatten())]
    }
}

/// What a compression would cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompressCost {
    /// The plan.
    pub(crate) plan: Plan,
    /// Sizes and times of its fits.
    pub(crate) estimate: Estimate,
    /// Time and memory of training the replaced layers.
    pub(crate) recovery: Option<RecoveryEstimate>,
    /// Memory at its heights.
    pub(crate) memory: Peak,
    /// Time of the evaluations.
    pub(crate) evaluation_seconds: f64,
}

impl Report for CompressCost {
    const KIND: &'static str = "compress-dry-run";

    fn document(&self) -> Document {
        let mut blocks =
            estimate_with(&self.estimate, self.memory.bytes(), self.evaluation_seconds);
        if let Some(recovery) = &self.recovery {
            // Before the table of all sites.
            blocks.insert(1, recovery::estimate_block(recovery));
        }
        page(blocks)
    }
}

/// The sizes that a pruning would leave, exactly, and its memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PruneCost {
    /// The pruning.
    pub(crate) plan: PruningChange,
    /// The sizes.
    pub(crate) estimate: PrunedSizes,
    /// Memory at its heights.
    pub(crate) memory: Peak,
}

/// Sizes after a pruning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrunedSizes {
    /// Those of each layer.
    pub(crate) sites: Vec<SiteSize>,
    /// Parameters of these layers before.
    pub(crate) targeted_dense: u64,
    /// The same after.
    pub(crate) targeted: u64,
}

impl Report for PruneCost {
    const KIND: &'static str = "prune-dry-run";

    fn document(&self) -> Document {
        let PrunedSizes { sites, targeted_dense, targeted } = &self.estimate;
        let PruningChange { pruning, cut } = &self.plan;
        let share = *targeted as f64 / (*targeted_dense).max(1) as f64;
        let lines = [
            format!(
                "parameters of these layers: {} -> {} (keep {share:.4} of {} asked)",
                grouped(*targeted_dense),
                grouped(*targeted),
                cut.keep
            ),
            format!("memory: about {}", bytes(self.memory.bytes())),
        ];
        page(std::iter::once(text(lines)).chain(pruned_table(pruning.id(), sites)).collect())
    }
}

/// What would be tried within a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BudgetPlanned {
    /// The share.
    pub(crate) budget: f64,
    /// Names of the methods.
    pub(crate) tries: Vec<String>,
    /// What they are.
    pub(crate) about: Vec<String>,
    /// Whether the best is tried once more, divided over the layers.
    pub(crate) is_divided: bool,
}

impl Report for BudgetPlanned {
    const KIND: &'static str = "compress-budget-dry-run";

    fn document(&self) -> Document {
        let divided = match self.is_divided {
            false => "every layer keeps the same share",
            true => "the best method with ranks is tried once more, divided over the layers",
        };
        let line = format!("tries {} methods at {}; {divided}", self.tries.len(), self.budget);
        let rows = self.tries.iter().zip(&self.about);
        let rows = rows.map(|(name, about)| vec![name.clone(), about.clone()]).collect();
        page(vec![text([line]), table(&["tried", ""], rows)])
    }
}
