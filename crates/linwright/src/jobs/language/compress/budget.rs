//! The best of several methods within a share of the parameters, chosen on validation windows of
//! the calibration text.

use super::allocation::{Allocated, Dividing};
use super::edits::Edits;
use super::{Compress, MethodName, plan};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, JobError, Outcome, Session, recipe_of};
use crate::jobs::language::compare::Compares;
use linwright_compress::allocate::Allocator;
use linwright_compress::plan::Edit;
use linwright_compress::{Size, SlotSet, Unit};
use linwright_evaluate::RunOptions;
use linwright_lm::allocate::{Measured, validation_loss};
use linwright_lm::compare::{Candidate, Tried, Work, within_budget};
use linwright_model::{Transformer, Windows};
use linwright_ops::Examples;
use linwright_report::Block;
use linwright_report::number::grouped;
use linwright_run::{Fingerprint, Monitor, Shard, Store, shown};
use serde::Serialize;
use serde_json::json;

/// Checks options before any work.
pub(super) fn check(job: &Compress) -> Result<(), JobError> {
    let Some(share) = job.budget else { return Ok(()) };
    if !(share > 0.0 && share < 1.0) {
        return Err(JobError::new(format!("--budget {share}: expected a share between 0 and 1")));
    }
    match job.allocate {
        Some(Allocator::Spectrum) => Err(JobError::new(
            "--budget compares losses, which --allocate spectrum does not measure",
        )
        .hint("give --allocate sensitivity or uniform, or leave it out")),
        Some(Allocator::Uniform | Allocator::Sensitivity) | None => Ok(()),
    }
}

/// The same job with the text of `--eval` as that of the evaluation, and `--text` as calibration
/// text; none without `--eval`.
pub(super) fn two_texts(job: &Compress) -> Result<Option<Compress>, JobError> {
    let Some(text) = &job.eval else { return Ok(None) };
    let refused = |reason: &str| {
        Err(JobError::new(format!("--eval {}: {reason}", shown(text))).hint(
            "give --budget SHARE --text CALIBRATION --eval EVALUATION, or leave --eval out and give \
             --dataset CALIBRATION --text EVALUATION",
        ))
    };
    match (job.budget, &job.dataset, &job.evaluation.text) {
        (None, ..) => refused("it goes with --budget, which is not given"),
        (_, Some(_), _) => refused("--dataset and --text would both be calibration texts"),
        (_, _, None) => refused("there is no calibration text"),
        (Some(_), None, Some(calibration)) => {
            let mut job = job.clone();
            job.dataset = Some(calibration.clone());
            job.evaluation.text = job.eval.take();
            Ok(Some(job))
        }
    }
}

/// Refuses before any work a model that has no loss of the next token, or is larger than memory.
pub(super) fn check_model(model: &Transformer, is_offloaded: bool) -> Result<(), Failure> {
    let reason = match (model.config().is_causal(), is_offloaded) {
        (true, false) => return Ok(()),
        (false, _) => "the model is an encoder, and --budget chooses by the loss of the next token",
        (true, true) => "the weights stay in files, and --budget tries models held in memory",
    };
    Err(Failure::usage(reason).hint("give --method and --keep instead"))
}

/// What was tried within a budget, and what won.
#[derive(Serialize)]
pub(super) struct Budgeted {
    /// The share.
    share: f64,
    /// Tokens on which methods were judged.
    tokens: usize,
    /// Loss of the dense model on them, in nats per token.
    dense_loss: f64,
    /// Everything that was tried; the first won.
    tried: Vec<Tried>,
    /// The division over the layers, if it was tried.
    division: Option<Allocated>,
    #[serde(skip)]
    pub(super) edits: Edits,
}

impl Budgeted {
    /// The table of what was tried, and why the first won.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.4}"));
        let row = |(index, own): (usize, &Tried)| {
            let told = match (&own.reason, index) {
                (Some(reason), _) => reason.clone(),
                (None, 0) => "won".to_owned(),
                (None, _) => String::new(),
            };
            vec![own.method.clone(), number(own.keep), number(own.loss), told]
        };
        let rows = self.tried.iter().enumerate().map(row).collect();
        vec![text([self.why()]), table(&["tried", "keep", "nats/token", ""], rows)]
    }

    fn why(&self) -> String {
        let [first, others @ ..] = self.tried.as_slice() else { return String::new() };
        let next = others.iter().find(|own| own.reason.is_none());
        let next = next.and_then(|next| {
            let more = next.loss? - first.loss?;
            Some(format!(", {more:.4} nats/token less than {}", next.method))
        });
        format!(
            "{} has the least loss on {} validation tokens of the calibration text{}; the dense \
             model has {:.4}. Judge it on other text",
            first.method,
            grouped(self.tokens as u64),
            next.unwrap_or_default(),
            self.dense_loss
        )
    }
}

/// What a budget is spent on.
pub(super) struct Spending<'a> {
    pub(super) job: &'a Compress,
    pub(super) share: f64,
    pub(super) model: &'a OpenModel,
    pub(super) windows: &'a Windows,
    pub(super) store: &'a Store,
}

