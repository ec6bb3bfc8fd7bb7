//! `linwright train-lm`: trains the built-in model from its seed.

use super::{print, print_json};
use crate::args::Shared;
use crate::console::Console;
use crate::face::Verb;
use crate::failure::{Failure, Kind};
use crate::outputs;
use linwright::jobs::TrainLm;
use linwright::pocket::{PocketRecipe, Prepared};
use linwright::run::Monitor;
use linwright::train::{Control, Progress};

pub(crate) type TrainLmArgs = Verb<TrainLm>;

pub(crate) fn run(job: &TrainLm, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if !job.dry_run {
        let checkpoint: Vec<_> = job.checkpoint.iter().cloned().collect();
        outputs::directory(&job.output, job.force, &checkpoint)?;
    }
    console.step("generating texts and tokenizer");
    let mut recipe = PocketRecipe::default();
    if let Some(seed) = job.seed {
        recipe.world.seed = seed;
    }
    if let Some(epochs) = job.epochs {
        recipe.epochs = epochs;
    }
    let prepared = Prepared::new(recipe)?;
    if console.interrupted() {
        return Err(Failure::new(Kind::Interrupted, "interrupted"));
    }
    if job.dry_run {
        console.finish();
        return print_json(&serde_json::json!({
            "corpus_sha256": prepared.corpus_sha256(),
            "tokenizer_sha256": prepared.tokenizer_sha256(),
            "training_tokens": prepared.training_tokens(),
        }));
    }
    let checkpoint = job.checkpoint.clone().unwrap_or_else(|| {
        let mut name = job.output.file_name().unwrap_or_default().to_owned();
        name.push(".ckpt");
        job.output.with_file_name(name)
    });
    console.step("training");
    let (decoder, outcome) = prepared.train(Some(&checkpoint), &mut Forward(&mut console))?;
    console.step("writing");
    let saved = prepared.write(&decoder, &outcome, &job.output, job.force)?;
    console.finish();
    if shared.json {
        return print_json(&serde_json::json!({
            "output": job.output, "parameters": saved.parameters, "bytes": saved.bytes(),
            "validation_loss": outcome.best_loss,
        }));
    }
    print(&format!(
        "wrote {} ({} parameters, {} bytes); validation loss {:.4}",
        job.output.display(),
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
