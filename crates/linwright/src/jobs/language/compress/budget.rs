//! The best of several methods within a share of the parameters, chosen on validation windows of
//! the calibration text.

use super::allocation::{Allocated, Dividing};
use super::edits::Edits;
use super::result::BudgetPlanned;
use super::spec::{Budget, Share, Slots};
use super::{Compress, MethodTerm, plan};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, JobError, Outcome, Session, recipe_of};
use crate::jobs::language::compare::standard_candidates;
use linwright_compare::Way;
use linwright_compress::allocate::Allocator;
use linwright_compress::plan::Edit;
use linwright_compress::{Plan, Size, SlotSet, Unit};
use linwright_evaluate::{LastOutputs, RunOptions};
use linwright_lm::allocate::{Measured, validation_loss};
use linwright_lm::compare::{Candidate, Tried, Work, within_budget};
use linwright_model::{Transformer, Windows};
use linwright_ops::Examples;
use linwright_report::Block;
use linwright_report::number::grouped;
use linwright_run::{Fingerprint, Monitor, Shard, Store};
use serde::{Deserialize, Serialize};

/// The share with the layers that it counts, checked before any work.
pub(super) fn resolved(job: &Compress) -> Result<Budget, JobError> {
    let given = [("heal", job.heal.is_some()), ("offload", job.offload)];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        return Err(JobError::new(format!(
            "--{flag} cannot be used with --method best, which tries several"
        )));
    }
    let share = job.size().and_then(|size| size.keep()).ok_or_else(|| {
        JobError::new("--method best needs a share of parameters").hint("give --keep SHARE")
    })?;
    if !(share > 0.0 && share < 1.0) {
        return Err(JobError::new(format!("--keep {share}: expected a share between 0 and 1")));
    }
    let given = job.allocate.as_deref();
    let is_divided = match given.map(|given| given.allocator) {
        Some(Allocator::Spectrum) => {
            return Err(JobError::new(
                "--method best compares losses, which --allocate spectrum does not measure",
            )
            .hint("give --allocate sensitivity or uniform, or leave it out"));
        }
        Some(Allocator::Uniform) => false,
        Some(Allocator::Sensitivity) | None => true,
    };
    Ok(Budget {
        share,
        slots: job.slots.set()?,
        is_divided,
        align: given.and_then(|given| given.align),
    })
}

/// Refuses before any work a model that has no loss of the next token, or is larger than memory.
pub(super) fn check_model(model: &Transformer, is_offloaded: bool) -> Result<(), Failure> {
    let reason = match (model.config().is_causal(), is_offloaded) {
        (true, false) => return Ok(()),
        (false, _) => {
            "the model is an encoder, and --method best chooses by the loss of the next token"
        }
        (true, true) => "the weights stay in files, and --method best tries models held in memory",
    };
    Err(Failure::usage(reason).hint("give another --method"))
}

/// What was tried within a budget, and what won.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Budgeted {
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
    pub(super) budget: &'a Budget,
    pub(super) model: &'a OpenModel,
    pub(super) windows: &'a Windows,
    pub(super) store: &'a Store,
}

impl Spending<'_> {
    /// Tries every candidate, and a division over the layers of the best that has ranks.
    pub(super) fn best(&self, session: &mut Session<'_>) -> Result<(Budgeted, Edits), Failure> {
        let (sites, none) = (self.budget.slots.clone(), Vec::new());
        let outputs = LastOutputs::default();
        let decoder = &self.model.loaded.decoder;
        let plan_of = |edit: Edit| plan::standard(decoder, edit, self.job.seed);
        let work = Work {
            model: decoder,
            model_hash: &self.model.loaded.hash,
            outputs: &outputs,
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
        let candidates = standard_candidates();
        let tried =
            within_budget(&work, self.windows, &candidates, self.budget.share, &print, session)?;
        let validation = &self.windows.windows()[self.windows.training()..];
        session.step("judging the dense model");
        let dense_loss = validation_loss(self.measured()?, session)?;
        let winner = self.winner(&work, &candidates, &tried)?;
        let mut found = Budgeted {
            share: self.budget.share,
            tokens: validation.iter().map(|window| window.len().saturating_sub(1)).sum(),
            dense_loss,
            tried,
            division: None,
        };
        let divided = self.divide(&mut found, &sites, &candidates, session)?;
        Ok((found, divided.map_or(winner, Edits::Plan)))
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
                let size = Some(Size::Keep(self.budget.share));
                let edit = Edit { sites, method, size, heals: false };
                Ok(Edits::Plan((work.plan_of)(edit)))
            }
            Some(Candidate::Pruned(spec)) => {
                Ok(Edits::Pruning(spec.clone(), work.cut(self.budget.share)))
            }
            Some(Candidate::Rounded(_)) | None => {
                let reasons = tried.iter().filter_map(|own| own.reason.as_deref()).next();
                Err(Failure::usage(format!(
                    "no method has a model with {} of the parameters of these layers: {}",
                    self.budget.share,
                    reasons.unwrap_or("none was tried")
                ))
                .hint("give a larger --keep"))
            }
        }
    }

    /// Tries to divide the budget over the layers by the best method with ranks; gives the plan if
    /// its loss is least.
    fn divide(
        &self,
        found: &mut Budgeted,
        sites: &SlotSet,
        candidates: &[Candidate],
        session: &mut Session<'_>,
    ) -> Result<Option<Plan>, Failure> {
        let ranked = |own: &&Tried| {
            let candidate = candidates.iter().find(|other| other.name() == own.method);
            let has = matches!(candidate, Some(Candidate::Sites(method))
                if method.needs_size() && method.units().contains(&Unit::Rank));
            own.reason.is_none() && has
        };
        let ranked = found.tried.iter().find(ranked).map(|own| own.method.clone());
        let (Some(name), true) = (ranked, self.budget.is_divided) else { return Ok(None) };
        let share = Share { keep: self.budget.share, align: self.budget.align };
        let size = Some(Size::Keep(share.keep));
        let method = plan::method_of(MethodTerm::named(&name).as_ref(), size)?;
        let slots = Slots::divided(sites, method, share);
        let uniform = slots.plan(&self.model.loaded.decoder, self.job.seed)?;
        debug_assert_eq!(&uniform.edits[0].sites, sites);
        let dividing = Dividing {
            slots: &slots,
            seed: self.job.seed,
            uniform: &uniform,
            model: self.model,
            calibration: Some(self.windows),
            store: self.store,
        };
        let Some(mut division) = dividing.divided(session)? else { return Ok(None) };
        let plan = division.plan.take();
        let mut winner = None;
        if let Some(best) = division.tried.first() {
            let method = format!("{name}, divided over the layers");
            let own = Tried { method, keep: Some(best.keep), loss: Some(best.loss), reason: None };
            let wins = best.loss < found.tried[0].loss.unwrap_or(f64::INFINITY);
            match wins {
                true => {
                    found.tried.insert(0, own);
                    winner = plan;
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
        Ok(winner)
    }
}

/// What would be tried.
pub(super) fn dry_run(budget: &Budget) -> Outcome {
    let candidates = standard_candidates();
    Outcome::of(BudgetPlanned {
        budget: budget.share,
        tries: candidates.iter().map(Candidate::name).collect(),
        about: candidates.iter().map(Candidate::summary).collect(),
        is_divided: budget.is_divided,
    })
}
