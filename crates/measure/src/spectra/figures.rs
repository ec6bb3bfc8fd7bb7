//! Statistics of a spectrum.

use super::{Noise, PowerLaw, Spectrum, entropy};
use linwright_ops::Shape;
use linwright_tensor::linalg::RESOLUTION;
use serde::{Deserialize, Serialize};

/// Largest number of points of [`SpectralStatistics::curve`].
const CURVE_POINTS: usize = 40;

/// Spectral statistics of one matrix (m, n); definitions in `docs/math.md`. All are zero for a zero
/// matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpectralStatistics {
    /// Frobenius norm, `√Σ s²`.
    pub frobenius_norm: f64,
    /// Largest singular value.
    pub largest: f64,
    /// Smallest singular value; below 1e-7 of the largest it is rounding error.
    pub smallest: f64,
    /// `Σ s² / s₁²`.
    pub stable_rank: f64,
    /// `exp` of the entropy of `s / Σ s` (Roy and Vetterli 2007).
    pub effective_rank: f64,
    /// Smallest number of singular values with 90 % of `Σ s²`.
    pub rank_90: usize,
    /// The same for 95 %.
    pub rank_95: usize,
    /// The same for 99 %.
    pub rank_99: usize,
    /// Largest rank at which two factors have at most as many parameters as the matrix: `⌊m n / (m
    /// + n)⌋`.
    pub break_even_rank: usize,
    /// Largest over smallest singular value; `None` if the smallest is below 1e-7 of the largest,
    /// where it cannot be distinguished from zero.
    pub condition_number: Option<f64>,
    /// Fit of a random matrix by the median singular value.
    pub noise: Option<Noise>,
    /// Power-law fit of the tail of the eigenvalues `s²`.
    pub power_law: Option<PowerLaw>,
    /// Vendi score of the rows, see [`vendi_score`](super::vendi_score).
    pub vendi_score: f64,
    /// Points of a plot: (index from 1, singular value).
    pub curve: Vec<(usize, f64)>,
}

impl SpectralStatistics {
    /// Statistics of a spectrum.
    #[must_use]
    pub fn of(spectrum: &Spectrum) -> Self {
        let Spectrum { rows, cols, singular_values: s, vendi_score } = spectrum;
        let squares: f64 = s.iter().map(|s| s * s).sum();
        let sum: f64 = s.iter().sum();
        let largest = s.first().copied().unwrap_or(0.0);
        let smallest = s.last().copied().unwrap_or(0.0);
        let floor = RESOLUTION * largest;
        let something = largest > 0.0;
        let tail: Vec<f64> = s.iter().take_while(|s| **s > floor).map(|s| s * s).collect();
        Self {
            frobenius_norm: squares.sqrt(),
            largest,
            smallest,
            stable_rank: if something { squares / (largest * largest) } else { 0.0 },
            effective_rank: if something { entropy(s.iter().map(|s| s / sum)).exp() } else { 0.0 },
            rank_90: energy_rank(s, 0.90),
            rank_95: energy_rank(s, 0.95),
            rank_99: energy_rank(s, 0.99),
            break_even_rank: break_even_rank(*rows, *cols),
            condition_number: (something && smallest > floor).then(|| largest / smallest),
            noise: Noise::of(s, Shape { out: *rows, inp: *cols }),
            power_law: PowerLaw::of(&tail),
            vendi_score: *vendi_score,
            curve: curve(s),
        }
    }
}

/// Smallest number of leading values (in descending order) with this share of the sum of squares.
fn energy_rank(s: &[f64], share: f64) -> usize {
    let total: f64 = s.iter().map(|s| s * s).sum();
    let mut sum = 0.0;
    for (place, value) in s.iter().enumerate() {
        if sum >= share * total {
            return place;
        }
        sum += value * value;
    }
    s.len()
}

/// `⌊m n / (m + n)⌋`.
fn break_even_rank(rows: usize, cols: usize) -> usize {
    let product = rows as u128 * cols as u128;
    usize::try_from(product / (rows as u128 + cols as u128).max(1)).unwrap_or(usize::MAX)
}

/// Values at evenly spaced indices, including the first and the last.
fn curve(s: &[f64]) -> Vec<(usize, f64)> {
    let Some(last) = s.len().checked_sub(1) else {
        return Vec::new();
    };
    let steps = last.clamp(1, CURVE_POINTS - 1);
    let mut places: Vec<usize> = (0..=steps).map(|step| step * last / steps).collect();
    places.dedup();
    places.into_iter().map(|place| (place + 1, s[place])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::Mat;

    fn of(rows: usize, cols: usize, f: impl FnMut(usize, usize) -> f32) -> SpectralStatistics {
        SpectralStatistics::of(&Spectrum::of(Mat::from_fn(rows, cols, f).view()).unwrap())
    }

    #[test]
    fn figures_of_a_diagonal_matrix() {
        let found = of(4, 6, |i, j| if i == j { [4.0, 2.0, 1.0, 1.0][i] } else { 0.0 });
        assert!((found.frobenius_norm - 22f64.sqrt()).abs() < 1e-12);
        assert!((found.largest - 4.0).abs() < 1e-12 && (found.smallest - 1.0).abs() < 1e-12);
        assert!((found.stable_rank - 22.0 / 16.0).abs() < 1e-12);
        // Shares 1/2, 1/4, 1/8, 1/8: entropy 1.75 bits.
        assert!((found.effective_rank - 2f64.powf(1.75)).abs() < 1e-12);
        assert_eq!((found.rank_90, found.rank_95, found.rank_99), (2, 3, 4));
        assert_eq!(found.break_even_rank, 2);
        assert!((found.condition_number.unwrap() - 4.0).abs() < 1e-12);
        assert!((found.vendi_score - 4.0).abs() < 1e-9);
        assert_eq!(found.power_law, None);
        assert_eq!(found.curve.len(), 4);
    }

    #[test]
    fn one_row_zeros_nothing_and_low_rank() {
        let row = of(1, 25, |_, _| 2.0);
        assert!((row.largest - 10.0).abs() < 1e-12 && (row.stable_rank - 1.0).abs() < 1e-12);
        assert_eq!((row.rank_99, row.break_even_rank), (1, 0));
        assert_eq!(row.condition_number, Some(1.0));
        let zero = of(8, 5, |_, _| 0.0);
        assert_eq!((zero.stable_rank, zero.effective_rank, zero.vendi_score), (0.0, 0.0, 0.0));
        assert_eq!((zero.rank_90, zero.rank_99, zero.condition_number), (0, 0, None));
        assert_eq!(zero.noise.unwrap().above, 0);
        let empty = of(0, 5, |_, _| 0.0);
        assert_eq!((empty.rank_90, empty.break_even_rank), (0, 0));
        assert!(empty.curve.is_empty() && empty.noise.is_none());
        let low_rank = of(40, 30, |i, j| ((i * j) % 7) as f32 + (i as f32) - (j as f32));
        assert_eq!(low_rank.condition_number, None);
        assert!(low_rank.effective_rank < 10.0);
    }

    #[test]
    fn equal_values_share_the_energy_evenly() {
        let found = of(100, 100, |i, j| if i == j { 3.0 } else { 0.0 });
        assert_eq!((found.rank_90, found.rank_95, found.rank_99), (90, 95, 99));
        assert!((found.effective_rank - 100.0).abs() < 1e-9);
        assert!((found.stable_rank - 100.0).abs() < 1e-9);
        assert_eq!(found.curve.len(), CURVE_POINTS);
        assert_eq!((found.curve[0].0, found.curve[CURVE_POINTS - 1].0), (1, 100));
    }
}
