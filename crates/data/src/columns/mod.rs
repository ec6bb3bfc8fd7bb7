//! Rows of columnar files: Parquet, and Arrow as a stream or a file.
//!
//! Sizes in such a file precede the data, and a few bytes may represent millions of rows. Decoded
//! data is bounded by the size of the file ([`bound`]): the sizes of pages are added before any is
//! decompressed, and rows are counted while they are built. Compression by Snappy and Zstandard is
//! supported, and uncompressed Arrow files as written by the library `datasets`.

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

/// Decoded bytes allowed for any file.
const BASE_BYTES: u64 = 64 << 20;
/// Further decoded bytes allowed per byte of the file. Repeated text and short JSON fields need
/// about 50.
const GROWTH: u64 = 128;

/// Largest number of decoded bytes for a file of `bytes` bytes, as pages and as rows.
fn bound(bytes: usize) -> u64 {
    BASE_BYTES.saturating_add((bytes as u64).saturating_mul(GROWTH))
}

/// Why decoding failed.
#[derive(Debug)]
enum Fault {
    /// The file is invalid.
    Broken(String),
    /// The decoded data exceeds the bound.
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
    // Last resort: sizes are checked beforehand, but the decoders are large external crates, which
    // panic on some contradictions in a file. None of their state is used afterwards.
    let read = catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Fault::Broken("its content is inconsistent".into())));
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

/// Rows decoded so far.
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
