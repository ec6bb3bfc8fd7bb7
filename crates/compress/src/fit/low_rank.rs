//! Low-rank factors: truncated SVD, weighted by the moments of the input.
//!
//! With `S = E[x xᵀ]` and `D = E[y xᵀ]` the best map of rank r is `trunc_r(D S^-½) S^-½`, or for a
//! weight its truncated SVD.
//!
//! Source: Eckart and Young 1936; reduced-rank regression (Izenman 1975), which for y = W x is
//! whitened SVD.

use super::regression::{Regression, multiply, numerics};
use super::{Found, Procedure};
use crate::FitError;
use linwright_ops::{LowRank, Op, OpSpec};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::linalg::{eigenvalues, eigh};
use linwright_tensor::{Mat, RngKey, Scalar};

pub(super) fn fit(spec: &OpSpec, regression: &Regression<'_>) -> Result<Found, FitError> {
    let template = spec.random::<f64>(regression.shape(), RngKey::new(0))?;
    let rank = template.map().params()[0].shape[1];
    let (u, v) = factors(regression, rank)?;
    let error = regression.error(&multiply(u.view().into(), v.view().into()));
    let op = Op::Linear(Box::new(LowRank::new(u, v)));
    Ok(Found { op, error, procedure: Procedure::Closed, iterations: 0 })
}

/// Errors of the best maps of every rank, from zero to full.
pub(crate) fn errors(regression: &Regression<'_>) -> Result<Vec<f64>, FitError> {
    let whitened = regression.whitened();
    // The smaller Gram matrix has the same squares.
    let plain = whitened.view();
    let (a, b) = match whitened.rows() <= whitened.cols() {
        true => (Arg::Plain(plain), Arg::Transposed(plain)),
        false => (Arg::Transposed(plain), Arg::Plain(plain)),
    };
    let squares = eigenvalues(multiply(a, b)).map_err(numerics("whitened cross moment"))?;
    let mut errors = vec![regression.rest()];
    for square in &squares {
        errors.push(errors[errors.len() - 1] + square.max(0.0));
    }
    errors.reverse();
    Ok(errors)
}

/// Factors U (out, rank) and V (rank, inp) of the best map of this rank. Each column of U has the
/// norm of its row of V, so that neither overflows in half precision.
pub(crate) fn factors(
    regression: &Regression<'_>,
    rank: usize,
) -> Result<(Mat<f64>, Mat<f64>), FitError> {
    let (mut u, thin) = truncated(regression.whitened(), rank)?;
    let mut v = regression.unwhiten(thin);
    balance(&mut u, &mut v);
    Ok((u, v))
}

/// Factors U (m, rank) and V (rank, n) of the truncated singular value decomposition of B (m, n).
///
/// On the smaller side the singular vectors are eigenvectors of `B Bᵀ` or `Bᵀ B`, and the other
/// factor is the product of B with them: a projection, so nothing is divided by small singular
/// values.
pub(crate) fn truncated(b: &Mat<f64>, rank: usize) -> Result<(Mat<f64>, Mat<f64>), FitError> {
    let is_tall = b.rows() > b.cols();
    let (plain, turned) = (Arg::Plain(b.view()), Arg::Transposed(b.view()));
    let square = if is_tall { multiply(turned, plain) } else { multiply(plain, turned) };
    let found = eigh(square.view()).map_err(numerics("whitened cross moment"))?;
    drop(square);
    let side = found.values.len();
    // Eigenvalues ascend, components descend.
    let last = |i: usize, r: usize| found.vectors.at(i, side - 1 - r);
    let vectors = Mat::from_fn(side, rank, last);
    Ok(match is_tall {
        true => (multiply(plain, vectors.view().into()), vectors.transpose()),
        false => {
            let rows = multiply(Arg::Transposed(vectors.view()), plain);
            (vectors, rows)
        }
    })
}

/// Gives each column of U the norm of its row of V, without changing `U V`.
pub(crate) fn balance<T: Scalar>(u: &mut Mat<T>, v: &mut Mat<T>) {
    let square = |x: &T| x.to_f64() * x.to_f64();
    let mut columns = vec![0.0; u.cols()];
    for i in 0..u.rows() {
        columns.iter_mut().zip(u.row(i)).for_each(|(sum, x)| *sum += square(x));
    }
    let rows = (0..v.rows()).map(|r| v.row(r).iter().map(square).sum::<f64>());
    let scale = |(row, column): (f64, f64)| {
        let scale = (row / column).sqrt().sqrt();
        if scale.is_normal() { scale } else { 1.0 }
    };
    let scales: Vec<f64> = rows.zip(columns).map(scale).collect();
    for (r, by) in scales.iter().enumerate() {
        v.row_mut(r).iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() / by));
    }
    for i in 0..u.rows() {
        let row = u.row_mut(i).iter_mut().zip(&scales);
        row.for_each(|(x, by)| *x = T::from_f64(x.to_f64() * by));
    }
}

#[cfg(test)]
mod tests {
    use crate::fit::planted::{assert_recovers, fitted, random};
    use crate::fit::{FitOptions, Target};
    use linwright_ops::{LowRankSpec, OpSpec, Shape};
    use linwright_tensor::linalg::svd;

    #[test]
    fn members_are_recovered() {
        let spec = OpSpec::LowRank(LowRankSpec { rank: 3 });
        assert_recovers(&spec, Shape { out: 7, inp: 10 });
        assert_recovers(&spec, Shape { out: 10, inp: 4 });
    }

    #[test]
    fn the_error_is_that_of_eckart_and_young() {
        let weight = random(9, 14, 1);
        let s = svd(weight.view()).expect("decomposes").s;
        for rank in 1..9 {
            let spec = OpSpec::LowRank(LowRankSpec { rank });
            let target = Target::Weight(weight.view());
            let found = fitted(&spec, &target, &FitOptions::default()).relative_error;
            let power = |s: &[f64]| s.iter().map(|s| s * s).sum::<f64>();
            let expected = power(&s[rank..]) / power(&s);
            assert!((found - expected).abs() < 1e-12, "rank {rank}: {found} and {expected}");
        }
    }
}
