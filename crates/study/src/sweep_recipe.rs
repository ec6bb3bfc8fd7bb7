//! Sweep recipes: the options of `linwright sweep` for one model, in YAML.
//!
//! ```yaml
//! version: 1
//! title: LASER on the built-in model
//! model: pocket
//! options: {rate: [9.9, 9, 8]}              # of every run
//! runs:
//!   - title: knowledge questions
//!     options: {lname: [fc_in, fc_out], questions: pocket}
//!     published: {dense: 13.1, edited: 24.0}  # what to compare with, in per cent
//! ```

use crate::recipe::VERSION;
use linwright_compress::form::{RecipeError, form};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Options by long name; a list repeats an option, `true` is a flag.
pub type Options = Map<String, Value>;

/// Sweeps of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRecipe {
    /// Version of the format, now 1.
    pub version: u32,
    /// Heading.
    pub title: String,
    /// The model: a directory, `pocket` or `owner/name[@revision]`.
    pub model: String,
    /// Options of all runs.
    #[serde(default)]
    pub options: Options,
    /// The sweeps.
    pub runs: Vec<SweepRun>,
}

/// One sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRun {
    /// Its heading, which is unique.
    pub title: String,
    /// Its options, which override the common ones.
    #[serde(default)]
    pub options: Options,
    /// Published accuracies for comparison.
    #[serde(default)]
    pub published: Option<Published>,
}

/// Accuracies from a paper, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Of the dense model.
    pub dense: f64,
    /// Of the edited model.
    pub edited: f64,
}

/// Whether a recipe is a sweep recipe: it has `runs`.
#[must_use]
pub fn is_sweep(text: &str) -> bool {
    let read: Result<BTreeMap<String, Value>, _> = serde_saphyr::from_str(text);
    read.is_ok_and(|fields| fields.contains_key("runs"))
}

/// Parses a sweep recipe; `path` is its name in messages.
///
/// # Errors
/// [`RecipeError`] naming file, position and what is wrong.
pub fn parse_sweeps(path: &Path, text: &str) -> Result<SweepRecipe, RecipeError> {
    let recipe: SweepRecipe =
        serde_saphyr::from_str(text).map_err(|error| form(path, &error.to_string()))?;
    let wrong = |key: &str, reason: String| {
        Err(RecipeError::Value { path: path.to_owned(), key: key.to_owned(), reason })
    };
    if recipe.version != VERSION {
        return wrong("version", format!("is {}, this program supports {VERSION}", recipe.version));
    }
    if recipe.runs.is_empty() {
        return wrong("runs", "must not be empty".into());
    }
    let titles: Vec<&str> = recipe.runs.iter().map(|run| run.title.as_str()).collect();
    if let Some((_, title)) =
        titles.iter().enumerate().find(|(k, title)| titles[..*k].contains(title))
    {
        return wrong("runs", format!("has two titled {title:?}"));
    }
    Ok(recipe)
}

impl SweepRecipe {
    /// The options of a run, with model and title.
    #[must_use]
    pub fn job(&self, run: &SweepRun) -> Options {
        let own = [("model", &self.model), ("title", &run.title)];
        let own = own.map(|(key, value)| (key.to_owned(), Value::from(value.as_str())));
        let given = self.options.iter().chain(&run.options);
        own.into_iter().chain(given.map(|(key, value)| (key.clone(), value.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "version: 1
title: t
model: pocket
options: {rate: [9.9, 8], no-share: true}
runs:
  - {title: a, options: {lname: fc_in, rate: 5}}
  - {title: b}
";

    #[test]
    fn options_of_a_run_override_those_of_all() {
        assert!(is_sweep(TEXT));
        assert!(!is_sweep("version: 1\ntables: []\n") && !is_sweep(": ["));
        let recipe = parse_sweeps(Path::new("r.yaml"), TEXT).unwrap();
        let of = |index: usize| Value::Object(recipe.job(&recipe.runs[index]));
        let first = json!({
            "model": "pocket", "title": "a", "rate": 5, "no-share": true, "lname": "fc_in",
        });
        assert_eq!(of(0), first);
        let second = json!({"model": "pocket", "title": "b", "rate": [9.9, 8], "no-share": true});
        assert_eq!(of(1), second);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (from, to, expected) in [
            ("version: 1", "version: 2", "version is 2"),
            ("title: b", "title: a", "two titled \"a\""),
            ("title: t", "titel: t", "titel"),
        ] {
            let error = parse_sweeps(Path::new("r.yaml"), &TEXT.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let none = parse_sweeps(Path::new("r.yaml"), "version: 1\ntitle: t\nmodel: m\nruns: []\n");
        assert!(none.unwrap_err().to_string().contains("must not be empty"));
    }
}
