//! Roots of a secular equation, whose left side rises between any two of its poles:
//!
//! ```text
//! f(x) = c + b x + Σ s_j / (d_j - x) = 0,   s_j > 0, b ≥ 0
//! ```
//!
//! With b = 0 the roots are the eigenvalues of a diagonal matrix plus a rank-one matrix
//! ([`SecularEquation::rank_one`]), with b = 1 those of an arrowhead matrix
//! ([`SecularEquation::arrowhead`]).
//!
//! A root is computed as its distance from the nearer pole, so that `d_j - x` keeps all digits, by
//! the interpolation of Bunch, Nielsen and Sorensen (Rank-one modification of the symmetric
//! eigenproblem, Numer. Math. 31, 1978) in the form of Li (LAPACK working note 89, 1993): the sums
//! over the poles below and above are replaced by one fraction each, with the same value and
//! derivative; the line `c + b x` counts with the farther one. A step that leaves the bracket is
//! replaced by bisection.

use super::NoConvergence;
use crate::kernels::instructions::vectorised;
use std::ops::Range;

/// Largest number of steps for one root; four or five are usual.
const MOST_STEPS: usize = 400;
/// Roots that are computed side by side.
const LANES: usize = 8;
type Lanes = [f64; LANES];

/// `c + b x + Σ s_j / (d_j - x) = 0` with poles d and weights s.
#[derive(Clone, Copy, Debug)]
pub struct SecularEquation<'a> {
    poles: &'a [f64],
    weights: &'a [f64],
    line: Line,
    tolerance: f64,
}

/// `constant + slope * x`.
#[derive(Clone, Copy, Debug)]
struct Line {
    constant: f64,
    slope: f64,
}

/// A root: `poles[pole] + offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecularRoot {
    /// Index of the nearest pole, or of one that is as near.
    pub pole: usize,
    /// Distance from it, which keeps all its digits however small it is.
    pub offset: f64,
}

/// Where a root is looked for: an open bracket of distances from an origin.
#[derive(Clone, Copy)]
struct Bracket {
    /// Number of poles below the root.
    below: usize,
    /// Index of the pole that distances start from.
    origin: usize,
    low: f64,
    high: f64,
}

impl Bracket {
    fn middle(self) -> f64 {
        0.5 * (self.low + self.high)
    }

    /// The point if it is inside, else the middle.
    fn inside(self, x: f64) -> f64 {
        if x > self.low && x < self.high { x } else { self.middle() }
    }
}

impl<'a> SecularEquation<'a> {
    /// `1 + Σ s_j / (d_j - x) = 0`: eigenvalues of `diag(d) + z zᵀ` with `s_j = z_j²`. Its n roots
    /// lie between every two of the n poles and above the last.
    ///
    /// Poles are ascending and distinct, weights positive.
    #[must_use]
    pub fn rank_one(poles: &'a [f64], weights: &'a [f64]) -> Self {
        let line = Line { constant: 1.0, slope: 0.0 };
        Self::new(poles, weights, line, 0.0)
    }

    /// `x - corner + Σ s_j / (d_j - x) = 0`: eigenvalues of the matrix with diagonal
    /// `(d, corner)`, z in its last row and column and zeros elsewhere, with `s_j = z_j²`. Its
    /// n + 1 roots lie below the first of the n poles, between every two and above the last.
    ///
    /// Poles are ascending, weights positive. A root between two poles that are no farther apart
    /// than the absolute `tolerance` is the lower of the two, and a step of that size is the last.
    #[must_use]
    pub fn arrowhead(corner: f64, poles: &'a [f64], weights: &'a [f64], tolerance: f64) -> Self {
        let line = Line { constant: -corner, slope: 1.0 };
        Self::new(poles, weights, line, tolerance)
    }

    fn new(poles: &'a [f64], weights: &'a [f64], line: Line, tolerance: f64) -> Self {
        assert!(!poles.is_empty(), "an equation has a pole");
        assert_eq!(poles.len(), weights.len(), "one weight for each pole");
        Self { poles, weights, line, tolerance }
    }

