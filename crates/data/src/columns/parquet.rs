//! Parquet: row groups, each with its columns in pages.

use super::pages::{self, Pages};
use super::{BASE_BYTES, Fault, Rows, bound};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// Magic number at both ends of a file.
const MARK: &[u8] = b"PAR1";
/// Smallest size of a file: magic number, length of the metadata, and magic number again.
const MIN_BYTES: usize = 12;
/// Largest number of rows decoded at once.
const BATCH: u64 = 1024;

/// Reads all rows.
pub(super) fn read(bytes: &[u8], rows: &mut Rows) -> Result<(), Fault> {
    if bytes.len() < MIN_BYTES || !bytes.starts_with(MARK) || !bytes.ends_with(MARK) {
        let reason = "it does not begin and end with PAR1, so it is another format or incomplete";
        return Err(reason.to_owned().into());
    }
    let broken = |error: ParquetError| Fault::Broken(error.to_string());
    // Types are those of the file's own schema; the embedded Arrow schema could contradict it.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let file = Bytes::copy_from_slice(bytes);
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).map_err(broken)?;
    let expected = builder.metadata().file_metadata().num_rows();
    let largest = largest_page(bytes, builder.metadata())?;
    // A page with one repeated value can fill a batch with it.
    let batch = (BASE_BYTES / largest.max(1)).clamp(1, BATCH);
    let reader = builder.with_batch_size(batch as usize).build().map_err(broken)?;
    for batch in reader {
        rows.extend(&batch.map_err(|error| error.to_string())?)?;
    }
    if i64::try_from(rows.rows.len()) != Ok(expected) {
        let found = rows.rows.len();
        return Err(format!("it announces {expected} rows, but has {found}").into());
    }
    Ok(())
}

/// Reads all page headers before any page is decompressed: the uncompressed size of the largest
/// page, if all pages together are within the bound of the file.
fn largest_page(bytes: &[u8], metadata: &ParquetMetaData) -> Result<u64, Fault> {
    let mut total = Pages::default();
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let name = column.column_path().string();
        let compression = column.compression();
        if !matches!(
            compression,
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
        ) {
            return Err(format!(
                "column {name} is compressed by {compression}, which is not supported; write the file \
                 with SNAPPY or ZSTD"
            )
            .into());
        }
        let chunk =
            chunk(bytes, column).ok_or_else(|| format!("column {name} is outside of the file"))?;
        let pages = pages::walk(chunk).map_err(|reason| format!("column {name}: {reason}"))?;
        total.add(&pages);
    }
    if total.bytes > bound(bytes.len()) || total.values > bound(bytes.len()) {
        return Err(Fault::Large);
    }
    Ok(total.largest)
}

/// Bytes of a column in one row group.
fn chunk<'a>(bytes: &'a [u8], column: &ColumnChunkMetaData) -> Option<&'a [u8]> {
    // As in the decoder, so that it reads the pages that were checked.
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(column.compressed_size()).ok()?)?;
    let last = bytes.len() - MARK.len();
    bytes[..last].get(start..end).filter(|_| start >= MARK.len())
}
