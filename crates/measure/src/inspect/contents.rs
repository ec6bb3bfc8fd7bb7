//! Statistics of one tensor, read once in parts.

use super::record::RowCounts;
use super::source::Stored;
use linwright_tensor::Scratch;
use linwright_tensor::dtype::DType;
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
    /// Bytes per number.
    number: usize,
    /// Whether zero may have a sign bit.
    signed_zero: bool,
}

/// Reads a tensor; `None` if cancelled.
pub(super) fn read(tensor: &Stored<'_>, cancelled: &dyn Fn() -> bool) -> Option<Contents> {
    let float = tensor.dtype().float();
    let rows = Rows::of(tensor);
    // Parts of whole rows.
    let piece = match rows {
        Some(rows) => (PIECE / rows.bytes).max(1) * rows.bytes,
        None => PIECE,
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
        let blocks: Vec<usize> = (0..bytes.len()).step_by(BLOCK).collect();
        let found = parallel::map(blocks, |_, from| {
            let block = from..bytes.len().min(from + BLOCK);
            let values =
                float.map_or_else(Statistics::default, |t| values_of(t, &bytes[block.clone()]));
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
        values: float.map(|_| values),
        rows: rows.map(|_| counts),
        fingerprint: join(prints),
    })
}

fn values_of(dtype: DType, bytes: &[u8]) -> Statistics {
    let mut numbers = Scratch::<f32>::new(bytes.len() / dtype.size());
    dtype.decode_into(bytes, &mut numbers);
    statistics(&numbers)
}

impl Rows {
    /// For a tensor of rank 2 or more with whole bytes per number.
    fn of(tensor: &Stored<'_>) -> Option<Self> {
        let (count, bytes) = (tensor.count(), tensor.bytes());
        let rows = *tensor.shape().first()?;
        if tensor.shape().len() < 2
            || count == 0
            || count / rows < 2
            || !bytes.is_multiple_of(count)
        {
            return None;
        }
        let signed_zero = tensor.dtype().float().is_some();
        Some(Self { bytes: bytes / rows, number: bytes / count, signed_zero })
    }

    /// Counts the rows that start in a block.
    fn count(self, bytes: &[u8], block: Range<usize>) -> RowCounts {
        let mut counts = RowCounts::default();
        let mut start = block.start.next_multiple_of(self.bytes);
        while start < block.end {
            let row = &bytes[start..start + self.bytes];
            // All numbers are equal if each equals the next one; most rows fail at the first pair.
            let same = row[self.number..] == row[..self.bytes - self.number];
            if self.is_zero(&row[..self.number])
                && (same || row.chunks_exact(self.number).all(|number| self.is_zero(number)))
            {
                counts.zero += 1;
            } else if same {
                counts.constant += 1;
            }
            start += self.bytes;
        }
        counts
    }

    fn is_zero(self, number: &[u8]) -> bool {
        let Some((last, rest)) = number.split_last() else {
            return false;
        };
        let sign = if self.signed_zero { 0x7f } else { 0xff };
        last & sign == 0 && rest.iter().all(|byte| *byte == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_wherever_they_begin() {
        let rows = Rows { bytes: 12, number: 4, signed_zero: true };
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
        let whole = Rows { signed_zero: false, ..rows };
        assert_eq!(whole.count(&bytes, 0..72).zero, 1, "the highest bit of an integer counts");
    }
}
