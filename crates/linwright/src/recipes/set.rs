//! `--set key=value`: values of a recipe that are replaced.

use crate::jobs::kit::{Failure, FailureKind, Verb};
use linwright_compress::form::RecipeError;
use linwright_run::{shown, shown_reason};
use serde_json::{Map, Value};
use std::path::Path;

/// The keys and values of a recipe, overridden by those of `set`.
pub(super) fn read(path: &Path, text: &str, set: &[String]) -> Result<Map<String, Value>, Failure> {
    let read: Result<Map<String, Value>, _> = serde_saphyr::from_str(text);
    let mut recipe = read.map_err(|error| RecipeError::Form {
        path: path.to_owned(),
        reason: shown_reason(&error.to_string()),
        suggestion: String::new(),
    })?;
    for assignment in set {
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(wrong(assignment, "expected key=value"));
        };
        let value: Value = serde_saphyr::from_str(value)
            .map_err(|error| wrong(assignment, &shown_reason(&error.to_string())))?;
        put(&mut recipe, key, value).map_err(|reason| wrong(assignment, &reason))?;
    }
    Ok(recipe)
}

fn wrong(assignment: &str, reason: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("--set {}: {reason}", shown(assignment)))
        .hint("give keys from the top, separated by dots: `seed=1`, `evaluation.window=256`, `compress-1.keep=0.7`, `jobs.0.compress.keep=0.7`")
}

/// Sets a value at a path of keys. The first may be the name of a job, whose options follow.
fn put(recipe: &mut Map<String, Value>, path: &str, value: Value) -> Result<(), String> {
    let keys: Vec<&str> = path.split('.').collect();
    let (first, rest) = keys.split_first().ok_or("no key")?;
    if !rest.is_empty()
        && !recipe.contains_key(*first)
        && let Some(options) = job_named(recipe, first)
    {
        return put_in(options, rest, value);
    }
    let mut whole = Value::Object(std::mem::take(recipe));
    let done = put_in(&mut whole, &keys, value);
    if let Value::Object(map) = whole {
        *recipe = map;
    }
    done
}

fn put_in(place: &mut Value, keys: &[&str], value: Value) -> Result<(), String> {
    let Some((first, rest)) = keys.split_first() else {
        *place = value;
        return Ok(());
    };
    match place {
        Value::Object(map) => put_in(map.entry(*first).or_insert(Value::Null), rest, value),
        Value::Array(list) => {
            let count = list.len();
            let item = first.parse().ok().and_then(|index: usize| list.get_mut(index));
            let item = item
                .ok_or_else(|| format!("{} is not an item of a list of {count}", shown(first)))?;
            put_in(item, rest, value)
        }
        Value::Null => {
            *place = Value::Object(Map::new());
            put_in(place, keys, value)
        }
        other => {
            Err(format!("{} is below {}, a single value", shown(first), shown(&other.to_string())))
        }
    }
}

/// The options of the job with this name.
fn job_named<'r>(recipe: &'r mut Map<String, Value>, name: &str) -> Option<&'r mut Value> {
    let key = ["jobs", "stages"].into_iter().find(|key| recipe.contains_key(*key))?;
    let jobs = recipe.get_mut(key)?.as_array_mut()?;
    let mut counts: Vec<&'static str> = Vec::new();
    for job in jobs {
        let map = job.as_object_mut()?;
        let (key, verb) = map.keys().find_map(|key| Some((key.clone(), Verb::named(key)?)))?;
        counts.push(verb.name);
        let same = counts.iter().filter(|other| **other == verb.name).count();
        let own = map.get("name").and_then(Value::as_str).map(str::to_owned);
        if own.unwrap_or_else(|| format!("{}-{same}", verb.name)) == name {
            return map.get_mut(&key);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str =
        "version: 1\njobs:\n  - compress: {keep: 0.8}\n  - compress: {rank: 4}\n    name: b\n";

    fn set(assignments: &[&str]) -> Result<Value, String> {
        let assignments: Vec<String> = assignments.iter().map(ToString::to_string).collect();
        let recipe = read(Path::new("r.yaml"), TEXT, &assignments);
        recipe.map(Value::Object).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn values_are_put_at_their_path() {
        let recipe = set(&["compress-1.keep=0.7", "b.layers='0-1'", "model=pocket"]).unwrap();
        let expected = json!({
            "version": 1,
            "jobs": [
                {"compress": {"keep": 0.7}},
                {"compress": {"rank": 4, "layers": "0-1"}, "name": "b"},
            ],
            "model": "pocket",
        });
        assert_eq!(recipe, expected);
        let recipe = set(&["jobs.1.compress.rank=8", "evaluation.window=256"]).unwrap();
        assert_eq!(recipe["jobs"][1]["compress"]["rank"], 8);
        assert_eq!(recipe["evaluation"]["window"], 256);
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for (assignment, expected) in [
            ("keep", "expected key=value"),
            ("jobs.7.name=a", "7 is not an item of a list of 2"),
            ("version.a=1", "a is below 1, a single value"),
            ("keep=[", "--set keep=["),
        ] {
            let error = set(&[assignment]).unwrap_err();
            assert!(error.contains(expected), "{assignment}: {error}");
        }
    }
}
