//! Least-squares fits of products of diagonal and circulant matrices.
//!
//! Fits `W = diag(d_0) circ(c_0) ⋯ diag(d_{m-1})` to a target: for rows x with the second moment `S
//! = Σ x xᵀ` and the cross moment `T = Σ y xᵀ` it minimises `Σ |y - W x|²`; for a matrix W₀ the
//! same with S = 1 and T = W₀. Factors are fitted alternately, each exactly with the others fixed
//! (alternating least squares); when that stalls, all are updated together by damped Gauss-Newton
//! steps (Levenberg-Marquardt). The error never rises, but may end in a local minimum.

use super::solve_spd;
use crate::kernels::circulant::CyclicTransform;
use crate::kernels::gemm::{Arg, Write, product};
use crate::{Mat, RngKey};

/// Target of a fit.
#[derive(Clone, Debug)]
pub struct CirculantTarget {
    /// `S`, (n, n), or the identity if absent.
    pub inputs: Option<Mat<f64>>,
    /// `T`, (n, n).
    pub cross: Mat<f64>,
    /// `Σ |y|²`, the reference of the relative error.
    pub size: f64,
}

/// Effort of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CirculantEffort {
    /// Number m of diagonals.
    pub factors: usize,
    /// Largest number of alternating sweeps from each start, and of Gauss-Newton steps.
    pub sweeps: usize,
    /// Number of starts: one of ones, the others random, half of these from a fit with one factor
    /// fewer if m > 2.
    pub starts: usize,
}

/// Fitted factors and their error.
#[derive(Clone, Debug, PartialEq)]
pub struct CirculantFit {
    /// d_0 to d_{m-1}.
    pub diagonals: Vec<Vec<f64>>,
    /// c_0 to c_{m-2}.
    pub columns: Vec<Vec<f64>>,
    /// `√(Σ |y - W x|² / Σ |y|²)`.
    pub error: f64,
}

/// Relative improvement of a sweep below which a start is abandoned.
const STALLED: f64 = 1e-12;
/// Alternating sweeps before Gauss-Newton steps.
const SWEEPS: usize = 40;
/// Largest size of the Jacobian: beyond it, only alternating sweeps are used.
const DERIVATIVES: usize = 1 << 24;

impl CirculantTarget {
    /// A matrix (n, n) as the target.
    ///
    /// # Panics
    /// If it is not square.
    #[must_use]
    #[track_caller]
    pub fn matrix(weight: &Mat<f64>) -> Self {
        assert_eq!(weight.rows(), weight.cols(), "the target of a square product");
        let size = weight.data().iter().map(|v| v * v).sum();
        Self { inputs: None, cross: weight.clone(), size }
    }

    fn features(&self) -> usize {
        self.cross.rows()
    }

    /// `B S`.
    fn weighted(&self, b: &Mat<f64>) -> Mat<f64> {
        self.inputs.as_ref().map_or_else(|| b.clone(), |s| times(b.as_arg(), s.as_arg()))
    }

    /// Relative error of W.
    fn error(&self, weight: &Mat<f64>) -> f64 {
        let dot = |a: &Mat<f64>, b: &Mat<f64>| -> f64 {
            a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum()
        };
        if self.inputs.is_none() {
            // Differences first: the error of an exact fit is rounding, not its square root.
            let pairs = weight.data().iter().zip(self.cross.data());
            let left: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
            return (left / self.size).sqrt();
        }
        let left = self.size - 2.0 * dot(weight, &self.cross) + dot(&self.weighted(weight), weight);
        (left.max(0.0) / self.size).sqrt()
    }
}

trait AsArg {
    fn as_arg(&self) -> Arg<'_, f64>;
}

impl AsArg for Mat<f64> {
    fn as_arg(&self) -> Arg<'_, f64> {
        Arg::Plain(self.view())
    }
}

fn times(a: Arg<'_, f64>, b: Arg<'_, f64>) -> Mat<f64> {
    let side = |arg: &Arg<'_, f64>| match arg {
        Arg::Plain(m) | Arg::Transposed(m) => m.rows(),
    };
    let n = side(&a);
    let mut result = Mat::zeros(n, n);
    product(1.0, a, b, result.view_mut(), Write::Set);
    result
}

