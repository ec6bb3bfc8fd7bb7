//! The training.

use super::images::Divided;
use super::network::{self, described};
use super::{NetTrainingOptions, TrainNet};
use crate::jobs::kit::outcome::text;
use crate::jobs::kit::saving::beside_new;
use crate::jobs::kit::training::{Forward, Resumable, advised};
use crate::jobs::kit::{Failure, JobError, Outcome, Session, outputs, room};
use crate::new_model::{lines, pretty};
use linwright_nets::{Labelled, Net, NetTraining, SavedNet, Scores, TrainingPlan, score};
use linwright_ops::Network;
use linwright_report::number::{grouped, percent, seconds as duration};
use linwright_run::{Fingerprint, Monitor};
use linwright_tensor::RngKey;
use linwright_train::Outcome as Trained;
use linwright_train::{Checkpoint, OptimizerSettings, Rules, Schedule, TrainSettings, train};
use serde_json::{Value, json};

/// Factor of the first held-out loss beyond which training is stopped.
const DIVERGENCE: f64 = 10.0;
/// The learning rate ends at this share of its peak.
const FLOOR: f64 = 0.01;
/// Points of the training curve after the first.
const POINTS: u64 = 10;
/// Bytes in training for each parameter: value, gradient and two moments.
const PARAMETER_BYTES: u64 = 16;

impl NetTrainingOptions {
    /// Checks what needs no images.
    pub(in crate::jobs) fn check(&self) -> Result<(), JobError> {
        let wrong = |flag: &str, value: f64, expected: &str| {
            Err(JobError::new(format!("--{flag} {value}: expected {expected}")))
        };
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return wrong("rate", self.rate, "a finite number above zero");
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return wrong("weight-decay", self.weight_decay, "a finite number of at least zero");
        }
        Ok(())
    }

    /// The settings of a training of `steps` updates.
    pub(in crate::jobs) fn settings(&self, steps: u64) -> TrainSettings {
        let warmup = self.warmup.unwrap_or((steps / 20).min(200)).min(steps);
        let weight_decay = self.weight_decay;
        TrainSettings {
            name: "network".into(),
            steps,
            schedule: Schedule { peak: self.rate, warmup, floor: FLOOR * self.rate },
            optimizer: OptimizerSettings { weight_decay, ..OptimizerSettings::default() },
            validate_every: self.validate_every.unwrap_or(steps.div_ceil(POINTS)),
            keep_best: !self.last,
            divergence_factor: DIVERGENCE,
            rules: Rules::default(),
        }
    }
}

pub(super) fn run(job: &TrainNet, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    job.share()?;
    job.training.check()?;
    network::check(&job.net)?;
    if !job.dry_run {
        let mut inputs = outputs::inputs_of(job, session);
        inputs.extend(job.checkpoint.iter().map(|path| path.to_path_buf()));
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    session.step("reading the images");
    let planned = Planned::new(job)?;
    if job.dry_run {
        session.finish();
        let result = json!({
            "parameters": planned.net.parameters(), "images": planned.counts(),
            "steps": planned.settings.steps,
        });
        return Ok(Outcome::new(result, vec![text(planned.lines())]));
    }
    let resumable = Resumable {
        job,
        output: &job.output,
        checkpoint: job.checkpoint.as_deref(),
        every: planned.settings.validate_every,
        fingerprint: planned.fingerprint(),
    };
    resumable.run(session, |checkpoint, session| planned.train(checkpoint, session))
}

/// A network to be trained.
struct Planned<'a> {
    job: &'a TrainNet,
    divided: Divided,
    training: Labelled,
    held_out: Labelled,
    net: Net,
    key: RngKey,
    settings: TrainSettings,
}

impl<'a> Planned<'a> {
    fn new(job: &'a TrainNet) -> Result<Self, Failure> {
        let key = RngKey::new(job.seed).fold("net");
        let divided = Divided::read(job, key)?;
        let [training, held_out] = divided.labelled()?;
        let spec = described(&job.net, &divided.images, &divided.training)?;
        let numbers = spec.least_numbers()?;
        let what = || format!("training {} weights", grouped(numbers));
        room::ensure(what, &[PARAMETER_BYTES, numbers], "describe a smaller network")?;
        let net = Net::random(&spec, key.fold("weights"))?;
        for examples in [&training, &held_out] {
            examples.check(&net)?;
        }
        let of_epoch = training.len().div_ceil(job.training.batch) as u64;
        let steps = job.training.steps.unwrap_or(job.training.epochs.saturating_mul(of_epoch));
        let settings = job.training.settings(steps);
        Ok(Self { job, divided, training, held_out, net, key, settings })
    }

