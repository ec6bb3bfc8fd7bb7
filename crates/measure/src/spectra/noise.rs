//! Comparison of a spectrum with that of a random matrix.
//!
//! The singular values of a large (m, n) matrix of independent entries of variance σ², divided by
//! `σ √max(m, n)`, follow the law of Marchenko and Pastur (1967) with ratio `β = min / max`: their
//! squares lie between `(1 - √β)²` and `(1 + √β)²`. σ is estimated as in Gavish and Donoho (The
//! optimal hard threshold for singular values is 4/√3, 2014): the median singular value divided by
//! the median of the law. A few large values, the signal, hardly change the median.

use linwright_ops::Shape;
use linwright_tensor::linalg::RESOLUTION;
use serde::{Deserialize, Serialize};

/// Bisection steps for the median, more than `f64` resolves.
const HALVINGS: usize = 60;

/// Random matrix with the same median singular value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of its entries; zero if the median is zero within rounding.
    pub sigma: f64,
    /// Its largest singular value, `σ (√m + √n)`.
    pub edge: f64,
    /// Number of singular values above the edge and above rounding error.
    pub above: usize,
}

impl Noise {
    /// Fit to the singular values of a matrix of this shape, descending; `None` for an empty
    /// matrix.
    #[must_use]
    pub fn of(singular_values: &[f64], Shape { out, inp }: Shape) -> Option<Self> {
        let count = singular_values.len();
        let largest = *singular_values.first()?;
        let floor = RESOLUTION * largest;
        let (small, large) = (out.min(inp) as f64, out.max(inp) as f64);
        let middle = (singular_values[(count - 1) / 2] + singular_values[count / 2]) / 2.0;
        let median = if middle > floor { middle } else { 0.0 };
        let sigma = median / (large * marchenko_pastur_median(small / large)).sqrt();
        let edge = sigma * (small.sqrt() + large.sqrt());
        let above = singular_values.iter().take_while(|s| **s > edge.max(floor)).count();
        Some(Self { sigma, edge, above })
    }
}

/// Median of the Marchenko-Pastur law with variance 1 and ratio `beta` in (0, 1].
///
/// With `x = 1 + β + 2 √β cos t` the density is `2/π sin² t / x` in t, whose integral from 0 has a
/// closed form:
///
/// ```text
/// P(t) = 2/π [ (1+β) t / 4β - sin t / 2√β - (1-β)/2β atan( (1-√β)/(1+√β) tan t/2 ) ]
/// ```
///
/// Its rounding error grows as `1/β`; below 1e-6 the law is replaced by the point 1, which it
/// nearly is.
#[must_use]
pub fn marchenko_pastur_median(beta: f64) -> f64 {
    if beta < 1e-6 {
        return 1.0;
    }
    let root = beta.sqrt();
    let above = |t: f64| {
        let arc = ((1.0 - root) / (1.0 + root) * (t / 2.0).tan()).atan();
        let sum = (1.0 + beta) * t / (4.0 * beta) - t.sin() / (2.0 * root);
        std::f64::consts::FRAC_2_PI * (sum - (1.0 - beta) / (2.0 * beta) * arc)
    };
    let (mut low, mut high) = (0.0, std::f64::consts::PI);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if above(middle) < 0.5 { low = middle } else { high = middle }
    }
    1.0 + beta + 2.0 * root * low.cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::linalg::singular_values;
    use linwright_tensor::{Mat, RngKey};

    #[test]
    fn medians_of_the_law() {
        // 4/√3 over the threshold for an unknown level, 2.858, squared (Gavish and Donoho 2014).
        let square = marchenko_pastur_median(1.0);
        assert!((square - (4.0 / 3f64.sqrt() / 2.858).powi(2)).abs() < 1e-3, "{square}");
        for beta in [0.02, 0.3, 0.7, 1.0] {
            // Half of the probability mass, by the midpoint rule.
            let median = marchenko_pastur_median(beta);
            let (a, b) = ((1.0 - beta.sqrt()).powi(2), (1.0 + beta.sqrt()).powi(2));
            let steps = 200_000;
            let width = (b - median) / f64::from(steps);
            let density = |x: f64| {
                ((b - x) * (x - a)).max(0.0).sqrt() / (2.0 * std::f64::consts::PI * beta * x)
            };
            let half: f64 =
                (0..steps).map(|k| density(median + (f64::from(k) + 0.5) * width) * width).sum();
            assert!((half - 0.5).abs() < 1e-5, "{beta}: {half}");
        }
        assert!((marchenko_pastur_median(1e-6) - 1.0).abs() < 1e-5);
        assert_eq!(marchenko_pastur_median(1e-9), 1.0);
    }

    fn shape(out: usize, inp: usize) -> Shape {
        Shape { out, inp }
    }

    #[test]
    fn a_random_matrix_is_all_noise_and_a_planted_one_stands_out() {
        for (m, n) in [(300, 300), (120, 500), (500, 120)] {
            let raw: Vec<f32> = RngKey::new(1).stream().normals(m * n, 0.3);
            let mut matrix = Mat::from_vec(m, n, raw);
            let noise = Noise::of(&singular_values(matrix.view()).unwrap(), shape(m, n)).unwrap();
            assert!((noise.sigma - 0.3).abs() < 0.006, "{noise:?}");
            assert!(noise.above <= 2, "{noise:?}");
            for i in 0..m {
                for (j, value) in matrix.row_mut(i).iter_mut().enumerate() {
                    *value += if i % 2 == 0 { 0.4 } else { -0.4 } + if j < 60 { 0.6 } else { 0.0 };
                }
            }
            let planted = Noise::of(&singular_values(matrix.view()).unwrap(), shape(m, n)).unwrap();
            assert!((2..=3).contains(&planted.above), "{planted:?}");
            assert!((planted.sigma - 0.3).abs() < 0.01, "{planted:?}");
        }
    }

    #[test]
    fn few_and_absent_values() {
        assert_eq!(Noise::of(&[], shape(0, 4)), None);
        let row = Noise::of(&[6.0], shape(1, 900)).unwrap();
        assert_eq!(row.above, 0, "a single value is its own median: {row:?}");
        let low_rank = Noise::of(&[2.0, 1.0, 1e-9, 0.0, 0.0], shape(5, 5)).unwrap();
        assert_eq!(low_rank, Noise { sigma: 0.0, edge: 0.0, above: 2 });
        assert_eq!(Noise::of(&[0.0, 0.0], shape(2, 2)).unwrap().above, 0);
    }
}
