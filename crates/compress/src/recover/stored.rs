//! Finished recoveries in a store: the report as a line of JSON, then the trained numbers.

use super::RecoveryReport;
use crate::{CompressError, times};
use linwright_run::{Fingerprint, Measured, PieceKey, Store};
use linwright_tensor::little_endian_bytes;
use linwright_train::Problem;

/// Kind of the pieces.
const KIND: &str = "recovery";

/// Puts the numbers of a finished recovery into the problem and gives its report, if there is one.
pub(super) fn get(
    store: &Store,
    print: &Fingerprint,
    problem: &mut dyn Problem,
) -> Result<Option<RecoveryReport>, CompressError> {
    let count = problem.slices().iter().map(|slice| slice.values.len()).sum();
    let key = PieceKey::new(KIND, print.clone());
    let Some((mut report, numbers)) = store.decoded(&key, |bytes| parse(&bytes, count))? else {
        return Ok(None);
    };
    let mut rest = numbers.as_slice();
    for slice in problem.slices() {
        let (own, others) = rest.split_at(slice.values.len());
        slice.values.copy_from_slice(own);
        rest = others;
    }
    report.seconds = times::get(store, print)?.unwrap_or_default().into();
    Ok(Some(report))
}

/// Stores a finished recovery.
pub(super) fn put(
    store: &Store,
    print: &Fingerprint,
    problem: &mut dyn Problem,
    report: &RecoveryReport,
) -> Result<(), CompressError> {
    times::put(store, print, *report.seconds)?;
    let line = serde_json::json!(RecoveryReport { seconds: Measured::default(), ..report.clone() })
        .to_string();
    let slices = problem.slices();
    let mut parts = vec![line.as_bytes(), b"\n"];
    parts.extend(slices.iter().map(|slice| little_endian_bytes(slice.values)));
    Ok(store.put(&PieceKey::new(KIND, print.clone()), &parts)?)
}

fn parse(bytes: &[u8], count: usize) -> Result<(RecoveryReport, Vec<f32>), String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no report")?;
    let report = serde_json::from_slice(&bytes[..end]).map_err(|error| error.to_string())?;
    let (numbers, rest) = bytes[end + 1..].as_chunks::<4>();
    if numbers.len() != count || !rest.is_empty() {
        let found = bytes.len() - end - 1;
        return Err(format!("it has {found} bytes of numbers, expected {}", 4 * count));
    }
    Ok((report, numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()))
}
