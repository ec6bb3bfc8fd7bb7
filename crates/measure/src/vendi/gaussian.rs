//! The Gaussian kernel `k(x, y) = exp(-γ |x - y|² / 2)` of the rows of a matrix.
//!
//! Squared distances are sums of squared differences in `f64`: `|x|² + |y|² - 2 x·y` would cancel
//! for rows that are close together.

use super::VendiError;
use linwright_tensor::{MatRef, RngKey, parallel};
use serde::{Deserialize, Serialize};

/// Rows per work item.
const ROWS: usize = 64;
/// Parallel partial sums.
const LANES: usize = 8;
/// Largest number of pairs for the median heuristic.
const PAIRS: usize = 4096;

/// Width of the kernel `exp(-γ |x - y|² / 2)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gamma {
    /// One over the median squared distance of two rows: of all pairs if there are at most 4096,
    /// otherwise of 4096 pairs that depend only on the number of rows.
    Median,
    /// The value of γ; the paper's program uses 1.
    #[serde(untagged)]
    Value(f64),
}

impl Gamma {
    /// γ for these rows.
    ///
    /// # Errors
    /// [`VendiError::Gamma`] if it is not finite and above zero, [`VendiError::NoScale`] if the
    /// median distance is zero.
    pub fn resolve(self, rows: MatRef<'_, f32>) -> Result<f64, VendiError> {
        match self {
            Self::Value(gamma) if gamma > 0.0 && gamma.is_finite() => Ok(gamma),
            Self::Value(gamma) => Err(VendiError::Gamma(gamma)),
            // A single row has no distances; its kernel is 1 for any γ.
            Self::Median if rows.rows() < 2 => Ok(1.0),
            Self::Median => {
                let median = median_square(rows);
                if median > 0.0 { Ok(1.0 / median) } else { Err(VendiError::NoScale) }
            }
        }
    }
}

fn median_square(rows: MatRef<'_, f32>) -> f64 {
    let n = rows.rows();
    let every = n.saturating_mul(n - 1) / 2;
    let pairs: Vec<(usize, usize)> = if every <= PAIRS {
        (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).collect()
    } else {
        let mut stream = RngKey::new(0).fold("pairs of rows").stream();
        (0..PAIRS)
            .map(|_| {
                let first = stream.below(n);
                let second = stream.below(n - 1);
                (first, second + usize::from(second >= first))
            })
            .collect()
    };
    let pieces = pairs.chunks(ROWS).collect();
    let squares = parallel::map(pieces, |_, pairs: &[(usize, usize)]| {
        let square = |&(i, j): &(usize, usize)| squared_distance(rows.row(i), rows.row(j));
        pairs.iter().map(square).collect::<Vec<f64>>()
    });
    let mut squares = squares.concat();
    squares.sort_unstable_by(f64::total_cmp);
    let half = squares.len() / 2;
    if squares.len() % 2 == 1 { squares[half] } else { 0.5 * (squares[half - 1] + squares[half]) }
}

/// `|x - y|²`.
pub(super) fn squared_distance(x: &[f32], y: &[f32]) -> f64 {
    squares(x, y, |x, y| f64::from(x) - f64::from(y))
}

/// `|x|²`.
fn squared_norm(x: &[f32]) -> f64 {
    squares(x, x, |x, _| f64::from(x))
}

/// `Σ f(x, y)²` in lanes, in the same summation order for every row.
#[inline(always)]
fn squares(x: &[f32], y: &[f32], f: impl Fn(f32, f32) -> f64) -> f64 {
    let (x_lanes, x_rest) = x.as_chunks::<LANES>();
    let (y_lanes, y_rest) = y.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (x, y) in x_lanes.iter().zip(y_lanes) {
        for lane in 0..LANES {
            let value = f(x[lane], y[lane]);
            sums[lane] += value * value;
        }
    }
    for ((sum, x), y) in sums.iter_mut().zip(x_rest).zip(y_rest) {
        let value = f(*x, *y);
        *sum += value * value;
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Squared distances of all rows to row `chosen`.
pub(super) fn distances_to(rows: MatRef<'_, f32>, chosen: usize, out: &mut [f64]) {
    let to = rows.row(chosen);
    parallel::for_each_chunk(out, ROWS, |piece, out| {
        for (offset, out) in out.iter_mut().enumerate() {
            *out = squared_distance(rows.row(piece * ROWS + offset), to);
        }
    });
}

/// `ln s(x) = -|x|²` of every row, the log quality.
pub(super) fn log_qualities(rows: MatRef<'_, f32>) -> Vec<f64> {
    let mut out = vec![0.0; rows.rows()];
    parallel::for_each_chunk(&mut out, ROWS, |piece, out| {
        for (offset, out) in out.iter_mut().enumerate() {
            *out = -squared_norm(rows.row(piece * ROWS + offset));
        }
    });
    out
}

/// # Errors
/// [`VendiError::NonFinite`] for the first non-finite number.
pub(super) fn check_finite(rows: MatRef<'_, f32>) -> Result<(), VendiError> {
    for row in 0..rows.rows() {
        if let Some(col) = rows.row(row).iter().position(|value| !value.is_finite()) {
            let value = f64::from(rows.at(row, col));
            return Err(VendiError::NonFinite { row, col, value });
        }
    }
    Ok(())
}

/// `ln(e^a + e^b)`; minus infinity stands for zero.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (more, less) = if a >= b { (a, b) } else { (b, a) };
    if less == f64::NEG_INFINITY { more } else { more + (less - more).exp().ln_1p() }
}
