//! Recovery: training of replaced operators on the loss of the whole network.
//!
//! A fit minimises the error of the outputs of its own layer. Recovery starts where the fits end
//! and lowers the loss on the training examples by Adam, over the parameters of the replaced
//! operators and the biases of their slots. Everything else stays as it is, bit for bit. A weight
//! that was cut and is held dense stays too: training would fill in what was cut.
//!
//! Held-out examples choose the step whose parameters are returned. If no step lowers their loss,
//! the operators stay as the fits left them.
//!
//! Memory beside the network: for each trained number its gradient, two moments and its best value,
//! 16 bytes in all, and 16 more while a checkpoint is written; the activations of one batch and the
//! intermediate results of one operator. Frozen weights have no gradients and may be held in 16
//! bits.
//!
//! Source: the parameter update after truncation of SVD-LLM (Wang et al. 2024, arXiv:2403.07378).
//! Deviation: both factors are trained at once, and directly, not one after the other by a low-rank
//! update of each.

mod estimate;
mod gradients;
mod problem;
mod stored;
#[cfg(test)]
mod tests;

pub use estimate::{BYTES_PER_PARAMETER, RecoveryEstimate, estimate};

use crate::CompressError;
use crate::pipeline::{Context, Edited, Forward, SiteOutcome};
use linwright_ops::{Differentiable, Examples, LinearSlot, SiteId, Sites};
use linwright_run::{Fingerprint, Measured, Monitor, sha256_hex};
use linwright_tensor::{RngKey, index_bytes, little_endian_bytes};
use linwright_train::{
    Checkpoint, Curve, OptimizerSettings, Outcome, Rules, Schedule, TrainSettings, train,
};
use problem::Recovering;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Name of the stage in messages.
const NAME: &str = "recovery training";
/// Steps between two checkpoints.
const CHECKPOINT_EVERY: u64 = 20;
/// Number of validations after the first one.
const VALIDATIONS: u64 = 10;
/// Largest norm of the gradient, and decay of its second moment, as for new language models.
const CLIP_NORM: f64 = 1.0;
const BETA2: f64 = 0.95;

/// Settings of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// Number of updates, each on one batch of the examples.
    pub steps: u64,
    /// Largest step size of Adam; it rises over the first twentieth of the steps and falls to zero.
    pub rate: f64,
    /// Seed of the order of the batches.
    pub seed: u64,
}

/// Examples with the target of each row.
pub struct Supervised<'a, I> {
    /// The examples; those for validation are held out.
    pub examples: &'a dyn Examples<I>,
    /// Targets of a batch, given with its number: one class or token for each row of the output,
    /// `u32::MAX` for a row without one.
    pub targets: &'a dyn Fn(usize, &I) -> Vec<u32>,
}

impl<I> Clone for Supervised<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Supervised<'_, I> {}

/// What a recovery did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryReport {
    /// Number of updates.
    pub steps: u64,
    /// Largest step size.
    pub rate: f64,
    /// Number of trained parameters, biases included.
    pub parameters: u64,
    /// Number of held-out targets.
    pub held_out: u64,
    /// Loss on the held-out examples before, in nats per target.
    pub loss_before: f64,
    /// The same of the returned network.
    pub loss_after: f64,
    /// Step of the returned parameters; zero if no step lowered the held-out loss.
    pub best_step: u64,
    /// Whether the parameters changed: false if no step lowered the held-out loss.
    pub kept: bool,
    /// Losses over the run.
    pub curve: Curve,
    /// Time in seconds.
    #[serde(default)]
    pub seconds: Measured<f64>,
}

impl Recovery {
    /// Checks the settings.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub fn check(&self) -> Result<(), String> {
        if self.steps == 0 {
            return Err("it has 0 steps, at least 1 is needed".into());
        }
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return Err(format!("its rate is {}, expected a positive number", self.rate));
        }
        Ok(())
    }

    fn training(&self) -> TrainSettings {
        TrainSettings {
            name: NAME.into(),
            steps: self.steps,
            schedule: Schedule { peak: self.rate, warmup: self.steps / 20, floor: 0.0 },
            optimizer: OptimizerSettings {
                beta2: BETA2,
                clip_norm: Some(CLIP_NORM),
                ..OptimizerSettings::default()
            },
            validate_every: self.steps.div_ceil(VALIDATIONS).max(1),
            keep_best: true,
            // A loss that grew is no error: the best parameters are returned.
            divergence_factor: f64::INFINITY,
            rules: Rules::default(),
        }
    }

    fn report(
        &self,
        problem: &Recovering<'_, impl Differentiable>,
        done: Outcome,
    ) -> RecoveryReport {
        RecoveryReport {
            steps: self.steps,
            rate: self.rate,
            parameters: problem.parameters(),
            held_out: problem.held_out(),
            loss_before: done.curve.first().map_or(done.best_loss, |point| point.validation),
            loss_after: done.best_loss,
            best_step: done.best_step,
            kept: done.best_step > 0,
            curve: done.curve,
            seconds: Measured::default(),
        }
    }
}