    /// Identifies the training in its checkpoint.
    fn fingerprint(&self) -> String {
        let NetTrainingOptions { loss, batch, .. } = self.job.training;
        Fingerprint::of(&[
            ("images", &self.divided.images.sha256()),
            ("format", &self.job.images.format),
            ("examples", &self.job.images.examples),
            ("resize", &self.job.images.resize),
            ("held out", &self.divided.held_out),
            ("net", self.net.spec()),
            ("seed", &self.job.seed),
            ("training", &(loss, batch, &self.settings)),
        ])
        .0
    }

    fn train(
        mut self,
        checkpoint: Option<&Checkpoint>,
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        session.step(&format!("training on {} images", grouped(self.training.len() as u64)));
        let (began, mut net) = (session.seconds(), self.net.clone());
        let NetTrainingOptions { loss, batch, .. } = self.job.training;
        let plan = TrainingPlan { loss, batch, key: self.key };
        let mut problem = NetTraining::new(&mut net, &self.training, &self.held_out, plan)?;
        let mut control = Forward { session: &mut *session, steps: 0 };
        let trained = train(&mut problem, &self.settings, checkpoint, &mut control);
        let (trained, steps) = (trained.map_err(advised)?, control.steps);
        let seconds = session.seconds() - began;
        let scores = score(&net, &self.held_out, session)?;
        self.net = net;
        session.step("writing");
        let found = self.found(&trained, &scores);
        let per_second = steps as f64 * batch.min(self.training.len()) as f64 / seconds;
        let measured = json!({"seconds": seconds, "images_per_second": per_second});
        let saved = self.write(&trained, &found, &measured, session)?;
        let mut result = found;
        result["output"] = json!(session.portable(&self.job.output));
        result["sha256"] = json!(saved.hash);
        for (key, value) in measured.as_object().into_iter().flatten() {
            result[key] = value.clone();
        }
        let mut lines = self.lines();
        lines.push(format!(
            "step {}: held-out cross-entropy {:.4} nats, accuracy {}",
            trained.best_step,
            scores.loss.value,
            scores.accuracy.map_or_else(String::new, |accuracy| percent(accuracy.value))
        ));
        lines.push(format!("wrote {}", session.portable(&self.job.output)));
        let speed = format!("training: {}, {per_second:.0} images/s", duration(seconds));
        let outcome = Outcome::new(result, vec![text(lines)]);
        Ok(Outcome { measured: vec![text([speed])], ..outcome })
    }

    fn counts(&self) -> Value {
        json!({
            "path": self.job.images.images, "sha256": self.divided.images.sha256(),
            "training": self.training.len(), "held_out": self.held_out.len(),
            "classes": self.divided.images.classes(),
        })
    }

    /// What the training found, without times.
    fn found(&self, trained: &Trained, scores: &Scores) -> Value {
        let accuracy = scores.accuracy;
        json!({
            "schema": 1,
            "linwright": env!("CARGO_PKG_VERSION"),
            "images": self.counts(),
            "parameters": self.net.parameters(),
            "steps": self.settings.steps,
            "best_step": trained.best_step,
            "loss": self.job.training.loss.name(),
            "held_out_loss": trained.best_loss,
            "cross_entropy": scores.loss.value,
            "cross_entropy_stderr": scores.loss.stderr,
            "acc": accuracy.map(|accuracy| accuracy.value),
            "acc_stderr": accuracy.map(|accuracy| accuracy.stderr),
        })
    }

    fn write(
        &self,
        trained: &Trained,
        found: &Value,
        measured: &Value,
        session: &Session<'_>,
    ) -> Result<SavedNet, Failure> {
        let what = format!(
            "A small network of {} parameters, trained on {} images of {} (SHA-256 {}).",
            grouped(self.net.parameters()),
            grouped(self.training.len() as u64),
            session.portable(&self.job.images.images),
            self.divided.images.sha256()
        );
        let mut files = beside_new(session, &what, measured)?;
        files.push(("results.json".to_owned(), pretty(found)));
        let curve = trained.curve.iter().map(|point| json!(point));
        files.push(("curves.jsonl".to_owned(), lines(curve)));
        Ok(self.net.save(&self.job.output, self.job.force, &files)?)
    }

    fn lines(&self) -> Vec<String> {
        vec![
            format!("{} parameters", grouped(self.net.parameters())),
            format!(
                "{} images, {} more held out, {} classes, {} steps",
                grouped(self.training.len() as u64),
                grouped(self.held_out.len() as u64),
                self.divided.images.classes(),
                grouped(self.settings.steps)
            ),
        ]
    }
}
