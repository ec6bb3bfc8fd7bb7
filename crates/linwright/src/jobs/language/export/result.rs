//! An export, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use crate::jobs::language::saving::SavedAs;
use linwright_files::MEASURED;
use linwright_model::checkpoint::export::lora::{Adapter, LoraSite};
use linwright_model::checkpoint::export::{Exported, Sizes};
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// A model that was written in another form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExportResult {
    /// The directory.
    pub(crate) output: String,
    /// The form.
    #[serde(flatten)]
    pub(crate) form: SavedAs,
    /// Sizes of the model.
    pub(crate) parameters: Sizes,
    /// Largest difference of a logit after it was loaded back.
    pub(crate) max_logit_difference: f64,
    /// Root mean square of these differences, relative to the logits.
    pub(crate) relative_logit_difference: f64,
    /// The files.
    pub(crate) files: Vec<WrittenFile>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenFile {
    name: String,
    bytes: u64,
    sha256: String,
}

impl ExportResult {
    pub(super) fn of(output: String, done: &Exported) -> Self {
        let kept = done.saved.files.iter().filter(|file| file.name != MEASURED);
        let files = kept.map(|file| WrittenFile {
            name: file.name.clone(),
            bytes: file.bytes,
            sha256: file.sha256.clone(),
        });
        Self {
            output,
            form: SavedAs::of(done),
            parameters: done.sizes.clone(),
            max_logit_difference: f64::from(done.saved.gap.largest),
            relative_logit_difference: done.saved.gap.relative,
            files: files.collect(),
        }
    }
}

impl Report for ExportResult {
    const KIND: &'static str = "export";

    fn document(&self) -> Document {
        let sizes = &self.parameters;
        page(vec![text([
            self.form.line(),
            format!(
                "{} parameters (dense {}), {} bytes of weights (dense {})",
                grouped(sizes.stored),
                grouped(sizes.dense),
                grouped(sizes.bytes),
                grouped(sizes.dense_bytes),
            ),
            self.output.clone(),
        ])])
    }
}

/// The difference of a model from its base, written as an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AdapterResult {
    /// The directory.
    pub(crate) output: String,
    /// The form: `lora`.
    pub(crate) form: String,
    /// Layers that differ from the base.
    pub(crate) sites: Vec<LoraSite>,
    /// Parameters of the adapter.
    pub(crate) parameters: u64,
    /// Differences below this share of a weight count as rounding.
    pub(crate) resolution: f64,
    /// Largest share of a difference that was cut.
    pub(crate) max_loss: f64,
    /// Notes.
    pub(crate) warnings: Vec<String>,
}

impl AdapterResult {
    pub(super) fn of(output: String, adapter: Adapter) -> Self {
        let Adapter { sites, resolution, warnings, .. } = adapter;
        Self {
            output,
            form: "lora".to_owned(),
            parameters: sites.iter().map(|site| site.parameters).sum(),
            resolution,
            max_loss: sites.iter().map(|site| site.loss).fold(0.0, f64::max),
            sites,
            warnings,
        }
    }
}

impl Report for AdapterResult {
    const KIND: &'static str = "export-adapter";

    fn document(&self) -> Document {
        let ranks = || self.sites.iter().map(|site| site.rank);
        let (least, most) = (ranks().min().unwrap_or(usize::MAX), ranks().max().unwrap_or(0));
        page(vec![text([
            format!(
                "form lora: {} layers of ranks {least} to {most}, {} parameters; at most {:.2e} of \
                 a difference was cut",
                self.sites.len(),
                grouped(self.parameters),
                self.max_loss,
            ),
            self.output.clone(),
        ])])
    }
}
