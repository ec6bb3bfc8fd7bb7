//! `linwright molecule compress`: replace linear layers of a potential and save it.

use super::recovery::{self, Recovery};
use super::result::{CompressionPlanned, JudgedErrors, PotentialCompressed, StructuresUsed};
use super::{MoleculeCompress, plan};
use crate::jobs::kit::saving::beside_result;
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use crate::jobs::molecule::structures::parse_units;
use linwright_compare::parameter_counts;
use linwright_compress::estimate;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::{FitTo, Plan, Rates};
use linwright_evaluate::{ParameterCounts, TaskResult};
use linwright_molecule::tensornet::TensorNet;
use linwright_molecule::{MoleculeModel, Structure, StructureBatches};
use linwright_ops::{Examples, SiteId};
use linwright_report::number::grouped;
use linwright_run::Monitor;
use linwright_trial::{
    StructureCalibration, StructureSource, TrialPotential, calibration_batches, common_note,
    open_structures, scored_structures, task_result,
};
use std::path::Path;

pub(super) fn run(job: &MoleculeCompress, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if !job.dry_run {
        let inputs = outputs::inputs_of(job, session);
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    recovery::check(job)?;
    let plan = plan::plan(job)?;
    let needs_data = plan.needs_text();
    if needs_data && job.calibration.is_none() {
        let method = plan.edits[0].method.id();
        return Err(Failure::usage(format!("--method {method} is fitted to structures"))
            .hint("give --calibration FILE.xyz, or --method svd"));
    }
    session.step(&format!("loading {}", job.potential));
    let potential = TrialPotential::open(Path::new(&job.potential))?;
    potential.model.checkpoint.notes.iter().for_each(|note| session.note(note));
    if plan.sites(&potential.network)?.is_empty() {
        let message = "no linear layer is selected, so the potential would stay as it is";
        return Err(Failure::usage(message));
    }
    session.step("reading the structures");
    let data = Data::open(job, &potential)?;
    let examples = data.calibration.as_ref().map(|batches| batches as &dyn Examples<_>);
    if job.dry_run {
        let estimate = estimate(&plan, &potential.network, examples, &mut Rates::default())?;
        session.finish();
        return Ok(Outcome::of(CompressionPlanned { plan, estimate }));
    }
    data.notes.iter().for_each(|note| session.note(&format!("note: {note}")));
    let dense = data.scores(&potential, &potential.network, session)?;
    // Recovery and its choice of the best step need validation batches that no fit has seen.
    let fit_to = if job.recover.is_some() { FitTo::Training } else { FitTo::All };
    let context = Context { fit_to, ..Context::new(&potential.hash) };
    let mut edited = apply(&potential.network, examples, &plan, &context, session)?;
    let replaced = data.scores(&potential, &edited.network, session)?;
    let recovery = match job.recover.as_deref() {
        Some(wanted) => {
            let labelled = &data.labelled;
            Some(recovery::recover(job, wanted, labelled, &mut edited.network, session)?)
        }
        None => None,
    };
    let results = match recovery {
        Some(_) => data.scores(&potential, &edited.network, session)?,
        None => replaced.clone(),
    };
    let potential = &potential;
    let done = Done { job, potential, plan, data, edited, dense, replaced, recovery, results };
    let mut result = done.result(session);
    done.save(&result, session)?;
    session.finish();
    result.output = Some(session.portable(&job.output));
    Ok(Outcome::of(result))
}

/// Structures to fit to and to judge on.
struct Data {
    calibration: Option<StructureBatches>,
    calibration_sha256: Option<String>,
    scored: Option<StructureBatches>,
    scored_sha256: Option<String>,
    /// Structures to train on afterwards.
    labelled: Vec<Structure>,
    notes: Vec<String>,
}

impl Data {
    fn open(job: &MoleculeCompress, potential: &TrialPotential) -> Result<Self, Failure> {
        let units = parse_units(job.units.as_deref())?;
        let (mut data, mut fitted) = (Self::none(), Vec::new());
        let TrialPotential { model, network, .. } = potential;
        if let Some(path) = &job.calibration {
            let source = StructureSource { path, examples: None, units, keys: job.labels.keys() };
            let read = open_structures("--calibration", &source, model)?;
            let sample = Some(job.num_structures);
            let options = StructureCalibration { sample, ..StructureCalibration::default() };
            let batches = calibration_batches("--calibration", &read, &options, network, job.seed);
            let batches = batches?;
            if job.recover.is_some() {
                recovery::check_labels(path, &read.all)?;
                data.labelled = read.all.clone();
            }
            (data.calibration, data.calibration_sha256) = (Some(batches), Some(read.sha256));
            fitted = read.all;
        }
        if let Some(path) = &job.test {
            let source = StructureSource { path, examples: None, units, keys: job.labels.keys() };
            let read = open_structures("--test", &source, model)?;
            data.notes.extend(common_note(&fitted, &read.all));
            data.scored_sha256 = Some(read.sha256.clone());
            data.scored = Some(scored_structures("--test", read, network)?);
        }
        Ok(data)
    }

    fn none() -> Self {
        Self {
            calibration: None,
            calibration_sha256: None,
            scored: None,
            scored_sha256: None,
            labelled: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Errors of a network, if there are structures to judge on.
    fn scores(
        &self,
        potential: &TrialPotential,
        network: &TensorNet,
        session: &mut Session<'_>,
    ) -> Result<Option<TaskResult>, Failure> {
        let (Some(scored), Some(sha256)) = (&self.scored, &self.scored_sha256) else {
            return Ok(None);
        };
        session.step("evaluating");
        let errors = scored.errors(network, session)?;
        Ok(Some(task_result(&errors, potential.model.checkpoint.units, sha256)))
    }
}

/// An edited potential with its errors.
struct Done<'a> {
    job: &'a MoleculeCompress,
    potential: &'a TrialPotential,
    plan: Plan,
    data: Data,
    edited: Edited<TensorNet>,
    dense: Option<TaskResult>,
    /// Errors after the replacement, and the training that followed.
    replaced: Option<TaskResult>,
    recovery: Option<Recovery>,
    /// Errors of what is saved.
    results: Option<TaskResult>,
}

impl Done<'_> {
    fn result(&self, session: &Session<'_>) -> PotentialCompressed {
        let errors = |result: &Option<TaskResult>| result.as_ref().map(JudgedErrors::from);
        let used = |batches: &Option<StructureBatches>, sha256: &Option<String>| StructuresUsed {
            structures: batches.as_ref().map(StructureBatches::len),
            sha256: sha256.clone(),
        };
        PotentialCompressed {
            potential: session.portable(&self.job.potential),
            potential_sha256: self.potential.hash.clone(),
            output: None,
            plan: self.plan.clone(),
            parameters: parameter_counts(&self.potential.network, &self.edited),
            sites: self.edited.sites.clone(),
            dense: errors(&self.dense),
            replaced: errors(&self.replaced),
            recovery: self.recovery.clone(),
            results: errors(&self.results),
            units: self.potential.model.checkpoint.units.into(),
            calibration: used(&self.data.calibration, &self.data.calibration_sha256),
            eval: used(&self.data.scored, &self.data.scored_sha256),
            notes: self.data.notes.clone(),
        }
    }

    fn save(&self, result: &PotentialCompressed, session: &mut Session<'_>) -> Result<(), Failure> {
        session.step("writing");
        let ParameterCounts { model, model_dense, .. } = result.parameters;
        let what = format!(
            "A molecular potential of {} parameters in place of {}.",
            grouped(model),
            grouped(model_dense)
        );
        let files = beside_result(session, &what, result)?;
        let sites: Vec<SiteId> = result.sites.iter().map(|site| site.site.clone()).collect();
        let (model, edited) = (&self.potential.model, &self.edited.network);
        let model: MoleculeModel = match self.recovery {
            Some(_) => model.with_network(edited)?,
            None => model.with_slots(edited, &sites)?,
        };
        model.save(&self.job.output, self.job.force, &files)?;
        Ok(())
    }
}
