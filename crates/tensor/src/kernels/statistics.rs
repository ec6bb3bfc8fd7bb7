//! Descriptive statistics in one pass: mean, variance, extremes, and numbers that are not finite.
//!
//! Sums run in `f64` over differences to a pivot, one of the numbers, so that equal numbers have a
//! variance of exactly zero. Partial results are merged by Chan, Golub and LeVeque (Updating
//! formulae and a pairwise algorithm for computing sample variances, 1979).

use super::instructions::vectorised;

/// Number of lanes.
const LANES: usize = 16;
/// Exponent bits, all set for infinities and NaN.
const EXPONENT: u32 = 0x7f80_0000;

/// Statistics of some numbers. Without finite numbers, `mean` is 0 and the extremes are infinities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Number of finite numbers, to which all fields below refer.
    pub finite: u64,
    /// Numbers that are NaN.
    pub nan: u64,
    /// Numbers that are infinite.
    pub infinite: u64,
    /// Mean.
    pub mean: f64,
    /// `Σ (x - mean)²`.
    pub scatter: f64,
    /// Smallest.
    pub min: f32,
    /// Largest.
    pub max: f32,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            finite: 0,
            nan: 0,
            infinite: 0,
            mean: 0.0,
            scatter: 0.0,
            min: f32::INFINITY,
            max: f32::NEG_INFINITY,
        }
    }
}

