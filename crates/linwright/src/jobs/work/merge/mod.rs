//! Shards of a job merged into its result.

mod merging;

use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Shards of a job, merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Merge {
    /// Output directories of all shards of one job, in any order, or the folder that holds them.
    #[schemars(extend("x-positional" = true, "x-path" = true, "x-whole" = true))]
    pub directories: Vec<PathBuf>,
    /// Output of the job.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Also merge if shards are missing, and compute what they would have done.
    pub fill: bool,
}

impl Job for Merge {
    const VERB: &str = "merge";
    const ABOUT: &str = "Merge what the shards of a job computed, and finish the job.\n\n\
        Commands with --shard i/N compute a part of their work each, on one machine or on several, \
        and keep it in their output directories. The merged result has the same bytes as that of \
        a single command. A directory may be given twice; what a killed shard did not compute is \
        computed now.";

    fn inputs(&self) -> Vec<PathBuf> {
        self.directories.clone()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        merging::run(self, session)
    }
}
