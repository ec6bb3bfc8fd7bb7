//! Training of the whole potential after its layers were replaced, on energies and forces.

use super::MoleculeCompress;
use crate::jobs::kit::training::{Forward, advised};
use crate::jobs::kit::{Failure, JobError, Recover, Session};
use crate::jobs::molecule::labels::LabelOptions;
use linwright_molecule::Structure;
use linwright_molecule::tensornet::TensorNet;
use linwright_molecule::training::{LossKind, TensorNetTraining, TrainingPlan};
use linwright_report::number::grouped;
use linwright_run::{Monitor, shown};
use linwright_tensor::RngKey;
use linwright_train::{OptimizerSettings, Rules, Schedule, TrainSettings, train};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Step size without `rate`: a third of that from random weights.
const RATE: f64 = 3e-4;
/// Share of the structures that is held out.
const VALIDATION: f64 = 0.05;
/// Batch, weights of energies and forces, and norm of gradients as in `molecule train`.
const BATCH: usize = 8;
const WEIGHTS: [f64; 2] = [0.005, 0.5];
const CLIP: f64 = 40.0;
/// A cosine ends at this share of the largest rate.
const FLOOR: f64 = 0.01;
const WARMUP: u64 = 500;
const DIVERGENCE: f64 = 100.0;

/// Result of the training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recovery {
    steps: u64,
    rate: f64,
    structures: usize,
    held_out: usize,
    /// Losses on structures that are held out, and the step with the lower one.
    loss_before: f64,
    loss_after: f64,
    best_step: u64,
}

impl Recovery {
    /// The result in words.
    pub(super) fn line(&self) -> String {
        let [steps, structures] = [self.steps, self.structures as u64].map(grouped);
        format!(
            "trained for {steps} steps on {structures} structures: loss on {} held out {:.6} -> {:.6} \
             (step {})",
            self.held_out, self.loss_before, self.loss_after, self.best_step
        )
    }
}

/// Checks the options before any work.
pub(super) fn check(job: &MoleculeCompress) -> Result<(), JobError> {
    if job.recover.is_some() && job.calibration.is_none() {
        return Err(JobError::new("--recover trains on energies and forces of structures")
            .hint("give --calibration FILE.xyz"));
    }
    let names_labels = job.labels != LabelOptions::default();
    if names_labels && job.recover.is_none() && job.test.is_none() {
        return Err(JobError::new("--keys: no energies and forces are read")
            .hint("they go with --test FILE.xyz or --recover STEPS"));
    }
    let rate = job.recover.as_ref().and_then(|recover| recover.rate);
    match rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
        Some(rate) => Err(JobError::of(
            "recover",
            format!("rate is {rate}, expected a finite number above zero"),
        )),
        None => Ok(()),
    }
}

/// Structures with labels, which the training needs.
pub(super) fn check_labels(path: &Path, all: &[Structure]) -> Result<(), Failure> {
    for (index, one) in all.iter().enumerate() {
        let missing = match (&one.labels.energy, &one.labels.forces) {
            (None, _) => "energy",
            (Some(_), None) => "forces",
            _ => continue,
        };
        let path = shown(&path.display().to_string());
        let told = format!("--recover: structure {index} of {path} has no {missing}");
        return Err(Failure::general(told).hint("give --calibration with energies and forces"));
    }
    match all.len() {
        0 | 1 => Err(Failure::usage("--recover: expected at least two structures to train on")),
        _ => Ok(()),
    }
}

/// Trains all parameters of the network, and keeps those of the step with the lowest loss on
/// structures that are held out, which may be the ones before the training.
pub(super) fn recover(
    job: &MoleculeCompress,
    wanted: &Recover,
    all: &[Structure],
    network: &mut TensorNet,
    session: &mut Session<'_>,
) -> Result<Recovery, Failure> {
    let key = RngKey::new(job.seed).fold("recovery");
    let mut order: Vec<usize> = (0..all.len()).collect();
    key.fold("held out").stream().shuffle(&mut order);
    let held_out = ((all.len() as f64 * VALIDATION).round() as usize).max(1);
    let of = |set: &[usize]| -> Vec<Structure> { set.iter().map(|k| all[*k].clone()).collect() };
    let (validation, training) = (of(&order[..held_out]), of(&order[held_out..]));
    let [energy_weight, force_weight] = WEIGHTS;
    let loss = LossKind::Square;
    let plan = TrainingPlan { energy_weight, force_weight, loss, batch: BATCH, key };
    session.step(&format!("training on {} structures", grouped(training.len() as u64)));
    let mut problem = TensorNetTraining::new(network, &training, &validation, plan)?;
    let (steps, rate) = (wanted.steps, wanted.rate.unwrap_or(RATE));
    let settings = TrainSettings {
        name: "recovery".into(),
        steps,
        schedule: Schedule { peak: rate, warmup: (steps / 20).min(WARMUP), floor: FLOOR * rate },
        optimizer: OptimizerSettings { clip_norm: Some(CLIP), ..OptimizerSettings::default() },
        validate_every: problem.steps_of_epoch(),
        keep_best: true,
        divergence_factor: DIVERGENCE,
        rules: Rules::default(),
    };
    let mut control = Forward { session, steps: 0 };
    let trained = train(&mut problem, &settings, None, &mut control).map_err(advised)?;
    Ok(Recovery {
        steps: trained.steps,
        rate,
        structures: training.len(),
        held_out,
        loss_before: trained.curve.first().map_or(f64::NAN, |point| point.validation),
        loss_after: trained.best_loss,
        best_step: trained.best_step,
    })
}
