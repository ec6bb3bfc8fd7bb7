//! Token sequences packed one after another, without padding.

use std::ops::Range;

/// Sequences side by side in one matrix of rows: every sequence sees only itself, and its positions
/// count from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    tokens: Vec<u32>,
    spans: Vec<Range<usize>>,
}

impl Batch {
    /// Packs sequences in the order given.
    #[must_use]
    pub fn new(sequences: &[&[u32]]) -> Self {
        let mut batch = Self::default();
        for sequence in sequences {
            let start = batch.tokens.len();
            batch.tokens.extend_from_slice(sequence);
            batch.spans.push(start..batch.tokens.len());
        }
        batch
    }

    /// All tokens, one a row.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Rows of each sequence.
    #[must_use]
    pub fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// Number of rows, which is the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Length of the longest sequence.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.spans.iter().map(Range::len).max().unwrap_or(0)
    }

    /// For every row the token that follows it in its sequence, `u32::MAX` for the last: the
    /// targets of next-token training.
    #[must_use]
    pub fn next_tokens(&self) -> Vec<u32> {
        let mut targets = vec![u32::MAX; self.len()];
        for span in &self.spans {
            for row in span.clone().skip(1) {
                targets[row - 1] = self.tokens[row];
            }
        }
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_keep_their_rows_and_targets_stay_inside_them() {
        let batch = Batch::new(&[&[5, 6, 7], &[], &[8]]);
        assert_eq!(batch.tokens(), [5, 6, 7, 8]);
        assert_eq!(batch.spans(), [0..3, 3..3, 3..4]);
        assert_eq!((batch.len(), batch.longest()), (4, 3));
        assert_eq!(batch.next_tokens(), [6, 7, u32::MAX, u32::MAX]);
    }
}
