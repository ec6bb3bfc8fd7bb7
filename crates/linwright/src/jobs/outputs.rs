//! Checks of outputs: they never overwrite an input, and with --force only outputs of this program.

use super::Failure;
use super::source::POCKET;
use super::{AnyJob, Session};
use linwright_run::atomic::{check_directory, check_file};
use linwright_run::place;
use std::path::{Path, PathBuf};

/// Checks a directory that a command will write.
pub fn directory(
    path: &Path,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
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

/// Inputs of a job, in which `pocket` stands for the files of the built-in model.
pub fn inputs_of(job: &dyn AnyJob, session: &mut Session<'_>) -> Vec<PathBuf> {
    let names = job.inputs();
    names.iter().flat_map(|name| of_model(&name.to_string_lossy(), session)).collect()
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
    place::check_place(path, inputs, home.as_deref()).map_err(|error| {
        Failure::usage(error.to_string()).hint("choose another place for the output")
    })
}
