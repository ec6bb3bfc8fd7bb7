//! Extents of examples between two layers.

use crate::NetError;

/// Largest number of activations of one example between two layers: descriptions are untrusted
/// input.
const MOST_NUMBERS: usize = 1 << 28;

/// Extent of one example between two layers. In memory its positions are rows, channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Rows of places.
    pub height: usize,
    /// Positions in a row.
    pub width: usize,
    /// Channels at a position.
    pub channels: usize,
}

impl Extent {
    /// Number of places.
    #[must_use]
    pub fn places(self) -> usize {
        self.height * self.width
    }

    /// Number of numbers.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.places() * self.channels
    }

    /// This extent, if it is neither empty nor too large.
    pub(crate) fn bounded(self, layer: &str) -> Result<Self, NetError> {
        let places = self.height.checked_mul(self.width);
        match places.and_then(|places| places.checked_mul(self.channels)) {
            Some(1..=MOST_NUMBERS) => Ok(self),
            _ => Err(NetError::layer(
                layer,
                format!("gives {self}"),
                format!("between 1 and {MOST_NUMBERS} numbers"),
            )),
        }
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {} places of {} channels", self.height, self.width, self.channels)
    }
}

/// Square windows over an image.
pub(crate) struct Windows {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
}

impl Windows {
    /// The extent of the windows over an image, with its channels.
    pub(crate) fn over(&self, extent: Extent, layer: &str) -> Result<Extent, NetError> {
        let along = |length: usize| {
            let padded = self.padding.checked_mul(2)?.checked_add(length)?;
            let steps = padded.checked_sub(self.size)?.checked_div(self.stride)?;
            (self.size > 0).then_some(steps + 1)
        };
        match (along(extent.height), along(extent.width)) {
            (Some(height), Some(width)) => Extent { height, width, ..extent }.bounded(layer),
            _ => {
                let Self { size, stride, padding } = self;
                let found = format!(
                    "windows of size {size}, stride {stride}, padding {padding} over {} x {} places",
                    extent.height, extent.width
                );
                Err(NetError::layer(layer, found, "windows inside the image, positive stride"))
            }
        }
    }
}
