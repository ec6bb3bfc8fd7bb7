//! Checks of outputs: they never overwrite an input, and with --force only outputs of this program.

use super::Failure;
use super::Session;
use super::source::POCKET;
use linwright_run::atomic::{check_directory, check_file};
use linwright_run::place::{self, is_page, is_result, is_samples};
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

/// Checks an output file of results.
pub fn json(
    path: &Path,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
    check_place(path, inputs, session)?;
    Ok(check_file(path, force, is_result)?)
}

/// Checks an output page.
pub fn page(
    path: &Path,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
    check_place(path, inputs, session)?;
    Ok(check_file(path, force, is_page)?)
}

/// Checks an output file of samples.
pub fn samples(
    path: &Path,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
    check_place(path, inputs, session)?;
    Ok(check_file(path, force, is_samples)?)
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