impl Statistics {
    /// Merges two results.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let finite = self.finite + other.finite;
        let share = if finite == 0 { 0.0 } else { other.finite as f64 / finite as f64 };
        let apart = other.mean - self.mean;
        Self {
            finite,
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
            mean: self.mean + apart * share,
            scatter: self.scatter + other.scatter + apart * apart * self.finite as f64 * share,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Standard deviation (of the population); zero of no numbers.
    #[must_use]
    pub fn std(&self) -> f64 {
        if self.finite == 0 { 0.0 } else { (self.scatter / self.finite as f64).sqrt() }
    }

    /// Largest absolute number; zero of no numbers.
    #[must_use]
    pub fn abs_max(&self) -> f32 {
        if self.finite == 0 { 0.0 } else { self.max.max(-self.min) }
    }
}

/// Statistics of some numbers. Blocks the size of a cache are summed and then merged.
#[must_use]
pub fn statistics(values: &[f32]) -> Statistics {
    let Some(&pivot) = values.iter().find(|value| value.is_finite()) else {
        let nan = values.iter().filter(|value| value.is_nan()).count() as u64;
        return Statistics { nan, infinite: values.len() as u64 - nan, ..Statistics::default() };
    };
    let sums = sums(values, pivot);
    if sums.bad {
        return with_gaps(values, pivot);
    }
    let parts = Parts { count: values.len() as u64, ..sums };
    parts.statistics(pivot)
}

/// Sums over differences to the pivot.
#[derive(Clone, Copy, Debug)]
struct Parts {
    count: u64,
    sum: f64,
    squares: f64,
    min: f32,
    max: f32,
    /// Whether a number was not finite; the sums are then invalid.
    bad: bool,
}

impl Parts {
    fn statistics(self, pivot: f32) -> Statistics {
        let count = self.count as f64;
        let off = self.sum / count;
        Statistics {
            finite: self.count,
            mean: f64::from(pivot) + off,
            // The pivot may be an outlier, but the difference cannot be negative.
            scatter: (self.squares - self.sum * off).max(0.0),
            min: self.min,
            max: self.max,
            ..Statistics::default()
        }
    }
}

vectorised! {
    fn sums<const FUSED: bool>(values: &[f32], pivot: f32) -> Parts {
        let wide = f64::from(pivot);
        let (groups, rest) = values.as_chunks::<LANES>();
        let (mut sum, mut squares) = ([0.0f64; LANES], [0.0f64; LANES]);
        let (mut min, mut max) = ([pivot; LANES], [pivot; LANES]);
        let mut bad = [0u32; LANES];
        for group in groups {
            for lane in 0..LANES {
                let off = f64::from(group[lane]) - wide;
                sum[lane] += off;
                squares[lane] =
                    if FUSED { off.mul_add(off, squares[lane]) } else { off * off + squares[lane] };
                min[lane] = if group[lane] < min[lane] { group[lane] } else { min[lane] };
                max[lane] = if group[lane] > max[lane] { group[lane] } else { max[lane] };
                bad[lane] |= u32::from(group[lane].to_bits() & EXPONENT == EXPONENT);
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            let off = f64::from(*value) - wide;
            sum[lane] += off;
            squares[lane] += off * off;
            min[lane] = min[lane].min(*value);
            max[lane] = max[lane].max(*value);
            bad[lane] |= u32::from(!value.is_finite());
        }
        Parts {
            count: 0,
            sum: sum.iter().sum(),
            squares: squares.iter().sum(),
            min: min.iter().copied().fold(pivot, f32::min),
            max: max.iter().copied().fold(pivot, f32::max),
            bad: bad.iter().any(|bad| *bad != 0),
        }
    }
}

/// The slow path for the few blocks with numbers that are not finite.
fn with_gaps(values: &[f32], pivot: f32) -> Statistics {
    let mut parts = Parts { count: 0, sum: 0.0, squares: 0.0, min: pivot, max: pivot, bad: true };
    let (mut nan, mut infinite) = (0, 0);
    for value in values {
        if value.is_nan() {
            nan += 1;
        } else if value.is_infinite() {
            infinite += 1;
        } else {
            let off = f64::from(*value) - f64::from(pivot);
            parts.count += 1;
            parts.sum += off;
            parts.squares += off * off;
            parts.min = parts.min.min(*value);
            parts.max = parts.max.max(*value);
        }
    }
    Statistics { nan, infinite, ..parts.statistics(pivot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn they_equal_their_definition_at_every_length_and_in_parts() {
        for len in 0..70 {
            let values: Vec<f32> = RngKey::new(len as u64).stream().normals(len, 3.0);
            let wide: Vec<f64> = values.iter().map(|value| f64::from(*value) + 0.0).collect();
            let count = len.max(1) as f64;
            let mean = wide.iter().sum::<f64>() / count;
            let scatter: f64 = wide.iter().map(|x| (x - mean) * (x - mean)).sum();
            let abs_max = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            for cut in [0, len / 3, len] {
                let found = statistics(&values[..cut]).merge(statistics(&values[cut..]));
                assert_eq!(found.finite, len as u64);
                assert!((found.mean - mean).abs() < 1e-12, "{len}: {} {mean}", found.mean);
                assert!((found.std() - (scatter / count).sqrt()).abs() < 1e-12, "{len}");
                assert_eq!(found.abs_max(), abs_max);
            }
        }
    }

    #[test]
    fn numbers_that_are_none_are_counted_and_left_out() {
        let mut values: Vec<f32> = (0..40).map(|k| k as f32).collect();
        let clean = statistics(&values);
        values.splice(7..7, [f32::NAN, f32::INFINITY]);
        values.insert(0, f32::NEG_INFINITY);
        let found = statistics(&values);
        assert_eq!((found.nan, found.infinite), (1, 2));
        assert_eq!(Statistics { nan: 0, infinite: 0, ..found }, clean);
        let none = statistics(&[f32::NAN, f32::INFINITY]);
        assert_eq!((none.finite, none.nan, none.infinite), (0, 1, 1));
        assert_eq!((none.std(), none.abs_max()), (0.0, 0.0));
    }

    #[test]
    fn equal_numbers_do_not_spread() {
        let found = statistics(&[0.1; 1000]).merge(statistics(&[0.1; 17]));
        assert_eq!((found.std(), found.mean), (0.0, f64::from(0.1f32)));
        let far = statistics(&[1e30, 1e30, 1e30]);
        assert_eq!(far.std(), 0.0);
    }
}
