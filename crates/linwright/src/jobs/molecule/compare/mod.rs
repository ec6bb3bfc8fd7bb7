//! Every method at every size on a molecular potential.

mod result;

use self::result::PotentialCompared;
use crate::jobs::comparison::{self, Comparing, ComparisonOptions, SlotsCost, check_validation};
use crate::jobs::kit::{
    Division, Failure, Folding, Job, Outcome, OutputPath, Session, WithOptions, bounds,
};
use crate::jobs::molecule::labels::LabelOptions;
use crate::jobs::molecule::structures::{FittedStructures, ScoredStructures, chosen, parse_units};
use linwright_molecule::LabelKeys;
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_trial::{
    MoleculeTrial, StructureCalibration, StructureNames, StructureSource, TrialPotential,
};
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
        let potential = TrialPotential::open(Path::new(&self.potential))?;
        potential.model.checkpoint.notes.iter().for_each(|note| session.note(note));
        session.step("reading the structures");
        let units = parse_units(self.units.as_deref())?;
        let FittedStructures { structures: fitted, examples, .. } = &self.calibration.0;
        let of_fits = chosen("--calibration", examples.as_deref())?;
        let of_scores = chosen("--test", self.test.examples.as_deref())?;
        let source = |path, examples, keys| StructureSource { path, examples, units, keys };
        let fitted = source(fitted, of_fits.as_ref(), LabelKeys::default());
        let scored = source(&self.test.structures, of_scores.as_ref(), self.labels.keys());
        let names = StructureNames { calibration: "--calibration", eval: "--test" };
        let drawn = self.drawn()?;
        let trial = MoleculeTrial::new(&potential, [&fitted, &scored], &drawn, names)?;
        let comparing = Comparing {
            job: self,
            options: &self.comparison,
            output: self.output.as_deref(),
            rows,
            trial: &trial,
            name: session.portable(&self.potential),
            fitted_to: &self.calibration.structures,
        };
        comparison::run(&comparing, PotentialCompared::from, session)
    }
}

impl MoleculeCompare {
    /// How fits read structures.
    fn drawn(&self) -> Result<StructureCalibration, Failure> {
        let FittedStructures { batch, validation, .. } = &self.calibration.0;
        let standard = StructureCalibration::default();
        Ok(StructureCalibration {
            sample: Some(self.num_structures),
            batch: batch.unwrap_or(standard.batch),
            validation: check_validation(*validation)?.unwrap_or(standard.validation),
        })
    }
}
