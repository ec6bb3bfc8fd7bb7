//! The regression of [`super::ridge`] where there are fewer samples than input features.
//!
//! With samples X (n, inp), Y (n, out) and what the weight leaves of the targets, `R = Y − X Wᵀ`,
//! the map is `T = W + Rᵀ (G + λ I)⁻¹ X` with the Gram matrix `G = X Xᵀ` of samples: no matrix of
//! second moments (inp, inp) is formed and decomposed, which for a down projection of 14,336 inputs
//! would take 1.6 GB. In a slot with a bias, a constant feature adds its square to all of G.
//!
//! With `G = Q diag(w) Qᵀ` the predictions of held-out samples are linear in `1 / (w + λ)`, and
//! their error is a quadratic form in it, as with moments.
//!
//! Cost: n² inp / 2 + 9 n³ multiply-adds for G and its eigenvectors, once for sites that share an
//! input, and 2 n out inp + n² out for a site.
//!
//! Numerical notes: sums and decompositions in `f64`; with ridge 0 directions without data are
//! those of [`super::regression`].

use super::regression::{NO_DATA, multiply, numerics};
use super::ridge::{HeldOut, Pulled, Ridge, nothing_held_out};
use crate::FitError;
use linwright_measure::samples::{Samples, products};
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::{Eigh, solve_spd};
use linwright_tensor::{Mat, MatRef};

/// The least share of the squares of targets that is more than rounding of outputs in `f32`.
const ROUNDING: f64 = 1e-11;

/// Columns widened to `f64` at a time.
const PANEL: usize = 512;

/// The regression of the training samples, with the others to choose an automatic ridge.
///
/// # Errors
/// As [`super::ridge::regression`].
pub(crate) fn regression(
    samples: &Samples,
    weight: &Mat<f64>,
    ridge: Ridge,
    is_biased: bool,
) -> Result<Pulled, FitError> {
    let (x, y) = samples.training();
    let mut left = left_of(x, y, weight);
    drop_rounding(&mut left, y);
    let (gram, constant) = products(x, is_biased);
    let n = x.rows();
    let trace: f64 = (0..n).map(|i| gram.at(i, i)).sum();
    // With the constant feature, the mean diagonal entry of S is as without.
    let scale = (trace - constant * n as f64) / x.cols() as f64;
    let eigen = || {
        let found = samples.gram(is_biased);
        found.map_err(numerics("eigenvalues of the Gram matrix"))
    };
    // (out, n).
    let (share, weights) = match ridge {
        Ridge::Share(share) if share * scale > 0.0 => {
            let mut gram = gram;
            (0..n).for_each(|i| *gram.at_mut(i, i) += share * scale);
            let solved = solve_spd(gram.view(), left.transpose().view());
            let what = "products of the inputs with a ridge";
            let failed = |error: linwright_tensor::linalg::NotPositiveDefinite| {
                FitError::Numerics { what, reason: error.to_string() }
            };
            (share, solved.map_err(failed)?)
        }
        Ridge::Share(share) => {
            let eigen = eigen()?;
            let largest = eigen.values.last().copied().unwrap_or(0.0);
            let inverse = |w: f64| if w > NO_DATA * largest { 1.0 / w } else { 0.0 };
            (share, filtered(eigen, &left, inverse))
        }
        Ridge::Auto => {
            let eigen = eigen()?;
            let share = held_out(samples, weight, (eigen, &left), constant, scale)?.best();
            let inverse = |w: f64| 1.0 / (w.max(0.0) + share * scale);
            (
                share,
                if scale > 0.0 {
                    filtered(eigen, &left, inverse)
                } else {
                    Mat::zeros(left.cols(), n)
                },
            )
        }
    };
    let mut map = weight.clone();
    for start in (0..x.cols()).step_by(PANEL) {
        let panel = panel(x, start);
        let into = map.view_mut().columns(start, panel.cols());
        product(1.0, weights.view().into(), panel.view().into(), into, Write::Add);
    }
    let offset = |o: usize| constant * weights.row(o).iter().sum::<f64>();
    let offset = is_biased.then(|| (0..weight.rows()).map(offset).collect());
    Ok(Pulled { map, offset, share: Some(share), ridge: share * scale })
}

