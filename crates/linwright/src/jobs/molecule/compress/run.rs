//! `linwright molecule compress`: replace linear layers of a potential and save it.

use super::recovery::{self, Recovery};
use super::{MoleculeCompress, plan};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::saving::beside_new;
use crate::jobs::kit::{Failure, FailureKind, Job, Outcome, Session, measured, outputs};
use crate::jobs::language::compress::summary::{estimate_blocks, site_table};
use crate::new_model::pretty;
use linwright_compress::estimate;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::{FitTo, Plan, Rates};
use linwright_evaluate::{ParameterCounts, TaskResult};
use linwright_molecule::tensornet::TensorNet;
use linwright_molecule::{LabelKeys, MoleculeModel, Structure, StructureBatches, Units};
use linwright_ops::{Examples, SiteId};
use linwright_report::Block;
use linwright_report::number::grouped;
use linwright_run::Monitor;
use linwright_study as study;
use linwright_study::recipe::{StructureCalibration, StructureSource};
use linwright_study::{
    MoleculeStudyError, StudiedPotential, calibration_batches, common_note, open_structures,
    scored_structures, task_result,
};
use serde_json::{Map, Value, json};
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
    let potential = StudiedPotential::open(Path::new(&job.potential))?;
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
        let blocks = estimate_blocks(&estimate);
        return Ok(Outcome::new(json!({"plan": plan, "estimate": estimate}), blocks));
    }
    data.notes.iter().for_each(|note| session.note(&format!("note: {note}")));
    let dense = data.scores(&potential, &potential.network, session)?;
    // Recovery and its choice of the best step need validation batches that no fit has seen.
    let fit_to = if job.recover.is_some() { FitTo::Training } else { FitTo::All };
    let context = Context { fit_to, ..Context::new(&potential.hash) };
    let mut edited = apply(&potential.network, examples, &plan, &context, session)?;
    let replaced = data.scores(&potential, &edited.network, session)?;
    let recovery = match job.recover {
        Some(steps) => {
            let labelled = &data.labelled;
            Some(recovery::recover(job, steps, labelled, &mut edited.network, session)?)
        }
        None => None,
    };
    let results = match recovery {
        Some(_) => data.scores(&potential, &edited.network, session)?,
        None => replaced.clone(),
    };
    let potential = &potential;
    let done = Done { job, potential, plan, data, edited, dense, replaced, recovery, results };
    done.save(session)?;
    session.finish();
    Ok(done.outcome(session))
}

