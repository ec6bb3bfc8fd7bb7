//! What stands beside the results of a job: its recipe, its record, times and machine.

use super::outcome::apart;
use super::record::{self, JobRecord};
use super::{Failure, Session};
use linwright_report::AnyReport;
use linwright_run::state;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// What stands beside a model that was not loaded but made: the job as a recipe, what was
/// `measured` and the machine, the record by which `linwright reproduce` makes it again, and a card
/// that says `what` it is.
pub(crate) fn beside_new(
    session: &Session<'_>,
    what: &str,
    measured: &Value,
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let version = session.build().version;
    let recipe = session.job().keys().next().map_or("", String::as_str).replace('_', "-");
    let card = format!(
        "# Model of linwright {recipe}\n\n{what} Made by Linwright {version}; `recipe.yaml` is the \
         recipe, and `reproduce.json` has the hashes of what was read.\n"
    );
    let mut files = session.files_beside(measured)?;
    files.push(JobRecord::new(session, Vec::new()).file(session)?);
    files.push(("README.md".to_owned(), card.into_bytes()));
    Ok(files)
}

/// Files of a model that was made, see [`beside_new`], with its result in
/// `results.json`.
pub(crate) fn beside_result(
    session: &Session<'_>,
    what: &str,
    result: &dyn AnyReport,
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let (result, measured) = apart(result)?;
    let mut files = beside_new(session, what, &measured)?;
    files.push(("results.json".to_owned(), format!("{result:#}\n").into_bytes()));
    Ok(files)
}

/// As [`beside_result`], with the `curve` of a training in `curves.jsonl`.
pub(crate) fn beside_trained<P: Serialize>(
    session: &Session<'_>,
    what: &str,
    result: &dyn AnyReport,
    curve: &[P],
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut files = beside_result(session, what, result)?;
    files.push(("curves.jsonl".to_owned(), record::lines(curve)?.into_bytes()));
    Ok(files)
}

/// Writes beside the results of a job without a language model the job as a recipe, times and
/// machine, and the record by which `linwright reproduce` runs it again.
pub(crate) fn write_beside_own(
    session: &Session<'_>,
    measured: &Value,
    directory: &Path,
) -> Result<(), Failure> {
    write_record(session, &JobRecord::new(session, Vec::new()), measured, directory)
}

/// Writes a record beside results, with recipe, times and machine.
pub(crate) fn write_record(
    session: &Session<'_>,
    record: &JobRecord,
    measured: &Value,
    directory: &Path,
) -> Result<(), Failure> {
    let record = record.file(session)?;
    for (name, bytes) in session.files_beside(measured)?.into_iter().chain([record]) {
        state::write(&directory.join(name), &bytes)?;
    }
    Ok(())
}