/// Some columns in `f64`.
fn panel(rows: MatRef<'_, f32>, start: usize) -> Mat<f64> {
    let count = PANEL.min(rows.cols() - start);
    Mat::from_fn(rows.rows(), count, |i, j| f64::from(rows.at(i, start + j)))
}

/// `Y − X Wᵀ`, (n, out).
fn left_of(x: MatRef<'_, f32>, y: MatRef<'_, f32>, weight: &Mat<f64>) -> Mat<f64> {
    let mut left = y.to_mat().cast::<f64>();
    for start in (0..x.cols()).step_by(PANEL) {
        let panel = panel(x, start);
        let of = Arg::Transposed(weight.view().columns(start, panel.cols()));
        product(-1.0, panel.view().into(), of, left.view_mut(), Write::Add);
    }
    left
}

/// Sets what the weight leaves to zero where it is rounding, which would choose a ridge.
fn drop_rounding(left: &mut Mat<f64>, y: MatRef<'_, f32>) {
    let squares: f64 = left.data().iter().map(|v| v * v).sum();
    let row = |i: usize| y.row(i).iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    if squares <= ROUNDING * (0..y.rows()).map(row).sum::<f64>() {
        left.data_mut().fill(0.0);
    }
}

/// `Rᵀ Q diag(f(w)) Qᵀ`, (out, n).
fn filtered(eigen: &Eigh, left: &Mat<f64>, filter: impl Fn(f64) -> f64) -> Mat<f64> {
    let mut turned = multiply(Arg::Transposed(left.view()), eigen.vectors.view().into());
    let filter: Vec<f64> = eigen.values.iter().map(|w| filter(*w)).collect();
    for o in 0..turned.rows() {
        turned.row_mut(o).iter_mut().zip(&filter).for_each(|(v, f)| *v *= f);
    }
    multiply(turned.view().into(), Arg::Transposed(eigen.vectors.view()))
}

