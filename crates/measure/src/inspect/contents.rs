//! Statistics of one tensor, read once in parts.

use super::record::RowCounts;
use super::source::Stored;
use linwright_files::Encoding;
use linwright_tensor::Scratch;
use linwright_tensor::kernels::fingerprint::{fingerprint, join};
use linwright_tensor::kernels::statistics::{Statistics, statistics};
use linwright_tensor::parallel;
use std::ops::Range;

/// Bytes that one thread processes at a time, so that they stay in its cache. Part of the
/// definition of the fingerprint.
const BLOCK: usize = 1 << 18;
/// Bytes between two releases of memory, or one row if that is longer.
const PIECE: usize = 64 << 20;

/// Statistics of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Contents {
    /// `None` for an unsupported storage type.
    pub(super) values: Option<Statistics>,
    /// `None` without rows of two numbers or more.
    pub(super) rows: Option<RowCounts>,
    /// Fingerprint: equal for equal bytes.
    pub(super) fingerprint: u128,
}

/// Layout of rows in bytes.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// Bytes per row.
    bytes: usize,
    /// Numbers per row.
    numbers: usize,
    /// How the numbers of a row are compared.
    by: By,
}

/// How the numbers of a row are compared.
#[derive(Clone, Copy, Debug)]
enum By {
    /// By their bytes, the given number for each; zero may have a sign bit.
    Bytes(usize, bool),
    /// By their values.
    Values(Encoding),
}

/// Reads a tensor; `None` if cancelled.
pub(super) fn read(tensor: &Stored<'_>, cancelled: &dyn Fn() -> bool) -> Option<Contents> {
    let encoding = tensor.encoding();
    let rows = Rows::of(tensor);
    // Blocks of whole numbers.
    let unit = encoding.map_or(1, |encoding| encoding.unit().1);
    let step = (BLOCK / unit).max(1) * unit;
    // Parts of whole rows.
    let piece = match rows {
        Some(rows) => (PIECE / rows.bytes).max(1) * rows.bytes,
        None => (PIECE / unit).max(1) * unit,
    };
    let mut values = Statistics::default();
    let mut counts = RowCounts::default();
    let mut prints = Vec::new();
    for start in (0..tensor.bytes()).step_by(piece) {
        if cancelled() {
            return None;
        }
        let range = start..tensor.bytes().min(start + piece);
        let bytes = tensor.part(range.clone());
        let bytes: &[u8] = &bytes;
        let blocks: Vec<usize> = (0..bytes.len()).step_by(step).collect();
        let found = parallel::map(blocks, |_, from| {
            let block = from..bytes.len().min(from + step);
            let values = encoding
                .map_or_else(Statistics::default, |of| values_of(of, &bytes[block.clone()]));
            let print = fingerprint(&bytes[block.clone()]);
            (values, print, rows.map_or_else(RowCounts::default, |rows| rows.count(bytes, block)))
        });
        for (block, print, rows) in found {
            values = values.merge(block);
            prints.push(print);
            counts.zero += rows.zero;
            counts.constant += rows.constant;
        }
        tensor.release(range);
    }
    Some(Contents {
        values: encoding.map(|_| values),
        rows: rows.map(|_| counts),
        fingerprint: join(prints),
    })
}

fn values_of(encoding: Encoding, bytes: &[u8]) -> Statistics {
    let (numbers, unit) = encoding.unit();
    let mut values = Scratch::<f32>::new(bytes.len() / unit * numbers);
    encoding.decode_into(bytes, &mut values);
    statistics(&values)
}

impl Rows {
    /// For a tensor of rank 2 or more whose numbers have whole bytes, or whose rows are whole units
    /// of its encoding.
    fn of(tensor: &Stored<'_>) -> Option<Self> {
        let (count, bytes) = (tensor.count(), tensor.bytes());
        let rows = *tensor.shape().first()?;
        if tensor.shape().len() < 2 || count == 0 || count / rows < 2 {
            return None;
        }
        let by = match tensor.encoding() {
            Some(Encoding::Plain(dtype)) => By::Bytes(dtype.size(), true),
            Some(encoding) if (count / rows).is_multiple_of(encoding.unit().0) => {
                By::Values(encoding)
            }
            None if bytes.is_multiple_of(count) => By::Bytes(bytes / count, false),
            _ => return None,
        };
        Some(Self { bytes: bytes / rows, numbers: count / rows, by })
    }

    /// Counts the rows that start in a block.
    fn count(self, bytes: &[u8], block: Range<usize>) -> RowCounts {
        let mut counts = RowCounts::default();
        let mut start = block.start.next_multiple_of(self.bytes);
        while start < block.end {
            let row = &bytes[start..start + self.bytes];
            let (zero, same) = match self.by {
                By::Bytes(number, signed_zero) => alike_bytes(row, number, signed_zero),
                By::Values(encoding) => self.alike_values(row, encoding),
            };
            counts.zero += u64::from(zero);
            counts.constant += u64::from(same && !zero);
            start += self.bytes;
        }
        counts
    }

    /// Whether all numbers of a row are zero, and whether they are equal.
    fn alike_values(self, row: &[u8], encoding: Encoding) -> (bool, bool) {
        let mut values = Scratch::<f32>::new(self.numbers);
        encoding.decode_into(row, &mut values);
        let first = values[0];
        let same = values.iter().all(|value| value.to_bits() == first.to_bits());
        (values.iter().all(|value| *value == 0.0), same)
    }
}

/// Whether all numbers of a row are zero, and whether their bytes are equal.
fn alike_bytes(row: &[u8], number: usize, signed_zero: bool) -> (bool, bool) {
    // All numbers are equal if each equals the next one; most rows fail at the first pair.
    let same = row[number..] == row[..row.len() - number];
    let is_zero = |number: &[u8]| {
        let Some((last, rest)) = number.split_last() else {
            return false;
        };
        let sign = if signed_zero { 0x7f } else { 0xff };
        last & sign == 0 && rest.iter().all(|byte| *byte == 0)
    };
    let zero = is_zero(&row[..number]) && (same || row.chunks_exact(number).all(is_zero));
    (zero, same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_wherever_they_begin() {
        let rows = Rows { bytes: 12, numbers: 3, by: By::Bytes(4, true) };
        let table: [[f32; 3]; 6] = [
            [0.0, -0.0, 0.0],
            [1.5, 1.5, 1.5],
            [0.0, 0.0, 0.1],
            [2.0, 2.0, 1.0],
            [0.0, 0.0, 0.0],
            [f32::NAN, f32::NAN, f32::NAN],
        ];
        let bytes: Vec<u8> = table.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(rows.count(&bytes, 0..72), RowCounts { zero: 2, constant: 2 });
        for cut in 1..72 {
            let (a, b) = (rows.count(&bytes, 0..cut), rows.count(&bytes, cut..72));
            assert_eq!((a.zero + b.zero, a.constant + b.constant), (2, 2), "cut at {cut}");
        }
        let whole = Rows { by: By::Bytes(4, false), ..rows };
        assert_eq!(whole.count(&bytes, 0..72).zero, 1, "the highest bit of an integer counts");
    }
}
