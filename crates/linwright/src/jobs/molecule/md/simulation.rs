//! The simulation.

use super::{MdEnsemble, MoleculeMd};
use crate::jobs::kit::outcome::{apart, page, text, write_pages};
use crate::jobs::kit::saving::write_beside_own;
use crate::jobs::kit::{Failure, Job, JobError, Outcome, Session, outputs};
use crate::jobs::molecule::potential::{
    check_structure, moving_potential, no_structures, open_ensemble, told_units,
};
use linwright_molecule::dynamics::{
    self, Dynamics, DynamicsPlan, MdState, MdSummary, Recording, masses,
};
use linwright_molecule::report::{Simulation, SimulationResult};
use linwright_molecule::{
    ConvertedPotential, Ensemble, LabelKeys, MoleculeError, Potential, PriorChoices, Structure,
    Units, XyzReader, write_xyz,
};
use linwright_report::{Block, Report};
use linwright_run::atomic::Replace;
use linwright_run::{Fingerprint, Monitor, RunDirectory, state};
use serde_json::Value;
use std::path::Path;

/// Temperature in kelvins where none is given.
const TEMPERATURE: f64 = 300.0;
/// Friction in inverse femtoseconds where none is given.
const FRICTION: f64 = 0.01;
/// Pairs are kept until an atom moved by half of this distance in angstroms.
const SKIN: f64 = 0.5;

impl MoleculeMd {
    /// How to integrate; errors are those of the options.
    fn plan(&self) -> Result<DynamicsPlan, JobError> {
        let positive = |flag: &str, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(value),
            false => Err(JobError::new(format!("--{flag} {value}: expected a number above zero"))),
        };
        let temperature = self.temperature.unwrap_or(TEMPERATURE);
        if !(temperature >= 0.0 && temperature.is_finite()) {
            let expected = "expected kelvins, zero or more";
            return Err(JobError::new(format!("--temperature {temperature}: {expected}")));
        }
        let ensemble = match self.ensemble {
            MdEnsemble::Nve if self.friction.is_some() => {
                let message = "--friction: dynamics at constant energy has none";
                return Err(JobError::new(message).hint("give --ensemble langevin"));
            }
            MdEnsemble::Nve => dynamics::Ensemble::Nve,
            MdEnsemble::Langevin => dynamics::Ensemble::Langevin {
                temperature: positive("temperature", temperature)?,
                friction: positive("friction", self.friction.unwrap_or(FRICTION))?,
            },
        };
        let time_step = positive("timestep", self.timestep)?;
        Ok(DynamicsPlan { time_step, ensemble, seed: self.seed })
    }

    /// Whether velocities are drawn even if the structure has some.
    fn asks_for_velocities(&self) -> bool {
        self.ensemble == MdEnsemble::Nve && self.temperature.is_some()
    }

    /// Whether velocities are drawn: the structure has none, or others are asked for.
    fn draws(&self, structure: &Structure) -> bool {
        structure.momenta.is_none() || self.asks_for_velocities()
    }

    /// Identifies the simulation, regardless of its length and of the location of its inputs.
    fn basis(&self, session: &mut Session<'_>) -> Result<Value, Failure> {
        let hashes = session.hashes(&self.inputs())?;
        let hashes: Vec<&str> = hashes.iter().map(|input| input.sha256.as_str()).collect();
        let mut basis = outputs::basis(self, "", session);
        if let Some(options) = basis.as_object_mut() {
            for key in ["potential", "structure", "steps"] {
                options.shift_remove(key);
            }
            options.insert("content".into(), hashes.into());
        }
        Ok(basis)
    }
}

/// What is simulated.
struct Start<'a> {
    job: &'a MoleculeMd,
    plan: DynamicsPlan,
    potential: ConvertedPotential,
    structure: Structure,
    masses: Vec<f64>,
}

pub(super) fn run(job: &MoleculeMd, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let plan = job.plan()?;
    if let (MdEnsemble::Nve, Some(kelvins)) = (job.ensemble, job.temperature) {
        session.note(&format!(
            "note: the energy is constant, {kelvins} K is the temperature of the first velocities alone; \
             --ensemble langevin keeps it"
        ));
    }
    let inputs = outputs::inputs_of(job, session);
    outputs::check_place(&job.output, &inputs, session)?;
    let model = open_ensemble(&[&job.potential], PriorChoices::default(), session)?;
    let structure = read_structure(job, &model, session)?;
    let mut potential = moving_potential(&model, job.exact)?;
    potential.keep_pairs(SKIN)?;
    let masses = masses(&structure)?;
    let mut start = Start { job, plan, potential, structure, masses };
    // What cannot be simulated is refused before anything is written.
    start.dynamics(None).map_err(|error| error.of_structure(0))?;
    let basis = job.basis(session)?;
    let fingerprint = Fingerprint::of(&[("run", &basis)]);
    // Held until all is written.
    let _directory = RunDirectory::open_of(&job.output, &fingerprint, &basis)?;
    let SimulatedSteps { recording, made, seconds } = start.simulate(session)?;
    session.finish();
    let mut summary = MdSummary::default();
    recording.read_log(|thermo| summary.add(thermo))?;
    start.outcome(&summary, made, seconds, session)
}

