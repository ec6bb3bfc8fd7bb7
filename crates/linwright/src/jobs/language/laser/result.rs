//! Cuts of a model, as they are saved and reported.

use crate::jobs::kit::outcome::{page, text};
use crate::jobs::language::saving::SavedAs;
use crate::jobs::language::tasks::Judged;
use linwright_compress::Plan;
use linwright_compress::intervention::SiteEdit;
use linwright_lm::cuts::report::edits_table;
use linwright_model::checkpoint::SavedModel;
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use linwright_run::Provenance;
use serde::{Deserialize, Serialize};

/// Cuts of a model, and its evaluation before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LaserResult {
    /// The model.
    pub(crate) model: String,
    /// The cuts.
    pub(crate) edits: Plan,
    /// What they did to each weight.
    pub(crate) sites: Vec<SiteEdit>,
    /// Parameters of these weights after the cuts.
    pub(crate) targeted: u64,
    /// The same before.
    pub(crate) targeted_dense: u64,
    /// Share of the parameters that is kept.
    pub(crate) keep: f64,
    /// Evaluation before and after.
    #[serde(flatten)]
    pub(crate) judged: Judged,
    /// The saved model.
    pub(crate) saved: Option<SavedCut>,
    /// Provenance.
    pub(crate) provenance: Provenance,
}

/// A model that was saved after its cuts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedCut {
    /// Its form.
    #[serde(flatten)]
    pub(crate) form: SavedAs,
    /// Its directory.
    pub(crate) output: String,
    /// Its parameters.
    pub(crate) parameters: u64,
    /// Bytes of its weights.
    pub(crate) weight_bytes: u64,
    /// Largest difference of a logit after it was loaded back.
    pub(crate) max_logit_difference: f64,
    /// Root mean square of these differences, relative to the logits.
    pub(crate) relative_logit_difference: f64,
}

impl SavedCut {
    pub(super) fn of(form: SavedAs, output: String, saved: &SavedModel) -> Self {
        let weights = saved.files.iter().filter(|file| file.name.ends_with(".safetensors"));
        Self {
            form,
            output,
            parameters: saved.parameters,
            weight_bytes: weights.map(|file| file.bytes).sum(),
            max_logit_difference: f64::from(saved.gap.largest),
            relative_logit_difference: saved.gap.relative,
        }
    }
}

impl Report for LaserResult {
    const KIND: &'static str = "laser";

    fn document(&self) -> Document {
        let told = format!(
            "parameters of the edited weights: {} of {} (keep {:.4})",
            grouped(self.targeted),
            grouped(self.targeted_dense),
            self.keep
        );
        let mut blocks = vec![match self.sites.is_empty() {
            true => text(["nothing is cut", &told]),
            false => text([told]),
        }];
        blocks.extend(self.judged.blocks());
        blocks.extend(self.saved.as_ref().map(|saved| {
            let (output, bytes) = (&saved.output, grouped(saved.weight_bytes));
            text([saved.form.line(), format!("saved to {output}: {bytes} bytes of weights")])
        }));
        if !self.sites.is_empty() {
            blocks.push(Block::Table(edits_table(&self.sites)));
        }
        page(blocks)
    }
}
