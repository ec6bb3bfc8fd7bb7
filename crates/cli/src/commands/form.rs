//! The forms of a saved model, and saving an edited model.

use super::export::record;
use crate::console::Console;
use crate::failure::Failure;
use crate::source::OpenModel;
use linwright::model::Transformer;
use linwright::model::checkpoint::SHARD_BYTES;
use linwright::model::checkpoint::export::{Card, ExportForm, ExportOptions, Exported, export};
use linwright::run::Monitor;
use linwright::tensor::dtype::DType;
use serde_json::{Value, json};
use std::path::Path;

/// Form of the saved model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormArg {
    /// The form that most runtimes load and that is no larger than necessary.
    Auto,
    Whole(ExportForm),
    Lora,
}

impl FormArg {
    pub(super) const ALL: [Self; 8] = [
        Self::Auto,
        Self::Whole(ExportForm::Dense),
        Self::Whole(ExportForm::Factored),
        Self::Whole(ExportForm::Width),
        Self::Whole(ExportForm::Blocks),
        Self::Lora,
        Self::Whole(ExportForm::Native),
        Self::Whole(ExportForm::Gguf),
    ];
    /// The forms of a command that edits a model: directories with `config.json`.
    pub(super) const EDITED: [Self; 6] = [
        Self::Auto,
        Self::Whole(ExportForm::Dense),
        Self::Whole(ExportForm::Factored),
        Self::Whole(ExportForm::Width),
        Self::Whole(ExportForm::Blocks),
        Self::Whole(ExportForm::Native),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Whole(form) => form.name(),
            Self::Lora => "lora",
        }
    }

    /// The requested form; none for `auto`.
    pub(super) fn whole(self) -> Option<ExportForm> {
        match self {
            Self::Whole(form) => Some(form),
            Self::Auto | Self::Lora => None,
        }
    }

    /// Whether every operator is saved as an ordinary weight.
    pub(super) fn is_dense(self) -> bool {
        self.whole().is_some_and(ExportForm::is_dense)
    }
}

/// Options of saving an edited model.
pub(super) struct Saving<'a> {
    pub(super) form: FormArg,
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