/// Trains the replaced operators of an edited network in place.
///
/// With a store, an interrupted run resumes and ends with the bits of an uninterrupted one. The
/// result depends on no number of threads.
///
/// # Errors
/// [`CompressError::Recovery`] if the training fails, for example by a loss that is not finite;
/// [`CompressError::NoRecovery`] without parameters or targets; [`CompressError::Store`].
pub fn recover<N: Differentiable>(
    edited: &mut Edited<N>,
    examples: &Supervised<'_, N::Input>,
    settings: &Recovery,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<RecoveryReport, CompressError> {
    settings.check().map_err(|reason| CompressError::NoRecovery { reason })?;
    let began = monitor.seconds();
    monitor.step(NAME);
    let print = print(edited, examples, settings, context);
    let (trained, frozen) = sites(edited);
    let key = RngKey::new(settings.seed).fold(NAME);
    let mut problem = Recovering::new(&mut edited.network, &trained, &frozen, *examples, key)?;
    if let Some(store) = context.store
        && let Some(report) = stored::get(store, &print, &mut problem)?
    {
        return Ok(report);
    }
    let unfinished = context.store.map(|store| store.unfinished(&print, NAME)).transpose()?;
    let path = unfinished.as_ref().and_then(|work| work.file("training"));
    let fingerprint = print.0.clone();
    let checkpoint = path.map(|path| Checkpoint { path, every: CHECKPOINT_EVERY, fingerprint });
    let control = &mut Forward(monitor);
    let outcome = train(&mut problem, &settings.training(), checkpoint.as_ref(), control)
        .map_err(CompressError::Recovery)?;
    let mut report = settings.report(&problem, outcome);
    report.seconds = Measured(monitor.seconds() - began);
    if let Some(store) = context.store {
        stored::put(store, &print, &mut problem, &report)?;
    }
    if let Some(unfinished) = unfinished {
        unfinished.finish()?;
    }
    drop(problem);
    edited.network.release_scratch();
    Ok(report)
}

/// The slots whose operators are trained, and the replaced ones of which only the bias is.
fn sites<N: Sites>(edited: &Edited<N>) -> (BTreeSet<SiteId>, BTreeSet<SiteId>) {
    let is_dense = |site: &SiteId| {
        let slot = edited.network.slot(site);
        slot.is_some_and(|slot| slot.op().map().weight().is_some())
    };
    // Layers may be gone.
    let is_there = |site: &&SiteOutcome| edited.network.slot(&site.site).is_some();
    let replaced = edited.sites.iter().filter(is_there).filter(|site| !site.heals);
    let (frozen, trained): (Vec<_>, Vec<_>) =
        replaced.partition(|site| site.fit.cut.is_some() && is_dense(&site.site));
    let [trained, frozen] =
        [trained, frozen].map(|sites| sites.into_iter().map(|site| site.site.clone()).collect());
    (trained, frozen)
}

/// Identifies a recovery by everything that it depends on: everything outside the edited slots is
/// that of the original model.
fn print<N: Sites, I>(
    edited: &Edited<N>,
    examples: &Supervised<'_, I>,
    settings: &Recovery,
    context: &Context<'_>,
) -> Fingerprint {
    let slots = edited.sites.iter().filter_map(|site| edited.network.slot(&site.site));
    let slots: Vec<(&SiteId, Vec<String>)> = slots.map(|slot| (slot.id(), hashes(slot))).collect();
    let Supervised { examples, targets } = *examples;
    // Examples are identified without their targets.
    let targets = |index| sha256_hex(index_bytes(&targets(index, &examples.batch(index))));
    let targets: Vec<String> = (0..examples.batches()).map(targets).collect();
    Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("work", &NAME),
        ("model", &context.model_hash),
        ("examples", &examples.identity()),
        ("targets", &targets),
        ("settings", settings),
        ("slots", &slots),
    ])
}

/// Hashes of the parameters of a slot.
fn hashes(slot: &LinearSlot) -> Vec<String> {
    let params = slot.op().map().params();
    let values = params.iter().map(|param| param.values).chain(slot.bias());
    values.map(|values| sha256_hex(little_endian_bytes(values))).collect()
}
