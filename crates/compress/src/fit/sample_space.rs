//! Reduced-rank regression where there are fewer samples than input features.
//!
//! With samples X (n, inp), Y (n, out) and the Gram matrix `G = X Xᵀ = Q diag(w) Qᵀ` of samples,
//! the least-squares map predicts `P Y`, P = Q Qᵀ over the directions with data. The best map of
//! rank r predicts the truncated singular value decomposition of `P Y`; with its right factor V'
//! (r, n) in sample space it is `U (V' G⁺ X)`. Everything has the smallest side of n, inp and out:
//! no (inp, inp) matrix is formed, which for a down projection of 14,336 inputs would take 1.6 GB.
//!
//! Cost: n² inp / 2 + 4 n³ multiply-adds for G and its eigenvectors, once for sites that share an
//! input; s² max(n, out) / 2 + 4 s³, s = min(n, out), and about r n (2 n + inp + out) for a site.
//!
//! Numerical notes: sums and decompositions in `f64`; the directions without data are those of
//! [`super::regression`], and nothing is divided by small singular values of the target.

use super::regression::{NO_DATA, numerics};
use crate::FitError;
use linwright_measure::samples::Samples;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::{Eigh, eigh, gram};
use linwright_tensor::{Mat, MatRef};

/// Columns widened to `f64` at a time.
const PANEL: usize = 512;

/// Factors of a map.
pub(crate) struct Factors {
    /// U (out, rank).
    pub(crate) u: Mat<f32>,
    /// V (rank, inp).
    pub(crate) v: Mat<f32>,
    /// Number of input directions without data.
    pub(crate) dropped: usize,
}

/// The best map of a rank for the training samples, centred if a bias absorbs their means. Each
/// column of U has the norm of its row of V, so that neither overflows in half precision.
pub(crate) fn reduced_rank(
    samples: &Samples,
    rank: usize,
    centred: bool,
) -> Result<Factors, FitError> {
    let (x, y) = samples.training();
    let inputs = samples.gram(centred).map_err(numerics("eigenvalues of the Gram matrix"))?;
    let largest = inputs.values.last().copied().unwrap_or(0.0);
    let there = inputs.values.iter().filter(|w| **w > NO_DATA * largest).count();
    let (x_means, y_means) = (means(x, centred), means(y, centred));
    let target = predictable(y, &y_means, inputs, there);
    let (mut u, in_samples) = truncated(&target, rank)?;
    drop(target);
    let weights = through_inverse(&in_samples, inputs, there);
    let mut v = Mat::zeros(rank, x.cols());
    for start in (0..x.cols()).step_by(PANEL) {
        let panel = panel(x, &x_means, start);
        let found = multiply(weights.view().into(), panel.view().into());
        for r in 0..rank {
            let to = &mut v.row_mut(r)[start..start + panel.cols()];
            to.iter_mut().zip(found.row(r)).for_each(|(to, from)| *to = *from as f32);
        }
    }
    balance(&mut u, &mut v);
    Ok(Factors { u, v, dropped: x.cols() - there })
}

/// Means of columns, or zeros.
fn means(rows: MatRef<'_, f32>, centred: bool) -> Vec<f64> {
    let mut means = vec![0.0; rows.cols()];
    for i in 0..if centred { rows.rows() } else { 0 } {
        means.iter_mut().zip(rows.row(i)).for_each(|(mean, v)| *mean += f64::from(*v));
    }
    means.iter_mut().for_each(|mean| *mean /= rows.rows().max(1) as f64);
    means
}

/// Some columns in `f64`, less their means.
fn panel(rows: MatRef<'_, f32>, means: &[f64], start: usize) -> Mat<f64> {
    let count = PANEL.min(rows.cols() - start);
    let number = |i, j| f64::from(rows.at(i, start + j)) - means[start + j];
    Mat::from_fn(rows.rows(), count, number)
}

