//! The training, and what it writes.

use super::data::Sets;
use super::plan::Plan;
use super::result::{
    EnergyReferences, LossWeights, PotentialPlanned, PotentialTrained, SetErrors, SetSizes,
};
use super::{MoleculeTrain, ReferenceKind};
use crate::jobs::kit::saving::beside_trained;
use crate::jobs::kit::training::{Forward, Resumable, advised};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, room};
use linwright_files::writer::WriteError;
use linwright_files::{DirWriter, FileError, SINGLE};
use linwright_molecule::tensornet::TensorNet;
use linwright_molecule::training::{References, Split, TensorNetTraining, TrainingPlan, elements};
use linwright_molecule::{
    Checkpoint, MoleculeModel, PredictionErrors, Prior, PriorChoices, Structure, Wanted, symbol,
};
use linwright_report::number::grouped;
use linwright_report::{Document, Report, html, markdown};
use linwright_run::atomic::AtomicDir;
use linwright_run::{Fingerprint, Measured, Monitor};
use linwright_tensor::RngKey;
use linwright_train::{Checkpoint as Kept, Outcome as Trained, TrainSettings, train};

/// Bytes in training for each parameter: value, gradient of two blocks, two moments, the best.
const PARAMETER_BYTES: u64 = 32;

pub(super) fn run(job: &MoleculeTrain, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let plan = Plan::new(job, session)?;
    if !job.dry_run {
        let mut inputs = outputs::inputs_of(job, session);
        inputs.extend(job.checkpoint.iter().map(|path| path.to_path_buf()));
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    session.step("reading the structures");
    let prepared = Prepared::new(job, plan, session)?;
    if job.dry_run {
        session.finish();
        return Ok(Outcome::of(prepared.planned()));
    }
    let resumable = Resumable {
        job,
        output: &job.output,
        checkpoint: job.checkpoint.as_deref(),
        every: prepared.settings.validate_every,
        fingerprint: prepared.fingerprint(session)?,
    };
    resumable.run(session, |kept, session| prepared.train(kept, session))
}

/// A training with its data.
struct Prepared<'a> {
    job: &'a MoleculeTrain,
    plan: Plan,
    sets: Sets,
    references: References,
    /// Elements of the structures, sorted.
    elements: Vec<u8>,
    settings: TrainSettings,
}

impl<'a> Prepared<'a> {
    fn new(job: &'a MoleculeTrain, plan: Plan, session: &Session<'_>) -> Result<Self, Failure> {
        let sets = Sets::read(job, &plan, session)?;
        let training: Vec<&Structure> = sets.training.iter().collect();
        let references = match (&plan.start, &sets.isolated) {
            (Some(start), _) => references_of(start)?,
            (None, Some(alone)) => {
                let all: Vec<&Structure> = sets.all().collect();
                References::isolated(alone, &all).map_err(|error| {
                    let failure = Failure::from(error);
                    match job.sets.isolated {
                        Some(_) => failure,
                        None => failure.hint(
                            "mark an atom of every element by config_type=IsolatedAtom, or give \
                             --references least-squares",
                        ),
                    }
                })?
            }
            (None, None) => match plan.references {
                ReferenceKind::LeastSquares => References::least_squares(&training)?,
                ReferenceKind::Mean => References::standardised(&training)?,
                ReferenceKind::None => References::none(&training),
            },
        };
        if plan.start.is_some() && (job.sets.isolated.is_some() || job.sets.references.is_some()) {
            session.note(
                "note: --init: the potential has its own energies of atoms, which it keeps; \
                 --isolated and --references have no effect",
            );
        }
        let elements = elements(&sets.all().collect::<Vec<_>>());
        let numbers = plan.architecture.parameters();
        let what = || format!("training {} parameters", grouped(numbers));
        room::ensure(
            what,
            &[PARAMETER_BYTES, numbers],
            "choose fewer channels or layers by --architecture",
        )?;
        let settings = plan.settings(job, sets.training.len());
        Ok(Self { job, plan, sets, references, elements, settings })
    }