/// Factors in the order of the product, alternating diagonals and circulants.
#[derive(Clone)]
struct Factors(Vec<Vec<f64>>);

impl Factors {
    fn matrix(&self, index: usize) -> Mat<f64> {
        let (v, n) = (&self.0[index], self.0[index].len());
        if index.is_multiple_of(2) {
            Mat::from_fn(n, n, |i, j| if i == j { v[i] } else { 0.0 })
        } else {
            Mat::from_fn(n, n, |i, j| v[(i + n - j) % n])
        }
    }

    /// Scales all factors except the last to unit mean square, so that none diverges.
    fn balance(&mut self) {
        let mut scale = 1.0;
        let (last, others) = self.0.split_last_mut().expect("a diagonal");
        for factor in others {
            let size = (factor.iter().map(|v| v * v).sum::<f64>() / factor.len() as f64).sqrt();
            if size > 0.0 && size.is_finite() {
                factor.iter_mut().for_each(|v| *v /= size);
                scale *= size;
            }
        }
        last.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Solves the normal equations with the smallest ridge that succeeds; none if no ridge does.
fn solve(mut normal: Mat<f64>, right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    let mean = (0..n).map(|i| normal.at(i, i)).sum::<f64>() / n as f64;
    let right = Mat::from_vec(1, n, right);
    let mut ridge = 1e-14;
    while ridge < 1e-3 {
        (0..n).for_each(|i| *normal.at_mut(i, i) += ridge * mean);
        if let Ok(found) = solve_spd(normal.view(), right.view())
            && found.data().iter().all(|v| v.is_finite())
        {
            return Some(found.into_vec());
        }
        ridge *= 100.0;
    }
    None
}

/// Fits factor `index` between the products `a` and `b` of the others.
fn refit(
    target: &CirculantTarget,
    transform: &CyclicTransform<f64>,
    a: &Mat<f64>,
    b: &Mat<f64>,
    circulant: bool,
) -> Option<Vec<f64>> {
    let n = target.features();
    let left = times(Arg::Transposed(a.view()), a.as_arg());
    let right = times(target.weighted(b).as_arg(), Arg::Transposed(b.view()));
    let half = times(Arg::Transposed(a.view()), target.cross.as_arg());
    let cross = times(half.as_arg(), Arg::Transposed(b.view()));
    if !circulant {
        let normal = Mat::from_fn(n, n, |i, j| left.at(i, j) * right.at(i, j));
        return solve(normal, (0..n).map(|i| cross.at(i, i)).collect());
    }
    // Row k of the normal equations: sums of row correlations `Σ_ij left[i, j] right[i - k, j -
    // l]`.
    let spectra = |m: &Mat<f64>| -> Vec<Vec<[f64; 2]>> {
        (0..n).map(|i| transform.half_spectrum(m.row(i))).collect()
    };
    let (left, right) = (spectra(&left), spectra(&right));
    let mut normal = Mat::zeros(n, n);
    for k in 0..n {
        let mut sum = vec![[0.0; 2]; transform.bins()];
        for (i, left) in left.iter().enumerate() {
            for ((s, g), h) in sum.iter_mut().zip(left).zip(&right[(i + n - k) % n]) {
                *s = [s[0] + g[0] * h[0] + g[1] * h[1], s[1] + g[1] * h[0] - g[0] * h[1]];
            }
        }
        normal.row_mut(k).copy_from_slice(&transform.vector(&sum));
    }
    let along = |k: usize| (0..n).map(|i| cross.at(i, (i + n - k) % n)).sum();
    solve(normal, (0..n).map(along).collect())
}

/// Fits every factor once, from the left.
fn sweep(
    target: &CirculantTarget,
    transform: &CyclicTransform<f64>,
    factors: &mut Factors,
) -> bool {
    let count = factors.0.len();
    let mut behind = vec![Mat::identity(target.features())];
    for index in (1..count).rev() {
        let next = times(factors.matrix(index).as_arg(), behind[count - 1 - index].as_arg());
        behind.push(next);
    }
    let mut before = Mat::identity(target.features());
    for index in 0..count {
        let after = &behind[count - 1 - index];
        match refit(target, transform, &before, after, index % 2 == 1) {
            Some(factor) => factors.0[index] = factor,
            None => return false,
        }
        before = times(before.as_arg(), factors.matrix(index).as_arg());
    }
    factors.balance();
    true
}

fn weight(factors: &Factors) -> Mat<f64> {
    let first = factors.matrix(0);
    (1..factors.0.len()).fold(first, |w, index| times(w.as_arg(), factors.matrix(index).as_arg()))
}

/// Factors and the error of their product.
struct Fitted {
    factors: Factors,
    error: f64,
}

fn run(target: &CirculantTarget, mut factors: Factors, sweeps: usize) -> Fitted {
    let transform = CyclicTransform::new(target.features());
    let mut best = Fitted { factors: factors.clone(), error: target.error(&weight(&factors)) };
    let numbers = target.features().pow(3).saturating_mul(factors.0.len());
    let together = numbers <= DERIVATIVES && factors.0.len() > 1;
    for _ in 0..if together { sweeps.min(SWEEPS) } else { sweeps } {
        if !sweep(target, &transform, &mut factors) {
            break;
        }
        let error = target.error(&weight(&factors));
        let gain = best.error - error;
        if error < best.error {
            best = Fitted { factors: factors.clone(), error };
        }
        if gain < STALLED * error {
            break;
        }
    }
    if together {
        move_together(target, &mut best, sweeps);
    }
    best
}

/// Jacobian of the weight with respect to all parameters, (parameters · n, n).
fn derivatives(factors: &Factors) -> Mat<f64> {
    let (count, n) = (factors.0.len(), factors.0[0].len());
    let mut jacobian = Mat::zeros(count * n * n, n);
    for index in 0..count {
        let product = |range: std::ops::Range<usize>| {
            range.fold(Mat::identity(n), |w, k| times(w.as_arg(), factors.matrix(k).as_arg()))
        };
        let (a, b) = (product(0..index), product(index + 1..count));
        for k in 0..n {
            let derivative = if index.is_multiple_of(2) {
                Mat::from_fn(n, n, |i, j| a.at(i, k) * b.at(k, j))
            } else {
                let shifted = Mat::from_fn(n, n, |i, j| a.at(i, (j + k) % n));
                times(shifted.as_arg(), b.as_arg())
            };
            let start = (index * n + k) * n * n;
            jacobian.data_mut()[start..start + n * n].copy_from_slice(derivative.data());
        }
    }
    jacobian
}

/// Damped Gauss-Newton steps, until they no longer improve.
fn move_together(target: &CirculantTarget, best: &mut Fitted, steps: usize) {
    let n = target.features();
    let numbers = best.factors.0.len() * n;
    let mut damping = 1e-3;
    for _ in 0..steps {
        let derivatives = derivatives(&best.factors);
        let mut weighted = derivatives.clone();
        if let Some(inputs) = &target.inputs {
            let to = weighted.view_mut();
            product(1.0, derivatives.as_arg(), inputs.as_arg(), to, Write::Set);
        }
        let flat = |m: Mat<f64>| Mat::from_vec(numbers, n * n, m.into_vec());
        let (derivatives, weighted) = (flat(derivatives), flat(weighted));
        let mut normal = Mat::zeros(numbers, numbers);
        let transposed = Arg::Transposed(derivatives.view());
        product(1.0, weighted.as_arg(), transposed, normal.view_mut(), Write::Set);
        let fitted = target.weighted(&weight(&best.factors));
        let left: Vec<f64> =
            target.cross.data().iter().zip(fitted.data()).map(|(t, w)| t - w).collect();
        let slope = |k: usize| derivatives.row(k).iter().zip(&left).map(|(d, r)| d * r).sum();
        let slopes: Vec<f64> = (0..numbers).map(slope).collect();
        let before = best.error;
        while best.error == before && damping < 1e6 {
            let mut damped = normal.clone();
            (0..numbers).for_each(|i| *damped.at_mut(i, i) *= 1.0 + damping);
            if let Some(step) = solve(damped, slopes.clone()) {
                let mut moved = best.factors.clone();
                moved.0.iter_mut().flatten().zip(&step).for_each(|(v, s)| *v += s);
                let error = target.error(&weight(&moved));
                if error < best.error {
                    *best = Fitted { factors: moved, error };
                }
            }
            damping *= if best.error < before { 0.2 } else { 5.0 };
        }
        if before - best.error <= STALLED * best.error {
            break;
        }
        best.factors.balance();
    }
}

/// The best fit from several starts, plus the closed-form product if there is one.
///
/// # Panics
/// If the target is empty or not square, or no diagonal is asked for.
#[must_use]
#[track_caller]
pub fn fit_circulant(
    target: &CirculantTarget,
    effort: CirculantEffort,
    key: RngKey,
) -> CirculantFit {
    let n = target.features();
    assert!(n > 0 && effort.factors > 0, "{n} features and {} factors", effort.factors);
    let count = 2 * effort.factors - 1;
    let start = |index: usize| {
        let mut stream = key.fold_index(index as u64).stream();
        let mut number = || {
            let sign = if stream.uniform() < 0.5 { -1.0 } else { 1.0 };
            sign * (0.5 + stream.uniform())
        };
        Factors((0..count).map(|_| (0..n).map(|_| number()).collect()).collect())
    };
    let mut starts = vec![Factors(vec![vec![1.0; n]; count])];
    let random = effort.starts.saturating_sub(1);
    if random > 1 && effort.factors > 2 {
        // A shorter product is a start, too, extended by a circulant and a diagonal near the
        // identity.
        let shorter = CirculantEffort { factors: effort.factors - 1, ..effort };
        let fit = fit_circulant(target, shorter, key);
        starts.extend((0..random / 2).map(|index| longer(&fit, key.fold("longer"), index)));
    }
    let drawn = effort.starts.saturating_sub(starts.len());
    starts.extend((1..=drawn).map(start));
    if effort.factors == 2 && target.inputs.is_none() {
        starts.extend(recover_circulant(&target.cross).map(|fit| {
            let [left, right] = [0, 1].map(|k| fit.diagonals[k].clone());
            Factors(vec![left, fit.columns[0].clone(), right])
        }));
    }
    let runs = crate::parallel::map(starts, |_, start| run(target, start, effort.sweeps));
    let best = runs.into_iter().min_by(|a, b| a.error.total_cmp(&b.error)).expect("a start");
    let factors = best.factors.0;
    let (diagonals, columns) = (factors.iter().step_by(2), factors.iter().skip(1).step_by(2));
    CirculantFit {
        diagonals: diagonals.cloned().collect(),
        columns: columns.cloned().collect(),
        error: best.error,
    }
}

/// Extends a fit by one circulant and one diagonal that are near the identity.
fn longer(fit: &CirculantFit, key: RngKey, index: usize) -> Factors {
    let mut stream = key.fold_index(index as u64).stream();
    let noise = 0.4_f64.powi(1 + index as i32 % 4);
    let mut factors = Vec::new();
    for (k, diagonal) in fit.diagonals.iter().enumerate() {
        factors.push(diagonal.clone());
        factors.extend(fit.columns.get(k).cloned());
    }
    let n = factors[0].len();
    let column: Vec<f64> =
        (0..n).map(|k| noise * stream.normal() + if k == 0 { 1.0 } else { 0.0 }).collect();
    let diagonal: Vec<f64> = (0..n).map(|_| 1.0 + noise * stream.normal()).collect();
    if index.is_multiple_of(2) {
        factors.extend([column, diagonal]);
    } else {
        factors.splice(0..0, [diagonal, column]);
    }
    Factors(factors)
}

/// The factors of a matrix (n, n) of the form `diag(d_0) circ(c_0) diag(d_1)`, in closed form; for
/// other matrices the best fit to the logarithms of their entries. None if an entry is zero or not
/// finite.
///
/// Every row, column and wrapped diagonal intersect exactly once, so the least-squares solution of
/// `log|W_ij| = log|d_0i| + log|c_(i-j)| + log|d_1j|` consists of means. Signs follow from `τ_(i+j)
/// = τ_i τ_j D_ij`, D from the signs of W and τ from those of c.
///
/// # Panics
/// If the matrix is empty or not square.
#[must_use]
#[track_caller]
pub fn recover_circulant(matrix: &Mat<f64>) -> Option<CirculantFit> {
    let n = matrix.rows();
    assert!(n > 0 && n == matrix.cols(), "a matrix of shape ({n}, {})", matrix.cols());
    if matrix.data().iter().any(|&v| v == 0.0 || !v.is_finite()) {
        return None;
    }
    let (mut rows, mut lags, mut cols) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    for i in 0..n {
        for j in 0..n {
            let size = matrix.at(i, j).abs().ln() / n as f64;
            rows[i] += size;
            lags[(i + n - j) % n] += size;
            cols[j] += size;
        }
    }
    let mean = rows.iter().sum::<f64>() / n as f64;
    let negative = |i: usize, j: usize| matrix.at(i % n, j % n) < 0.0;
    // Whether the product of the signs of W at (i, 0), (0, -j), (0, 0) and (i, -j) is negative.
    let odd = |i: usize, j: usize| {
        negative(i, n - j) ^ negative(i, 0) ^ negative(0, n - j) ^ negative(0, 0)
    };
    let walk = |first: bool| {
        let mut signs = vec![false; n + 1];
        for i in 0..n {
            signs[i + 1] = signs[i] ^ first ^ odd(i, 1);
        }
        signs
    };
    let mut signs = walk(false);
    if signs[n] {
        signs = walk(true);
    }
    let signed = |size: f64, minus: bool| if minus { -size.exp() } else { size.exp() };
    let left = (0..n).map(|i| signed(rows[i] - mean, negative(i, 0) ^ signs[i])).collect();
    let column = (0..n).map(|k| signed(lags[k] - mean, signs[k])).collect();
    let first = negative(0, 0) ^ signs[0];
    let right = |j: usize| signed(cols[j], negative(0, j) ^ first ^ signs[(n - j) % n]);
    let right = (0..n).map(right).collect();
    let factors = Factors(vec![left, column, right]);
    let error = CirculantTarget::matrix(matrix).error(&weight(&factors));
    let [left, column, right] = factors.0.try_into().ok()?;
    Some(CirculantFit { diagonals: vec![left, right], columns: vec![column], error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(n: usize, m: usize, key: u64) -> Factors {
        let mut stream = RngKey::new(key).stream();
        Factors((0..2 * m - 1).map(|_| stream.normals(n, 1.0)).collect())
    }

    #[test]
    fn products_of_two_diagonals_are_recovered() {
        for n in 1..17 {
            let matrix = weight(&random(n, 2, n as u64));
            let fit = recover_circulant(&matrix).expect("no zeros");
            assert!(fit.error < 1e-13, "n {n}: {}", fit.error);
        }
        assert_eq!(recover_circulant(&Mat::zeros(3, 3)), None);
    }

    #[test]
    fn sweeps_never_raise_the_error_and_hold_an_exact_fit() {
        let n = 7;
        let mut stream = RngKey::new(1).stream();
        let x: Mat<f64> = Mat::from_fn(n, 40, |i, _| (1.0 + i as f64) * stream.normal());
        let moment = times(x.as_arg(), Arg::Transposed(x.view()));
        for m in 1..4 {
            let exact = random(n, m, 9);
            let matrix = weight(&exact);
            let cross = times(matrix.as_arg(), moment.as_arg());
            let size: f64 = cross.data().iter().zip(matrix.data()).map(|(t, w)| t * w).sum();
            let data = CirculantTarget { inputs: Some(moment.clone()), cross, size };
            for target in [CirculantTarget::matrix(&matrix), data] {
                assert!(run(&target, exact.clone(), 3).error < 1e-6);
                let (transform, mut factors) = (CyclicTransform::new(n), random(n, m, 4));
                let mut error = f64::INFINITY;
                for _ in 0..20 {
                    assert!(sweep(&target, &transform, &mut factors));
                    let next = target.error(&weight(&factors));
                    assert!(next <= error + 1e-9, "{next} after {error}");
                    error = next;
                }
            }
        }
    }
}
