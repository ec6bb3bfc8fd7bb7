//! Eigenvalues of arrowhead matrices, eight at a time.
//!
//! ```text
//! M = [diag(λ)  z]      g(μ) = μ - 1 + Σ z_i² / (λ_i - μ) = 0
//!     [  zᵀ     1]
//! ```
//!
//! With λ (t) rising, one root μ lies below λ_1, one between each two neighbours and one above λ_t,
//! since g rises from minus to plus infinity between two poles. The poles are the same for all
//! matrices of a call; the z are not.
//!
//! Each root is found in coordinates whose origin is the nearer pole, so that what lies close to it
//! keeps its digits. The first guess solves the equation of the two nearest poles with all else
//! held at the middle; each step replaces the sum over the poles on the left, and that on the
//! right, by one pole each of the same value and slope (Bunch, Nielsen and Sorensen 1978; Li,
//! LAPACK working note 89, 1993), and leaves the line `μ - 1` with the farther one. A step that
//! leaves the bracket of the root is a bisection instead.
//!
//! Deflation: a z_i² below [`LEAST`] is taken as that, which moves no eigenvalue by more than 1e-17
//! √t; a gap that is no wider than the tolerance holds its root where it is. Roots err by a few `ε`
//! times the largest. Cost: about 5 t² divisions a matrix.

/// Matrices that are solved side by side.
pub(super) const LANES: usize = 8;
/// One number of each of them.
pub(super) type Lanes = [f64; LANES];

/// Squares of z below it are taken as it.
const LEAST: f64 = 1e-34;
/// A step so small, relative to the largest pole, ends an iteration.
const TOLERANCE: f64 = 4e-16;
/// After so many steps every second one is a bisection.
const PATIENCE: usize = 12;
/// More steps than bisection alone needs from any bracket to the tolerance.
const MOST_STEPS: usize = 140;

/// Where one root is looked for, in each lane.
struct Gap {
    /// Poles on the left of it: the first so many.
    left: usize,
    /// The pole that coordinates start from.
    origin: Lanes,
    /// The poles at its two ends, from the origin; only those that exist count.
    ends: [Lanes; 2],
    /// Bracket of the root, from the origin.
    low: Lanes,
    high: Lanes,
}

/// The equation at a point.
struct Value {
    g: Lanes,
    /// Slopes of the sums over the poles on the left and on the right.
    slopes: [Lanes; 2],
    /// What each sum is besides one pole of its slope at the end of the gap.
    rests: [Lanes; 2],
}

/// All roots of every lane, rising: t + 1 lane by lane. `poles` (t) rise; `squares` (t) are z_i²
/// and are changed where they are too small.
pub(super) fn roots(poles: &[f64], squares: &mut [Lanes], out: &mut Vec<Lanes>) {
    assert_eq!(poles.len(), squares.len(), "poles and squares");
    out.clear();
    let mut norm = [0.0; LANES];
    for square in squares.iter_mut() {
        for (square, norm) in square.iter_mut().zip(&mut norm) {
            *square = square.max(LEAST);
            *norm += *square;
        }
    }
    let norm = norm.map(f64::sqrt);
    let (Some(&first), Some(&last)) = (poles.first(), poles.last()) else {
        out.push([1.0; LANES]);
        return;
    };
    let tolerance = TOLERANCE * last.abs().max(1.0);
    let equation = Equation { poles, squares, tolerance };
    // Weyl: no eigenvalue is farther than |z| from those of the diagonal.
    out.push(equation.solve(Gap {
        left: 0,
        origin: [first; LANES],
        ends: [[0.0; LANES]; 2],
        low: norm.map(|norm| first.min(1.0) - norm - tolerance - first),
        high: [0.0; LANES],
    }));
    for left in 1..poles.len() {
        if poles[left] - poles[left - 1] <= tolerance {
            out.push([poles[left - 1]; LANES]);
        } else {
            out.push(equation.between(left));
        }
    }
    out.push(equation.solve(Gap {
        left: poles.len(),
        origin: [last; LANES],
        ends: [[0.0; LANES]; 2],
        low: [0.0; LANES],
        high: norm.map(|norm| last.max(1.0) + norm + tolerance - last),
    }));
}

struct Equation<'a> {
    poles: &'a [f64],
    squares: &'a [Lanes],
    tolerance: f64,
}