    /// Identifies the training in its checkpoint.
    fn fingerprint(&self, session: &mut Session<'_>) -> Result<String, Failure> {
        let inputs = outputs::inputs_of(self.job, session);
        let hashes = session.hashes(&inputs)?;
        let Plan { architecture, seed, loss, weights, batch, units, .. } = &self.plan;
        Ok(Fingerprint::of(&[
            ("data", &hashes),
            ("sets", &self.job.sets),
            ("split", &self.sets.split),
            ("architecture", architecture),
            (
                "references",
                &(&self.references.atoms, self.references.offset, self.references.scale),
            ),
            ("units", units),
            ("training", &(seed, loss, weights, batch, &self.settings)),
        ])
        .0)
    }

    /// The network before the first step.
    fn start(&self) -> Result<TensorNet<f32>, Failure> {
        if let Some(start) = &self.plan.start {
            return Ok(start.network.cast()?);
        }
        let key = RngKey::new(self.plan.seed).fold("potential").fold("weights");
        let mut network = TensorNet::random(self.plan.architecture.clone(), key)?;
        network.set_offset_and_scale(self.references.offset, self.references.scale);
        Ok(network)
    }

    /// Structures with the energies of their atoms subtracted.
    fn reduced(&self, structures: &[Structure]) -> Vec<Structure> {
        let mut all = structures.to_vec();
        for one in &mut all {
            let of_atoms = self.references.of_atoms(one);
            one.labels.energy = one.labels.energy.map(|energy| energy - of_atoms);
        }
        all
    }

    fn train(self, kept: Option<&Kept>, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let count = grouped(self.sets.training.len() as u64);
        session.step(&format!("training on {count} structures"));
        let began = session.seconds();
        let (training, validation) =
            (self.reduced(&self.sets.training), self.reduced(&self.sets.validation));
        let mut network = self.start()?;
        let Plan { weights: [energy_weight, force_weight], loss, batch, seed, .. } = self.plan;
        let key = RngKey::new(seed).fold("potential");
        let plan = TrainingPlan { energy_weight, force_weight, loss, batch, key };
        let mut problem = TensorNetTraining::new(&mut network, &training, &validation, plan)?;
        let mut control = Forward { session: &mut *session, steps: 0 };
        let trained = train(&mut problem, &self.settings, kept, &mut control);
        let (trained, steps) = (trained.map_err(advised)?, control.steps);
        let seconds = session.seconds() - began;
        self.finish(&network, &trained, [seconds, steps as f64 / seconds.max(1e-9)], session)
    }

    /// Measures and writes the potential.
    fn finish(
        &self,
        network: &TensorNet<f32>,
        trained: &Trained,
        [seconds, speed]: [f64; 2],
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        session.step("measuring errors");
        let units = self.plan.units.1;
        let checkpoint =
            Checkpoint::of_trained(network, &self.references.atoms, units, self.elements.clone())?;
        let model = opened(&checkpoint)?;
        let [validation, test] =
            [&self.sets.validation, &self.sets.test].map(|set| measure(&model, set, session));
        let (validation, test) = (validation?, test?);
        let mut result = PotentialTrained {
            planned: self.planned(),
            elements: self.elements.iter().filter_map(|z| symbol(*z)).map(str::to_owned).collect(),
            references: self.energy_references(),
            weights: LossWeights { energy: self.plan.weights[0], force: self.plan.weights[1] },
            steps: trained.steps,
            best_step: trained.best_step,
            validation_loss: trained.best_loss,
            validation: SetErrors::new(&validation, units),
            test: (!self.sets.test.is_empty()).then(|| SetErrors::new(&test, units)),
            curve: trained.curve.clone(),
            output: None,
            seconds: Measured(seconds),
            steps_per_second: Measured(speed),
        };
        session.step("writing");
        self.write(&checkpoint, &result, session)?;
        result.output = Some(session.portable(&self.job.output));
        Ok(Outcome::of(result))
    }

