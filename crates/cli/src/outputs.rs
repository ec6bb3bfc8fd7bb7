//! Where commands may write: never over an input, and with --force only over what was written here.

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

/// Checks a file of results that a command will write.
pub(crate) fn json(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_file(path, force, is_result)?)
}

/// Checks a page that a command will write.
pub(crate) fn page(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_file(path, force, is_page)?)
}

/// Checks a file of samples that a command will write.
pub(crate) fn samples(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_place(path, inputs)?;
    Ok(check_file(path, force, is_samples)?)
}

/// The files of a model, as far as its name tells.
pub(crate) fn of_model(model: &str) -> Vec<PathBuf> {
    if model == POCKET {
        return built_in_folder().into_iter().collect();
    }
    vec![PathBuf::from(model)]
}

/// Refuses a place that is an input, holds one, or is the home or the working directory.
pub(crate) fn check_place(path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let home = variable("HOME").map(PathBuf::from);
    place::check_place(path, inputs, home.as_deref()).map_err(|error| {
        Failure::usage(error.to_string()).hint("choose another place for the output")
    })
}