/// A finished simulation.
struct SimulatedSteps {
    recording: Recording,
    /// Steps that this process made.
    made: u64,
    seconds: f64,
}

impl Start<'_> {
    /// The simulation from a state, or from its start.
    fn dynamics(&mut self, state: Option<MdState>) -> Result<Dynamics<'_>, MoleculeError> {
        let is_new = state.is_none();
        let (structure, masses) = (self.structure.clone(), self.masses.clone());
        let mut simulation =
            Dynamics::new(&mut self.potential, structure, masses, self.plan, state)?;
        if is_new && self.job.draws(&self.structure) {
            simulation.thermalise(self.job.temperature.unwrap_or(TEMPERATURE));
        }
        Ok(simulation)
    }

    /// Makes the steps that are left, and writes the atoms at the end.
    fn simulate(&mut self, session: &mut Session<'_>) -> Result<SimulatedSteps, Failure> {
        let (steps, every) = (self.job.steps, self.job.every);
        let output = self.job.output.clone();
        let mut recording = Recording::open(&output)?;
        let state = recording.state().cloned();
        let first = state.as_ref().map_or(0, |state| state.step);
        if first > steps {
            let message = format!("--steps {steps}: {first} steps were made already");
            return Err(Failure::usage(message).hint("give more steps, or another directory"));
        }
        session.step(&format!("simulating from step {first}"));
        let began = session.seconds();
        let mut simulation = self.dynamics(state)?;
        recording.run(&mut simulation, [steps, every], session)?;
        let seconds = session.seconds() - began;
        let made = simulation.step() - first;
        write_xyz(&output.join("final.xyz"), &[simulation.frame()], Replace::State)?;
        Ok(SimulatedSteps { recording, made, seconds })
    }

    /// Writes the report and the result.
    fn outcome(
        &self,
        summary: &MdSummary,
        made: u64,
        seconds: f64,
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        let Self { job, plan, .. } = self;
        let simulation = Simulation {
            potential: session.portable(&job.potential),
            structure: session.portable(&job.structure),
            atoms: self.structure.species.len() as u64,
            ensemble: plan.ensemble,
            time_step_fs: plan.time_step,
            seed: plan.seed,
            steps: job.steps,
        };
        let result = SimulationResult::new(simulation, summary)
            .ok_or_else(|| Failure::general("the simulation has no frames"))?
            .timed(made, seconds);
        let (kept, times) = apart(&result)?;
        write_beside_own(session, &times, &job.output)?;
        write_pages(&result.document(), &job.output)?;
        // Last, so that it is there when all is.
        state::write(&job.output.join("result.json"), format!("{kept:#}\n").as_bytes())?;
        let place = session.portable(job.output.join("report.html"));
        let report = page(vec![
            text([result.headline()]),
            Block::Table(result.table()),
            text([format!("report: {place}")]),
        ]);
        Ok(Outcome { report, ..Outcome::of(result) })
    }
}

/// The first structure of the file, in electron volts and angstroms.
fn read_structure(
    job: &MoleculeMd,
    model: &Ensemble,
    session: &Session<'_>,
) -> Result<Structure, Failure> {
    let told = told_units(job.units.as_deref())?;
    let units = told.unwrap_or(model.units());
    let mut reader = XyzReader::open(Path::new(&job.structure), LabelKeys::default())?;
    let found = reader.next_frame()?.filter(|structure| !structure.species.is_empty());
    let mut structure = found.ok_or_else(|| no_structures(&job.structure))?;
    check_structure(model, &mut structure, told, 0)?;
    let motion = structure.check_motion(job.asks_for_velocities());
    motion.map_err(|error| error.of_structure(0))?;
    let held = structure.held_coordinates();
    if held > 0 {
        let all = 3 * structure.species.len();
        session.note(&format!("note: move_mask holds {held} of {all} coordinates"));
    }
    if structure.masses.is_some() {
        session.note("note: masses are those of the structure");
    }
    if reader.next_frame()?.is_some() {
        session.note(&format!("note: {} has several structures; this is the first", job.structure));
    }
    structure.convert(units, Units::default());
    structure.declare_units(Units::default(), model.units());
    Ok(structure)
}
