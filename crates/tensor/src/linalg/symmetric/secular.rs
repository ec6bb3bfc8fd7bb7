//! Roots of the secular equation `1 + Σ s_j / (d_j - x) = 0`, s_j > 0: the eigenvalues of a
//! diagonal matrix `diag(d)` plus a rank-one matrix.
//!
//! One root lies between every two poles, and one above the last. It is computed as its distance
//! from the nearer pole, so that `d_j - x` keeps all digits, by the interpolation of Bunch, Nielsen
//! and Sorensen (Rank-one modification of the symmetric eigenproblem, Numer. Math. 31, 1978): the
//! sums over the poles below and above are replaced by one fraction each, with the same value and
//! derivative. A step that leaves the bracket is replaced by bisection.

use crate::kernels::instructions::vectorised;
use crate::linalg::NoConvergence;

/// Largest number of steps for one root; four or five are usual.
const MOST_STEPS: usize = 400;
/// Number of lanes.
const LANES: usize = 8;

/// The equation: poles d, ascending and distinct, and weights s, positive.
#[derive(Clone, Copy)]
pub(super) struct Secular<'a> {
    pub(super) poles: &'a [f64],
    pub(super) weights: &'a [f64],
}

/// A root: `poles[pole] + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub(super) pole: usize,
    pub(super) offset: f64,
}

/// A sum of fractions and its derivative.
#[derive(Clone, Copy)]
struct Sum {
    value: f64,
    slope: f64,
}

impl Secular<'_> {
    /// The root above pole `index`, and below the next one if there is one.
    pub(super) fn root(self, index: usize) -> Result<Root, NoConvergence> {
        let last = index + 1 == self.poles.len();
        let width = if last {
            self.weights.iter().sum::<f64>()
        } else {
            self.poles[index + 1] - self.poles[index]
        };
        let middle = 0.5 * width;
        let [below, above] = self.sums(index, index, middle);
        let rising = 1.0 + below.value + above.value;
        let (pole, bracket) = match (rising >= 0.0, last) {
            (true, _) => (index, (0.0, middle)),
            (false, true) => (index, (middle, width)),
            (false, false) => (index + 1, (-middle, 0.0)),
        };
        let start = if last {
            middle
        } else {
            let (s, t) = (self.weights[index], self.weights[index + 1]);
            // All other poles contribute as in the middle of the interval.
            let rest = rising + s / middle - t / middle;
            let (p, q) = if pole == index { (0.0, width) } else { (-width, 0.0) };
            step(rest, (s, t), (p, q))
        };
        self.from((index, pole), bracket, start)
    }

    /// Iterates from a first guess; all values are distances from `pole`, in an open bracket.
    fn from(
        self,
        (index, pole): (usize, usize),
        (mut low, mut high): (f64, f64),
        start: f64,
    ) -> Result<Root, NoConvergence> {
        let last = index + 1 == self.poles.len();
        let within = |x: f64, low: f64, high: f64| {
            if x > low && x < high { x } else { 0.5 * (low + high) }
        };
        // A first guess at the end of the bracket is as good as one inside.
        let mut x = if start == high || start == low { start } else { within(start, low, high) };
        for _ in 0..MOST_STEPS {
            let [below, above] = self.sums(index, pole, x);
            let value = 1.0 + below.value + above.value;
            let rounding = f64::EPSILON * (1.0 - below.value + above.value);
            if value.abs() <= rounding {
                return Ok(Root { pole, offset: x });
            }
            if value < 0.0 {
                low = x;
            } else {
                high = x;
            }
            let p = (self.poles[index] - self.poles[pole]) - x;
            let by = if last {
                p * value / (1.0 + below.value - below.slope * p)
            } else {
                let q = (self.poles[index + 1] - self.poles[pole]) - x;
                let rest = value - below.slope * p - above.slope * q;
                let by = step(rest, (below.slope * p * p, above.slope * q * q), (p, q));
                // A step against the sign is a rounding error.
                if by * value > 0.0 { f64::NAN } else { by }
            };
            let next = within(x + by, low, high);
            let smallest = 2.0 * f64::EPSILON * x.abs();
            if (next - x).abs() <= smallest || high - low <= smallest {
                return Ok(Root { pole, offset: next });
            }
            x = next;
        }
        Err(NoConvergence)
    }

    /// The sums over the poles up to `index` and over those above, at a distance from a pole.
    fn sums(self, index: usize, pole: usize, offset: f64) -> [Sum; 2] {
        let origin = self.poles[pole];
        let (below, above) = self.poles.split_at(index + 1);
        let (light, heavy) = self.weights.split_at(index + 1);
        [fractions(below, light, origin, offset), fractions(above, heavy, origin, offset)]
    }
}