    fn planned(&self) -> PotentialPlanned {
        let Sets { training, validation, test, .. } = &self.sets;
        PotentialPlanned {
            parameters: self.plan.architecture.parameters(),
            structures: SetSizes {
                training: training.len(),
                validation: validation.len(),
                test: test.len(),
            },
            planned_steps: self.settings.steps,
        }
    }

    fn energy_references(&self) -> EnergyReferences {
        let References { atoms, offset, scale } = &self.references;
        let of_element = |z: &u8| Some((symbol(*z)?.to_owned(), *atoms.get(usize::from(*z))?));
        EnergyReferences {
            atoms: self.elements.iter().filter_map(of_element).collect(),
            mean: *offset,
            std: *scale,
        }
    }

    fn write(
        &self,
        checkpoint: &Checkpoint,
        result: &PotentialTrained,
        session: &Session<'_>,
    ) -> Result<(), Failure> {
        let what = format!(
            "A molecular potential (TensorNet) of {} parameters, trained on {} structures of {}.",
            grouped(self.plan.architecture.parameters()),
            grouped(self.sets.training.len() as u64),
            session.portable(&self.job.data)
        );
        let page =
            Document { title: "Training of a molecular potential".to_owned(), ..result.document() };
        let mut files = beside_trained(session, &what, result, &result.curve)?;
        if let Some(split) = &self.sets.split {
            files.push(("split.json".to_owned(), split_file(split)?));
        }
        files.push(("report.md".to_owned(), markdown::render(&page).into_bytes()));
        files.push(("report.html".to_owned(), html::render(&page)?.into_bytes()));
        let target =
            AtomicDir::create(&self.job.output, self.job.force).map_err(FileError::from)?;
        let mut writer = DirWriter::new(target);
        let parts = checkpoint.to_parts(&self.job.output.join(SINGLE))?;
        writer.stream::<FileError>(SINGLE, |out| {
            parts.iter().try_for_each(|part| out.write_all(part)).map_err(WriteError::Io)
        })?;
        for (name, bytes) in &files {
            writer.text(name, bytes)?;
        }
        writer.checksums()?;
        Ok(writer.commit()?)
    }
}

/// The division of the data, as a file.
fn split_file(split: &Split) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(split)
        .map_err(|error| Failure::general(format!("cannot write the division: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The energies of atoms that a potential adds, the only part besides its network.
fn references_of(start: &MoleculeModel) -> Result<References, Failure> {
    let (offset, scale) = start.network.offset_and_scale();
    match start.priors.as_slice() {
        [] => Ok(References { atoms: Vec::new(), offset, scale }),
        [Prior::Atomref { energies }] => Ok(References { atoms: energies.clone(), offset, scale }),
        _ => Err(Failure::usage(
            "--init: the potential has priors other than energies of atoms, which training does \
             not know",
        )),
    }
}

/// The potential as others will open it.
fn opened(checkpoint: &Checkpoint) -> Result<MoleculeModel, Failure> {
    Ok(MoleculeModel::of_checkpoint(checkpoint.clone(), PriorChoices::default())?)
}

fn measure(
    model: &MoleculeModel,
    structures: &[Structure],
    session: &mut Session<'_>,
) -> Result<PredictionErrors, Failure> {
    let mut potential = match model.potential(false) {
        Ok(fast) => fast,
        Err(_) => model.potential(true)?,
    };
    let mut errors = PredictionErrors::default();
    for (index, one) in structures.iter().enumerate() {
        if session.interrupted() {
            let told = "interrupted while errors were measured".to_owned();
            return Err(Failure::interrupted(told));
        }
        let found = potential.predict(one, Wanted { forces: true });
        errors.add(one, &found.map_err(|error| error.of_structure(index))?);
    }
    Ok(errors)
}
