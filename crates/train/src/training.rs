//! The training loop.

use crate::schedule::since_best;
use crate::{Checkpoint, Optimizer, OptimizerSettings, Plateau, Schedule, TrainError};
use linwright_tensor::MatRef;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One parameter tensor with its gradient.
#[derive(Debug)]
pub struct Slice<'a> {
    /// Unique and stable name.
    pub name: String,
    /// The numbers.
    pub values: &'a mut [f32],
    /// Gradient of the last step.
    pub gradient: Gradient<'a>,
    /// Whether weight decay applies.
    pub decay: bool,
}

/// Gradient of a parameter tensor.
#[derive(Debug)]
pub enum Gradient<'a> {
    /// One number for each of the tensor.
    Numbers(&'a mut [f32]),
    /// `dyᵀ x` with the gradient `dy` (n, out) of a linear layer's outputs and its inputs `x`
    /// (n, inp): that of its weight (out, inp). It is used as it is computed, block by block.
    Product {
        /// Gradient of the outputs.
        dy: MatRef<'a, f32>,
        /// Inputs.
        x: MatRef<'a, f32>,
    },
}

impl<'a> From<&'a mut [f32]> for Gradient<'a> {
    fn from(numbers: &'a mut [f32]) -> Self {
        Self::Numbers(numbers)
    }
}

/// Numbers other than parameters that steps change, such as running statistics.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// Unique and stable name.
    pub name: String,
    /// The numbers.
    pub values: &'a mut [f32],
}

/// A training problem: parameters, and closures for a step and for validation.
pub trait Problem {
    /// All parameters with their gradients, in a fixed order.
    fn slices(&mut self) -> Vec<Slice<'_>>;

    /// Numbers other than parameters that steps change, in a fixed order. They are part of
    /// checkpoints, and of the best parameters.
    fn buffers(&mut self) -> Vec<Buffer<'_>> {
        Vec::new()
    }

    /// Computes loss and gradients (overwriting old ones) on the batch of this step, which must
    /// depend on the step number only, so that an interrupted run can continue.
    ///
    /// # Errors
    /// Any error from the step.
    fn step(&mut self, step: u64) -> Result<f64, Box<dyn std::error::Error + Send + Sync>>;

    /// The loss on held-out data.
    ///
    /// # Errors
    /// Any error from the validation.
    fn validate(&mut self) -> Result<f64, Box<dyn std::error::Error + Send + Sync>>;
}

/// Settings of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSettings {
    /// Name of the run in messages and errors.
    pub name: String,
    /// Number of updates.
    pub steps: u64,
    /// Schedule of the step size.
    pub schedule: Schedule,
    /// Settings of Adam.
    pub optimizer: OptimizerSettings,
    /// Validation interval in steps; also before the first step and after the last.
    pub validate_every: u64,
    /// Whether to return the parameters with the lowest validation loss instead of the last ones.
    pub keep_best: bool,
    /// Divergence factor: an error if the validation loss exceeds this multiple of the first one.
    pub divergence_factor: f64,
    /// What validations change.
    #[serde(default, skip_serializing_if = "Rules::is_default")]
    pub rules: Rules,
}

/// Effect of validations on a run; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// The step size stays at its peak until validation stalls, instead of falling along a cosine.
    pub plateau: Option<Plateau>,
    /// Stop after this many validations without a lower loss.
    pub patience: Option<u64>,
    /// Validate and return moving averages of the parameters instead of themselves, with this decay
    /// per step; at most `(1 + step) / (10 + step)`, so that the start is forgotten quickly.
    pub average: Option<f64>,
}

impl Rules {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Callbacks of a training run.
pub trait Control {
    /// Called after every step.
    fn progress(&mut self, progress: &Progress<'_>);

    /// Whether to stop at the next opportunity.
    fn interrupted(&self) -> bool;
}

/// Progress of a training run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The run.
    pub name: &'a str,
    /// Steps done.
    pub step: u64,
    /// Total number of steps.
    pub steps: u64,
    /// Training loss of the last step.
    pub loss: f64,
}

/// One point of a training curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Steps done.
    pub step: u64,
    /// Mean training loss since the last point.
    pub train: f64,
    /// Validation loss.
    pub validation: f64,
}

