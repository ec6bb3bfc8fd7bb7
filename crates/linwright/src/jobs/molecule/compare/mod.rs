//! Every method at every size on a molecular potential.

mod result;

use self::result::PotentialCompared;
use crate::jobs::comparison::{self, Comparing, ComparisonOptions, SlotsCost, check_validation};
use crate::jobs::kit::{
    Division, Failure, FailureKind, Folding, Job, Outcome, OutputPath, Session, WithOptions, bounds,
};
use crate::jobs::molecule::labels::LabelOptions;
use crate::jobs::molecule::structures::{FittedStructures, ScoredStructures, chosen};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_study::recipe::{StructureCalibration, StructureEvaluation};
use linwright_study::{MoleculeStudyError, MoleculeTrial, StructureNames, StudiedPotential};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Every method at every size on a molecular potential, with controls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeCompare {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// Structures in extended XYZ to fit to; their energies and forces are not read.
    /// `FILE:examples=0-949,batch=10`; `validation=0.1` is the share of them for validation.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub calibration: WithOptions<FittedStructures>,
    /// Largest number of structures to fit to, drawn with the seed.
    #[schemars(range(min = 2, max = bounds::EXAMPLES), extend("x-value" = "N"))]
    pub num_structures: usize,
    /// Structures with forces, and energies if available, on which potentials are scored:
    /// `FILE:examples=0-199`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub test: WithOptions<ScoredStructures>,
    /// Units of the structures, such as `kcal/mol,A` [default: those of the model].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Names of energies and forces.
    #[serde(flatten, with = "Folding::<LabelOptions>")]
    pub labels: LabelOptions,
    /// What is compared.
    #[serde(flatten)]
    pub comparison: ComparisonOptions,
    /// Directory of the comparison [default: runs/molecule-compare- and its fingerprint].
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
}

impl Default for MoleculeCompare {
    fn default() -> Self {
        Self {
            potential: String::new(),
            calibration: WithOptions::default(),
            num_structures: 200,
            test: WithOptions::default(),
            units: None,
            labels: LabelOptions::default(),
            comparison: ComparisonOptions::default(),
            output: None,
        }
    }
}

impl Job for MoleculeCompare {
    const VERB: &str = "molecule-compare";
    const ABOUT: &str = "Compare methods of compression on a molecular potential: every method at \
        every size, with the dense potential, random factors of the same size and rounded weights \
        of the same bytes.\n\n\
        Of the interaction layers, those that mix channels and those that make filters of distances \
        are replaced, by linear operators. Errors of forces and energies on the same structures, in \
        single precision without tables, with 95 % intervals of the difference from the dense \
        potential over structures; parameters, multiply-adds, bytes and speed. Run the same command \
        again to resume.";
    const DIVISION: Division = Division::Merged;
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<PotentialCompared>(), ReportKind::of::<SlotsCost>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let (fitted, scored) = (&self.calibration.structures, &self.test.structures);
        vec![PathBuf::from(&self.potential), fitted.clone(), scored.clone()]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let rows = self.comparison.linear_rows()?;
        session.step(&format!("loading {}", self.potential));
        let potential = StudiedPotential::open(Path::new(&self.potential))?;
        potential.model.checkpoint.notes.iter().for_each(|note| session.note(note));
        session.step("reading the structures");
        let (fitted, scored) = (self.fitted()?, self.scored()?);
        let names = StructureNames { calibration: "--calibration", eval: "--test" };
        let trial = MoleculeTrial::new(&potential, &fitted, &scored, names).map_err(of_options)?;
        let comparing = Comparing {
            job: self,
            options: &self.comparison,
            output: self.output.as_deref(),
            rows,
            trial: &trial,
            name: session.portable(&self.potential),
            scored_sha256: trial.scored_sha256(),
            notes: trial.notes().to_vec(),
        };
        comparison::run(&comparing, PotentialCompared::from, session)
    }
}

impl MoleculeCompare {
    /// The structures to fit to.
    fn fitted(&self) -> Result<StructureCalibration, Failure> {
        let FittedStructures { structures, examples, batch, validation } = &self.calibration.0;
        let standard = StructureCalibration::new(structures);
        Ok(StructureCalibration {
            examples: chosen("--calibration", examples.as_deref())?,
            sample: Some(self.num_structures),
            units: self.units.clone(),
            batch: batch.unwrap_or(standard.batch),
            validation: check_validation(*validation)?.unwrap_or(standard.validation),
            ..standard
        })
    }

    /// The structures to score on.
    fn scored(&self) -> Result<StructureEvaluation, Failure> {
        Ok(StructureEvaluation {
            structures: self.test.structures.clone(),
            examples: chosen("--test", self.test.examples.as_deref())?,
            units: self.units.clone(),
            energy_key: self.labels.energy.clone(),
            forces_key: self.labels.forces.clone(),
        })
    }
}

/// Errors of a study's recipe are reported as errors of an option here.
fn of_options(error: MoleculeStudyError) -> Failure {
    let failure = Failure::from(error);
    match failure.kind() {
        FailureKind::Recipe => Failure::usage(failure.message()),
        _ => failure,
    }
}
