//! Common parts of the `collapse` commands: options, results, notes.

use crate::jobs::kit::{Failure, Outcome, Session, bounds, outputs};
use linwright_collapse::{
    ClassSums, CollapseError, FeatureFile, HeadRef, Keep, LayerOptions, LayerReport, report,
};
use linwright_report::Report;
use linwright_run::atomic::{AtomicFile, Replace};
use linwright_run::place::is_result;
use linwright_run::{input, shown_reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Additions to the metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseOptions {
    /// Bootstrap draws of classes for 95 % intervals; 0 for none.
    #[schemars(range(min = 0, max = bounds::DRAWS))]
    pub resamples: usize,
    /// Do not measure random frames and shuffled labels for comparison.
    pub no_baselines: bool,
    /// Seed of draws, frames and shuffles.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
}

impl Default for CollapseOptions {
    fn default() -> Self {
        Self { resamples: 200, no_baselines: false, seed: 0 }
    }
}

impl CollapseOptions {
    pub(in crate::jobs) fn of_layer(&self, keep: Keep) -> LayerOptions {
        let baselines = !self.no_baselines;
        LayerOptions { keep, draws: self.resamples, baselines, seed: self.seed }
    }
}

/// Whether a file has sums by class that this program wrote.
pub(in crate::jobs) fn is_sums(path: &Path) -> bool {
    ClassSums::is_stored(path)
}

/// Checks a file for the result as JSON.
pub(in crate::jobs) fn check_result(
    path: Option<&Path>,
    force: bool,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| outputs::file(path, force, inputs, session, is_result))
}

/// Files that a command writes.
pub(in crate::jobs) struct Files<'a> {
    /// The result as JSON.
    pub(in crate::jobs) result: Option<&'a Path>,
    /// Sums that are written, but not yet renamed.
    pub(in crate::jobs) sums: Option<(&'a Path, AtomicFile)>,
    pub(in crate::jobs) force: bool,
}

/// Sums as a file that is not yet renamed.
pub(in crate::jobs) fn written_sums(
    sums: &ClassSums,
    path: &Path,
    force: bool,
) -> Result<AtomicFile, Failure> {
    Ok(sums.clone().written(path, Replace::if_forced(force, is_sums))?)
}

/// Shows the notes on layers, if details are wanted.
pub(in crate::jobs) fn detail_notes(layers: &[LayerReport], session: &Session<'_>) {
    report::notes(layers).into_iter().for_each(|note| session.detail(|| note));
}

/// Writes a result and sums, last and together, so that nothing is left of a command that fails.
pub(in crate::jobs) fn finish(
    result: impl Report,
    files: Files<'_>,
    session: &Session<'_>,
) -> Result<Outcome, Failure> {
    let Files { result: path, sums, force } = files;
    let (mut paths, mut written) = (Vec::new(), Vec::new());
    if let Some((path, file)) = sums {
        paths.push(path);
        written.push(file);
    }
    if let Some(path) = path {
        paths.push(path);
        written.push(outputs::prepared(path, &outputs::json_of(&result)?, force, is_result)?);
    }
    outputs::write_all(written)?;
    paths.iter().for_each(|path| session.note(&format!("wrote {}", path.display())));
    Ok(Outcome::of(result))
}

/// Largest result that is read, in bytes.
const RESULT_BYTES: u64 = 1 << 28;

/// The JSON of a saved result, of which errors say what was expected.
pub(in crate::jobs) fn read_json(
    path: &Path,
    expected: &str,
) -> Result<Map<String, Value>, Failure> {
    let text = input::read_text(path, RESULT_BYTES)
        .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
    serde_json::from_str(&text).map_err(|error| {
        let reason = shown_reason(&error.to_string());
        Failure::general(format!("{}: not a result of {expected}: {reason}", path.display()))
    })
}

/// The head of a file of features.
pub(in crate::jobs) fn head_of(file: &FeatureFile) -> Option<HeadRef<'_>> {
    file.head.as_ref().map(|rows| HeadRef { rows, bias: file.bias.as_deref() })
}

impl From<CollapseError> for Failure {
    fn from(error: CollapseError) -> Self {
        let message = crate::jobs::kit::message_of(&error);
        match error {
            CollapseError::Interrupted => Self::interrupted(message).not_resumable(),
            CollapseError::Memory(error) => error.into(),
            CollapseError::File(error) => error.into(),
            CollapseError::Store(error) => error.into(),
            CollapseError::Net(error) => error.into(),
            CollapseError::Train(error) => Self::from(error).not_resumable(),
            CollapseError::Setting { .. } => Self::usage(message),
            CollapseError::NonFinite { .. }
            | CollapseError::Label { .. }
            | CollapseError::FewClasses { .. }
            | CollapseError::Shape { .. }
            | CollapseError::NoTensor { .. }
            | CollapseError::Type { .. }
            | CollapseError::State { .. }
            | CollapseError::Mismatch { .. }
            | CollapseError::Overflow { .. }
            | CollapseError::Numerics { .. } => Self::general(message),
        }
    }
}
