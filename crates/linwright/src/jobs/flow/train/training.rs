//! The training, and what it writes.

use super::result::{FlowData, FlowPlanned, FlowTrained};
use super::{FlowNetworkOptions, FlowSetOptions, FlowTrain, FlowTrainingOptions};
use crate::jobs::kit::saving::beside_trained;
use crate::jobs::kit::training::{Forward, Resumable, advised};
use crate::jobs::kit::{Failure, JobError, Outcome, Session, outputs, room};
use linwright_flow::{
    Flow, FlowExamples, FlowPlan, FlowSpec, FlowTraining, MixNorms, MixSpec, SavedFlow,
};
use linwright_report::number::grouped;
use linwright_run::{Fingerprint, Measured, Monitor, shown};
use linwright_tensor::RngKey;
use linwright_train::{
    Checkpoint, OptimizerSettings, Outcome as Trained, Rules, Schedule, TrainSettings, train,
};

/// Default learning rates.
const IMAGE_RATE: f64 = 1e-3;
const POINT_RATE: f64 = 5e-3;
/// The learning rate ends at this share of its peak.
const FLOOR: f64 = 0.01;
/// Points of the curve after the first.
const POINTS: u64 = 10;
/// Default share of the examples that is held out.
const HELD_OUT_SHARE: f64 = 0.1;
/// Default largest norm of a gradient, in bits per dimension.
const CLIP: f64 = 10.0;
/// Bytes in training for each parameter: value, gradient, two moments, the best, averages.
const PARAMETER_BYTES: u64 = 24;

/// Reads `16,16`.
pub(in crate::jobs) fn size(resize: Option<&str>) -> Result<Option<[usize; 2]>, Failure> {
    let Some(text) = resize else { return Ok(None) };
    let wrong = || {
        let text = shown(text);
        Failure::usage(format!("--resize {text}: expected height and width, such as 16,16"))
    };
    let (height, width) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    Ok(Some([number(height)?, number(width)?]))
}

impl FlowTrainingOptions {
    /// Checks what needs no data.
    fn check(&self) -> Result<(), JobError> {
        let wrong = |flag: &str, value: f64, expected: &str| {
            Err(JobError::new(format!("--{flag}{value}: expected {expected}")))
        };
        for (flag, value) in [("rate ", self.rate), ("training clip=", self.clip)] {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
                return wrong(flag, value, "a finite number above zero");
            }
        }
        if let Some(average) = self.average.filter(|share| !(0.0..1.0).contains(share)) {
            return wrong("training average=", average, "a number of at least 0 and below 1");
        }
        Ok(())
    }

    /// The settings of a training; `validation` is the number of batches of a validation.
    fn settings(&self, spec: &FlowSpec, validation: usize) -> TrainSettings {
        let steps = self.steps;
        // Validations take no longer than the training itself.
        let tenth = steps.div_ceil(POINTS).max(validation as u64).min(steps);
        let rate = self.rate.unwrap_or(if spec.is_image() { IMAGE_RATE } else { POINT_RATE });
        let warmup = self.warmup.unwrap_or((steps / 10).min(500)).min(steps);
        let clip_norm = Some(self.clip.unwrap_or(CLIP));
        let (kind, average, patience) = (self.optimizer, self.average, self.patience);
        TrainSettings {
            name: "flow".into(),
            steps,
            schedule: Schedule { peak: rate, warmup, floor: FLOOR * rate },
            optimizer: OptimizerSettings { clip_norm, kind, ..OptimizerSettings::default() },
            validate_every: self.validate_every.unwrap_or(tenth),
            keep_best: !self.last,
            // Bits of points may be below zero, of which no multiple is a limit.
            divergence_factor: f64::INFINITY,
            rules: Rules { average, patience, ..Rules::default() },
        }
    }
}

impl FlowSetOptions {
    /// Rejects options that do not apply to the data.
    fn check(&self, examples: &FlowExamples) -> Result<(), Failure> {
        let drawn = examples.count().is_none();
        let is_image = examples.extent().places() > 1;
        let flag = match self {
            Self { resize: Some(_), .. } if !is_image => "--resize: points have no size",
            Self { limit: Some(_), .. } if drawn => "--limit: fresh points are drawn in each step",
            Self { held_out_share: Some(_), .. } if drawn => {
                "--held-out-share: fresh points are drawn in each step"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(flag).hint("leave it out, or give a file as --data"))
    }
}

impl FlowNetworkOptions {
    /// The flow for some data.
    fn spec(&self, examples: &FlowExamples) -> Result<FlowSpec, Failure> {
        let layer = MixSpec::parse(&self.layer)?;
        let mut spec = FlowSpec::for_data(examples.extent(), examples.values(), layer);
        spec.levels = self.levels.unwrap_or(spec.levels);
        spec.steps = self.depth.unwrap_or(spec.steps);
        spec.hidden = self.hidden.unwrap_or(spec.hidden);
        (spec.squeeze, spec.shuffle) = (self.squeeze, self.shuffle);
        spec.check()?;
        Ok(spec)
    }
}

pub(super) fn run(job: &FlowTrain, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    job.training.check()?;
    MixSpec::parse(&job.network.layer)?;
    if !job.dry_run {
        let mut inputs = outputs::inputs_of(job, session);
        inputs.extend(job.checkpoint.iter().map(|path| path.to_path_buf()));
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    session.step("reading the data");
    let prepared = Prepared::new(job)?;
    prepared.examples.notes().iter().for_each(|note| session.note(note));
    if job.dry_run {
        session.finish();
        return Ok(Outcome::of(prepared.planned()));
    }
    let resumable = Resumable {
        job,
        output: &job.output,
        checkpoint: job.checkpoint.as_deref(),
        every: prepared.settings.validate_every,
        fingerprint: prepared.fingerprint(),
    };
    resumable.run(session, |checkpoint, session| prepared.train(checkpoint, session))
}

/// A flow to be trained, with its data.
struct Prepared<'a> {
    job: &'a FlowTrain,
    examples: FlowExamples,
    flow: Flow,
    plan: FlowPlan,
    settings: TrainSettings,
}

impl<'a> Prepared<'a> {
    fn new(job: &'a FlowTrain) -> Result<Self, Failure> {
        let key = RngKey::new(job.seed).fold("flow");
        let examples = FlowExamples::open(&job.data, size(job.sets.resize.as_deref())?)?;
        job.sets.check(&examples)?;
        let spec = job.network.spec(&examples)?;
        let numbers = spec.least_numbers();
        let what = || format!("training a flow of {} numbers", grouped(numbers));
        room::ensure(
            what,
            &[PARAMETER_BYTES, numbers],
            "choose a smaller hidden or depth by --architecture",
        )?;
        let flow = Flow::random(&spec, key.fold("numbers"))?;
        let (training, held_out) = divided(job, &examples, key)?;
        let batch = job.training.batch.unwrap_or(if spec.is_image() { 64 } else { 256 });
        let plan = FlowPlan { training, held_out, batch, key };
        let settings = job.training.settings(&spec, plan.held_out.len().div_ceil(plan.batch));
        Ok(Self { job, examples, flow, plan, settings })
    }

