//! Relaxation of structures with a potential.

mod result;

use self::result::{Relaxation, RelaxationUnits, Relaxations};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Failure, FailureKind, Job, JobError, Outcome, OutputPath, Session, bounds, outputs,
};
use crate::jobs::molecule::potential::{
    check_structure, is_structures, moving_potential, no_structures, open_ensemble, told_units,
};
use linwright_molecule::relaxation::{Minimiser, RelaxationPlan, Relaxed, relax};
use linwright_molecule::{
    Ensemble, LabelKeys, MoleculeError, Potential, PriorChoices, Structure, Units, XyzReader,
    XyzWriter, stress,
};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Pairs are kept until an atom moved by half of this distance in angstroms.
const SKIN: f64 = 0.5;

/// Relaxation of structures with a potential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeRelax {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, a directory with
    /// `model.safetensors`, or an ensemble, whose mean is used: a directory of several, or a `.zip`
    /// of torchmd-net.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// Structures in extended XYZ.
    #[schemars(extend("x-positional" = true))]
    pub structures: String,
    /// How to go downhill: L-BFGS is fast near a minimum, FIRE is robust far from one.
    #[schemars(with = "Names<Minimiser>")]
    pub optimizer: Minimiser,
    /// Converge until no force on an atom is larger than this, in eV/A.
    #[schemars(extend("x-value" = "FORCE"))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub fmax: f64,
    /// Largest number of steps for each structure.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: u64,
    /// Relax the periodic cell too, until the virial for each atom is at most --fmax in eV.
    pub cell: bool,
    /// Units of the structures, such as `kcal/mol,A` [default: those of the model].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Compute in double precision, without tables of radial filters.
    pub exact: bool,
    /// Relax only the first N structures.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-short" = "L"))]
    pub limit: Option<usize>,
    /// Write the relaxed structures, with energy, forces and stress, to this file.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Overwrite an existing file.
    pub force: bool,
}

impl Default for MoleculeRelax {
    fn default() -> Self {
        Self {
            potential: String::new(),
            structures: String::new(),
            optimizer: Minimiser::Lbfgs,
            fmax: 0.05,
            steps: 1000,
            cell: false,
            units: None,
            exact: false,
            limit: None,
            output: OutputPath::default(),
            force: false,
        }
    }
}

impl Job for MoleculeRelax {
    const VERB: &str = "molecule-relax";
    const ABOUT: &str = "Relax structures with a potential until the forces are small.\n\n\
        The output has every structure in the units of the input; its keys `converged`, `steps` \
        and `fmax` (eV/A) report how far each one converged. If one did not converge within \
        --steps, all are written and the command ends with code 4.";
    const OUTPUT_ENDING: &str = ".xyz";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<Relaxations>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential), PathBuf::from(&self.structures)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let plan = self.plan()?;
        let inputs = outputs::inputs_of(self, session);
        outputs::file(&self.output, self.force, &inputs, session, is_structures)?;
        let model = open_ensemble(&[&self.potential], PriorChoices::default(), session)?;
        let told = told_units(self.units.as_deref())?;
        let units = told.unwrap_or(model.units());
        let mut potential = moving_potential(&model, self.exact)?;
        potential.keep_pairs(SKIN)?;
        let mut writer = XyzWriter::new(Vec::new());
        let mut relaxations: Vec<Relaxation> = Vec::new();
        let mut reader = XyzReader::open(Path::new(&self.structures), LabelKeys::default())?;
        for index in 0..self.limit.unwrap_or(usize::MAX) {
            let Some(structure) = reader.next_frame()? else { break };
            session.step(&format!("relaxing structure {index}"));
            let start = self.start(structure, &model, told, index)?;
            let relaxed = relax(&mut potential, &start, &plan, session);
            let relaxed = relaxed.map_err(|error| stopped(error, index))?;
            relaxations.push(Relaxation::of(&relaxed));
            let mut frame = frame(relaxed);
            frame.convert(Units::default(), units);
            frame.declare_units(units, model.units());
            writer.frame(&frame)?;
        }
        session.finish();
        if relaxations.is_empty() {
            return Err(no_structures(&self.structures));
        }
        outputs::write(&self.output, &writer.into_inner(), self.force, is_structures)?;
        session.note(&format!("wrote {}", self.output.display()));
        Ok(self.outcome(relaxations, session))
    }
}

impl MoleculeRelax {
    fn plan(&self) -> Result<RelaxationPlan, JobError> {
        let Self { optimizer: minimiser, fmax: force, steps, cell, .. } = *self;
        if !(force > 0.0 && force.is_finite()) {
            let message = format!("--fmax {force}: expected a number above zero");
            return Err(JobError::new(message));
        }
        Ok(RelaxationPlan { minimiser, force, steps, cell })
    }

    /// A structure in electron volts and angstroms, checked.
    fn start(
        &self,
        mut structure: Structure,
        model: &Ensemble,
        told: Option<Units>,
        index: usize,
    ) -> Result<Structure, Failure> {
        let units = told.unwrap_or(model.units());
        check_structure(model, &mut structure, told, index)?;
        structure.check_held().map_err(|error| error.of_structure(index))?;
        structure.forget_labels();
        structure.convert(units, Units::default());
        Ok(structure)
    }

    fn outcome(&self, relaxations: Vec<Relaxation>, session: &Session<'_>) -> Outcome {
        let structures = relaxations.len();
        let converged = relaxations.iter().filter(|one| one.converged).count();
        let left = structures - converged;
        let mut outcome = Outcome::of(Relaxations {
            potential: session.portable(&self.potential),
            output: session.portable(&self.output),
            structures,
            converged,
            relaxations,
            units: RelaxationUnits::default(),
        });
        if left > 0 {
            let message = format!(
                "{left} of {structures} structures did not converge in {} steps",
                self.steps
            );
            let hint = "the output has them as they are: relax it again, with more --steps or --optimizer fire";
            outcome.failure = Some(Failure::new(FailureKind::Gate, message).hint(hint));
        }
        outcome
    }
}

/// The relaxed atoms with their labels.
fn frame(relaxed: Relaxed) -> Structure {
    let Relaxed { mut structure, prediction, force, steps, is_converged } = relaxed;
    let stress = stress(&structure, &prediction);
    structure.replace_labels(prediction.energy, prediction.forces, stress);
    let told = [
        ("converged", if is_converged { "T" } else { "F" }.to_owned()),
        ("steps", steps.to_string()),
        ("fmax", format!("{force:?}")),
    ];
    structure.info.extend(told.map(|(key, value)| (key.to_owned(), value)));
    structure
}

/// The failure of one structure. Nothing is written before all are relaxed.
fn stopped(error: MoleculeError, index: usize) -> Failure {
    match error {
        MoleculeError::Interrupted { .. } => {
            Failure::interrupted("interrupted; nothing was written".to_owned()).not_resumable()
        }
        other => other.of_structure(index).into(),
    }
}
