//! Where the multivectors of a batch lie in longer vectors.

use super::basis::SpinBasis;

/// Location of the coordinates of a multivector in longer vectors: the chunk of features from
/// `start` on, with wrap-around. The batch is `width` interleaved vectors: coordinate `k` of vector
/// `b` is at `((start + k) % features) * width + b`.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Feature of coordinate 0.
    pub start: usize,
    /// Features of the vectors.
    pub features: usize,
    /// Number of vectors.
    pub width: usize,
}

impl Chunk {
    /// Offset of a coordinate.
    #[inline(always)]
    pub(super) fn place(&self, coordinate: u32) -> usize {
        let feature = self.start + coordinate as usize;
        let wrapped = if feature < self.features { feature } else { feature - self.features };
        wrapped * self.width
    }

    /// # Panics
    /// If vectors and sheets do not have the numbers of the chunk.
    pub(super) fn assert_fits(&self, basis: &SpinBasis, numbers: usize, sheets: usize) {
        let Self { start, features, width } = *self;
        assert_eq!(numbers, features * width, "numbers of the vectors");
        assert_eq!(sheets, basis.dimension() * width, "numbers of the sheets");
        let fits = start < features && basis.dimension() <= features;
        assert!(fits, "a chunk of {} at {start} of {features} features", basis.dimension());
    }
}
