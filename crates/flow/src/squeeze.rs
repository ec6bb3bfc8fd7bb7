//! Squeezes: blocks of 2 x 2 positions become one position with four times the channels.

use crate::{Extent, SqueezeOrder};
use linwright_tensor::{Mat, Scalar};

impl SqueezeOrder {
    /// The squeezed channel of a channel at a position of its block.
    fn channel(self, channel: usize, down: usize, across: usize, channels: usize) -> usize {
        match self {
            Self::ChannelMajor => 4 * channel + 2 * down + across,
            Self::PlaceMajor => (2 * down + across) * channels + channel,
        }
    }

    /// Squeezes examples of this extent: rows (examples * positions, channels) become (examples *
    /// positions / 4, 4 * channels).
    ///
    /// # Panics
    /// If the sides are odd or the rows are not whole examples.
    #[must_use]
    #[track_caller]
    pub fn squeeze<T: Scalar>(self, x: &Mat<T>, extent: Extent) -> Mat<T> {
        let mut y = Mat::zeros(x.rows() / 4, 4 * x.cols());
        self.visit(x.rows(), extent, |(row, c), (into, to)| *y.at_mut(into, to) = x.at(row, c));
        y
    }

    /// The inverse of [`Self::squeeze`]; `extent` is that before the squeeze.
    ///
    /// # Panics
    /// As [`Self::squeeze`].
    #[must_use]
    #[track_caller]
    pub fn unsqueeze<T: Scalar>(self, y: &Mat<T>, extent: Extent) -> Mat<T> {
        let mut x = Mat::zeros(4 * y.rows(), y.cols() / 4);
        self.visit(x.rows(), extent, |(row, c), (from, at)| *x.at_mut(row, c) = y.at(from, at));
        x
    }

    /// Calls `visit` with row and channel on both sides.
    #[track_caller]
    fn visit(
        self,
        rows: usize,
        extent: Extent,
        mut visit: impl FnMut((usize, usize), (usize, usize)),
    ) {
        let Extent { channels, height, width } = extent;
        let even = height.is_multiple_of(2) && width.is_multiple_of(2);
        assert!(even && rows.is_multiple_of(extent.places().max(1)), "a squeeze of {extent}");
        for row in 0..rows {
            let (example, place) = (row / extent.places(), row % extent.places());
            let (i, j) = (place / width, place % width);
            let into = (example * (height / 2) + i / 2) * (width / 2) + j / 2;
            for c in 0..channels {
                visit((row, c), (into, self.channel(c, i % 2, j % 2, channels)));
            }
        }
    }
}