/// The root h of `c + s / (p - h) + t / (q - h) = 0` between p and q.
fn step(c: f64, (s, t): (f64, f64), (p, q): (f64, f64)) -> f64 {
    let a = c * (p + q) + s + t;
    let b = c * p * q + s * q + t * p;
    let root = (a * a - 4.0 * b * c).abs().sqrt();
    if a <= 0.0 { (a - root) / (2.0 * c) } else { 2.0 * b / (a + root) }
}

vectorised! {
    /// `Σ s_j / δ_j` and `Σ s_j / δ_j²`, `δ_j = (d_j - origin) - offset`.
    fn fractions<const FUSED: bool>(poles: &[f64], weights: &[f64], origin: f64, offset: f64) -> Sum {
        let (mut values, mut slopes) = ([0.0; LANES], [0.0; LANES]);
        let (poles, poles_end) = poles.as_chunks::<LANES>();
        let (weights, weights_end) = weights.as_chunks::<LANES>();
        for (poles, weights) in poles.iter().zip(weights) {
            for lane in 0..LANES {
                let inverse = 1.0 / ((poles[lane] - origin) - offset);
                let fraction = weights[lane] * inverse;
                values[lane] += fraction;
                slopes[lane] += fraction * inverse;
            }
        }
        for (lane, (pole, weight)) in poles_end.iter().zip(weights_end).enumerate() {
            let inverse = 1.0 / ((pole - origin) - offset);
            let fraction = weight * inverse;
            values[lane] += fraction;
            slopes[lane] += fraction * inverse;
        }
        Sum { value: values.iter().sum(), slope: slopes.iter().sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    /// Ten to the power of a number between `low` and zero.
    fn magnitude(stream: &mut crate::RngStream, low: f64) -> f64 {
        10f64.powf(low * stream.uniform())
    }

    #[test]
    fn every_root_lies_between_its_poles_where_the_sum_changes_its_sign() {
        // Exponents of the smallest weight and the smallest gap.
        for (weights, gaps) in [(-2.0, -2.0), (-35.0, -2.0), (-2.0, -12.0), (-35.0, -12.0)] {
            for n in [1, 2, 3, 7, 40, 200] {
                let mut stream = RngKey::new(n as u64).stream();
                let mut poles = vec![-1.0];
                while poles.len() < n {
                    poles.push(poles[poles.len() - 1] + magnitude(&mut stream, gaps));
                }
                let weights: Vec<f64> = (0..n).map(|_| magnitude(&mut stream, weights)).collect();
                let secular = Secular { poles: &poles, weights: &weights };
                for index in 0..n {
                    check(secular, index);
                }
            }
        }
    }

    fn check(secular: Secular<'_>, index: usize) {
        let Root { pole, offset } = secular.root(index).unwrap();
        let last = index + 1 == secular.poles.len();
        let width =
            if last { f64::INFINITY } else { secular.poles[index + 1] - secular.poles[index] };
        let at_this = pole == index && offset > 0.0 && offset <= 0.5 * width;
        let at_next = pole == index + 1 && offset < 0.0 && offset >= -0.5 * width;
        assert!(at_this || at_next, "{index}: {pole} {offset:e}, {width:e}");
        // Beside the root the sum has its sign, but for the rounding of its terms.
        for (side, sign) in [(1.0 - 1e-13, -1.0), (1.0 + 1e-13, 1.0)] {
            let [below, above] = secular.sums(index, pole, offset * side);
            let value = 1.0 + below.value + above.value;
            let rounding = 4.0 * f64::EPSILON * (1.0 - below.value + above.value);
            assert!(
                value * sign * offset.signum() >= -rounding,
                "{index} {pole} {offset:e}: {value:e}"
            );
        }
    }

    #[test]
    fn the_roots_of_two_poles_are_those_of_a_quadratic() {
        for (gap, s, t) in [(1.0, 0.5, 0.25), (1e-9, 1e-3, 1e-20), (1.0, 1e-30, 1.0)] {
            let secular = Secular { poles: &[0.0, gap], weights: &[s, t] };
            // (x - gap) x = s (x - gap) + t x, the smaller root without a difference.
            let b = 0.5 * (gap + s + t);
            let larger = b + (b * b - s * gap).sqrt();
            for (index, exact) in [(0, s * gap / larger), (1, larger)] {
                let Root { pole, offset } = secular.root(index).unwrap();
                let found = secular.poles[pole] + offset;
                assert!((found / exact - 1.0).abs() < 1e-14, "{gap} {s} {t}: {found:e} {exact:e}");
            }
        }
    }
}
