//! Covering of a vector by chunks, which may overlap and wrap around.

/// Chunks of one size over some features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    pub(super) features: usize,
    pub(super) count: usize,
    size: usize,
}

impl Chunks {
    /// The smallest number of chunks that covers `features`. A chunk may not exceed the features.
    pub(super) fn new(features: usize, size: usize) -> Self {
        Self { features, count: features.div_ceil(size), size }
    }

    /// First feature of a chunk.
    pub(super) fn start(&self, chunk: usize) -> usize {
        chunk * self.features / self.count
    }

    /// Number of chunks that contain each feature.
    pub(super) fn covers(&self) -> Vec<usize> {
        let mut covers = vec![0; self.features];
        for chunk in 0..self.count {
            for k in 0..self.size {
                covers[(self.start(chunk) + k) % self.features] += 1;
            }
        }
        covers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_overlap_and_wrap_round_as_in_the_paper() {
        let chunks = Chunks::new(40, 16);
        assert_eq!((0..chunks.count).map(|k| chunks.start(k)).collect::<Vec<_>>(), [0, 13, 26]);
        let covers = chunks.covers();
        assert_eq!(covers.iter().sum::<usize>(), 48);
        assert_eq!((covers[0], covers[2], covers[13], covers[39]), (2, 1, 2, 1));
    }
}
