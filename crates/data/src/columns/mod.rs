//! Rows of files that hold them by columns: Parquet, and Arrow as a stream or a file.
//!
//! Such a file says how large things are before they are there, and a few bytes of it may stand for
//! millions of rows. What is decoded is bounded by the size of the file ([`bound`]): pages are
//! added up before any is unpacked, and rows are counted while they are made. Compression by Snappy
//! and Zstandard is read, Arrow files without compression, as the library `datasets` writes them.

mod arrow;
mod pages;
mod parquet;
mod value;

use super::row::Row;
use super::{DataError, TableFormat};
use arrow_array::RecordBatch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use value::Cells;

/// Bytes that any file may become.
const BASE_BYTES: u64 = 64 << 20;
/// How many times larger than a file its rows may be, further. Text in repeated values and short
/// fields of JSON come to some 50.
const GROWTH: u64 = 128;

/// Most bytes that a file of `bytes` bytes may take in memory, unpacked and as rows.
fn bound(bytes: usize) -> u64 {
    BASE_BYTES.saturating_add((bytes as u64).saturating_mul(GROWTH))
}

/// Why there are no rows.
#[derive(Debug)]
enum Fault {
    /// What is wrong with the file.
    Broken(String),
    /// It became larger than it may.
    Large,
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Broken(reason)
    }
}

/// All rows of a file.
pub(super) fn rows(path: &Path, bytes: &[u8], format: TableFormat) -> Result<Vec<Row>, DataError> {
    let mut table = Rows { cells: Cells::new(bound(bytes.len())), rows: Vec::new() };
    let read = || match format {
        TableFormat::Parquet => parquet::read(bytes, &mut table),
        _ => arrow::read(bytes, &mut table),
    };
    // The last resort: sizes are checked before, but the decoders are large, not ours, and meet
    // broken promises of a file by a panic here and there. Nothing of theirs outlives it.
    let read = catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Fault::Broken("its content contradicts itself".into())));
    let path = path.to_owned();
    match read {
        Ok(()) => Ok(table.rows),
        Err(Fault::Broken(reason)) => {
            Err(DataError::BrokenColumns { path, format: format.name(), reason })
        }
        Err(Fault::Large) => {
            let limit_bytes = bound(bytes.len());
            Err(DataError::RowsTooLarge { path, file_bytes: bytes.len(), limit_bytes })
        }
    }
}

/// Rows as they come.
#[derive(Debug)]
struct Rows {
    cells: Cells,
    rows: Vec<Row>,
}

impl Rows {
    /// Appends the rows of a batch.
    fn extend(&mut self, batch: &RecordBatch) -> Result<(), Fault> {
        let schema = batch.schema();
        for index in 0..batch.num_rows() {
            let line = self.rows.len() + 1;
            let fields = schema.fields().iter().zip(batch.columns());
            let named = fields.map(|(field, column)| (field.name().as_str(), column));
            let fields = self.cells.fields(named, index).map_err(|fault| match fault {
                Fault::Broken(reason) => Fault::Broken(format!("row {line}, {reason}")),
                Fault::Large => Fault::Large,
            })?;
            self.rows.push(Row { fields, line });
        }
        Ok(())
    }
}
