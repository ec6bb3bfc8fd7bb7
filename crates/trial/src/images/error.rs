//! Errors of trials of images.

use linwright_nets::{Extent, LabelledImagesError, NetError};

/// Images that cannot be used, or a network that does not suit them. Images are counted from
/// zero.
#[derive(Debug, thiserror::Error)]
pub enum ImageTrialError {
    /// Images that cannot be read.
    #[error(transparent)]
    Images(#[from] LabelledImagesError),
    /// An unusable network.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Too few images to fit to.
    #[error("{of} has {found} images, expected at least 2: one for training, one for validation")]
    TooFew {
        /// Name of the option.
        of: &'static str,
        /// Number of images.
        found: usize,
    },
    /// Images of another shape.
    #[error(
        "{of}: images have {found}, the input of the network {expected}; give other images, or this size as `resize`"
    )]
    Shape {
        /// Name of the option.
        of: &'static str,
        /// Shape of the images.
        found: Extent,
        /// Input of the network.
        expected: Extent,
    },
    /// A label without an output.
    #[error(
        "{of}: label of image {index} is {label}, expected 0 to {}: the network has {classes} outputs",
        classes.saturating_sub(1)
    )]
    Label {
        /// Name of the option.
        of: &'static str,
        /// The image.
        index: usize,
        /// Its label.
        label: u32,
        /// Outputs of the network.
        classes: usize,
    },
    /// A network that is no classifier.
    #[error(
        "the output of the network has {found}, expected one place with a channel for each class; end with flatten and linear"
    )]
    Output {
        /// Its output.
        found: Extent,
    },
    /// Images that are both fitted to and scored.
    #[error(
        "{calibration} and {eval} share {count} images of one set, the first is {first}; choose others with `examples`"
    )]
    Common {
        /// Name of the option, of those that fits read.
        calibration: &'static str,
        /// The same of those that are scored.
        eval: &'static str,
        /// The first image.
        first: usize,
        /// Number of images.
        count: usize,
    },
}
