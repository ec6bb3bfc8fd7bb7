//! Division of documents for a search.

use linwright_evaluate::python_shuffle;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The documents of a task in the order drawn, and the parts that select and that test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splits {
    /// Indices of the documents in the order drawn.
    pub order: Vec<usize>,
    /// Number of documents in each of the three chunks, which are the first of the order.
    pub chunk: usize,
    /// Number of documents that select, the first of the order; all others test.
    pub search: usize,
}

impl Splits {
    /// Seed of the published code.
    pub const SEED: u64 = 42;

    /// Divides `count` documents as CPython's `random.Random(seed).shuffle` orders them; `None` if
    /// a chunk would be empty.
    #[must_use]
    pub fn new(count: usize, seed: u64) -> Option<Self> {
        let share = |share: f64| (share * count as f64) as usize;
        let (chunk, search) = (share(0.0666), share(0.2));
        (chunk > 0).then(|| Self { order: python_shuffle(seed, count), chunk, search })
    }

    /// Places in the order of a chunk, of three.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    #[track_caller]
    pub fn chunk(&self, index: usize) -> Range<usize> {
        assert!(index < 3, "chunk {index} of 3");
        index * self.chunk..(index + 1) * self.chunk
    }

    /// Indices of the documents that test, ascending. The published code loses the last document of
    /// the order, and so does `compat`.
    #[must_use]
    pub fn test(&self, compat: bool) -> Vec<usize> {
        let end = self.order.len() - usize::from(compat);
        sorted(&self.order[self.search..end])
    }

    /// Indices of the documents at these places in the order, ascending.
    #[must_use]
    pub fn documents(&self, places: Range<usize>) -> Vec<usize> {
        sorted(&self.order[places])
    }
}

fn sorted(indices: &[usize]) -> Vec<usize> {
    let mut indices = indices.to_vec();
    indices.sort_unstable();
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_selects_or_tests() {
        let splits = Splits::new(100, Splits::SEED).unwrap();
        assert_eq!((splits.chunk, splits.search), (6, 20));
        assert_eq!([0, 1, 2].map(|index| splits.chunk(index)), [0..6, 6..12, 12..18]);
        let mut all = [splits.documents(0..20), splits.test(false)].concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        let lost: Vec<usize> =
            splits.test(false).into_iter().filter(|i| !splits.test(true).contains(i)).collect();
        assert_eq!(lost, [splits.order[99]]);
        assert_eq!(Splits::new(15, 42), None);
        assert!(Splits::new(16, 42).is_some());
    }
}
