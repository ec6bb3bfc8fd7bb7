//! Radial filters, read from a table of cubic polynomials.
//!
//! A row of a table holds the coefficients of one interval for three filters, in slabs of sixteen
//! channels: (channels / 16, 4, 3, 16). A [`Stencil`] says where a distance falls. Derivatives are
//! those of the polynomials, so forces are exactly those of the interpolated energy; differences of
//! node values instead would lose as many digits as there are intervals.

use super::PARTS;

/// Channels that are next to each other in a row.
pub const SLAB: usize = 16;
/// Numbers of one slab of a row.
const SLAB_LEN: usize = COEFFICIENTS * PARTS * SLAB;
/// Coefficients of a polynomial.
pub const COEFFICIENTS: usize = 4;

/// Place of a distance in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Stencil {
    /// The row of its interval.
    pub row: u32,
    /// The share of the interval before it: its first three powers.
    pub value: [f32; 3],
    /// Their derivatives by the distance.
    pub slope: [f32; 3],
}

impl Stencil {
    /// The stencil at the share `t` of an interval, where the derivative of t by the distance is
    /// `rate`.
    #[must_use]
    pub fn within(row: u32, t: f64, rate: f64) -> Self {
        Self {
            row,
            value: [t, t * t, t * t * t].map(|weight| weight as f32),
            slope: [1.0, 2.0 * t, 3.0 * t * t].map(|weight| (weight * rate) as f32),
        }
    }

    /// The stencil of a row of its own, whose second coefficient is the derivative by the distance.
    #[must_use]
    pub fn at(row: u32) -> Self {
        Self::within(row, 0.0, 1.0)
    }
}

/// Numbers of a row.
#[must_use]
pub fn row_len(channels: usize) -> usize {
    COEFFICIENTS * PARTS * channels
}

/// Writes a row from coefficients by power, (3, channels) each.
///
/// # Panics
/// If lengths do not match, or channels are not a multiple of [`SLAB`].
#[track_caller]
pub fn filter_row(coefficients: [&[f32]; COEFFICIENTS], row: &mut [f32]) {
    let channels = coefficients[0].len() / PARTS;
    assert!(channels.is_multiple_of(SLAB), "{channels} channels in slabs of {SLAB}");
    assert_eq!(row.len(), row_len(channels), "row of a table");
    for (slab, row) in row.chunks_exact_mut(SLAB_LEN).enumerate() {
        for (from, to) in coefficients.iter().zip(row.chunks_exact_mut(PARTS * SLAB)) {
            for (part, to) in to.chunks_exact_mut(SLAB).enumerate() {
                to.copy_from_slice(&from[part * channels + slab * SLAB..][..SLAB]);
            }
        }
    }
}

/// Coefficients by power of the cubic with these values and derivatives at zero and one.
///
/// Source: de Boor 1978, "A Practical Guide to Splines", chapter 4.
#[must_use]
pub fn hermite(values: [f64; 2], slopes: [f64; 2]) -> [f64; COEFFICIENTS] {
    let rise = values[1] - values[0];
    let square = 3.0 * rise - 2.0 * slopes[0] - slopes[1];
    [values[0], slopes[0], square, slopes[0] + slopes[1] - 2.0 * rise]
}

/// Offset of the first coefficient of the first filter of a channel, within a row.
#[inline(always)]
pub(super) fn offset_of(channel: usize) -> usize {
    channel / SLAB * SLAB_LEN + channel % SLAB
}

/// Offset of a coefficient from that of the power before.
pub(super) const TO_NEXT: usize = PARTS * SLAB;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stencils_reproduce_cubics_and_their_derivatives() {
        let f = |t: f64| 2.0 - t + 3.0 * t * t - 0.5 * t * t * t;
        let slope = |t: f64| -1.0 + 6.0 * t - 1.5 * t * t;
        let rate = 1.75;
        let coefficients = hermite([f(0.0), f(1.0)], [slope(0.0), slope(1.0)]);
        for t in [0.0, 0.2, 0.5, 0.9] {
            let stencil = Stencil::within(3, t, rate);
            let sum = |weights: [f32; 3]| -> f64 {
                weights.iter().zip(&coefficients[1..]).map(|(w, c)| f64::from(*w) * c).sum()
            };
            assert!((coefficients[0] + sum(stencil.value) - f(t)).abs() < 1e-6);
            assert!((sum(stencil.slope) - rate * slope(t)).abs() < 1e-6);
        }
        let alone = Stencil::at(2);
        assert_eq!((alone.row, alone.value[0], alone.slope), (2, 0.0, [1.0, 0.0, 0.0]));
    }
}
