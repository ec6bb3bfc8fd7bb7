//! Pieces of a run directory.

use crate::LmError;
use linwright_run::{Fingerprint, RunDirectory};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Kind of the pieces that hold cells.
pub(crate) const CELL: &str = "cell";

/// Loads a cell of an earlier run, or computes and stores it.
pub(crate) fn finished_cell<C: Serialize + DeserializeOwned>(
    directory: &RunDirectory,
    fingerprint: &Fingerprint,
    compute: impl FnOnce() -> Result<C, LmError>,
) -> Result<C, LmError> {
    directory.finished(CELL, fingerprint, compute)
}
