//! Labelled images that fits read, and those on which networks are scored.

use linwright_data::Indices;
use linwright_data::images::ImageSource;

/// Labelled images that fits read.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageCalibration {
    /// The files.
    pub source: ImageSource,
    /// Which of the images are used; all if there is no list.
    pub examples: Option<Indices>,
    /// Images of a batch.
    pub batch: usize,
    /// Share of the images for validation: the last ones in the order of a seed.
    pub validation: f64,
}

/// Labelled images on which networks are scored.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageEvaluation {
    /// The files.
    pub source: ImageSource,
    /// Which of the images are used; all if there is no list.
    pub examples: Option<Indices>,
}

impl ImageCalibration {
    /// All images of a source.
    #[must_use]
    pub fn new(source: ImageSource) -> Self {
        Self { source, examples: None, batch: 50, validation: 0.1 }
    }
}
