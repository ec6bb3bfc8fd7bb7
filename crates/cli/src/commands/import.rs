//! `linwright import`: converts checkpoints of other programs.

use super::{print, print_json};
use crate::args::Shared;
use crate::failure::Failure;
use crate::outputs;
use clap::Args;
use linwright::files::FileError;
use linwright::files::dump::import_tensors;
use linwright::model::checkpoint::llama2c::import_llama2c;
use std::path::PathBuf;

/// Convert a llama2.c checkpoint and its tokenizer to a Hugging Face directory, or tensors of other
/// programs to a directory of weights.
///
/// With --tokenizer, MODEL is a llama2.c `.bin` file. Without, MODEL is a folder of raw files with
/// `tensors.json` ({"tensors": [{name, file, shape, dtype, byte_order, transpose, offset}]}), a
/// folder with a known layout, a numpy `.npy` or `.npz` file, or a weight file; the result is
/// `model.safetensors`, without a configuration.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The weights.
    model: PathBuf,
    /// The tokenizer of a llama2.c model, `.bin`.
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Output directory.
    #[arg(short, long)]
    output: PathBuf,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ImportArgs, shared: &Shared) -> Result<(), Failure> {
    let inputs: Vec<_> =
        [Some(&args.model), args.tokenizer.as_ref()].into_iter().flatten().cloned().collect();
    outputs::directory(&args.output, args.force, &inputs)?;
    let parameters = match &args.tokenizer {
        Some(tokenizer) => {
            import_llama2c(&args.model, tokenizer, &args.output, args.force)?.parameters
        }
        None => return tensors(args, shared),
    };
    if shared.json {
        return print_json(&serde_json::json!({
            "output": args.output,
            "parameters": parameters,
        }));
    }
    print(&format!("wrote {} ({} parameters)", args.output.display(), super::grouped(parameters)))
}

/// Imports tensors that have no model configuration.
fn tensors(args: &ImportArgs, shared: &Shared) -> Result<(), Failure> {
    let imported = import_tensors(&args.model, &args.output, args.force);
    let imported = imported.map_err(|error| match error {
        FileError::Malformed { .. } => Failure::from(error)
            .hint("a llama2.c model needs --tokenizer, raw files need tensors.json"),
        other => Failure::from(other),
    })?;
    if shared.json {
        return print_json(&serde_json::json!({
            "output": args.output,
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
        args.output.display(),
        imported.tensors.len(),
        super::grouped(imported.parameters())
    ))
}
