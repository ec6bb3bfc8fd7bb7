//! `linwright reproduce`: runs the job of a directory again, and compares.

use super::Reproduce;
use super::compare::{Compared, directories};
use super::result::Reproduced;
use crate::jobs::kit::inputs::{InputHash, check_unchanged};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, recipe_of};
use crate::recipes::{self, RunSettings, is_reference, run_recipe, verb_named};
use linwright_run::atomic::AtomicDir;
use linwright_run::{Monitor, input, shown, shown_reason};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// File of a directory that says how it was made.
const RECORD: &str = "reproduce.json";

/// How a directory was made.
#[derive(Deserialize)]
struct Record {
    /// Version of the program.
    linwright: String,
    /// Name of the recipe, where the results hold it.
    name: Option<String>,
    /// Of the directory of a recipe: the recipe.
    recipe: Option<Map<String, Value>>,
    /// Of the directory of a job: the job.
    job: Option<Map<String, Value>>,
    /// Files that were read.
    #[serde(default)]
    data: Vec<InputHash>,
}

pub(super) fn run(job: &Reproduce, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    outputs::directory(&job.output, false, std::slice::from_ref(&job.directory), session)?;
    let record = read(&job.directory)?;
    let version = session.build().version;
    if record.linwright != version {
        session.note(&format!(
            "note: {} was written by version {}, this is {version}; bytes may differ",
            job.directory.display(),
            shown(&record.linwright)
        ));
    }
    check_unchanged(&record.data)?;
    let own_store = if job.reuse { None } else { Some(store_beside(&job.output)?) };
    session.start_anew(own_store);
    run_again(&record, job, session).map_err(Failure::not_resumable)?;
    session.step("comparing the files");
    let compared = directories(&job.directory, &job.output)?;
    session.finish();
    Ok(outcome(job, compared, session.pieces_found()))
}

/// A store for this command alone, on the disk that must have room for the output anyway. It is
/// never committed; if the command is killed, the next one with this output removes it.
fn store_beside(output: &Path) -> Result<AtomicDir, Failure> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    Ok(AtomicDir::create(&output.with_file_name(format!("{name}.pieces")), false)?)
}

/// Runs what a record says.
fn run_again(record: &Record, job: &Reproduce, session: &mut Session<'_>) -> Result<(), Failure> {
    match (&record.recipe, &record.job) {
        (Some(recipe), _) => {
            let place = job.directory.join(RECORD);
            let own = || job.directory.display().to_string();
            let name = record.name.clone().unwrap_or_else(own);
            let text = Value::Object(recipe.clone()).to_string();
            let recipe = recipes::read(&place, &name, &text, &[])?;
            let output = Some(&*job.output);
            let settings = RunSettings { output, ..RunSettings::default() };
            run_recipe(&name, recipe, settings, session).map(drop)
        }
        (None, Some(map)) => run_one(map, job, session),
        (None, None) => Err(no_record(&job.directory, "it names no job")),
    }
}

fn read(directory: &Path) -> Result<Record, Failure> {
    let path = directory.join(RECORD);
    let text = input::read_text(&path, input::MAX_SETTINGS_BYTES);
    let text = text.map_err(|error| {
        Failure::io(&path.display().to_string(), &error)
            .hint("give a directory that `run`, `compress`, `laser` or `export` wrote")
    })?;
    serde_json::from_str(&text).map_err(|error| no_record(directory, &error.to_string()))
}

fn no_record(directory: &Path, reason: &str) -> Failure {
    let path = directory.join(RECORD);
    let message = format!("{} is no record of a job: {}", path.display(), shown_reason(reason));
    Failure::general(message).hint("directories of earlier versions cannot be reproduced")
}

/// Runs a single job, whose output is the directory itself.
fn run_one(
    recipe: &Map<String, Value>,
    job: &Reproduce,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let found = recipe.iter().find_map(|(key, value)| Some((verb_named(key)?, value)));
    let Some((verb, Value::Object(options))) = found else {
        return Err(no_record(&job.directory, "its job is of no known kind"));
    };
    if let Some((key, _)) = options.iter().find(|(_, value)| is_reference(value)) {
        let message = format!(
            "{}: {key} is of another job of its recipe",
            job.directory.join(RECORD).display()
        );
        return Err(Failure::usage(message).hint("reproduce the directory of the whole recipe"));
    }
    let mut options = options.clone();
    for key in verb.take_places(&mut options).keys().filter(|key| *key != "output") {
        session.note(&format!("note: the place that the record names as {key} is not used"));
    }
    options.insert("output".into(), job.output.display().to_string().into());
    let again =
        (verb.read)(&options).map_err(|error| no_record(&job.directory, &error.to_string()))?;
    session.record(recipe_of(again.as_ref()), None);
    match again.run(session)?.failure {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn outcome(job: &Reproduce, compared: Vec<(PathBuf, Compared)>, reused: u64) -> Outcome {
    let same = compared.iter().filter(|(_, how)| *how == Compared::Same).count();
    let files = compared.into_iter().map(|(path, how)| (path.display().to_string(), how));
    let (directory, output) = (job.directory.clone(), job.output.to_path_buf());
    let result = Reproduced { directory, output, same, reused, files: files.collect() };
    let failure = (same < result.files.len()).then(|| Failure::general(result.line()));
    Outcome { failure, ..Outcome::of(result) }
}
