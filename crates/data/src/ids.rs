//! Detection of records with the same id.

use super::DataError;
use super::file::Record;
use super::row::Row;
use serde_json::Value;
use std::collections::BTreeMap;

/// Ids of a file so far, with their lines.
#[derive(Debug, Default)]
pub(super) struct Ids {
    seen: BTreeMap<String, usize>,
}

impl Ids {
    /// Adds the id of a record, if it has one.
    pub(super) fn check(&mut self, record: &Record<'_>) -> Result<(), DataError> {
        let Some(id) = record.optional("id") else { return Ok(()) };
        match self.earlier_line(id, record.line) {
            None => Ok(()),
            Some(first) => Err(record.duplicate_id(id, first)),
        }
    }

    /// Adds an id; returns the line of an earlier occurrence.
    fn earlier_line(&mut self, id: &Value, line: usize) -> Option<usize> {
        let first = *self.seen.entry(id.to_string()).or_insert(line);
        (first != line).then_some(first)
    }
}

/// Number of rows whose id occurred before, and the first of them: its id, its line and the line of
/// the earlier row.
pub(super) fn repeated_ids(rows: &[Row]) -> Option<(usize, String, [usize; 2])> {
    let mut ids = Ids::default();
    let of_row = |row: &Row| {
        let id = row.fields.get("id").filter(|id| !id.is_null())?;
        let first = ids.earlier_line(id, row.line)?;
        Some((id.to_string(), [row.line, first]))
    };
    let mut found = rows.iter().filter_map(of_row);
    let (id, lines) = found.next()?;
    Some((1 + found.count(), id, lines))
}