impl Spending<'_> {
    /// Tries every candidate, and a division over the layers of the best that has ranks.
    pub(super) fn best(&self, session: &mut Session<'_>) -> Result<Budgeted, Failure> {
        let (sites, none) = (plan::slots(self.job)?, Vec::new());
        let decoder = &self.model.loaded.decoder;
        let plan_of = |edit: Edit| plan::standard(decoder, edit, self.job.seed);
        let work = Work {
            model: decoder,
            model_hash: &self.model.loaded.hash,
            tokenizer: self.model.tokenizer()?,
            sentence: None,
            max_length: None,
            run: RunOptions::default(),
            windows: Some(self.windows),
            tasks: &none,
            sites: &sites,
            plan_of: &plan_of,
            // The winner is trained, not what is tried.
            recovery: None,
            dtype: self.model.loaded.source.dtype,
            seed: self.job.seed,
            fits: self.store,
            pieces: self.store,
            shard: Shard::WHOLE,
        };
        let print = Fingerprint::of(&[
            ("version", &session.build().version),
            ("job", &recipe_of(self.job)),
            ("model", &self.model.loaded.hash),
            ("calibration", &self.windows.identity()),
        ]);
        let candidates = Compares::candidates(&[], false);
        let tried = within_budget(&work, self.windows, &candidates, self.share, &print, session)?;
        let validation = &self.windows.windows()[self.windows.training()..];
        session.step("judging the dense model");
        let dense_loss = validation_loss(self.measured()?, session)?;
        let mut found = Budgeted {
            share: self.share,
            tokens: validation.iter().map(|window| window.len().saturating_sub(1)).sum(),
            dense_loss,
            edits: self.winner(&work, &candidates, &tried)?,
            tried,
            division: None,
        };
        self.divide(&mut found, &sites, &candidates, session)?;
        Ok(found)
    }

    fn measured(&self) -> Result<Measured<'_>, Failure> {
        let (model, tokenizer) = (&self.model.loaded.decoder, self.model.tokenizer()?);
        Ok(Measured { model, tokenizer, windows: self.windows })
    }

    /// The edits of the first candidate.
    fn winner(
        &self,
        work: &Work<'_>,
        candidates: &[Candidate],
        tried: &[Tried],
    ) -> Result<Edits, Failure> {
        let best = tried.first().filter(|own| own.reason.is_none());
        let candidate =
            best.and_then(|best| candidates.iter().find(|own| own.name() == best.method));
        match candidate {
            Some(Candidate::Sites(method)) => {
                let (sites, method) = (work.sites.clone(), method.clone());
                let size = Some(Size::Keep(self.share));
                let edit = Edit { sites, method, size, heals: false };
                Ok(Edits::Plan((work.plan_of)(edit)))
            }
            Some(Candidate::Pruned(spec)) => Ok(Edits::Pruning(spec.clone(), work.cut(self.share))),
            Some(Candidate::Rounded(_)) | None => {
                let reasons = tried.iter().filter_map(|own| own.reason.as_deref()).next();
                Err(Failure::usage(format!(
                    "no method has a model with {} of the parameters of these layers: {}",
                    self.share,
                    reasons.unwrap_or("none was tried")
                ))
                .hint("give a larger --budget"))
            }
        }
    }

    /// Tries to divide the budget over the layers by the best method with ranks, which wins if its
    /// loss is least.
    fn divide(
        &self,
        found: &mut Budgeted,
        sites: &SlotSet,
        candidates: &[Candidate],
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let ranked = |own: &&Tried| {
            let candidate = candidates.iter().find(|other| other.name() == own.method);
            let has = matches!(candidate, Some(Candidate::Sites(method))
                if method.needs_size() && method.units().contains(&Unit::Rank));
            own.reason.is_none() && has
        };
        let ranked = found.tried.iter().find(ranked).map(|own| own.method.clone());
        let (Some(name), true) = (ranked, self.job.allocate != Some(Allocator::Uniform)) else {
            return Ok(());
        };
        let job = Compress {
            budget: None,
            method: MethodName::named(&name),
            keep: Some(self.share),
            allocate: Some(Allocator::Sensitivity),
            ..self.job.clone()
        };
        let uniform = plan::plan(&job, &self.model.loaded.decoder)?;
        debug_assert_eq!(&uniform.edits[0].sites, sites);
        let (model, windows) = (self.model, Some(self.windows));
        let dividing = Dividing {
            job: &job,
            uniform: &uniform,
            model,
            calibration: windows,
            store: self.store,
        };
        let Some(division) = dividing.divided(session)? else { return Ok(()) };
        if let Some(best) = division.tried.first() {
            let method = format!("{name}, divided over the layers");
            let own = Tried { method, keep: Some(best.keep), loss: Some(best.loss), reason: None };
            let wins = best.loss < found.tried[0].loss.unwrap_or(f64::INFINITY);
            match wins {
                true => {
                    found.tried.insert(0, own);
                    found.edits = Edits::Plan(division.plan.clone());
                }
                false => {
                    let place = found.tried.iter().position(|other| {
                        other.reason.is_some() || other.loss.is_none_or(|loss| loss >= best.loss)
                    });
                    found.tried.insert(place.unwrap_or(found.tried.len()).max(1), own);
                }
            }
        }
        found.division = Some(division);
        Ok(())
    }
}

/// What would be tried.
pub(super) fn dry_run(job: &Compress, share: f64) -> Outcome {
    let candidates = Compares::candidates(&[], false);
    let row = |own: &Candidate| vec![own.name(), own.summary()];
    let rows = candidates.iter().map(row).collect();
    let divided = match job.allocate {
        Some(Allocator::Uniform) => "every layer keeps the same share",
        Some(Allocator::Spectrum | Allocator::Sensitivity) | None => {
            "the best method with ranks is tried once more, divided over the layers"
        }
    };
    let names: Vec<String> = candidates.iter().map(Candidate::name).collect();
    let result = json!({ "budget": share, "tries": names });
    let lines = [format!("tries {} methods at {share}; {divided}", candidates.len())];
    Outcome::new(result, vec![text(lines), table(&["tries", ""], rows)])
}