/// A training curve: one point per validation.
pub type Curve = Vec<CurvePoint>;

/// Result of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Validation losses over the run.
    pub curve: Curve,
    /// Step of the returned parameters.
    pub best_step: u64,
    /// Their validation loss.
    pub best_loss: f64,
    /// Step at which the run continued from a checkpoint, if it did.
    pub resumed_at: Option<u64>,
    /// Steps of the run: fewer than requested if validation stalled for too long.
    pub steps: u64,
}

/// State of a run between two steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) step: u64,
    pub(crate) optimizer: Optimizer,
    pub(crate) curve: Curve,
    pub(crate) train_sum: f64,
    pub(crate) train_count: u64,
    pub(crate) best: Option<Best>,
    /// Averages of the parameters; empty without.
    pub(crate) averages: Vec<Vec<f32>>,
}

/// The best parameters so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    pub(crate) step: u64,
    pub(crate) loss: f64,
    pub(crate) values: Vec<Vec<f32>>,
    pub(crate) buffers: Vec<Vec<f32>>,
}

/// Number of trainings with a checkpoint, each of which checks after a step whether to stop.
static IN_STEPS: AtomicUsize = AtomicUsize::new(0);

/// Whether this process trains, and would write a checkpoint at the end of the step.
#[must_use]
pub fn is_in_step() -> bool {
    IN_STEPS.load(Ordering::SeqCst) > 0
}

/// Counts a training as long as it lives.
struct InSteps;

