//! Recipes: complete descriptions of runs, in YAML.

mod list;
mod presets;
mod reference;
mod run_list;
mod set;
mod study;

pub use list::{Entry, JobList};
pub(crate) use list::{is_reference, verb_named};
pub use presets::{PRESETS, Preset};
pub use reference::{page, schema};
pub use study::{read_report, write_report};

use crate::jobs::kit::{Failure, FailureKind, Outcome, Session};
use linwright_run::shown;
use linwright_study::recipe;
use serde_json::Value;
use std::path::Path;

/// Settings of a run of a recipe.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunSettings<'a> {
    /// Directory of the run; `runs/` and the name of the recipe by default.
    pub output: Option<&'a Path>,
    /// Use this model instead of the recipe's.
    pub model: Option<&'a str>,
    /// Values that replace those of the recipe: `key=value`.
    pub set: &'a [String],
    /// Check the recipe and estimate its cost.
    pub dry_run: bool,
}

/// Runs a recipe: a file, or the name of a built-in one.
///
/// # Errors
/// [`Failure`].
pub fn run(
    path: &Path,
    settings: RunSettings<'_>,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let (name, text) = presets::open(path)?;
    let recipe = Recipe::read(path, &name, &text, settings.set)?;
    run_recipe(&name, recipe, settings, session)
}

/// Runs a recipe with this name.
pub(crate) fn run_recipe(
    name: &str,
    recipe: Recipe,
    settings: RunSettings<'_>,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let RunSettings { output, model, dry_run, .. } = settings;
    match recipe {
        Recipe::Jobs(mut list) => {
            if let Some(model) = model {
                list.use_model(model)?;
            }
            run_list::run(name, &list, output, dry_run, session)
        }
        Recipe::Study(mut recipe) => {
            if let Some(model) = model {
                model.clone_into(&mut recipe.model);
            }
            study::run_text(name, &recipe, output, dry_run, session)
        }
        Recipe::ImageStudy(mut recipe) => {
            if let Some(model) = model {
                model.clone_into(&mut recipe.model);
            }
            study::run_images(name, &recipe, output, dry_run, session)
        }
        Recipe::MoleculeStudy(mut recipe) => {
            if let Some(model) = model {
                model.clone_into(&mut recipe.model);
            }
            study::run_molecules(name, &recipe, output, dry_run, session)
        }
    }
}

/// A recipe of any kind.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// Jobs, which may refer to one another.
    Jobs(JobList),
    /// Tables of methods on sets of layers of a language model.
    Study(Box<recipe::Recipe>),
    /// Tables of methods for a small network on images.
    ImageStudy(Box<recipe::ImageRecipe>),
    /// Tables of methods for a molecular potential.
    MoleculeStudy(Box<recipe::MoleculeRecipe>),
}

