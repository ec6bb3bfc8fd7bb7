//! Directories made again from the recipe that they hold.

mod compare;
mod repetition;
mod result;

pub(crate) use compare::is_of_result;

use self::result::Reproduced;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A directory made again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reproduce {
    /// A directory that this program wrote: of a recipe, or of a model.
    #[schemars(extend("x-positional" = true, "x-path" = true))]
    pub directory: PathBuf,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Use finished pieces of the user's store, which are counted in the report. Without it
    /// everything is computed again.
    pub reuse: bool,
}

impl Job for Reproduce {
    const VERB: &str = "reproduce";
    const ABOUT: &str = "Run the job of a directory again, and compare the files.\n\n\
        The same version of the program on the same instruction set gives the same bytes in all \
        files but `measured.json`, which holds times and machine. Nothing that an earlier command \
        had computed is used: no checkpoint, and no finished pieces. The exit code is 1 if a file \
        differs.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<Reproduced>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        repetition::run(self, session)
    }
}