impl Equation<'_> {
    /// The equation at `origin + tau`.
    fn at(&self, left: usize, origin: &Lanes, tau: &Lanes) -> Value {
        // The rest is a sum of its own: close to a pole, what the slope gives for that and the sum
        // itself would leave nothing of it.
        let side = |poles: &[f64], squares: &[Lanes], end: f64| {
            let (mut sum, mut slope, mut rest) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            for (pole, square) in poles.iter().zip(squares) {
                let from_end = pole - end;
                for lane in 0..LANES {
                    let inverse = 1.0 / ((pole - origin[lane]) - tau[lane]);
                    let term = square[lane] * inverse;
                    sum[lane] += term;
                    slope[lane] += term * inverse;
                    rest[lane] += term * inverse * from_end;
                }
            }
            (sum, slope, rest)
        };
        let (poles, squares) = (self.poles, self.squares);
        let ends = [left.saturating_sub(1), left.min(poles.len() - 1)].map(|end| poles[end]);
        let (left_sum, left_slope, left_rest) = side(&poles[..left], &squares[..left], ends[0]);
        let (right_sum, right_slope, right_rest) = side(&poles[left..], &squares[left..], ends[1]);
        let line = |lane: usize| (origin[lane] - 1.0) + tau[lane];
        let g = std::array::from_fn(|lane| line(lane) + (left_sum[lane] + right_sum[lane]));
        Value { g, slopes: [left_slope, right_slope], rests: [left_rest, right_rest] }
    }

    /// The root between poles `left - 1` and `left`.
    fn between(&self, left: usize) -> Lanes {
        let (a, b) = (self.poles[left - 1], self.poles[left]);
        let (width, half) = (b - a, 0.5 * (b - a));
        let middle = self.at(left, &[a; LANES], &[half; LANES]);
        let mut gap = Gap {
            left,
            origin: [a; LANES],
            ends: [[0.0; LANES], [width; LANES]],
            low: [0.0; LANES],
            high: [half; LANES],
        };
        let guess = std::array::from_fn(|lane| {
            let (near, far) = (self.squares[left - 1][lane], self.squares[left][lane]);
            // All but the two poles, at the middle.
            let rest = middle.g[lane] + (near - far) / half;
            if middle.g[lane] >= 0.0 {
                return smaller_root(rest, rest * width + near + far, near * width);
            }
            (gap.origin[lane], gap.low[lane], gap.high[lane]) = (b, -half, 0.0);
            (gap.ends[0][lane], gap.ends[1][lane]) = (-width, 0.0);
            smaller_root(rest, near + far - rest * width, -far * width)
        });
        self.refine(gap, guess)
    }

    /// The root of an outer gap, from the middle of its bracket.
    fn solve(&self, gap: Gap) -> Lanes {
        let start = std::array::from_fn(|lane| 0.5 * (gap.low[lane] + gap.high[lane]));
        self.refine(gap, start)
    }

    /// Goes on from a guess until no lane moves any more.
    fn refine(&self, mut gap: Gap, guess: Lanes) -> Lanes {
        let mut tau: Lanes = std::array::from_fn(|lane| inside(&gap, lane, guess[lane]));
        let mut done = [false; LANES];
        for turn in 0..MOST_STEPS {
            let value = self.at(gap.left, &gap.origin, &tau);
            for lane in 0..LANES {
                let here = tau[lane];
                if value.g[lane] < 0.0 {
                    gap.low[lane] = gap.low[lane].max(here);
                } else {
                    gap.high[lane] = gap.high[lane].min(here);
                }
                // What is done stays where it is, whatever the other lanes still need.
                if done[lane] {
                    continue;
                }
                let step = self.step(&gap, &value, &tau, lane);
                let (low, high) = (gap.low[lane], gap.high[lane]);
                if value.g[lane] == 0.0 || step.abs() <= self.tolerance {
                    // The bracket may end right here, since this is the root.
                    tau[lane] =
                        if value.g[lane] == 0.0 { here } else { (here + step).clamp(low, high) };
                    done[lane] = true;
                } else {
                    let bisect = turn > PATIENCE && turn % 2 == 0;
                    tau[lane] = inside(&gap, lane, if bisect { f64::NAN } else { here + step });
                    done[lane] = high - low <= self.tolerance;
                }
            }
            if done == [true; LANES] {
                break;
            }
        }
        std::array::from_fn(|lane| gap.origin[lane] + tau[lane])
    }

    /// From `tau` to the root of the model there.
    fn step(&self, gap: &Gap, value: &Value, tau: &Lanes, lane: usize) -> f64 {
        let g = value.g[lane];
        let (to_left, to_right) = (gap.ends[0][lane] - tau[lane], gap.ends[1][lane] - tau[lane]);
        let line = (gap.origin[lane] - 1.0) + tau[lane];
        let [left_rest, right_rest] = value.rests.map(|rest| rest[lane]);
        if gap.left == 0 {
            let shift = line + right_rest - to_right;
            let root = (shift * shift + 4.0 * to_right * g).sqrt();
            if shift < 0.0 { -2.0 * to_right * g / (root - shift) } else { -0.5 * (shift + root) }
        } else if gap.left == self.poles.len() {
            let shift = line + left_rest - to_left;
            let root = (shift * shift + 4.0 * to_left * g).sqrt();
            if shift > 0.0 { 2.0 * to_left * g / (shift + root) } else { 0.5 * (root - shift) }
        } else {
            let [mut left, mut right] = value.slopes.map(|slope| slope[lane]);
            let far = if gap.ends[0][lane] == 0.0 {
                right += 1.0;
                to_right
            } else {
                left += 1.0;
                to_left
            };
            let rest = (line - far) + (left_rest + right_rest);
            let weights = left * to_left * to_left + right * to_right * to_right;
            smaller_root(rest, rest * (to_left + to_right) + weights, to_left * to_right * g)
        }
    }
}

