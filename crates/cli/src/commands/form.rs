//! Saving an edited model.

use super::export::record;
use crate::console::Console;
use crate::failure::Failure;
use crate::source::OpenModel;
use linwright::jobs::SavedForm;
use linwright::model::Transformer;
use linwright::model::checkpoint::SHARD_BYTES;
use linwright::model::checkpoint::export::{Card, ExportOptions, Exported, export};
use linwright::run::Monitor;
use linwright::tensor::dtype::DType;
use serde_json::{Value, json};
use std::path::Path;

/// Options of saving an edited model.
pub(super) struct Saving<'a> {
    pub(super) form: SavedForm,
    pub(super) dtype: Option<DType>,
    pub(super) force: bool,
    pub(super) output: &'a Path,
}

impl Saving<'_> {
    /// Saves an edited model, loads it back, and prints warnings about its form.
    pub(super) fn write(
        &self,
        edited: &Transformer,
        model: &OpenModel,
        console: &mut Console,
    ) -> Result<Exported, Failure> {
        console.step("saving and loading back");
        let options = ExportOptions {
            form: self.form.whole(),
            dtype: self.dtype,
            force: self.force,
            shard_bytes: SHARD_BYTES,
            card: Card { base_model: model.place.on_hub.clone(), results: None },
            reproduce: record(model, None),
            ..ExportOptions::default()
        };
        let done = export(edited, &model.loaded.source, &options, self.output)?;
        let choice = &done.choice;
        console.detail(|| format!("form {}: {}", choice.form.name(), choice.reason));
        for warning in &done.warnings {
            console.note(&format!("note: {warning}"));
        }
        Ok(done)
    }
}

/// The form that was written, why, and notes, for results in JSON.
pub(super) fn summary(done: &Exported) -> Value {
    json!({
        "form": done.choice.form.name(), "reason": done.choice.reason, "warnings": done.warnings,
    })
}