    /// The roots by the number of poles below them: 1 to n, and 0 too for an arrowhead matrix.
    /// Bits of a root depend on nothing but the equation.
    ///
    /// # Errors
    /// [`NoConvergence`] if poles and weights are not finite.
    ///
    /// # Panics
    /// If there are no such roots.
    pub fn roots(self, below: Range<usize>) -> Result<Vec<SecularRoot>, NoConvergence> {
        let is_first = below.start > 0 || self.line.slope > 0.0;
        assert!(is_first && below.end <= self.poles.len() + 1, "no such roots");
        let mut roots = Vec::with_capacity(below.len());
        for start in below.clone().step_by(LANES) {
            let count = LANES.min(below.end - start);
            roots.extend_from_slice(&self.neighbours(start, count)?[..count]);
        }
        Ok(roots)
    }

    /// Up to [`LANES`] neighbouring roots, side by side.
    fn neighbours(self, start: usize, count: usize) -> Result<[SecularRoot; LANES], NoConvergence> {
        let mut brackets: [Bracket; LANES] =
            std::array::from_fn(|lane| self.bracket(start + lane.min(count - 1)));
        let mut x = brackets.map(Bracket::middle);
        let mut offsets: [Option<f64>; LANES] = std::array::from_fn(|lane| {
            let has_no_width =
                self.is_inner(brackets[lane]) && brackets[lane].high <= self.tolerance;
            (lane >= count || has_no_width).then_some(0.0)
        });
        let at = self.at(&brackets, &x);
        for lane in 0..LANES {
            if offsets[lane].is_none() {
                x[lane] = self.guess(&mut brackets[lane], at[lane].value());
            }
        }
        for _ in 0..MOST_STEPS {
            if offsets.iter().all(Option::is_some) {
                let root = |lane: usize| SecularRoot {
                    pole: brackets[lane].origin,
                    offset: offsets[lane].unwrap_or_default(),
                };
                return Ok(std::array::from_fn(root));
            }
            let at = self.at(&brackets, &x);
            for lane in 0..LANES {
                if offsets[lane].is_none() {
                    offsets[lane] = self.refine(&mut brackets[lane], &at[lane], &mut x[lane]);
                }
            }
        }
        Err(NoConvergence)
    }

    /// The half of a bracket that has the root, and a first guess, from the value in its middle.
    fn guess(self, bracket: &mut Bracket, value: f64) -> f64 {
        let Bracket { below, high: width, .. } = *bracket;
        let middle = bracket.middle();
        if !self.is_inner(*bracket) {
            *(if value >= 0.0 { &mut bracket.high } else { &mut bracket.low }) = middle;
            return bracket.middle();
        }
        let (s, t) = (self.weights[below - 1], self.weights[below]);
        // All other poles contribute as in the middle of the interval.
        let rest = value + s / middle - t / middle;
        let start = if value >= 0.0 {
            bracket.high = middle;
            quadratic(rest, rest * width + s + t, s * width)
        } else {
            *bracket = Bracket { below, origin: below, low: -middle, high: 0.0 };
            quadratic(rest, s + t - rest * width, -t * width)
        };
        // The middle between two poles, where the bracket ends, is as good as a point inside.
        if start.abs() == middle { start } else { bracket.inside(start) }
    }

    /// Whether a root has poles on both sides.
    fn is_inner(self, bracket: Bracket) -> bool {
        bracket.below > 0 && bracket.below < self.poles.len()
    }

    /// The interval between the poles around a root. Beyond the first and the last pole it ends
    /// where all weights at that pole would put the root.
    fn bracket(self, below: usize) -> Bracket {
        let total = || self.weights.iter().sum::<f64>();
        let origin = below.saturating_sub(1);
        let (low, high) = if below == 0 {
            (-self.outermost(-self.line_at(0, 0.0), total()), 0.0)
        } else if below == self.poles.len() {
            (0.0, self.outermost(self.line_at(origin, 0.0), total()))
        } else {
            (0.0, self.poles[below] - self.poles[origin])
        };
        Bracket { below, origin, low, high }
    }

    /// The positive root h of `line + b h - total / h`.
    fn outermost(self, line: f64, total: f64) -> f64 {
        let slope = self.line.slope;
        if slope == 0.0 {
            return total / line;
        }
        let root = (line * line + 4.0 * slope * total).sqrt();
        if line > 0.0 { 2.0 * total / (line + root) } else { (root - line) / (2.0 * slope) }
    }

    /// `c + b x` at a distance from a pole.
    fn line_at(self, origin: usize, offset: f64) -> f64 {
        (self.line.constant + self.line.slope * self.poles[origin]) + self.line.slope * offset
    }