/// Errors of a study's recipe are reported as errors of an option here.
fn of_options(error: MoleculeStudyError) -> Failure {
    let failure = Failure::from(error);
    match failure.kind() {
        FailureKind::Recipe => Failure::usage(failure.message()),
        _ => failure,
    }
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
    fn open(job: &MoleculeCompress, potential: &StudiedPotential) -> Result<Self, Failure> {
        let units = job.units.as_deref().map(Units::parse).transpose();
        let units = units.map_err(|error| MoleculeStudyError::molecule("--units", error));
        let units = units.map_err(of_options)?;
        let (mut data, mut fitted) = (Self::none(), Vec::new());
        let StudiedPotential { model, network, .. } = potential;
        if let Some(path) = &job.calibration {
            let source = StructureSource { path, examples: None, units, keys: keys(job) };
            let read = open_structures("--calibration", &source, model).map_err(of_options)?;
            let options = calibration(job, path);
            let batches = calibration_batches("--calibration", &read, &options, network, job.seed);
            let batches = batches.map_err(of_options)?;
            if job.recover.is_some() {
                recovery::check_labels(path, &read.all)?;
                data.labelled = read.all.clone();
            }
            (data.calibration, data.calibration_sha256) = (Some(batches), Some(read.sha256));
            fitted = read.all;
        }
        if let Some(path) = &job.test {
            let source = StructureSource { path, examples: None, units, keys: keys(job) };
            let read = open_structures("--test", &source, model).map_err(of_options)?;
            data.notes.extend(common_note(&fitted, &read.all));
            data.scored_sha256 = Some(read.sha256.clone());
            data.scored = Some(scored_structures("--test", read, network).map_err(of_options)?);
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
        potential: &StudiedPotential,
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

fn calibration(job: &MoleculeCompress, path: &Path) -> StructureCalibration {
    StructureCalibration { sample: Some(job.num_structures), ..StructureCalibration::new(path) }
}

fn keys(job: &MoleculeCompress) -> LabelKeys {
    let mut keys = LabelKeys::default();
    if let Some(name) = &job.energy_key {
        keys = keys.with_energy(name);
    }
    if let Some(name) = &job.forces_key {
        keys = keys.with_forces(name);
    }
    keys
}

/// An edited potential with its errors.
struct Done<'a> {
    job: &'a MoleculeCompress,
    potential: &'a StudiedPotential,
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
    fn parameters(&self) -> ParameterCounts {
        study::parameter_counts(&self.potential.network, &self.edited)
    }

    fn result(&self, session: &Session<'_>) -> Value {
        let units = self.potential.model.checkpoint.units;
        let (energy, length) = (units.energy.name(), units.length.name());
        let figures = |result: &Option<TaskResult>| -> Value {
            let all = result.iter().flat_map(|result| &result.metrics);
            let all = all.map(|metric| (metric.name.clone(), json!(metric.value)));
            result.as_ref().map_or(Value::Null, |_| Value::Object(all.collect::<Map<_, _>>()))
        };
        let count = |batches: &Option<StructureBatches>| batches.as_ref().map(|all| all.len());
        json!({
            "schema": 1,
            "linwright": session.build().version,
            "potential": session.portable(&self.job.potential),
            "potential_sha256": self.potential.hash,
            "output": session.portable(&self.job.output),
            "plan": self.plan,
            "parameters": self.parameters(),
            "sites": self.edited.sites,
            "dense": figures(&self.dense),
            "replaced": figures(&self.replaced),
            "recovery": self.recovery,
            "results": figures(&self.results),
            "units": {
                "energy_mae": format!("{energy}/atom"), "energy_rmse": format!("{energy}/atom"),
                "force_mae": format!("{energy}/{length}"),
                "force_rmse": format!("{energy}/{length}"),
            },
            "calibration": {
                "structures": count(&self.data.calibration),
                "sha256": self.data.calibration_sha256,
            },
            "eval": {
                "structures": count(&self.data.scored), "sha256": self.data.scored_sha256,
            },
            "notes": self.data.notes,
        })
    }

    fn save(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        session.step("writing");
        let ParameterCounts { model, model_dense, .. } = self.parameters();
        let what = format!(
            "A molecular potential of {} parameters in place of {}.",
            grouped(model),
            grouped(model_dense)
        );
        let mut result = self.result(session);
        let times = measured::split(&mut result, MoleculeCompress::MEASURED);
        // What is saved does not say where: the same job writes the same elsewhere.
        result.as_object_mut().map(|result| result.remove("output"));
        let mut files = beside_new(session, &what, &times)?;
        files.push(("results.json".to_owned(), pretty(&result)));
        let sites = self.edited.sites.iter();
        let sites: Vec<SiteId> = sites.map(|site| site.site.clone()).collect();
        let (model, edited) = (&self.potential.model, &self.edited.network);
        let model: MoleculeModel = match self.recovery {
            Some(_) => model.with_network(edited)?,
            None => model.with_slots(edited, &sites)?,
        };
        model.save(&self.job.output, self.job.force, &files)?;
        Ok(())
    }

    fn outcome(&self, session: &Session<'_>) -> Outcome {
        let ParameterCounts { targeted, targeted_dense, model, model_dense } = self.parameters();
        let mut blocks = vec![text([
            format!(
                "replaced layers: {} -> {} parameters (keep {:.4})",
                grouped(targeted_dense),
                grouped(targeted),
                self.parameters().keep(),
            ),
            format!("potential: {} -> {} parameters", grouped(model_dense), grouped(model)),
        ])];
        blocks.extend(self.recovery.iter().map(|recovery| text([recovery.line()])));
        blocks.extend(self.errors());
        blocks.push(text([format!("wrote {}", session.portable(&self.job.output))]));
        blocks.push(site_table(&self.edited.sites));
        Outcome::new(self.result(session), blocks)
    }

    /// Errors before and after, and between both if the potential was trained.
    fn errors(&self) -> Option<Block> {
        let units = self.potential.model.checkpoint.units;
        let (energy, length) = (units.energy.name(), units.length.name());
        let names = [
            ("force_mae", format!("force, mean absolute, {energy}/{length}")),
            ("force_rmse", format!("force, root mean square, {energy}/{length}")),
            ("energy_mae", format!("energy, mean absolute, {energy}/atom")),
            ("energy_rmse", format!("energy, root mean square, {energy}/atom")),
        ];
        let (dense, results) = (self.dense.as_ref()?, self.results.as_ref()?);
        let (heads, all) = match (&self.recovery, &self.replaced) {
            (Some(_), Some(replaced)) => {
                (vec!["error", "before", "replaced", "trained"], vec![dense, replaced, results])
            }
            _ => (vec!["error", "before", "after"], vec![dense, results]),
        };
        let row = |(name, title): (&str, String)| {
            let found = all.iter().map(|result| result.metric(name).map(|metric| metric.value));
            let found: Vec<f64> = found.collect::<Option<_>>()?;
            let found = found.into_iter().map(|value| format!("{value:.6}"));
            Some(std::iter::once(title).chain(found).collect())
        };
        let rows = names.into_iter().filter_map(row).collect();
        Some(table(&heads, rows))
    }
}
