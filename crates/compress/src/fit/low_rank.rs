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
use linwright_tensor::linalg::{eigenvalues, svd};
use linwright_tensor::{Mat, RngKey};

pub(super) fn fit(spec: &OpSpec, regression: &Regression<'_>) -> Result<Found, FitError> {
    let template = spec.random::<f64>(regression.shape(), RngKey::new(0))?;
    let rank = template.map().params()[0].shape[1];
    let (u, v) = factors(regression, rank)?;
    let error = regression.error(&multiply(u.view().into(), v.view().into()));
    let op = Op::Linear(Box::new(LowRank::new(u, v)));
    Ok(Found { op, error, procedure: Procedure::Closed, iterations: 0 })
}

/// Relative errors of the best maps of every rank, from zero to full.
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
    let power = regression.power();
    if power > 0.0 {
        errors.iter_mut().for_each(|error| *error /= power);
    }
    Ok(errors)
}

/// Factors U (out, rank) and V (rank, inp) of the best map of this rank. Each column of U has the
/// norm of its row of V, so that neither overflows in half precision.
pub(crate) fn factors(
    regression: &Regression<'_>,
    rank: usize,
) -> Result<(Mat<f64>, Mat<f64>), FitError> {
    let (whitened, out) = (regression.whitened(), regression.shape().out);
    let decomposed = svd(whitened.view()).map_err(numerics("whitened cross moment"))?;
    let right =
        Mat::from_fn(rank, whitened.cols(), |r, j| decomposed.s[r] * decomposed.vt.at(r, j));
    let mut v = regression.unwhiten(right);
    let mut u = Mat::from_fn(out, rank, |i, r| decomposed.u.at(i, r));
    for r in 0..rank {
        let balance = v.row(r).iter().map(|v| v * v).sum::<f64>().sqrt().sqrt();
        if balance > 0.0 {
            v.row_mut(r).iter_mut().for_each(|v| *v /= balance);
            (0..out).for_each(|i| *u.at_mut(i, r) *= balance);
        }
    }
    Ok((u, v))
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
