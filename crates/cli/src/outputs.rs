//! Checks of outputs: they never overwrite an input, and with --force only outputs of this program.

use crate::failure::Failure;
use crate::source::{POCKET, built_in_folder, variable};
use linwright::run::atomic::{check_directory, check_file};
use linwright::run::place::{self, is_page, is_result, is_samples};
use std::path::{Path, PathBuf};

/// Checks a directory that a command will write.
pub(crate) fn directory(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_directory(path, force)?)
}

/// Checks an output file of results.
pub(crate) fn json(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_file(path, force, is_result)?)
}

/// Checks an output page.
pub(crate) fn page(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_file(path, force, is_page)?)
}

/// Checks an output file of samples.
pub(crate) fn samples(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_file(path, force, is_samples)?)
}

/// The files of a model, if its name is a path.
pub(crate) fn of_model(model: &str) -> Vec<PathBuf> {
    if model == POCKET {
        return built_in_folder().into_iter().collect();
    }
    vec![PathBuf::from(model)]
}

/// Refuses a path that is an input, contains one, or is the home or the working directory.
pub(crate) fn check_place(path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let home = variable("HOME").map(PathBuf::from);
    place::check_place(path, inputs, home.as_deref()).map_err(|error| {
        Failure::usage(error.to_string()).hint("choose another place for the output")
    })
}
