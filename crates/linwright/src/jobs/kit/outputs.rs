//! Checks of outputs: they never overwrite an input, and with --force only outputs of this program.

use super::Failure;
use super::source::POCKET;
use super::{AnyJob, Field, Session, Verb, Written, recipe_of};
use linwright_report::AnyReport;
use linwright_run::atomic::{AtomicFile, Replace, check_directory, check_file};
use linwright_run::place::{self, PlaceError, is_result};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Checks a directory that a command will write.
pub fn directory(
    path: &Path,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
        return Err(Failure::usage(format!("{} would be a directory", path.display())).hint(
            "give another name; of a language model, `linwright export DIR --form gguf -o OUT` makes a \
             file for llama.cpp",
        ));
    }
    check_place(path, inputs, session)?;
    Ok(check_directory(path, force)?)
}

/// Checks an output file, which `--force` replaces only if `is_ours` knows its content.
pub fn file(
    path: &Path,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
    is_ours: fn(&Path) -> bool,
) -> Result<(), Failure> {
    check_place(path, inputs, session)?;
    Ok(check_file(path, force, is_ours)?)
}

/// Writes an output file that [`file()`] checked before the work. What came there meanwhile is
/// checked again.
pub fn write(
    path: &Path,
    bytes: &[u8],
    force: bool,
    is_ours: fn(&Path) -> bool,
) -> Result<(), Failure> {
    write_all([prepared(path, bytes, force, is_ours)?])
}

/// Writes a result with its kind as JSON, with what was measured.
pub(crate) fn write_report(
    path: &Path,
    result: &dyn AnyReport,
    force: bool,
) -> Result<(), Failure> {
    write(path, &json_of(result)?, force, is_result)
}

/// A result with its kind as the content of a file, with what was measured.
pub(crate) fn json_of(result: &dyn AnyReport) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    result
        .write(&mut bytes)
        .map_err(|error| Failure::general(format!("cannot write the result as JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A file of a result with its kind as JSON, which appears with others by [`write_all`].
pub(crate) fn prepared_report(
    path: &Path,
    result: &dyn AnyReport,
    force: bool,
) -> Result<AtomicFile, Failure> {
    prepared(path, &json_of(result)?, force, is_result)
}

/// An output file as [`write()`] writes it, which appears with others by [`write_all`].
pub fn prepared(
    path: &Path,
    bytes: &[u8],
    force: bool,
    is_ours: fn(&Path) -> bool,
) -> Result<AtomicFile, Failure> {
    let mut file = AtomicFile::create(path, Replace::if_forced(force, is_ours))?;
    file.write(bytes)?;
    Ok(file)
}

/// Lets files appear that are all written.
pub fn write_all(files: impl IntoIterator<Item = AtomicFile>) -> Result<(), Failure> {
    Ok(files.into_iter().try_for_each(AtomicFile::commit)?)
}

/// Inputs of a job, in which `pocket` stands for the files of the built-in model.
pub fn inputs_of(job: &dyn AnyJob, session: &mut Session<'_>) -> Vec<PathBuf> {
    let names = job.inputs();
    names.iter().flat_map(|name| of_model(&name.to_string_lossy(), session)).collect()
}

/// Options that name a folder to which files are added, beside others.
const FOLDERS: [&str; 1] = ["log_samples"];

/// Refuses what a job would write where it reads, or where it writes something else, before it does
/// anything.
pub(crate) fn check_job(job: &dyn AnyJob, session: &mut Session<'_>) -> Result<(), Failure> {
    let fields = Verb::named(job.verb()).map(|verb| (verb.fields)()).unwrap_or_default();
    let options = job.options();
    let mut places = Vec::new();
    for field in fields.iter().filter(|field| field.is_place()) {
        let given = options.get(&field.key).and_then(Value::as_str).unwrap_or_default();
        if !given.is_empty() {
            places.push((field, PathBuf::from(given)));
        }
    }
    if places.is_empty() {
        return Ok(());
    }
    let inputs = inputs_of(job, session);
    for (field, place) in &places {
        match field.written {
            Some(Written::Result) => check_place(place, &inputs, session)?,
            _ => place::check_inputs(place, &inputs).map_err(misplaced)?,
        }
    }
    let output = |(field, path): (&Field, PathBuf)| place::Output {
        option: format!("--{}", field.flag()),
        path,
        is_shared: FOLDERS.contains(&field.key.as_str()),
    };
    let outputs: Vec<_> = places.into_iter().map(output).collect();
    place::check_apart(&outputs).map_err(misplaced)
}

/// Options that change nothing that a run directory keeps.
const OF_SHOW: [&str; 5] = ["title", "form", "save_best", "force", "dry_run"];

/// What a run directory of a job depends on, for the message where it holds another run: options by
/// name, the content of model and data.
pub(crate) fn basis(job: &dyn AnyJob, model: &str, session: &Session<'_>) -> Value {
    let mut basis = Map::new();
    for options in recipe_of(job).into_values() {
        basis.extend(options.as_object().cloned().unwrap_or_default());
    }
    OF_SHOW.iter().for_each(|name| drop(basis.shift_remove(*name)));
    let of_data = session.data().iter();
    let data: Map<String, Value> =
        of_data.map(|read| (read.path.display().to_string(), read.sha256.clone().into())).collect();
    basis.insert("command".into(), job.verb().into());
    basis.insert("content".into(), json!({"model": model, "data": data}));
    basis.insert("version".into(), session.build().version.into());
    Value::Object(basis)
}

/// The files of a model, if its name is a path.
pub fn of_model(model: &str, session: &mut Session<'_>) -> Vec<PathBuf> {
    if model == POCKET {
        return session.built_in_folder().into_iter().collect();
    }
    vec![PathBuf::from(model)]
}

/// Refuses a path that is an input, contains one, or is the home or the working directory.
pub fn check_place(path: &Path, inputs: &[PathBuf], session: &Session<'_>) -> Result<(), Failure> {
    let home = session.variable("HOME").map(PathBuf::from);
    place::check_place(path, inputs, home.as_deref()).map_err(misplaced)
}

fn misplaced(error: PlaceError) -> Failure {
    Failure::usage(error.to_string()).hint("choose another place for the output")
}
