//! Recipes as jobs.

use crate::jobs::kit::outcome::text;
use crate::jobs::kit::{Division, Failure, Job, Outcome, OutputPath, Session};
use crate::recipes::{self, RunSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A recipe that is run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Run {
    /// A recipe file, or the name of a built-in one (`linwright ls presets`).
    #[schemars(extend("x-short" = "r", "x-path" = true))]
    pub recipe: Option<PathBuf>,
    /// Directory of the run [default: runs/ and the recipe's name and fingerprint].
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Use this model instead of the recipe's: a directory, `pocket` or `owner/name[@revision]`.
    #[schemars(extend("x-short" = "m"))]
    pub model: Option<String>,
    /// Replace a value of the recipe: `model=pocket`, `evaluation.window=256`,
    /// `compress-1.keep=0.7`, whose value is YAML. May be given more than once.
    #[schemars(extend("x-value" = "KEY=VALUE", "x-whole" = true, "examples" = ["seed=1"]))]
    pub set: Vec<String>,
    /// Check the recipe, show its commands, estimate their cost, and stop.
    pub dry_run: bool,
    /// Print the JSON schema of recipes of jobs, and stop.
    pub print_schema: bool,
    /// Print the page on recipes, in Markdown, and stop.
    pub print_reference: bool,
}

impl Job for Run {
    const VERB: &str = "run";
    const ABOUT: &str = "Run a recipe: capture, fit, evaluate, report. Run the same command again \
        to resume.";
    const DIVISION: Division = Division::Merged;
    const RUNS_JOBS: bool = true;

    fn inputs(&self) -> Vec<PathBuf> {
        self.recipe.iter().cloned().collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if self.print_schema || self.print_reference {
            let lines: Vec<String> = match self.print_schema {
                true => format!("{:#}", recipes::schema()).lines().map(str::to_owned).collect(),
                false => recipes::page().lines().map(str::to_owned).collect(),
            };
            return Ok(Outcome::new(recipes::schema(), vec![text(lines)]));
        }
        let recipe = self.recipe.as_deref().ok_or_else(|| {
            Failure::usage("no recipe is given")
                .hint("give --recipe FILE, or the name of a built-in one: `linwright ls presets`")
        })?;
        let settings = RunSettings {
            output: self.output.as_deref(),
            model: self.model.as_deref(),
            set: &self.set,
            dry_run: self.dry_run,
        };
        recipes::run(recipe, settings, session)
    }
}