fn multiply(a: Arg<'_, f64>, b: Arg<'_, f64>) -> Mat<f64> {
    super::regression::multiply(a, b)
}

/// The part of the targets (n, out) in the span of the inputs, of which `there` directions, the
/// last eigenvectors, have data.
fn predictable(y: MatRef<'_, f32>, means: &[f64], inputs: &Eigh, there: usize) -> Mat<f32> {
    let n = y.rows();
    let absent = n - there;
    // The shorter of the two products.
    let (from, count) = if absent <= there { (0, absent) } else { (absent, there) };
    let directions = inputs.vectors.view().columns(from, count);
    let mut found = Mat::zeros(n, y.cols());
    for start in (0..y.cols()).step_by(PANEL) {
        let mut wide = panel(y, means, start);
        if count > 0 || absent > there {
            let along = multiply(Arg::Transposed(directions), wide.view().into());
            let (scale, write) =
                if absent <= there { (-1.0, Write::Add) } else { (1.0, Write::Set) };
            product(scale, directions.into(), along.view().into(), wide.view_mut(), write);
        }
        for i in 0..n {
            let to = &mut found.row_mut(i)[start..start + wide.cols()];
            to.iter_mut().zip(wide.row(i)).for_each(|(to, from)| *to = *from as f32);
        }
    }
    found
}

/// The truncated singular value decomposition of the transposed targets: U (out, rank) and V'
/// (rank, n), by the eigenvectors of the smaller side.
fn truncated(target: &Mat<f32>, rank: usize) -> Result<(Mat<f32>, Mat<f64>), FitError> {
    let (n, out) = (target.rows(), target.cols());
    let found = eigh(gram(target.view(), None).view());
    let vectors = found.map_err(numerics("singular values of the targets"))?.vectors;
    let side = vectors.rows();
    // Eigenvalues ascend, components descend; beyond the smaller side there are zeros.
    let top = |r: usize, i: usize| if r < side { vectors.at(i, side - 1 - r) } else { 0.0 };
    let none = vec![0.0; n.max(out)];
    if n >= out {
        let first = Mat::from_fn(rank, out, top);
        let mut right = Mat::zeros(rank, n);
        for start in (0..out).step_by(PANEL) {
            let panel = panel(target.view(), &none, start);
            let of = first.view().columns(start, panel.cols());
            product(1.0, of.into(), Arg::Transposed(panel.view()), right.view_mut(), Write::Add);
        }
        return Ok((first.transpose().cast(), right));
    }
    let right = Mat::from_fn(rank, n, top);
    let mut left = Mat::zeros(out, rank);
    for start in (0..out).step_by(PANEL) {
        let panel = panel(target.view(), &none, start);
        let found = multiply(Arg::Transposed(panel.view()), Arg::Transposed(right.view()));
        for i in 0..panel.cols() {
            let to = left.row_mut(start + i).iter_mut().zip(found.row(i));
            to.for_each(|(to, from)| *to = *from as f32);
        }
    }
    Ok((left, right))
}

/// `V' G⁺`, (rank, n).
fn through_inverse(right: &Mat<f64>, inputs: &Eigh, there: usize) -> Mat<f64> {
    let absent = inputs.values.len() - there;
    let directions = inputs.vectors.view().columns(absent, there);
    let mut along = multiply(right.view().into(), directions.into());
    for r in 0..along.rows() {
        along.row_mut(r).iter_mut().zip(&inputs.values[absent..]).for_each(|(v, w)| *v /= w);
    }
    multiply(along.view().into(), Arg::Transposed(directions))
}