    /// Identifies the training in its checkpoint.
    fn fingerprint(&self) -> String {
        Fingerprint::of(&[
            ("data", &self.examples.sha256()),
            ("held out", &self.plan.held_out),
            ("trained on", &self.plan.training.len()),
            ("flow", self.flow.spec()),
            ("seed", &self.job.seed),
            ("training", &(self.plan.batch, &self.settings)),
        ])
        .0
    }

    fn train(
        mut self,
        checkpoint: Option<&Checkpoint>,
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        session.step("training");
        let (began, mut flow) = (session.seconds(), self.flow.clone());
        let mut problem = FlowTraining::new(&mut flow, &self.examples, self.plan.clone())?;
        let mut control = Forward { session: &mut *session, steps: 0 };
        let trained = train(&mut problem, &self.settings, checkpoint, &mut control);
        let (trained, steps) = (trained.map_err(advised)?, control.steps);
        let seconds = session.seconds() - began;
        self.flow = flow;
        let norms = self.flow.norms()?;
        session.step("writing");
        let mut result = FlowTrained {
            planned: self.planned(),
            steps: trained.steps,
            best_step: trained.best_step,
            bits_per_dim: trained.best_loss,
            entropy: self.examples.entropy(),
            condition: worst(&norms),
            output: None,
            sha256: None,
            seconds: Measured(seconds),
            steps_per_second: Measured(steps as f64 / seconds.max(1e-9)),
        };
        let saved = self.write(&trained, &result, session)?;
        result.output = Some(session.portable(&self.job.output));
        result.sha256 = Some(saved.hash);
        Ok(Outcome::of(result))
    }

    fn planned(&self) -> FlowPlanned {
        let drawn = self.examples.count().is_none();
        let count = |indices: &[u32]| (!drawn).then_some(indices.len());
        FlowPlanned {
            flow: self.flow.spec().clone(),
            parameters: self.flow.parameters(),
            mixing_parameters: self.flow.mixing_parameters(),
            data: FlowData {
                path: self.job.data.clone(),
                sha256: self.examples.sha256().to_owned(),
                training: count(&self.plan.training),
                held_out: count(&self.plan.held_out),
                extent: self.examples.extent(),
                changes: self.examples.notes().to_vec(),
            },
            planned_steps: self.settings.steps,
        }
    }

    fn write(
        &self,
        trained: &Trained,
        result: &FlowTrained,
        session: &Session<'_>,
    ) -> Result<SavedFlow, Failure> {
        let what = format!(
            "A normalizing flow of {} parameters with layer {}, trained on {} (SHA-256 {}).",
            grouped(self.flow.parameters()),
            self.flow.spec().layer,
            session.portable(&self.job.data),
            self.examples.sha256()
        );
        let files = beside_trained(session, &what, result, &trained.curve)?;
        Ok(self.flow.save(&self.job.output, self.job.force, &files)?)
    }
}

/// The largest condition of a mix.
pub(in crate::jobs) fn worst(norms: &[MixNorms]) -> f64 {
    norms.iter().map(|norms| norms.condition).fold(1.0, f64::max)
}

/// Examples that are trained on, and those that are held out.
fn divided(
    job: &FlowTrain,
    examples: &FlowExamples,
    key: RngKey,
) -> Result<(Vec<u32>, Vec<u32>), Failure> {
    let share = job.sets.held_out_share.unwrap_or(HELD_OUT_SHARE);
    if !(share > 0.0 && share < 1.0) {
        let expected = "expected a share above 0 and below 1";
        return Err(Failure::usage(format!("--held-out-share {share}: {expected}")));
    }
    let Some(all) = examples.count() else { return Ok((Vec::new(), Vec::new())) };
    let count = all.min(job.sets.limit.unwrap_or(all)).min(u32::MAX as usize);
    if count < 2 {
        let message = format!("{}: {count} examples, expected at least two", job.data);
        return Err(Failure::usage(message).hint("one is held out"));
    }
    let held = ((count as f64 * share).round() as usize).clamp(1, count - 1);
    let mut order = key.fold("held out").stream().permutation(count);
    let mut held_out = order.split_off(count - held);
    order.sort_unstable();
    held_out.sort_unstable();
    Ok((order, held_out))
}
