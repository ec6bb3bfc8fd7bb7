//! `linwright import`: converts checkpoints of other programs.

use super::{print, print_json};
use crate::args::Shared;
use crate::face::Verb;
use crate::failure::Failure;
use crate::outputs;
use linwright::files::FileError;
use linwright::files::dump::import_tensors;
use linwright::jobs::Import;
use linwright::model::checkpoint::llama2c::import_llama2c;

pub(crate) type ImportArgs = Verb<Import>;

pub(crate) fn run(job: &Import, shared: &Shared) -> Result<(), Failure> {
    let inputs: Vec<_> =
        [Some(&job.model), job.tokenizer.as_ref()].into_iter().flatten().cloned().collect();
    outputs::directory(&job.output, job.force, &inputs)?;
    let parameters = match &job.tokenizer {
        Some(tokenizer) => {
            import_llama2c(&job.model, tokenizer, &job.output, job.force)?.parameters
        }
        None => return tensors(job, shared),
    };
    if shared.json {
        return print_json(&serde_json::json!({
            "output": job.output,
            "parameters": parameters,
        }));
    }
    print(&format!("wrote {} ({} parameters)", job.output.display(), super::grouped(parameters)))
}

/// Imports tensors that have no model configuration.
fn tensors(job: &Import, shared: &Shared) -> Result<(), Failure> {
    let imported = import_tensors(&job.model, &job.output, job.force);
    let imported = imported.map_err(|error| match error {
        FileError::Malformed { .. } => Failure::from(error)
            .hint("a llama2.c model needs --tokenizer, raw files need tensors.json"),
        other => Failure::from(other),
    })?;
    if shared.json {
        return print_json(&serde_json::json!({
            "output": job.output,
            "parameters": imported.parameters(),
            "tensors": imported.tensors.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "notes": imported.notes,
        }));
    }
    for note in &imported.notes {
        print(&format!("note: {note}"))?;
    }
    print(&format!(
        "wrote {} ({} tensors, {} parameters)",
        job.output.display(),
        imported.tensors.len(),
        super::grouped(imported.parameters())
    ))
}
