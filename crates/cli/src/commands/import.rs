//! `linwright import`: checkpoints of other programs.

use super::{print, print_json};
use crate::args::Shared;
use crate::failure::Failure;
use clap::Args;
use linwright::model::checkpoint::llama2c::import_llama2c;
use std::path::PathBuf;

/// Turn a llama2.c checkpoint and its tokenizer into a Hugging Face directory.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The weights, `.bin`.
    model: PathBuf,
    /// The tokenizer, `.bin`.
    #[arg(long)]
    tokenizer: PathBuf,
    /// Directory to write.
    #[arg(short, long)]
    output: PathBuf,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ImportArgs, shared: &Shared) -> Result<(), Failure> {
    let saved = import_llama2c(&args.model, &args.tokenizer, &args.output, args.force)?;
    if shared.json {
        return print_json(&serde_json::json!({
            "output": args.output,
            "parameters": saved.parameters,
        }));
    }
    print(&format!(
        "wrote {} ({} parameters)",
        args.output.display(),
        super::grouped(saved.parameters)
    ))
}
