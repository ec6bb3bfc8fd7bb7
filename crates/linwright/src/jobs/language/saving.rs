//! Saving an edited model.

use crate::jobs::kit::outcome::apart;
use crate::jobs::kit::record::{JobRecord, ModelInput};
use crate::jobs::kit::saving::write_record;
use crate::jobs::kit::source::{OpenModel, Place};
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::form::SavedForm;
use linwright_model::checkpoint::SHARD_BYTES;
use linwright_model::checkpoint::export::{
    Card, ExportOptions, Exported, choose, export, loads_in,
};
use linwright_model::{Stored, StoredError, Transformer};
use linwright_report::AnyReport;
use linwright_run::Monitor;
use linwright_tensor::Shelf;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Options of saving an edited model.
pub(crate) struct Saving<'a> {
    pub(crate) form: SavedForm,
    pub(crate) dtype: Option<DType>,
    pub(crate) force: bool,
    pub(crate) output: &'a Path,
    /// The result of the job, for `results.json` of the model.
    pub(crate) result: &'a dyn AnyReport,
    /// Training curves as lines of JSON, which stand beside it as well; may be empty.
    pub(crate) curves: String,
}

impl Saving<'_> {
    /// Saves an edited model, loads it back, and prints warnings about its form.
    pub(crate) fn write(
        &self,
        edited: &Transformer,
        model: &OpenModel,
        session: &mut Session<'_>,
    ) -> Result<Exported, Failure> {
        self.write_with(Vec::new(), edited, model, session)
    }

    /// As [`Self::write`], with more files beside the model, by name.
    pub(crate) fn write_with(
        &self,
        files: Vec<(String, Vec<u8>)>,
        edited: &Transformer,
        model: &OpenModel,
        session: &mut Session<'_>,
    ) -> Result<Exported, Failure> {
        session.step("saving and loading back");
        let (result, measured) = apart(self.result)?;
        let mut beside = session.files_beside(&measured)?;
        beside.push(("results.json".to_owned(), format!("{result:#}\n").into_bytes()));
        if !self.curves.is_empty() {
            beside.push(("curves.jsonl".to_owned(), self.curves.clone().into_bytes()));
        }
        beside.extend(files);
        let options = ExportOptions {
            form: self.form.whole(),
            dtype: self.dtype,
            force: self.force,
            shard_bytes: SHARD_BYTES,
            card: Card { base_model: model.place.on_hub.clone(), results: None },
            reproduce: record(session, model, None).into_map()?,
            beside,
            ..ExportOptions::default()
        };
        let done = export(edited, &model.loaded.source, &options, self.output)?;
        let choice = &done.choice;
        session.detail(|| format!("form {}: {}", choice.form.name(), choice.reason));
        for warning in &done.warnings {
            session.note(&format!("note: {warning}"));
        }
        if let Some(line) = loads_in(choice.form, edited) {
            session.note(&format!("note: {line}"));
        }
        Ok(done)
    }
}

/// An edited model with the numbers that a file of it will have, by which it is judged: those of
/// its storage type, in the form in which it will be saved.
pub(crate) fn as_stored(
    edited: &Transformer,
    model: &OpenModel,
    how: (SavedForm, Option<DType>),
    shelf: Option<&Shelf>,
) -> Result<Stored, Failure> {
    let stored = stored_as(edited, model, how, shelf);
    stored.map_err(|error| Failure::general(error.to_string()))
}

/// [`as_stored`] for callers with errors of their own.
pub(crate) fn stored_as(
    edited: &Transformer,
    model: &OpenModel,
    (form, dtype): (SavedForm, Option<DType>),
    shelf: Option<&Shelf>,
) -> Result<Stored, StoredError> {
    let source = &model.loaded.source;
    let form = form.whole().unwrap_or_else(|| choose(edited, source).form);
    edited.as_stored(dtype.unwrap_or(source.dtype), form.is_dense(), shelf)
}

/// The form of a saved model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedAs {
    /// Its name.
    pub(crate) form: String,
    /// Why it was chosen.
    pub(crate) reason: String,
    /// Notes.
    pub(crate) warnings: Vec<String>,
}

impl SavedAs {
    pub(crate) fn of(done: &Exported) -> Self {
        Self {
            form: done.choice.form.name().to_owned(),
            reason: done.choice.reason.clone(),
            warnings: done.warnings.clone(),
        }
    }

    /// The form, and why it was chosen.
    pub(crate) fn line(&self) -> String {
        format!("form {}: {}", self.form, self.reason)
    }
}

/// The job and its inputs.
pub(crate) fn record(session: &Session<'_>, model: &OpenModel, base: Option<&Place>) -> JobRecord {
    let name = session.portable(&model.place.name);
    let mut inputs = vec![ModelInput::Model { model: name, sha256: model.loaded.hash.clone() }];
    inputs.extend(base.map(|base| ModelInput::Base {
        base: session.portable(&base.name),
        config: session.portable(base.path.join("config.json")),
    }));
    JobRecord::new(session, inputs)
}

/// Writes beside the results of a job the job as a recipe, times and machine, and the record by
/// which `linwright reproduce` runs it again.
pub(crate) fn write_beside(
    session: &Session<'_>,
    model: &OpenModel,
    measured: &Value,
    directory: &Path,
) -> Result<(), Failure> {
    write_record(session, &record(session, model, None), measured, directory)
}