impl InSteps {
    fn new() -> Self {
        IN_STEPS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for InSteps {
    fn drop(&mut self) {
        IN_STEPS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Trains `problem` in place.
///
/// With checkpoint settings, an interrupted run continues from its last checkpoint when called
/// again with the same settings, and ends with the same bits as an uninterrupted one.
///
/// # Errors
/// [`TrainError`]: interruption, divergence, a non-finite number, a checkpoint of another run.
pub fn train(
    problem: &mut dyn Problem,
    settings: &TrainSettings,
    checkpoint: Option<&Checkpoint>,
    control: &mut dyn Control,
) -> Result<Outcome, TrainError> {
    let mut state = State::default();
    let mut resumed_at = None;
    if let Some(checkpoint) = checkpoint
        && checkpoint.restore(problem, &mut state)?
    {
        resumed_at = Some(state.step);
    }
    if state.curve.is_empty() {
        validate(problem, settings, &mut state)?;
    }
    let _in_steps = checkpoint.map(|_| InSteps::new());
    while state.step < settings.steps && !stalled(settings, &state) {
        if control.interrupted() {
            if let Some(checkpoint) = checkpoint {
                checkpoint.write(problem, &state)?;
            }
            return Err(TrainError::Interrupted { name: settings.name.clone(), step: state.step });
        }
        let loss = one_step(problem, settings, &mut state)?;
        average(problem, settings, &mut state);
        if state.step.is_multiple_of(settings.validate_every.max(1)) || state.step == settings.steps
        {
            validate(problem, settings, &mut state)?;
        }
        if let Some(checkpoint) = checkpoint
            && (state.step.is_multiple_of(checkpoint.every.max(1)) || state.step == settings.steps)
        {
            checkpoint.write(problem, &state)?;
        }
        let (name, step, steps) = (settings.name.as_str(), state.step, settings.steps);
        control.progress(&Progress { name, step, steps, loss });
    }
    Ok(finish(problem, settings, state, resumed_at))
}

fn one_step(
    problem: &mut dyn Problem,
    settings: &TrainSettings,
    state: &mut State,
) -> Result<f64, TrainError> {
    let (name, step) = (&settings.name, state.step);
    let non_finite = |what| TrainError::NonFinite { name: name.clone(), what, step };
    let loss = problem.step(step).map_err(|source| TrainError::Step {
        name: name.clone(),
        step,
        source,
    })?;
    if !loss.is_finite() {
        return Err(non_finite("the loss"));
    }
    let rate = match &settings.rules.plateau {
        Some(plateau) => plateau.rate(&settings.schedule, step, &state.curve),
        None => settings.schedule.rate(step, settings.steps),
    };
    let norm = state.optimizer.update(&settings.optimizer, rate, step + 1, problem.slices());
    if !norm.is_finite() {
        return Err(non_finite("the gradient"));
    }
    state.step += 1;
    state.train_sum += loss;
    state.train_count += 1;
    Ok(loss)
}

/// Whether the loss has not decreased for as many validations as the settings allow.
fn stalled(settings: &TrainSettings, state: &State) -> bool {
    settings.rules.patience.is_some_and(|patience| since_best(&state.curve) > patience)
}

/// Moves the averages towards the parameters.
fn average(problem: &mut dyn Problem, settings: &TrainSettings, state: &mut State) {
    let Some(decay) = settings.rules.average else { return };
    if state.averages.is_empty() {
        state.averages = problem.slices().iter().map(|slice| slice.values.to_vec()).collect();
        return;
    }
    let step = state.step as f64;
    let share = 1.0 - decay.min((1.0 + step) / (10.0 + step));
    for (slice, averages) in problem.slices().into_iter().zip(&mut state.averages) {
        for (average, value) in averages.iter_mut().zip(&*slice.values) {
            *average += share as f32 * (value - *average);
        }
    }
}

/// Exchanges parameters and averages, if there are any.
fn exchange(problem: &mut dyn Problem, state: &mut State) {
    for (slice, averages) in problem.slices().into_iter().zip(&mut state.averages) {
        slice.values.swap_with_slice(averages);
    }
}

fn validate(
    problem: &mut dyn Problem,
    settings: &TrainSettings,
    state: &mut State,
) -> Result<(), TrainError> {
    exchange(problem, state);
    let done = validate_these(problem, settings, state);
    exchange(problem, state);
    done
}

/// Validates the parameters as they are.
fn validate_these(
    problem: &mut dyn Problem,
    settings: &TrainSettings,
    state: &mut State,
) -> Result<(), TrainError> {
    let (name, step) = (&settings.name, state.step);
    let validation = problem.validate().map_err(|source| TrainError::Step {
        name: name.clone(),
        step,
        source,
    })?;
    if !validation.is_finite() {
        return Err(TrainError::NonFinite {
            name: name.clone(),
            what: "the validation loss",
            step,
        });
    }
    let train = if state.train_count == 0 {
        validation
    } else {
        state.train_sum / state.train_count as f64
    };
    (state.train_sum, state.train_count) = (0.0, 0);
    state.curve.push(CurvePoint { step, train, validation });
    let first = state.curve[0].validation;
    if validation > settings.divergence_factor * first.max(f64::MIN_POSITIVE) {
        return Err(TrainError::Diverged { name: name.clone(), step, loss: validation, first });
    }
    if settings.keep_best && state.best.as_ref().is_none_or(|best| validation < best.loss) {
        let values = problem.slices().into_iter().map(|slice| slice.values.to_vec()).collect();
        let buffers = problem.buffers().into_iter().map(|buffer| buffer.values.to_vec()).collect();
        state.best = Some(Best { step, loss: validation, values, buffers });
    }
    Ok(())
}

fn finish(
    problem: &mut dyn Problem,
    settings: &TrainSettings,
    mut state: State,
    resumed_at: Option<u64>,
) -> Outcome {
    let last = state.curve.last().map_or(f64::NAN, |point| point.validation);
    let (mut best_step, mut best_loss) = (state.step, last);
    exchange(problem, &mut state);
    if settings.keep_best
        && let Some(best) = state.best
    {
        (best_step, best_loss) = (best.step, best.loss);
        for (slice, values) in problem.slices().into_iter().zip(&best.values) {
            slice.values.copy_from_slice(values);
        }
        for (buffer, values) in problem.buffers().into_iter().zip(&best.buffers) {
            buffer.values.copy_from_slice(values);
        }
    }
    Outcome { curve: state.curve, best_step, best_loss, resumed_at, steps: state.step }
}
