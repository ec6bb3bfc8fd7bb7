//! Radial filters, read from a table with cubic Hermite interpolation.
//!
//! A row of a table holds value and slope of three filters at one node, in slabs of sixteen
//! channels: (channels / 16, {value, slope}, 3, 16). A [`Stencil`] says where a distance falls and
//! how two consecutive rows add up. Derivatives are those of the interpolant, so forces are exactly
//! those of the interpolated energy.

use super::PARTS;

/// Channels that are next to each other in a row.
pub const SLAB: usize = 16;
/// Numbers of one slab of a row.
const SLAB_LEN: usize = 2 * PARTS * SLAB;

/// Place of a distance in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Stencil {
    /// The first of the two rows.
    pub row: u32,
    /// Weights for the filter: of the values of both rows, then of their slopes.
    pub value: [f32; 4],
    /// Weights for the derivative of the filter by the distance.
    pub slope: [f32; 4],
}

impl Stencil {
    /// The stencil at the share `t` of the interval from a row to the next, where the derivative of
    /// t by the distance is `rate`. Slopes of the table are derivatives by t.
    ///
    /// Source: de Boor 1978, "A Practical Guide to Splines", chapter 4.
    #[must_use]
    pub fn within(row: u32, t: f64, rate: f64) -> Self {
        let (square, cube) = (t * t, t * t * t);
        let end = 3.0 * square - 2.0 * cube;
        let value = [1.0 - end, end, cube - 2.0 * square + t, cube - square];
        let steep = 6.0 * (t - square);
        let slope = [-steep, steep, 3.0 * square - 4.0 * t + 1.0, 3.0 * square - 2.0 * t];
        Self {
            row,
            value: value.map(|weight| weight as f32),
            slope: slope.map(|weight| (weight * rate) as f32),
        }
    }

    /// The stencil of a row of its own, whose slope is the derivative by the distance. The row
    /// after it must exist, but has no weight.
    #[must_use]
    pub fn at(row: u32) -> Self {
        Self { row, value: [1.0, 0.0, 0.0, 0.0], slope: [0.0, 0.0, 1.0, 0.0] }
    }
}

/// Numbers of a row.
#[must_use]
pub fn row_len(channels: usize) -> usize {
    2 * PARTS * channels
}

/// Writes a row from values and slopes, (3, channels) each.
///
/// # Panics
/// If lengths do not match, or channels are not a multiple of [`SLAB`].
#[track_caller]
pub fn filter_row(values: &[f32], slopes: &[f32], row: &mut [f32]) {
    let channels = values.len() / PARTS;
    assert!(channels.is_multiple_of(SLAB), "{channels} channels in slabs of {SLAB}");
    assert_eq!((slopes.len(), row.len()), (values.len(), row_len(channels)), "row of a table");
    for (slab, row) in row.chunks_exact_mut(SLAB_LEN).enumerate() {
        let (to_values, to_slopes) = row.split_at_mut(PARTS * SLAB);
        for (from, to) in [(values, to_values), (slopes, to_slopes)] {
            for (part, to) in to.chunks_exact_mut(SLAB).enumerate() {
                to.copy_from_slice(&from[part * channels + slab * SLAB..][..SLAB]);
            }
        }
    }
}

/// Offset of the value of the first filter of a channel, within a row.
#[inline(always)]
pub(super) fn offset_of(channel: usize) -> usize {
    channel / SLAB * SLAB_LEN + channel % SLAB
}

/// Offset of the slopes from the values.
pub(super) const TO_SLOPES: usize = PARTS * SLAB;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stencils_reproduce_cubics_and_their_derivatives() {
        let f = |t: f64| 2.0 - t + 3.0 * t * t - 0.5 * t * t * t;
        let slope = |t: f64| -1.0 + 6.0 * t - 1.5 * t * t;
        let (rate, nodes) = (1.75, [f(0.0), f(1.0), slope(0.0), slope(1.0)]);
        for t in [0.0, 0.2, 0.5, 0.9] {
            let stencil = Stencil::within(3, t, rate);
            let sum = |weights: [f32; 4]| -> f64 {
                weights.iter().zip(nodes).map(|(w, node)| f64::from(*w) * node).sum()
            };
            assert!((sum(stencil.value) - f(t)).abs() < 1e-6);
            assert!((sum(stencil.slope) - rate * slope(t)).abs() < 1e-6);
        }
        let alone = Stencil::at(2);
        assert_eq!((alone.row, alone.value[0], alone.slope[2]), (2, 1.0, 1.0));
    }
}
