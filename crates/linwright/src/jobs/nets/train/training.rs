//! The training.

use super::images::Divided;
use super::network::{self, described};
use super::result::{ImagesDivided, NetPlanned, NetTrained};
use super::{NetTrainingOptions, TrainNet};
use crate::jobs::kit::saving::beside_trained;
use crate::jobs::kit::training::{Forward, Resumable, advised};
use crate::jobs::kit::{Failure, JobError, Outcome, Session, outputs, room};
use linwright_nets::{Labelled, Net, NetTraining, SavedNet, TrainingPlan, score};
use linwright_ops::Network;
use linwright_report::number::grouped;
use linwright_run::{Fingerprint, Measured, Monitor};
use linwright_tensor::RngKey;
use linwright_train::Outcome as Trained;
use linwright_train::{Checkpoint, OptimizerSettings, Rules, Schedule, TrainSettings, train};

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
            Err(JobError::new(format!("--{flag}{value}: expected {expected}")))
        };
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return wrong("rate ", self.rate, "a finite number above zero");
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return wrong(
                "training weight_decay=",
                self.weight_decay,
                "a finite number of at least zero",
            );
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
    let prepared = Prepared::new(job)?;
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

/// A network to be trained.
struct Prepared<'a> {
    job: &'a TrainNet,
    divided: Divided,
    training: Labelled,
    held_out: Labelled,
    net: Net,
    key: RngKey,
    settings: TrainSettings,
}

impl<'a> Prepared<'a> {
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
        let images = steps as f64 * batch.min(self.training.len()) as f64;
        let mut result = NetTrained {
            planned: self.planned(),
            best_step: trained.best_step,
            loss,
            held_out_loss: trained.best_loss,
            cross_entropy: scores.loss.value,
            cross_entropy_stderr: scores.loss.stderr,
            acc: scores.accuracy.map(|accuracy| accuracy.value),
            acc_stderr: scores.accuracy.map(|accuracy| accuracy.stderr),
            output: None,
            sha256: None,
            seconds: Measured(seconds),
            images_per_second: Measured(images / seconds.max(1e-9)),
        };
        let saved = self.write(&trained, &result, session)?;
        result.output = Some(session.portable(&self.job.output));
        result.sha256 = Some(saved.hash);
        Ok(Outcome::of(result))
    }

    fn planned(&self) -> NetPlanned {
        NetPlanned {
            parameters: self.net.parameters(),
            images: ImagesDivided {
                path: self.job.images.images.clone(),
                sha256: self.divided.images.sha256().to_owned(),
                training: self.training.len(),
                held_out: self.held_out.len(),
                classes: self.divided.images.classes(),
            },
            steps: self.settings.steps,
        }
    }

    fn write(
        &self,
        trained: &Trained,
        result: &NetTrained,
        session: &Session<'_>,
    ) -> Result<SavedNet, Failure> {
        let what = format!(
            "A small network of {} parameters, trained on {} images of {} (SHA-256 {}).",
            grouped(self.net.parameters()),
            grouped(self.training.len() as u64),
            session.portable(&self.job.images.images),
            self.divided.images.sha256()
        );
        let files = beside_trained(session, &what, result, &trained.curve)?;
        Ok(self.net.save(&self.job.output, self.job.force, &files)?)
    }
}