    /// One step: the distance of the root from its pole if that is found, else x is closer to it.
    fn refine(self, bracket: &mut Bracket, at: &Value, x: &mut f64) -> Option<f64> {
        if at.value().abs() <= at.rounding() {
            return Some(*x);
        }
        *(if at.value() < 0.0 { &mut bracket.low } else { &mut bracket.high }) = *x;
        let next = bracket.inside(*x + self.step(*bracket, at, *x));
        let smallest = (2.0 * f64::EPSILON * x.abs()).max(self.tolerance);
        let is_found = (next - *x).abs() <= smallest || bracket.high - bracket.low <= smallest;
        *x = next;
        is_found.then_some(next)
    }

    /// From x to the root of the interpolation there.
    fn step(self, bracket: Bracket, at: &Value, x: f64) -> f64 {
        let Bracket { below, origin, .. } = bracket;
        let pole = |index: usize| (self.poles[index] - self.poles[origin]) - x;
        let slope = self.line.slope;
        if self.is_inner(bracket) {
            let (p, q) = (pole(below - 1), pole(below));
            let (mut left, mut right) = (at.below.slope, at.above.slope);
            let far = if origin < below { q } else { p };
            *(if origin < below { &mut right } else { &mut left }) += slope;
            let rest = (at.line - slope * far) + (at.below.rest + at.above.rest);
            let weights = left * p * p + right * q * q;
            return quadratic(rest, rest * (p + q) + weights, p * q * at.value());
        }
        // The root h of `rest + slope h + w / (p - h)` on the outer side of the pole.
        let p = pole(origin);
        let product = p * at.value();
        let sum = if below == 0 { at.above } else { at.below };
        let shift = at.line + sum.rest - slope * p;
        if slope == 0.0 {
            return product / shift;
        }
        let root = (shift * shift + 4.0 * slope * product).sqrt();
        match (below == 0, shift > 0.0) {
            (false, true) => 2.0 * product / (shift + root),
            (false, false) => (root - shift) / (2.0 * slope),
            (true, true) => -(shift + root) / (2.0 * slope),
            (true, false) => -2.0 * product / (root - shift),
        }
    }

    /// The left side at distances from the origins of neighbouring brackets.
    fn at(self, brackets: &[Bracket; LANES], x: &Lanes) -> [Value; LANES] {
        let origin = brackets.map(|bracket| self.poles[bracket.origin]);
        let below = brackets.map(|bracket| bracket.below);
        let [lower, upper] = sums(self.poles, self.weights, &below, &origin, x);
        std::array::from_fn(|lane| Value {
            line: self.line_at(brackets[lane].origin, x[lane]),
            below: lower.of(lane),
            above: upper.of(lane),
        })
    }
}

/// The fractions on one side of a point: their sum, its derivative, and what the sum is besides
/// one fraction of that derivative at the pole next to the point.
#[derive(Clone, Copy)]
struct Sum<T> {
    value: T,
    slope: T,
    rest: T,
}

impl Sum<Lanes> {
    fn of(&self, lane: usize) -> Sum<f64> {
        Sum { value: self.value[lane], slope: self.slope[lane], rest: self.rest[lane] }
    }
}

/// The left side of the equation at a point: its line, and the sums over the poles below and above.
#[derive(Clone, Copy)]
struct Value {
    line: f64,
    below: Sum<f64>,
    above: Sum<f64>,
}

impl Value {
    fn value(&self) -> f64 {
        self.line + self.below.value + self.above.value
    }

    /// Largest value of a zero after rounding of the terms.
    fn rounding(&self) -> f64 {
        f64::EPSILON * (self.line.abs() - self.below.value + self.above.value)
    }
}

/// The root of `c x² - a x + b` that stays finite as c goes to zero.
fn quadratic(c: f64, a: f64, b: f64) -> f64 {
    let root = (a * a - 4.0 * b * c).max(0.0).sqrt();
    if a <= 0.0 { (a - root) / (2.0 * c) } else { 2.0 * b / (a + root) }
}