impl Recipe {
    /// Reads a recipe; `path` is its name in messages, `name` that of its run. Values of `set`
    /// replace those of the recipe.
    ///
    /// # Errors
    /// [`Failure`] with the invalid part.
    pub fn read(path: &Path, name: &str, text: &str, set: &[String]) -> Result<Self, Failure> {
        let keys = set::read(path, text, set)?;
        // Read as text if nothing is replaced, so that messages name the line.
        let text = match set.is_empty() {
            true => text.to_owned(),
            false => Value::Object(keys.clone()).to_string(),
        };
        if list::is_list(&keys) {
            return JobList::read(name, &keys).map(Self::Jobs);
        }
        if keys.contains_key("runs") {
            let message =
                format!("{}: `runs` was replaced by `jobs`", shown(&path.display().to_string()));
            return Err(Failure::new(FailureKind::Recipe, message).hint(
                "write each run as a job, `- sweep: {roles: fc_in, ..}` with a `name`, common options beside `jobs`, \
                 and what was published as its `note`",
            ));
        }
        if keys.get("calibration").is_some_and(|data| data.get("images").is_some()) {
            return Ok(Self::ImageStudy(Box::new(recipe::parse_images(path, &text)?)));
        }
        if keys.get("calibration").is_some_and(|data| data.get("structures").is_some()) {
            return Ok(Self::MoleculeStudy(Box::new(recipe::parse_molecules(path, &text)?)));
        }
        Ok(Self::Study(Box::new(recipe::parse(path, &text)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::kit::Host;
    use crate::jobs::language::calibration::CalibrationOptions;
    use crate::jobs::language::tasks::open_tasks_if_any;
    use crate::jobs::{CalibrationText, Compare, EvaluationOptions};
    use linwright_evaluate::{Build, Task};
    use linwright_run::Silent;
    use std::path::PathBuf;

    /// Checks a recipe, including the options of its jobs.
    fn check(path: &Path, text: &str) -> Result<(), String> {
        let failed = |failure: Failure| format!("{failure:?}");
        match Recipe::read(path, "a recipe", text, &[]).map_err(failed)? {
            Recipe::Jobs(list) => list.check().map_err(failed),
            Recipe::Study(_) | Recipe::ImageStudy(_) | Recipe::MoleculeStudy(_) => Ok(()),
        }
    }

    #[test]
    fn built_in_recipes_are_valid_and_told_apart() {
        for (index, preset) in PRESETS.iter().enumerate() {
            let read = check(Path::new(preset.name), preset.text);
            assert!(read.is_ok(), "{}: {read:?}", preset.name);
            assert!(PRESETS[..index].iter().all(|other| other.name != preset.name));
        }
    }

    #[test]
    fn what_runs_first_asks_nothing_that_its_calibration_text_holds() {
        let host = Host {
            variable: &|_| None,
            cancelled: &|| false,
            build: Build { version: "0", commit: "" },
        };
        let mut silent = Silent;
        let mut session = Session::new(&mut silent, host);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
        let file = |name: &str| folder.join(name).display().to_string();
        for name in ["main-job", "equal-parameters-pocket"] {
            let preset = PRESETS.iter().find(|preset| preset.name == name).unwrap();
            let read = Recipe::read(Path::new(name), name, preset.text, &[]).unwrap();
            let Recipe::Jobs(list) = read else { panic!("{name}") };
            let job: Compare = crate::jobs::read(&list.entries[0].options).unwrap();
            assert!(job.exclude_overlap, "{name}");
            let evaluation = EvaluationOptions {
                text: Some(file("stories-test.jsonl")),
                data: vec![format!("multiple_choice={}", file("facts.jsonl")).parse().unwrap()],
                ..job.evaluation.clone()
            };
            let dataset = file("calibration.jsonl");
            let text = CalibrationText { dataset, ..job.calibration.unwrap().0 };
            let text = CalibrationOptions::new(Some(&text), 40_000, "pocket", &evaluation);
            let source = text.open(&mut session).unwrap().unwrap();
            let mut tasks = open_tasks_if_any(&evaluation, &[], &mut session).unwrap();
            let counts = |tasks: &[Box<dyn Task>]| -> Vec<usize> {
                tasks.iter().map(|task| task.items().len()).collect()
            };
            assert_eq!(counts(&tasks), [400, 1064]);
            let notes = source.leave_out(&mut tasks).unwrap();
            assert_eq!(counts(&tasks), [279, 871]);
            let expected = "279 of 400 documents of task text are scored";
            assert!(notes[0].starts_with(expected), "{notes:?}");
            assert_eq!(source.leave_out(&mut tasks).unwrap(), [""; 0], "{name}");
        }
    }

    #[test]
    fn every_recipe_of_the_repository_is_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
        assert!(files.len() > 5, "{files:?}");
        for path in files {
            let read = check(&path, &std::fs::read_to_string(&path).unwrap());
            assert!(read.is_ok(), "{}: {read:?}", path.display());
        }
    }

    #[test]
    fn networks_of_the_repository_are_valid_and_name_their_weights() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes/nets");
        let paths: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!paths.is_empty());
        for path in paths {
            let (_, weights) = linwright_nets::NetSpec::read(&path).unwrap();
            assert!(weights.is_some(), "{}", path.display());
        }
    }
}
