//! Runs a recipe of jobs: each job once, in order, and a report of all.

use super::list::{Entry, JobList, Resolved};
use crate::jobs::outcome::{text, write_pages};
use crate::jobs::{Failure, Outcome, Session, command, measured, to_yaml};
use linwright_files::MEASURED;
use linwright_report::{Block, Document};
use linwright_run::atomic::write_atomic;
use linwright_run::{Fingerprint, Monitor, RunDirectory, sha256_hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The outcome of a finished job, as stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finished {
    result: Value,
    measured: Value,
    report: Document,
}

/// Runs the jobs of a recipe. What is finished is read from the directory.
pub(super) fn run(
    name: &str,
    list: &JobList,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let recipe = list.to_value();
    let fingerprint =
        Fingerprint::of(&[("version", &env!("CARGO_PKG_VERSION")), ("recipe", &recipe)]);
    let own = || Path::new("runs").join(format!("{name}-{}", &fingerprint.0[..8]));
    let folder = output.map_or_else(own, Path::to_owned);
    let resolved = list.resolve(&folder)?;
    if dry_run {
        let lines: Vec<String> = resolved.iter().map(|one| command(one.job.as_ref())).collect();
        return Outcome::new(&json!({ "recipe": recipe, "commands": lines }), vec![text(lines)]);
    }
    let directory = RunDirectory::open(&folder, &fingerprint)?;
    write_atomic(&folder.join("recipe.yaml"), to_yaml(&recipe)?.as_bytes())?;
    let mut finished = Vec::new();
    for (entry, resolved) in list.entries.iter().zip(&resolved) {
        session.step(&format!("{} of {}", entry.name, list.title));
        session.record(recorded(entry), Some(&folder));
        finished.push(one(entry, resolved, &directory, session)?);
    }
    write_results(list, &recipe, &finished, &folder, session)
}

/// A job as the recipe that its own directory holds: with its references, without its place.
fn recorded(entry: &Entry) -> Map<String, Value> {
    let mut options = entry.options.clone();
    for key in ["output", "force"] {
        options.shift_remove(key);
    }
    Map::from_iter([(entry.verb.name.replace('-', "_"), options.into())])
}

/// Runs a job, or reads its outcome.
fn one(
    entry: &Entry,
    resolved: &Resolved,
    directory: &RunDirectory,
    session: &mut Session<'_>,
) -> Result<Finished, Failure> {
    let print = Fingerprint::of(&[
        ("job", &entry.name),
        ("verb", &entry.verb.name),
        ("options", &entry.options),
    ]);
    let is_there = resolved.output.as_ref().is_none_or(|output| output.exists());
    if !is_there {
        directory.forget("jobs", &print)?;
    }
    directory.finished("jobs", &print, || {
        let outcome = resolved.job.run(session)?;
        if let Some(failure) = outcome.failure {
            return Err(failure);
        }
        let folder = directory.path().display().to_string();
        let (mut result, mut report) = (outcome.result, plain(&outcome.report)?);
        let measured = measured::split(&mut result);
        measured::without_folder(&mut result, &folder);
        measured::without_folder(&mut report, &folder);
        if let (false, Some(path)) = (entry.verb.output_ending.is_empty(), &resolved.output) {
            // Without times, so that it has the same bytes again.
            write_atomic(path, format!("{result:#}\n").as_bytes())?;
        }
        let report = serde_json::from_value(report).map_err(|error| unreadable(&error))?;
        Ok(Finished { result, measured, report })
    })
}

/// A report as JSON.
fn plain(report: &Document) -> Result<Value, Failure> {
    serde_json::to_value(report).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::general(format!("cannot write the report as JSON: {error}"))
}

/// Writes `results.json`, `measured.json`, `reproduce.json` and the report.
fn write_results(
    list: &JobList,
    recipe: &Value,
    finished: &[Finished],
    folder: &Path,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let of_all = |of: fn(&Finished) -> &Value| -> Map<String, Value> {
        let names = list.entries.iter().map(|entry| entry.name.clone());
        names.zip(finished.iter().map(|one| of(one).clone())).collect()
    };
    let results = json!({ "title": list.title, "jobs": of_all(|one| &one.result) });
    let version = session.build().version;
    let text_of_recipe = to_yaml(recipe)?;
    let reproduce = json!({
        "schema": 1, "linwright": version, "recipe": recipe,
        "recipe_sha256": sha256_hex(text_of_recipe.as_bytes()),
    });
    let mut document = Document { title: list.title.clone(), ..Document::default() };
    for (entry, one) in list.entries.iter().zip(finished) {
        document.blocks.push(text([format!("{}: {}", entry.name, entry.verb.name)]));
        document.blocks.extend(one.report.blocks.iter().cloned());
    }
    document.blocks.push(Block::Text(vec!["recipe:".to_owned(), text_of_recipe.clone()]));
    let stages = session.finish();
    let files =
        session.files_beside(&json!({ "jobs": of_all(|one| &one.measured), "stages": stages }))?;
    for (name, bytes) in files.into_iter().filter(|(name, _)| name == MEASURED) {
        write_atomic(&folder.join(name), &bytes)?;
    }
    write_atomic(&folder.join("reproduce.json"), format!("{reproduce:#}\n").as_bytes())?;
    let page = write_pages(&document, folder)?;
    // Last, so that it is there when all is.
    write_atomic(&folder.join("results.json"), format!("{results:#}\n").as_bytes())?;
    document.blocks.pop();
    document.blocks.push(text([format!("report: {}", page.display())]));
    Ok(Outcome { report: document, ..Outcome::new(&results, Vec::new())? })
}
