//! Linear layers of a molecular potential replaced by smaller ones.

mod plan;
mod recovery;
mod replacement;
mod result;

use self::result::{CompressionPlanned, PotentialCompressed};
use crate::jobs::kit::{
    Failure, Folding, Job, Outcome, OutputPath, Recover, Session, SizeText, TermOf, WithOptions,
    bounds,
};
use crate::jobs::molecule::labels::LabelOptions;
use linwright_report::ReportKind;
pub(crate) use plan::SlotMethods;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A method for the linear layers of a molecular potential, fitted to structures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeCompress {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// Method of replacement with its options, as for `compress`: `monarch:blocks=8`
    /// [default: low_rank].
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub method: Option<TermOf<SlotMethods>>,
    /// Share of parameters kept in the targeted layers. If a method does not support this size, the
    /// nearest one is used, and --dry-run shows it; low rank never keeps more than this share.
    #[schemars(extend("x-value" = "SHARE", "x-conflicts" = ["rank", "size"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keep: Option<f64>,
    /// Rank of the factors, for methods that have one.
    #[schemars(extend("x-value" = "R", "x-conflicts" = ["size"]))]
    #[schemars(range(min = 0, max = bounds::FEATURES))]
    pub rank: Option<usize>,
    /// Size in another unit, as for `compress`: `energy=0.9`.
    #[schemars(extend("x-value" = "UNIT=N"))]
    pub size: Option<SizeText>,
    /// Interaction layers to replace: `1`, `0,2`, `0-1` [default: all].
    pub layers: Option<String>,
    /// Roles to replace: mixing (of channels), filter (from radial functions) [default: both].
    #[schemars(extend("x-value" = "ROLE"))]
    pub roles: Vec<String>,
    /// Names of linear layers to replace: a glob such as `*.linears_tensor.3`, or a regular
    /// expression after `re:` [default: all].
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub sites: Vec<String>,
    /// Names of linear layers to leave unchanged: a glob or, after `re:`, a regular expression.
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub ignore: Vec<String>,
    /// Structures in extended XYZ to fit to; their energies and forces are used by --recover only.
    /// laser and svd need none.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub calibration: Option<PathBuf>,
    /// Largest number of structures to fit to, drawn with the seed.
    #[schemars(range(min = 2, max = bounds::EXAMPLES), extend("x-value" = "N"))]
    pub num_structures: usize,
    /// Train all parameters of the potential afterwards for this many steps on the energies and
    /// forces of --calibration, of which a twentieth is held out to choose the best step.
    /// `300:rate=0.001` sets the largest step size [default: 0.0003].
    #[schemars(extend("x-value" = "STEPS"))]
    pub recover: Option<WithOptions<Recover>>,
    /// Structures with forces, and energies if available, on which the potential is evaluated
    /// before and after.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub test: Option<PathBuf>,
    /// Units of the structures, such as `kcal/mol,A` [default: those of the model].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Names of energies and forces.
    #[serde(flatten, with = "Folding::<LabelOptions>")]
    pub labels: LabelOptions,
    /// Seed of random initial parameters and of the choice of structures.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Print the plan with its parameters, memory and time, and stop.
    pub dry_run: bool,
}

impl Default for MoleculeCompress {
    fn default() -> Self {
        Self {
            potential: String::new(),
            method: None,
            keep: None,
            rank: None,
            size: None,
            layers: None,
            roles: Vec::new(),
            sites: Vec::new(),
            ignore: Vec::new(),
            calibration: None,
            num_structures: 200,
            recover: None,
            test: None,
            units: None,
            labels: LabelOptions::default(),
            seed: 0,
            output: OutputPath::default(),
            force: false,
            dry_run: false,
        }
    }
}

impl Job for MoleculeCompress {
    const VERB: &str = "molecule-compress";
    const ABOUT: &str = "Replace linear layers of a molecular potential by smaller ones fitted to \
        structures, and save it.\n\n\
        Of the interaction layers, those that mix channels and those that make filters of distances \
        are replaced; embedding and readout stay, unless --recover trains all of it. Errors of \
        energies and forces are measured before and after, in single precision without tables. The \
        other commands for potentials open the directory; only the exact path applies operators as \
        they are, the fast one their dense weights.";
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<PotentialCompressed>(), ReportKind::of::<CompressionPlanned>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let files = self.calibration.iter().chain(&self.test).cloned();
        std::iter::once(PathBuf::from(&self.potential)).chain(files).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        replacement::run(self, session)
    }
}
