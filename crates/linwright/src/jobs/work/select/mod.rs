//! Rows of a matrix by their Vendi score.

mod result;
mod selection;

use self::result::RowsSelected;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, SizeText, bounds};
use linwright_measure::vendi::Diversity;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The most diverse rows of a matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Select {
    /// A weight file, a directory of them, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Name of the tensor, which must be a matrix.
    #[schemars(extend("x-value" = "NAME", "x-conflicts" = ["sites"]))]
    pub tensor: Option<String>,
    /// Linear layer by its name in `inspect --slots`; the rows of its weight are output features.
    #[schemars(extend("x-value" = "NAME"))]
    pub sites: Option<String>,
    /// Number of rows to select.
    #[schemars(extend("x-short" = "r", "x-value" = "R", "x-conflicts" = ["keep", "size"]))]
    #[schemars(range(min = 0, max = bounds::FEATURES))]
    pub rank: Option<usize>,
    /// Number of rows such that two factors have this share of the parameters.
    #[schemars(extend("x-value" = "SHARE", "x-hyphen" = true, "x-conflicts" = ["size"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keep: Option<f64>,
    /// Number of rows in another unit: `rho=0.5` (share of the smaller side, rounded down),
    /// `rate=9` as in LASER (the share (10 - rate) / 10 of the smaller side).
    #[schemars(extend("x-value" = "UNIT=N"))]
    pub size: Option<SizeText>,
    /// Weight the score by quality, the mean of exp(-|x|²) over the rows, which prefers rows of
    /// small norm.
    #[schemars(extend("x-aliases" = ["use-quality"]))]
    pub quality: bool,
    /// Select the least diverse rows.
    #[schemars(extend("x-aliases" = ["min-diversity"]))]
    pub minimise: bool,
    /// Parameter G of the kernel exp(-G |x - y|² / 2): a number, or `median` for one over the
    /// median squared distance.
    #[schemars(extend("x-value" = "G", "x-hyphen" = true))]
    pub gamma: String,
    /// Order of the Vendi score: 1 is Shannon entropy; 2 needs no eigenvalues and is faster.
    #[schemars(with = "Names<Diversity>")]
    pub order: Diversity,
    /// Also write the result as JSON to this file.
    #[schemars(extend("x-short" = "o", "x-value" = "FILE"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for Select {
    fn default() -> Self {
        Self {
            model: String::new(),
            tensor: None,
            sites: None,
            rank: None,
            keep: None,
            size: None,
            quality: false,
            minimise: false,
            gamma: "1".to_owned(),
            order: Diversity::One,
            output: None,
            force: false,
        }
    }
}

impl Job for Select {
    const VERB: &str = "select";
    const ABOUT: &str = "Select the most diverse rows of a matrix, greedily by the Vendi score of a \
        Gaussian kernel, and report the residual of the matrix after projection onto their span.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<RowsSelected>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.model)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        selection::run(self, session)
    }
}
