//! `linwright import`: converts checkpoints of other programs.

use super::Import;
use super::result::ImportResult;
use crate::jobs::kit::inputs::is_local;
use crate::jobs::kit::saving::beside_new;
use crate::jobs::kit::{Failure, Job, Outcome, Session, outputs};
use linwright_files::FileError;
use linwright_files::dump::import_tensors;
use linwright_model::checkpoint::llama2c::import_llama2c;
use serde_json::Value;
use std::path::PathBuf;

pub(super) fn run(job: &Import, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let inputs = outputs::inputs_of(job, session);
    outputs::directory(&job.output, job.force, &inputs, session)?;
    // The weights are data here: no model is loaded that would hash them.
    let read: Vec<PathBuf> = job.inputs().into_iter().filter(|path| is_local(path)).collect();
    let data = session.hashes(&read)?;
    session.record_data(data);
    let from = job.model.file_name().unwrap_or_default().to_string_lossy();
    let beside =
        beside_new(session, &format!("Weights of {from} in another format."), &Value::Null)?;
    let Some(tokenizer) = &job.tokenizer else { return tensors(job, &beside, session) };
    let saved = import_llama2c(&job.model, tokenizer, &job.output, job.force, beside)?;
    Ok(Outcome::of(ImportResult {
        output: session.portable(&job.output),
        parameters: saved.parameters,
        tensors: None,
        notes: Vec::new(),
    }))
}

/// Imports tensors that have no model configuration.
fn tensors(
    job: &Import,
    beside: &[(String, Vec<u8>)],
    session: &Session<'_>,
) -> Result<Outcome, Failure> {
    let imported = import_tensors(&job.model, &job.output, job.force, beside);
    let imported = imported.map_err(|error| match error {
        FileError::Malformed { .. } => Failure::from(error)
            .hint("a llama2.c model needs --tokenizer, raw files need tensors.json"),
        other => Failure::from(other),
    })?;
    Ok(Outcome::of(ImportResult {
        output: session.portable(&job.output),
        parameters: imported.parameters(),
        tensors: Some(imported.tensors.iter().cloned().collect()),
        notes: imported.notes,
    }))
}