/// The error on the held-out samples.
fn held_out(
    samples: &Samples,
    weight: &Mat<f64>,
    (eigen, left): (&Eigh, &Mat<f64>),
    constant: f64,
    scale: f64,
) -> Result<HeldOut, FitError> {
    let ((x, _), (other_x, other_y)) = (samples.training(), samples.validation());
    if other_x.rows() == 0 {
        return Err(nothing_held_out());
    }
    let mut across = Mat::from_fn(other_x.rows(), x.rows(), |_, _| constant);
    for start in (0..x.cols()).step_by(PANEL) {
        let (panel, other) = (panel(x, start), panel(other_x, start));
        let transposed = Arg::Transposed(panel.view());
        product(1.0, other.view().into(), transposed, across.view_mut(), Write::Add);
    }
    let across = multiply(across.view().into(), eigen.vectors.view().into());
    let own = multiply(Arg::Transposed(eigen.vectors.view()), left.view().into());
    let other =
        multiply(Arg::Transposed(across.view()), left_of(other_x, other_y, weight).view().into());
    let mut quadratic = multiply(own.view().into(), Arg::Transposed(own.view()));
    let second = multiply(Arg::Transposed(across.view()), across.view().into());
    quadratic.data_mut().iter_mut().zip(second.data()).for_each(|(a, b)| *a *= b);
    let dot = |i: usize| own.row(i).iter().zip(other.row(i)).map(|(a, b)| a * b).sum();
    let linear = (0..own.rows()).map(dot).collect();
    Ok(HeldOut { values: eigen.values.clone(), quadratic, linear, scale })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{distance, random};
    use crate::fit::ridge;
    use linwright_measure::samples::Rows;
    use linwright_measure::stats::SiteStats;

    /// Samples with strongly unequal directions, some of them twice; the last five are held out.
    fn samples(n: usize, inp: usize, out: usize, twice: usize) -> (Samples, Mat<f64>) {
        let (base, w, noise) = (random(n + 5, inp, 1), random(out, inp, 2), random(n + 5, out, 3));
        let row = |i: usize| if i < twice { n - 1 - i } else { i };
        let x = Mat::from_fn(n + 5, inp, |i, j| 0.5 + base.at(row(i), j) / (1 + j % 7) as f64);
        let y = Mat::from_fn(n + 5, out, |i, o| {
            let z: f64 = (0..inp).map(|j| w.at(o, j) * x.at(i, j)).sum();
            z + 0.3 * z.sin() + 0.1 * noise.at(i, o) + 2.0
        });
        (Samples { x: Rows::of(x.cast()), y: Rows::of(y.cast()), train: n }, w)
    }

    #[test]
    fn the_map_is_that_of_the_sums() {
        for (n, inp, out, twice) in
            [(20, 30, 12, 0), (20, 30, 40, 0), (24, 40, 33, 5), (16, 16, 9, 2)]
        {
            let (samples, weight) = samples(n, inp, out, twice);
            let sums = [samples.training(), samples.validation()].map(|(x, y)| SiteStats::of(x, y));
            for is_biased in [false, true] {
                for ridge in [Ridge::Share(1e-3), Ridge::Share(0.5), Ridge::Auto] {
                    let what = format!("{n} samples, {inp} to {out}, {is_biased}, {ridge:?}");
                    let found = regression(&samples, &weight, ridge, is_biased).expect("solves");
                    let by_sums =
                        ridge::regression([&sums[0], &sums[1]], &weight, ridge, is_biased);
                    let by_sums = by_sums.expect("solves");
                    assert_eq!(found.share, by_sums.share, "{what}");
                    assert!((found.ridge / by_sums.ridge - 1.0).abs() < 1e-5, "{what}");
                    let away = distance(&found.map, &by_sums.map);
                    // Products in sums are of f32, and a ridge divides their errors.
                    let least = 1e-6 / found.share.expect("a ridge");
                    assert!(away < least.max(1e-5), "{what}: {away}");
                    let offsets = found.offset.iter().flatten();
                    let others = by_sums.offset.iter().flatten();
                    assert_eq!(found.offset.is_some(), is_biased, "{what}");
                    assert!(offsets.zip(others).all(|(a, b)| (a - b).abs() < 1e-2), "{what}");
                }
            }
        }
    }

    #[test]
    fn without_a_ridge_samples_that_differ_are_met_exactly() {
        for is_biased in [false, true] {
            let (samples, weight) = samples(12, 20, 7, 2);
            let found = regression(&samples, &weight, Ridge::Share(0.0), is_biased);
            let Pulled { map, offset, .. } = found.expect("solves");
            let (x, y) = samples.training();
            let stats = SiteStats::of(x.rows_range(2, 8), y.rows_range(2, 8));
            let offset = offset.unwrap_or_else(|| vec![0.0; 7]);
            let error = stats.squared_error_with(&map, &offset);
            assert!(error < 1e-6 * stats.target_power(), "{is_biased}: {error}");
        }
    }

    #[test]
    fn where_nothing_is_to_correct_the_weight_stays_and_rounding_chooses_no_ridge() {
        let (x, weight) = (random(25, 300, 1).cast::<f32>(), random(40, 300, 2));
        let y = Mat::from_fn(25, 40, |i, o| {
            let products = weight.row(o).iter().zip(x.row(i));
            products.fold(0.0f32, |sum, (w, x)| sum + *w as f32 * x)
        });
        let samples = Samples { x: Rows::of(x), y: Rows::of(y), train: 20 };
        for is_biased in [false, true] {
            let pulled = regression(&samples, &weight, Ridge::Auto, is_biased).expect("solves");
            assert_eq!(pulled.map, weight, "{is_biased}");
            assert!(pulled.share.is_some_and(|share| share < 1.001e-5), "{:?}", pulled.share);
        }
    }

    #[test]
    fn without_any_input_the_weight_stays() {
        let weight = random(3, 8, 1);
        let (x, y) = (Rows::of(Mat::zeros(5, 8)), Rows::of(random(5, 3, 2).cast()));
        let samples = Samples { x, y, train: 4 };
        for ridge in [Ridge::Auto, Ridge::Share(0.0), Ridge::Share(1.0)] {
            let found = regression(&samples, &weight, ridge, true).expect("solves");
            assert_eq!(found.map, weight, "{ridge:?}");
        }
    }
}
