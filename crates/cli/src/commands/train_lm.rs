//! `linwright train-lm`: trains the built-in model from its seed.

use super::{print, print_json};
use crate::args::Shared;
use crate::console::Console;
use crate::failure::{Failure, Kind};
use crate::outputs;
use clap::Args;
use linwright::pocket::{PocketRecipe, Prepared};
use linwright::run::Monitor;
use linwright::train::{Control, Progress};
use std::path::PathBuf;

/// Train the built-in model again: generated texts, tokenizer, training, questions.
///
/// The same seed gives the same texts and tokenizer. Run the same command again to resume training
/// from its checkpoint.
#[derive(Debug, Args)]
pub(crate) struct TrainLmArgs {
    /// Output directory.
    #[arg(short, long)]
    output: PathBuf,
    /// Seed of the generated world, its texts and the training.
    #[arg(long)]
    seed: Option<u64>,
    /// Epochs over the training text.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// Training checkpoint [default: next to the output].
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
    /// Generate texts and tokenizer, print their hashes, and stop.
    #[arg(long, alias = "dry_run")]
    dry_run: bool,
}

pub(crate) fn run(args: &TrainLmArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if !args.dry_run {
        let checkpoint: Vec<_> = args.checkpoint.iter().cloned().collect();
        outputs::directory(&args.output, args.force, &checkpoint)?;
    }
    console.step("generating texts and tokenizer");
    let mut recipe = PocketRecipe::default();
    if let Some(seed) = args.seed {
        recipe.world.seed = seed;
    }
    if let Some(epochs) = args.epochs {
        recipe.epochs = epochs;
    }
    let prepared = Prepared::new(recipe)?;
    if console.interrupted() {
        return Err(Failure::new(Kind::Interrupted, "interrupted"));
    }
    if args.dry_run {
        console.finish();
        return print_json(&serde_json::json!({
            "corpus_sha256": prepared.corpus_sha256(),
            "tokenizer_sha256": prepared.tokenizer_sha256(),
            "training_tokens": prepared.training_tokens(),
        }));
    }
    let checkpoint = args.checkpoint.clone().unwrap_or_else(|| {
        let mut name = args.output.file_name().unwrap_or_default().to_owned();
        name.push(".ckpt");
        args.output.with_file_name(name)
    });
    console.step("training");
    let (decoder, outcome) = prepared.train(Some(&checkpoint), &mut Forward(&mut console))?;
    console.step("writing");
    let saved = prepared.write(&decoder, &outcome, &args.output, args.force)?;
    console.finish();
    if shared.json {
        return print_json(&serde_json::json!({
            "output": args.output, "parameters": saved.parameters, "bytes": saved.bytes(),
            "validation_loss": outcome.best_loss,
        }));
    }
    print(&format!(
        "wrote {} ({} parameters, {} bytes); validation loss {:.4}",
        args.output.display(),
        super::grouped(saved.parameters),
        super::grouped(saved.bytes()),
        outcome.best_loss
    ))
}

struct Forward<'a>(&'a mut Console);

impl Control for Forward<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.0.progress(progress.step, progress.steps);
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}
