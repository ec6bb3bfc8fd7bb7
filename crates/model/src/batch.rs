//! Token sequences packed into one batch without padding.

use std::ops::Range;

/// A batch of sequences packed into one matrix of rows. Attention stays within a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    tokens: Vec<u32>,
    spans: Vec<Range<usize>>,
    /// Position of the first token of each sequence.
    first: Vec<usize>,
    /// For each sequence the one that it continues (its shared prefix), if any; empty if no
    /// sequence has a prefix.
    parents: Vec<Option<usize>>,
    /// Type of each token.
    types: Option<Vec<u32>>,
}

impl Batch {
    /// Packs sequences in the order given; their positions count from zero.
    #[must_use]
    pub fn new(sequences: &[&[u32]]) -> Self {
        Self::continuing(sequences, &vec![0; sequences.len()])
    }

    /// Packs continuations of sequences; `first` are the positions of their first tokens.
    ///
    /// # Panics
    /// Unless there is one position for each sequence.
    #[must_use]
    #[track_caller]
    pub fn continuing(sequences: &[&[u32]], first: &[usize]) -> Self {
        assert_eq!(sequences.len(), first.len(), "one position for each sequence");
        let mut batch = Self { first: first.to_vec(), ..Self::default() };
        for sequence in sequences {
            let start = batch.tokens.len();
            batch.tokens.extend_from_slice(sequence);
            batch.spans.push(start..batch.tokens.len());
        }
        batch
    }

    /// Packs prefixes, each followed by its continuations. A continuation attends to its prefix and
    /// to itself, not to the other continuations; its positions follow those of the prefix.
    #[must_use]
    pub fn branching(groups: &[(&[u32], Vec<&[u32]>)]) -> Self {
        let mut batch = Self::default();
        for (beginning, branches) in groups {
            let parent = batch.spans.len();
            batch.push(beginning, 0, None);
            for branch in branches {
                batch.push(branch, beginning.len(), Some(parent));
            }
        }
        batch
    }

    fn push(&mut self, sequence: &[u32], first: usize, parent: Option<usize>) {
        let start = self.tokens.len();
        self.tokens.extend_from_slice(sequence);
        self.spans.push(start..self.tokens.len());
        self.first.push(first);
        self.parents.push(parent);
    }

    /// Sets the token type (segment) of each token: which of two texts it belongs to.
    ///
    /// # Panics
    /// Unless there is one type for each token.
    #[must_use]
    #[track_caller]
    pub fn with_types(self, types: Vec<u32>) -> Self {
        assert_eq!(types.len(), self.len(), "one type for each token");
        Self { types: Some(types), ..self }
    }

    /// All tokens, one per row.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The token type of each token, if set; otherwise all have type 0.
    #[must_use]
    pub fn types(&self) -> Option<&[u32]> {
        self.types.as_deref()
    }

    /// Rows of each sequence.
    #[must_use]
    pub fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// Positions of the first token of each sequence.
    #[must_use]
    pub fn first_positions(&self) -> &[usize] {
        &self.first
    }

    /// The prefix of a sequence: the sequence that it continues, if any.
    #[must_use]
    pub fn parent(&self, sequence: usize) -> Option<usize> {
        self.parents.get(sequence).copied().flatten()
    }

    /// Whether some sequence continues another one.
    #[must_use]
    pub fn is_branching(&self) -> bool {
        self.parents.iter().any(Option::is_some)
    }

    /// Number of rows, which is the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Length of the longest sequence, with its prefix.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.ends().max().unwrap_or(0)
    }

    /// Length of each sequence, with its prefix.
    pub(crate) fn ends(&self) -> impl Iterator<Item = usize> {
        self.spans.iter().zip(&self.first).map(|(span, first)| first + span.len())
    }

    /// Next token of every row, the targets of next-token training; `u32::MAX` for the last token
    /// of a sequence.
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
        let later = Batch::continuing(&[&[5], &[6, 7]], &[9, 2]);
        assert_eq!(later.longest(), 10);
    }

    #[test]
    fn branches_follow_their_beginning() {
        let batch = Batch::branching(&[(&[5, 6], vec![&[7], &[8, 9]]), (&[1], vec![])]);
        assert_eq!(batch.tokens(), [5, 6, 7, 8, 9, 1]);
        assert_eq!(batch.spans(), [0..2, 2..3, 3..5, 5..6]);
        assert_eq!(batch.first_positions(), [0, 2, 2, 0]);
        let parents: Vec<_> = (0..4).map(|sequence| batch.parent(sequence)).collect();
        assert_eq!(parents, [None, Some(0), Some(0), None]);
        assert!(batch.is_branching() && !Batch::new(&[&[1]]).is_branching());
        assert_eq!(batch.longest(), 4);
    }
}