fn balance(u: &mut Mat<f32>, v: &mut Mat<f32>) {
    let square = |v: &f32| f64::from(*v).powi(2);
    for r in 0..v.rows() {
        let of_row = v.row(r).iter().map(square).sum::<f64>();
        let of_column = (0..u.rows()).map(|i| square(&u.at(i, r))).sum::<f64>();
        if of_row > 0.0 && of_column > 0.0 {
            let factor = (of_row / of_column).powf(0.25);
            v.row_mut(r).iter_mut().for_each(|v| *v = (f64::from(*v) / factor) as f32);
            (0..u.rows()).for_each(|i| *u.at_mut(i, r) = (f64::from(u.at(i, r)) * factor) as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::reduced_rank_regression;
    use linwright_measure::samples::Rows;
    use linwright_measure::stats::SiteStats;
    use linwright_tensor::RngKey;

    /// Samples with strongly unequal directions, and some of them twice.
    fn samples(n: usize, inp: usize, out: usize, twice: usize) -> Samples {
        let normal = |rows: usize, cols: usize, seed: u64| -> Mat<f32> {
            Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
        };
        let (base, w, noise) = (normal(n, inp, 1), normal(out, inp, 2), normal(n, out, 3));
        let row = |i: usize| if i < twice { n - 1 - i } else { i };
        let x = Mat::from_fn(n, inp, |i, j| 0.5 + base.at(row(i), j) / (1 + j % 7) as f32);
        let y = Mat::from_fn(n, out, |i, o| {
            let z: f32 = (0..inp).map(|j| w.at(o, j) * x.at(i, j)).sum();
            z + 0.3 * z.sin() + 0.1 * noise.at(i, o) + 2.0
        });
        Samples { x: Rows::of(x), y: Rows::of(y), train: n }
    }

    fn sums(samples: &Samples, centred: bool) -> SiteStats {
        let (x, y) = samples.training();
        let stats = SiteStats::of(x, y);
        if centred { stats.centred() } else { stats }
    }

    fn squared_error(samples: &Samples, u: &Mat<f64>, v: &Mat<f64>, centred: bool) -> f64 {
        sums(samples, centred).squared_error(&multiply(u.view().into(), v.view().into()))
    }

    #[test]
    fn the_map_is_that_of_the_sums() {
        for (n, inp, out, twice) in
            [(20, 30, 12, 0), (20, 30, 40, 0), (24, 40, 33, 5), (16, 16, 9, 2)]
        {
            for centred in [false, true] {
                let what = format!("{n} samples, {inp} to {out}, {twice} twice, {centred}");
                let samples = samples(n, inp, out, twice);
                let stats = sums(&samples, centred);
                let power = stats.target_power();
                for rank in [1, 3, 8] {
                    let found = reduced_rank(&samples, rank, centred).expect("fits");
                    let (u, v, dropped) = reduced_rank_regression(&stats, rank).expect("fits");
                    let there = n - twice - usize::from(centred);
                    // Sums do not tell samples that occur twice from rounding errors.
                    assert!(found.dropped == inp - there && dropped <= found.dropped, "{what}");
                    let best = squared_error(&samples, &u, &v, centred);
                    let (u, v) = (found.u.cast(), found.v.cast());
                    let error = squared_error(&samples, &u, &v, centred);
                    assert!((error - best).abs() < 1e-5 * power, "{what}, {rank}: {error} {best}");
                    for r in 0..rank {
                        let row: f64 = v.row(r).iter().map(|v| v * v).sum();
                        let column: f64 = (0..out).map(|i| u.at(i, r).powi(2)).sum();
                        assert!((row / column - 1.0).abs() < 1e-4, "{what}: {row} and {column}");
                    }
                }
            }
        }
    }

    #[test]
    fn more_rank_than_samples_adds_nothing_and_is_finite() {
        let samples = samples(6, 20, 9, 1);
        let whole = reduced_rank(&samples, 9, false).expect("fits");
        let error = squared_error(&samples, &whole.u.cast(), &whole.v.cast(), false);
        let least = reduced_rank_regression(&sums(&samples, false), 9).expect("fits");
        let least = squared_error(&samples, &least.0, &least.1, false);
        let power = sums(&samples, false).target_power();
        assert!((error - least).abs() < 1e-5 * power, "{error} {least}");
    }
}
