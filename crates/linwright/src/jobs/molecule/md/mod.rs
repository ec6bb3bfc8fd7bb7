//! Molecular dynamics with a potential.

mod simulation;

use crate::jobs::kit::named::Names;
use crate::jobs::kit::named::named;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, bounds};
use linwright_molecule::report::SimulationResult;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

named! {
    MdEnsemble, MdEnsemble::other_names;
}

/// What a simulation keeps constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MdEnsemble {
    /// Number of atoms, volume and energy.
    #[default]
    Nve,
    /// Number of atoms, volume and temperature, by friction and random forces.
    Langevin,
}

impl MdEnsemble {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Nve, Self::Langevin];

    /// Its name, as options have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nve => "nve",
            Self::Langevin => "langevin",
        }
    }

    /// Other names that options accept.
    fn other_names(self) -> Vec<&'static str> {
        match self {
            Self::Nve => Vec::new(),
            Self::Langevin => vec!["nvt"],
        }
    }
}

/// Molecular dynamics with a potential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeMd {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, a directory with
    /// `model.safetensors`, or an ensemble, whose mean is used: a directory of several, or a `.zip`
    /// of torchmd-net.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// A structure in extended XYZ; the first one of several.
    #[schemars(extend("x-positional" = true))]
    pub structure: String,
    /// Total number of time steps; a larger number continues a finished simulation.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: u64,
    /// Time step in femtoseconds.
    #[schemars(extend("x-value" = "FS", "examples" = [0.25]))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub timestep: f64,
    /// Constant quantity: the energy, or the temperature by Langevin dynamics.
    #[schemars(with = "Names<MdEnsemble>")]
    pub ensemble: MdEnsemble,
    /// Temperature in kelvins, of the velocities that are drawn and of Langevin dynamics; NVE does
    /// not keep it. Velocities come from the structure's column `momenta` if there is one, unless a
    /// temperature is given for NVE [default: 300].
    #[schemars(extend("x-value" = "K"))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub temperature: Option<f64>,
    /// Friction of Langevin dynamics in inverse femtoseconds [default: 0.01].
    #[schemars(extend("x-value" = "PER_FS"))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub friction: Option<f64>,
    /// Steps between two frames.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub every: u64,
    /// Seed of velocities and random forces.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Units of the structure, such as `kcal/mol,A` [default: those of the model].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Compute in double precision, without tables of radial filters.
    pub exact: bool,
    /// Directory of the simulation; the same command resumes there.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
}

impl Default for MoleculeMd {
    fn default() -> Self {
        Self {
            potential: String::new(),
            structure: String::new(),
            steps: 1000,
            timestep: 0.5,
            ensemble: MdEnsemble::Nve,
            temperature: None,
            friction: None,
            every: 10,
            seed: 0,
            units: None,
            exact: false,
            output: OutputPath::default(),
        }
    }
}

impl Job for MoleculeMd {
    const VERB: &str = "molecule-md";
    const ABOUT: &str = "Molecular dynamics with a potential, at constant energy or temperature.\n\n\
        The directory gets trajectory.xyz (extended XYZ with energy, forces, stress and momenta in \
        the units of ASE: eV, angstroms), log.jsonl (energies, temperature, pressure), final.xyz and \
        a report with the drift of the energy. Run the same command again to resume an interrupted \
        simulation, with the same bits; with more --steps, to continue a finished one.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<SimulationResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential), PathBuf::from(&self.structure)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        simulation::run(self, session)
    }
}