vectorised! {
    /// `Σ s_j / δ_j`, `Σ s_j / δ_j²` and `Σ s_j (d_j - e) / δ_j²` with `δ_j = (d_j - origin) - x`,
    /// in each lane over the first `below` poles, e being the last of them, and over the others,
    /// e being their first. `below` does not fall from lane to lane.
    fn sums<const FUSED: bool>(
        poles: &[f64],
        weights: &[f64],
        below: &[usize; LANES],
        origin: &Lanes,
        x: &Lanes,
    ) -> [Sum<Lanes>; 2] {
        let zero = Sum { value: [0.0; LANES], slope: [0.0; LANES], rest: [0.0; LANES] };
        let (mut lower, mut upper) = (zero, zero);
        let last = below.map(|below| poles[below.max(1) - 1]);
        let first = below.map(|below| poles[below.min(poles.len() - 1)]);
        // The rest is summed separately: next to a pole, cancellation would leave nothing of it.
        let add = |sum: &mut Sum<Lanes>, pole: f64, weights: &Lanes, ends: &Lanes| {
            for lane in 0..LANES {
                let inverse = 1.0 / ((pole - origin[lane]) - x[lane]);
                let fraction = weights[lane] * inverse;
                sum.value[lane] += fraction;
                sum.slope[lane] += fraction * inverse;
                sum.rest[lane] += fraction * inverse * (pole - ends[lane]);
            }
        };
        let (start, end) = (below[0], below[LANES - 1]);
        for j in 0..start {
            add(&mut lower, poles[j], &[weights[j]; LANES], &last);
        }
        for j in start..end {
            let on_side = |is_lower: bool| {
                std::array::from_fn(|lane| {
                    if (j < below[lane]) == is_lower { weights[j] } else { 0.0 }
                })
            };
            add(&mut lower, poles[j], &on_side(true), &last);
            add(&mut upper, poles[j], &on_side(false), &first);
        }
        for j in end..poles.len() {
            add(&mut upper, poles[j], &[weights[j]; LANES], &first);
        }
        [lower, upper]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::eigh;
    use crate::{Mat, RngKey};

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
                let secular = SecularEquation::rank_one(&poles, &weights);
                for index in 0..n {
                    check(secular, index);
                }
            }
        }
    }

    fn check(secular: SecularEquation<'_>, index: usize) {
        let SecularRoot { pole, offset } = secular.roots(index + 1..index + 2).unwrap()[0];
        let last = index + 1 == secular.poles.len();
        let width =
            if last { f64::INFINITY } else { secular.poles[index + 1] - secular.poles[index] };
        let at_this = pole == index && offset > 0.0 && offset <= 0.5 * width;
        let at_next = pole == index + 1 && offset < 0.0 && offset >= -0.5 * width;
        assert!(at_this || at_next, "{index}: {pole} {offset:e}, {width:e}");
        // Beside the root the sum has its sign, but for the rounding of its terms.
        for (side, sign) in [(1.0 - 1e-13, -1.0), (1.0 + 1e-13, 1.0)] {
            let bracket = Bracket { below: index + 1, origin: pole, low: 0.0, high: 0.0 };
            let at = secular.at(&[bracket; LANES], &[offset * side; LANES])[0];
            assert!(
                at.value() * sign * offset.signum() >= -4.0 * at.rounding(),
                "{index} {pole} {offset:e}: {:e}",
                at.value()
            );
        }
    }

    #[test]
    fn the_roots_of_two_poles_are_those_of_a_quadratic() {
        for (gap, s, t) in [(1.0, 0.5, 0.25), (1e-9, 1e-3, 1e-20), (1.0, 1e-30, 1.0)] {
            let (poles, weights) = ([0.0, gap], [s, t]);
            let secular = SecularEquation::rank_one(&poles, &weights);
            // (x - gap) x = s (x - gap) + t x, the smaller root without a difference.
            let b = 0.5 * (gap + s + t);
            let larger = b + (b * b - s * gap).sqrt();
            for (index, exact) in [(0, s * gap / larger), (1, larger)] {
                let SecularRoot { pole, offset } = secular.roots(index + 1..index + 2).unwrap()[0];
                let found = secular.poles[pole] + offset;
                assert!((found / exact - 1.0).abs() < 1e-14, "{gap} {s} {t}: {found:e} {exact:e}");
            }
        }
    }

    /// Largest error of an eigenvalue of an arrowhead matrix, relative to the largest eigenvalue.
    const CLOSE: f64 = 2e-14;
    const TOLERANCE: f64 = 4e-16;

    /// Compares the roots of an arrowhead matrix of corner 1 with its eigenvalues.
    fn check_arrowhead(poles: &[f64], z: &[f64], what: &str) {
        let n = poles.len();
        let exact = eigh(arrowhead_matrix(poles, z).view()).unwrap().values;
        let size = exact.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
        let weights: Vec<f64> = z.iter().map(|z| (z * z).max(1e-34)).collect();
        let equation = SecularEquation::arrowhead(1.0, poles, &weights, TOLERANCE * size);
        let mut sum = 0.0;
        let roots = equation.roots(0..n + 1).unwrap();
        for (below, (exact, root)) in exact.iter().zip(roots).enumerate() {
            let SecularRoot { pole, offset } = root;
            let root = poles[pole] + offset;
            let error = (root - exact).abs();
            assert!(error <= CLOSE * size, "{what}: root {below} is {root}, not {exact}");
            assert!(below == n || root <= poles[below] + 1e-15 * size, "{what}: interlacing");
            assert!(below == 0 || root >= poles[below - 1] - 1e-15 * size, "{what}: interlacing");
            sum += root;
        }
        let trace = 1.0 + poles.iter().sum::<f64>();
        assert!((sum - trace).abs() <= CLOSE * size * (n + 1) as f64, "{what}: {sum} {trace}");
    }

    fn arrowhead_matrix(poles: &[f64], z: &[f64]) -> Mat<f64> {
        let n = poles.len();
        Mat::from_fn(n + 1, n + 1, |i, j| match (i, j) {
            (i, j) if i == n && j == n => 1.0,
            (i, j) if i == n || j == n => z[i.min(j)],
            (i, j) if i == j => poles[i],
            _ => 0.0,
        })
    }

    #[test]
    fn roots_of_random_arrowheads_interlace_and_sum_to_the_trace() {
        let mut stream = RngKey::new(2).stream();
        for n in [1, 2, 3, 5, 8, 17, 40, 90] {
            for scale in [1.0, 1e-2, 1e-5, 1e-9, 1e-14, 1e-30] {
                for _ in 0..8 {
                    let mut poles: Vec<f64> = (0..n).map(|_| 2.0 * stream.uniform()).collect();
                    poles.sort_by(f64::total_cmp);
                    let z: Vec<f64> = (0..n).map(|_| stream.normal() * scale).collect();
                    check_arrowhead(&poles, &z, &format!("{n} poles, z about {scale:e}"));
                }
            }
        }
    }

    #[test]
    fn arrowheads_with_equal_and_nearly_equal_poles() {
        let mut stream = RngKey::new(3).stream();
        for gap in [0.0, 1e-16, 1e-15, 1e-13, 1e-10, 1e-6] {
            for scale in [1.0, 1e-4, 1e-8, 0.0] {
                let mut poles: Vec<f64> =
                    (0..24).map(|i| f64::from(i / 6) + gap * f64::from(i % 6)).collect();
                poles[0] = -gap;
                poles.sort_by(f64::total_cmp);
                for _ in 0..8 {
                    let z: Vec<f64> = (0..24).map(|_| stream.normal() * scale).collect();
                    check_arrowhead(&poles, &z, &format!("gaps of {gap:e}, z about {scale:e}"));
                }
            }
        }
    }

    #[test]
    fn an_arrowhead_with_a_pole_without_weight_beside_an_equal_one_with_it() {
        let poles = [0.12, 0.34, 1.0, 1.0, 2.53];
        for lead in 0..5 {
            for least in [0.0, 1e-70, 1e-17, 1e-12] {
                for weight in [0.1, 0.25, 0.4, 0.7, 1.15] {
                    let mut z = [least; 5];
                    z[lead] = weight;
                    check_arrowhead(
                        &poles,
                        &z,
                        &format!("{weight} at {lead}, {least:e} elsewhere"),
                    );
                }
            }
        }
    }

    #[test]
    fn arrowheads_whose_z_have_all_sizes() {
        let mut stream = RngKey::new(4).stream();
        for n in [3, 12, 33] {
            let poles: Vec<f64> = (0..n).map(|i| (i as f64 - n as f64).exp2() * 3.0).collect();
            for _ in 0..8 {
                let z: Vec<f64> = (0..n)
                    .map(|_| stream.normal())
                    .map(|z| if z > 0.3 { 0.0 } else { (9.0 * z).exp2() })
                    .collect();
                check_arrowhead(&poles, &z, "mixed");
            }
        }
    }
}