/// The point if it is strictly inside the bracket, else the middle of that.
fn inside(gap: &Gap, lane: usize, point: f64) -> f64 {
    let (low, high) = (gap.low[lane], gap.high[lane]);
    if point > low && point < high { point } else { 0.5 * (low + high) }
}

/// The root of `c x² - a x + b` between the poles: the one that stays finite as c goes to zero.
fn smaller_root(c: f64, a: f64, b: f64) -> f64 {
    let root = (a * a - 4.0 * b * c).max(0.0).sqrt();
    if a > 0.0 { 2.0 * b / (a + root) } else { (a - root) / (2.0 * c) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::linalg::eigh;
    use linwright_tensor::{Mat, RngKey, RngStream};

    /// How far roots may be from those of a decomposition, relative to the largest eigenvalue.
    const CLOSE: f64 = 2e-14;

    /// Solves eight matrices and compares each with its decomposition.
    fn check(poles: &[f64], z: &[Lanes], what: &str) {
        let t = poles.len();
        let mut squares: Vec<Lanes> = z.iter().map(|z| z.map(|z| z * z)).collect();
        let mut found = Vec::new();
        roots(poles, &mut squares, &mut found);
        assert_eq!(found.len(), t + 1);
        for lane in 0..LANES {
            let arrow = Mat::from_fn(t + 1, t + 1, |i, j| match (i, j) {
                (i, j) if i == t && j == t => 1.0,
                (i, j) if i == t || j == t => z[i.min(j)][lane],
                (i, j) if i == j => poles[i],
                _ => 0.0,
            });
            let exact = eigh(arrow.view()).unwrap().values;
            let size = exact.iter().fold(1.0, |most: f64, v| most.max(v.abs()));
            for (k, (root, exact)) in found.iter().map(|root| root[lane]).zip(&exact).enumerate() {
                let off = (root - exact).abs();
                assert!(
                    off <= CLOSE * size,
                    "{what}, lane {lane}: root {k} is {root}, not {exact}"
                );
                assert!(k == t || root <= poles[k] + 1e-15 * size, "{what}: interlacing");
                assert!(k == 0 || root >= poles[k - 1] - 1e-15 * size, "{what}: interlacing");
            }
            let sum: f64 = found.iter().map(|root| root[lane]).sum();
            let trace = 1.0 + poles.iter().sum::<f64>();
            assert!((sum - trace).abs() <= CLOSE * size * (t + 1) as f64, "{what}: {sum} {trace}");
        }
    }

    fn lanes(stream: &mut RngStream, t: usize, f: impl Fn(f64) -> f64) -> Vec<Lanes> {
        (0..t).map(|_| std::array::from_fn(|_| f(stream.normal()))).collect()
    }

    #[test]
    fn roots_of_random_matrices_interlace_and_sum_to_the_trace() {
        let mut stream = RngKey::new(2).stream();
        for t in [0, 1, 2, 3, 5, 8, 17, 40, 90] {
            for scale in [1.0, 1e-2, 1e-5, 1e-9, 1e-14, 1e-30] {
                let mut poles: Vec<f64> = (0..t).map(|_| 2.0 * stream.uniform()).collect();
                poles.sort_by(f64::total_cmp);
                let z = lanes(&mut stream, t, |z| z * scale);
                check(&poles, &z, &format!("{t} poles, z about {scale:e}"));
            }
        }
    }

    #[test]
    fn equal_and_nearly_equal_poles() {
        let mut stream = RngKey::new(3).stream();
        for gap in [0.0, 1e-16, 1e-15, 1e-13, 1e-10, 1e-6] {
            for scale in [1.0, 1e-4, 1e-8, 0.0] {
                let mut poles: Vec<f64> =
                    (0..24).map(|i| f64::from(i / 6) + gap * f64::from(i % 6)).collect();
                poles[0] = -gap;
                poles.sort_by(f64::total_cmp);
                let z = lanes(&mut stream, 24, |z| z * scale);
                check(&poles, &z, &format!("gaps of {gap:e}, z about {scale:e}"));
            }
        }
    }

    #[test]
    fn a_pole_without_weight_beside_an_equal_one_with_it() {
        let poles = [0.12, 0.34, 1.0, 1.0, 2.53];
        for lead in 0..5 {
            for least in [0.0, 1e-70, 1e-17, 1e-12] {
                let z: Vec<Lanes> = (0..5)
                    .map(|i| {
                        let weight = |lane: usize| 0.1 + 0.15 * lane as f64;
                        std::array::from_fn(|lane| if i == lead { weight(lane) } else { least })
                    })
                    .collect();
                check(&poles, &z, &format!("weight at pole {lead}, {least:e} elsewhere"));
            }
        }
    }

    #[test]
    fn z_of_every_size_side_by_side() {
        let mut stream = RngKey::new(4).stream();
        for t in [3, 12, 33] {
            let poles: Vec<f64> = (0..t).map(|i| (i as f64 - t as f64).exp2() * 3.0).collect();
            let z = lanes(&mut stream, t, |z| if z > 0.3 { 0.0 } else { (9.0 * z).exp2() });
            check(&poles, &z, "mixed");
        }
    }
}
