//! Reading of tensors, one block of rows at a time.
//!
//! Memory: the result and the digest of each block; each thread decodes straight into its part of
//! the result. For a transposed matrix each thread holds a strip of rows in addition.

use super::names::{GgufTensor, Layout};
use linwright_tensor::dtype::has_non_finite;
use linwright_tensor::parallel;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Numbers that one thread decodes and hashes at a time, at least one row. Part of the definition
/// of digests.
const BLOCK: usize = 1 << 18;
/// Number of blocks between two releases of pages.
const BLOCKS_OF_PIECE: usize = 32;

/// Numbers and their digest, or index and value of the first non-finite number.
type Outcome = Result<(Vec<f32>, [u8; 32]), (usize, f32)>;

/// Reads a whole tensor. `release` receives byte ranges that are no longer needed.
pub(super) fn read(file: &[u8], tensor: &GgufTensor, release: &dyn Fn(Range<usize>)) -> Outcome {
    match tensor.layout {
        Layout::Transposed => {
            let columns = tensor.stored_rows();
            read_transposed(file, tensor, 0..tensor.columns, columns, release)
        }
        _ => read_rows(file, tensor, 0..tensor.rows(), release),
    }
}

/// Reads some rows, in units of the first extent of the tensor.
pub(super) fn read_some(
    file: &[u8],
    tensor: &GgufTensor,
    rows: Range<usize>,
    release: &dyn Fn(Range<usize>),
) -> Outcome {
    match tensor.layout {
        Layout::Transposed => read_transposed(file, tensor, rows, tensor.stored_rows(), release),
        _ => read_rows(file, tensor, rows, release),
    }
}

fn read_rows(
    file: &[u8],
    tensor: &GgufTensor,
    rows: Range<usize>,
    release: &dyn Fn(Range<usize>),
) -> Outcome {
    let columns = tensor.columns;
    let mut values = vec![0.0f32; rows.len() * columns];
    let rows_of_block = (BLOCK / columns.max(1)).max(1);
    let rows_of_piece = rows_of_block * BLOCKS_OF_PIECE;
    let mut hash = Sha256::new();
    let piece_numbers = (rows_of_piece * columns).max(1);
    for (index, out) in values.chunks_mut(piece_numbers).enumerate() {
        let first = rows.start + index * rows_of_piece;
        let count = out.len() / columns;
        let blocks = out.chunks_mut(rows_of_block * columns).collect();
        let done = parallel::map(blocks, |block, out: &mut [f32]| {
            decode_block(file, tensor, first + block * rows_of_block, out)
        });
        for (block, (digest, bad)) in done.into_iter().enumerate() {
            if bad {
                let from = (index * rows_of_piece + block * rows_of_block) * columns;
                return Err(first_bad(&values, from, rows.start * columns));
            }
            hash.update(digest);
        }
        for done in sources(tensor, first..first + count) {
            release(done);
        }
    }
    Ok((values, hash.finalize().into()))
}

fn first_bad(values: &[f32], from: usize, before: usize) -> (usize, f32) {
    let found = values.iter().enumerate().skip(from).find(|(_, value)| !value.is_finite());
    let (at, value) = found.map_or((from, f32::NAN), |(at, value)| (at, *value));
    (before + at, value)
}

/// Byte range of a run of stored rows.
fn bytes_of(tensor: &GgufTensor, rows: Range<usize>) -> Range<usize> {
    let (start, row) = (tensor.bytes.start, tensor.row_bytes());
    start + rows.start * row..start + rows.end * row
}

/// Decodes consecutive rows from `first` on; returns their digest and whether a number is not
/// finite.
fn decode_block(
    file: &[u8],
    tensor: &GgufTensor,
    first: usize,
    out: &mut [f32],
) -> ([u8; 32], bool) {
    let mut hash = Sha256::new();
    let columns = tensor.columns;
    let rows = out.len() / columns;
    let mut row = 0;
    while row < rows {
        // Rows that are stored consecutively are decoded at once.
        let source = tensor.source_row(first + row);
        let mut run = 1;
        while row + run < rows && tensor.source_row(first + row + run) == source + run {
            run += 1;
        }
        let stored = &file[bytes_of(tensor, source..source + run)];
        let out = &mut out[row * columns..(row + run) * columns];
        tensor.numbers.decode_into(stored, out);
        hash.update(stored);
        row += run;
    }
    if tensor.layout == Layout::MinusOne {
        for value in out.iter_mut() {
            *value -= 1.0;
        }
    }
    (hash.finalize().into(), has_non_finite(out))
}

/// The byte ranges that some rows were read from.
fn sources(tensor: &GgufTensor, rows: Range<usize>) -> Vec<Range<usize>> {
    if matches!(tensor.layout, Layout::Same | Layout::MinusOne | Layout::Rows(_)) {
        let first = rows.clone().next().map_or(0, |row| tensor.source_row(row));
        return vec![bytes_of(tensor, first..first + rows.len())];
    }
    let mut places: Vec<usize> = rows.map(|row| tensor.source_row(row)).collect();
    places.sort_unstable();
    let runs = places.chunk_by(|a, b| a + 1 == *b);
    runs.map(|run| bytes_of(tensor, run[0]..run[run.len() - 1] + 1)).collect()
}

/// Reads `rows` of the transpose of a matrix of `stored_rows` rows: each stored row becomes a
/// column.
fn read_transposed(
    file: &[u8],
    tensor: &GgufTensor,
    rows: Range<usize>,
    stored_rows: usize,
    release: &dyn Fn(Range<usize>),
) -> Outcome {
    let columns = tensor.columns;
    let mut values = vec![0.0f32; rows.len() * stored_rows];
    let strip = (BLOCK / columns.max(1)).max(1);
    let mut hash = Sha256::new();
    let mut start = 0;
    while start < stored_rows {
        let end = stored_rows.min(start + strip * parallel::threads());
        let strips: Vec<Range<usize>> =
            (start..end).step_by(strip).map(|from| from..end.min(from + strip)).collect();
        let decoded = parallel::map(strips, |_, strip: Range<usize>| {
            let stored = &file[bytes_of(tensor, strip.clone())];
            let mut out = vec![0.0f32; strip.len() * columns];
            tensor.numbers.decode_into(stored, &mut out);
            (strip, out, Sha256::digest(stored))
        });
        for (strip, decoded, digest) in decoded {
            hash.update(digest);
            parallel::for_each_chunk(&mut values, 64 * stored_rows, |block, out| {
                for (place, out) in out.chunks_mut(stored_rows).enumerate() {
                    let column = rows.start + block * 64 + place;
                    for (index, row) in strip.clone().enumerate() {
                        out[row] = decoded[index * columns + column];
                    }
                }
            });
        }
        release(bytes_of(tensor, start..end));
        start = end;
    }
    if has_non_finite(&values) {
        return Err(first_bad(&values, 0, rows.start * stored_rows));
    }
    Ok((values, hash.finalize().into()))
}
