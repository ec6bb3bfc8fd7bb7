//! `linwright train-lm` without a text: trains the built-in model from its seed.

use super::TrainLm;
use super::result::{PocketPlanned, PocketTrained};
use crate::jobs::kit::saving::beside_new;
use crate::jobs::kit::training::Forward;
use crate::jobs::kit::{Failure, FailureKind, Outcome, Session, outputs, store};
use crate::pocket::{PocketRecipe, Prepared};
use linwright_run::Monitor;
use linwright_run::store::Unfinished;
use serde_json::Value;
use std::path::Path;

pub(super) fn run(job: &TrainLm, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if !job.dry_run {
        let checkpoint: Vec<_> = job.checkpoint.iter().map(|path| path.to_path_buf()).collect();
        outputs::directory(&job.output, job.force, &checkpoint, session)?;
    }
    session.step("generating texts and tokenizer");
    let mut recipe = PocketRecipe::default();
    if let Some(seed) = job.seed {
        recipe.world.seed = seed;
    }
    if let Some(epochs) = job.epochs {
        recipe.epochs = epochs;
    }
    recipe.steps = job.training.steps;
    let prepared = Prepared::new(recipe)?;
    if session.interrupted() {
        return Err(Failure::new(FailureKind::Interrupted, "interrupted"));
    }
    if job.dry_run {
        session.finish();
        return Ok(Outcome::of(PocketPlanned {
            corpus_sha256: prepared.corpus_sha256().to_owned(),
            tokenizer_sha256: prepared.tokenizer_sha256().to_owned(),
            training_tokens: prepared.training_tokens(),
        }));
    }
    let unfinished = match &job.checkpoint {
        Some(_) => Unfinished::none(),
        None => store::unfinished(job, Some(&job.output), session)?,
    };
    let checkpoint =
        job.checkpoint.as_deref().map(Path::to_owned).or_else(|| unfinished.file("training"));
    session.step("training");
    let trained = prepared.train(checkpoint.as_deref(), &mut Forward { session, steps: 0 });
    let saved = trained.map_err(Failure::from).and_then(|(decoder, outcome)| {
        session.step("writing");
        let beside = beside_new(
            session,
            "A language model trained on texts of a generated world.",
            &Value::Null,
        )?;
        let saved = prepared.write(&decoder, &outcome, &job.output, job.force, beside)?;
        Ok((saved, outcome))
    });
    let (saved, outcome) = match saved {
        Ok(saved) => saved,
        Err(failure) if job.checkpoint.is_some() => return Err(failure),
        Err(failure) => return Err(store::tidy(unfinished, failure)),
    };
    store::done(unfinished, session);
    session.finish();
    Ok(Outcome::of(PocketTrained {
        output: session.portable(&job.output),
        parameters: saved.parameters,
        bytes: saved.bytes(),
        validation_loss: outcome.best_loss,
    }))
}
