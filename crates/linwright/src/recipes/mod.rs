//! Recipes: complete descriptions of runs, in YAML.

mod list;
mod presets;
mod reference;
mod run_list;
mod set;

pub use list::{Entry, JobList};
pub(crate) use list::{is_reference, verb_named};
pub use presets::{PRESETS, Preset};
pub use reference::{page, schema};

use crate::jobs::kit::{Failure, FailureKind, Outcome, Session};
use linwright_run::shown;
use serde_json::{Map, Value};
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
    let recipe = read(path, &name, &text, settings.set)?;
    run_recipe(&name, recipe, settings, session)
}

/// Runs a recipe with this name.
pub(crate) fn run_recipe(
    name: &str,
    mut recipe: JobList,
    settings: RunSettings<'_>,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let RunSettings { output, model, dry_run, .. } = settings;
    if let Some(model) = model {
        recipe.use_model(model)?;
    }
    run_list::run(name, &recipe, output, dry_run, session)
}

/// A form of recipes that earlier versions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OldForm {
    /// Sweeps with common options.
    #[error("`runs` was replaced by `jobs`")]
    Runs,
    /// Rows of methods on sets of layers.
    #[error("`tables` was replaced by jobs that compare methods")]
    Tables,
}

impl OldForm {
    /// The form of a recipe with these keys, if it is an old one.
    fn of(keys: &Map<String, Value>) -> Option<Self> {
        // Either word was the main key of its form, and is an option of no job.
        [("tables", Self::Tables), ("runs", Self::Runs)]
            .into_iter()
            .find_map(|(key, form)| keys.contains_key(key).then_some(form))
    }

    /// What is written in its place.
    fn advice(self) -> &'static str {
        match self {
            Self::Runs => {
                "write each run as a job, `- sweep: {roles: fc_in, ..}` with a `name`, common options beside `jobs`, \
                 and what was published as its `note`"
            }
            Self::Tables => {
                "write each table as a job, `- compare: {layers: 0/0-1, roles: [query, key, value], heal: ridge, \
                 keep: [], no_controls: true, methods: [{method: low_rank, size: rank=4, label: LR4}]}`, with `seed`, \
                 `calibration` and `text` beside `jobs`; `compare_net` for images, `molecule_compare` for \
                 structures: see Comparisons in docs/recipes.md, which `linwright run --print-reference` prints"
            }
        }
    }
}

/// Reads a recipe; `path` is its name in messages, `name` that of its run. Values of `set` replace
/// those of the recipe.
///
/// # Errors
/// [`Failure`] with the invalid part.
pub fn read(path: &Path, name: &str, text: &str, set: &[String]) -> Result<JobList, Failure> {
    let keys = set::read(path, text, set)?;
    if let Some(form) = OldForm::of(&keys) {
        let message = format!("{}: {form}", shown(&path.display().to_string()));
        return Err(Failure::new(FailureKind::Recipe, message).hint(form.advice()));
    }
    JobList::read(name, &keys)
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
        let list = read(path, "a recipe", text, &[]).and_then(|list| list.check());
        list.map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn forms_of_earlier_versions_are_refused_with_what_replaced_them() {
        let tables = "version: 1\ntitle: Old\nmodel: pocket\ncalibration: {dataset: pocket}\n\
            eval: {text: pocket}\ntables: [{title: One, layers: [[0]], methods: [{fit: {method: rotor}}]}]\n";
        let runs = "version: 1\nmodel: pocket\nruns: [{title: One, options: {rate: 9}}]\n";
        let both = format!("{tables}jobs: [{{compress: {{keep: 0.8}}}}]\n");
        for (text, words) in [
            (tables, ["old.yaml: `tables` was replaced", "- compare: {", "docs/recipes.md"]),
            (&both, ["`tables` was replaced", "compare_net", "molecule_compare"]),
            (runs, ["old.yaml: `runs` was replaced by `jobs`", "- sweep: {", "`note`"]),
        ] {
            let failure = read(Path::new("old.yaml"), "old", text, &[]).unwrap_err();
            assert_eq!(failure.kind(), FailureKind::Recipe);
            let told = format!("{failure:?}");
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    }

    #[test]
    fn what_is_advised_is_a_recipe() {
        for form in [OldForm::Tables, OldForm::Runs] {
            let advised = form.advice().split('`').nth(1).unwrap();
            let advised = advised.replace(", ..}", "}");
            let text = format!("version: 1\nmodel: pocket\njobs:\n  {advised}\n");
            check(Path::new("new.yaml"), &text).unwrap();
        }
    }

    #[test]
    fn built_in_recipes_are_valid() {
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
            let list = read(Path::new(name), name, preset.text, &[]).unwrap();
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
