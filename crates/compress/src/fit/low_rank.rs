//! Low-rank factors: truncated SVD, weighted by the moments of the input.
//!
//! With `S = E[x xᵀ]` and `D = E[y xᵀ]` the best map of rank r is `trunc_r(D S^-½) S^-½`, or for a
//! weight its truncated SVD.
//!
//! [`Projection`] is the same for a map T that is known where there are no data as well: with the r
//! leading directions U of its outputs, `U Uᵀ T` keeps there what it keeps elsewhere.
//!
//! Source: Eckart and Young 1936; reduced-rank regression (Izenman 1975), which for y = W x is
//! whitened SVD.

use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::{NO_DATA, Regression, mean_moment, multiply, numerics, subtract};
use super::{Context, Found, Procedure, work};
use crate::FitError;
use linwright_ops::{LowRank, LowRankSpec, Op, OpSpec};
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::{Cholesky, eigh};
use linwright_tensor::{Mat, MatRef, RngKey, Scalar};

/// Columns widened to `f64` at a time.
const PANEL: usize = 512;

impl KindFit for LowRankSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        _context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        fit(problem.spec, problem.regression)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        let (out, inp) = work::sides(effort.shape);
        Ok(work::singular(out, inp) + 2.0 * effort.error())
    }
}

fn fit(spec: &OpSpec, regression: &Regression<'_>) -> Result<Found, FitError> {
    let template = spec.random::<f64>(regression.shape(), RngKey::new(0))?;
    let rank = template.map().params()[0].shape[1];
    let (u, v) = factors(regression, rank)?;
    let error = regression.error(&multiply(u.view().into(), v.view().into()));
    let op = Op::Linear(Box::new(LowRank::new(u, v)));
    Ok(Found { op, error, procedure: Procedure::Closed, iterations: 0 })
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

/// Second moments of inputs, by which outputs are weighted.
pub(crate) enum Second<'a> {
    /// S (inp, inp).
    Sums(&'a Mat<f64>),
    /// Those of samples (rows, inp) less their means, with a ridge.
    Samples { x: MatRef<'a, f32>, means: &'a [f64], ridge: f64 },
}

/// The outputs of a map T (out, inp) in the order of their directions.
pub(crate) struct Projection<'a> {
    map: &'a Mat<f64>,
    /// Directions (out, side), descending; on the side of the inputs times their size.
    left: Mat<f64>,
    /// On the side of the inputs the other factors (inp, side).
    right: Option<Mat<f64>>,
}

impl<'a> Projection<'a> {
    /// Decomposes the outputs on inputs with second moments S, `T S Tᵀ`, on the smaller side.
    /// Directions without data count as much as rounding errors may.
    pub(crate) fn new(map: &'a Mat<f64>, second: &Second<'_>) -> Result<Self, FitError> {
        let (out, inp) = (map.rows(), map.cols());
        let turned = |square: Mat<f64>| {
            let found = eigh(square.view()).map_err(numerics("moments of the outputs"))?;
            // Eigenvalues ascend, directions descend.
            let last = |i: usize, r: usize| found.vectors.at(i, found.values.len() - 1 - r);
            Ok::<_, FitError>(Mat::from_fn(found.values.len(), found.values.len(), last))
        };
        if out <= inp {
            return Ok(Self { map, left: turned(second.of_outputs(map))?, right: None });
        }
        let mut moments = second.of_inputs();
        let floor = NO_DATA * inp as f64 * mean_moment(moments.view());
        // Without any input all directions are alike.
        let floor = if floor > 0.0 { floor } else { 1.0 };
        (0..inp).for_each(|i| *moments.at_mut(i, i) += floor);
        let root = Cholesky::of(moments.view()).map_err(|error| FitError::Numerics {
            what: "second moments of the inputs",
            reason: error.to_string(),
        })?;
        let whitened = multiply(map.view().into(), root.lower().view().into());
        let square = multiply(Arg::Transposed(whitened.view()), whitened.view().into());
        let vectors = turned(square)?;
        let left = multiply(whitened.view().into(), vectors.view().into());
        Ok(Self { map, left, right: Some(root.solve_upper(vectors.view())) })
    }

    /// Factors U (out, rank) and V (rank, inp). Each column of U has the norm of its row of V, so
    /// that neither overflows in half precision.
    pub(crate) fn factors(&self, rank: usize) -> (Mat<f64>, Mat<f64>) {
        let mut u = self.left.view().columns(0, rank).to_mat();
        let mut v = match &self.right {
            None => multiply(Arg::Transposed(u.view()), self.map.view().into()),
            Some(right) => right.view().columns(0, rank).to_mat().transpose(),
        };
        balance(&mut u, &mut v);
        (u, v)
    }

    /// Errors at every rank, from zero to full, on inputs with the moments S against targets with
    /// the cross moments D (out, inp) and a power: that of T, and what each direction adds.
    pub(crate) fn errors(&self, second: &Mat<f64>, cross: &Mat<f64>, power: f64) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let predicted = multiply(self.map.view().into(), second.view().into());
        let whole = power - 2.0 * dot(self.map.data(), cross.data())
            + dot(self.map.data(), predicted.data());
        // `y − T x`, by its products with x.
        let mut residual = cross.clone();
        subtract(&mut residual, &predicted);
        let onto = |a: &Mat<f64>| multiply(Arg::Transposed(self.left.view()), a.view().into());
        let (own, seen, left) = (onto(self.map), onto(&predicted), onto(&residual));
        let column = |r: usize| (0..self.left.rows()).map(move |o| self.left.at(o, r));
        let norms: Vec<f64> = (0..own.rows()).map(|r| column(r).map(|u| u * u).sum()).collect();
        let least = 1e-14 * norms.iter().copied().fold(0.0, f64::max);
        let lost = |r: usize| match norms[r] > least {
            true => (dot(own.row(r), seen.row(r)) + 2.0 * dot(own.row(r), left.row(r))) / norms[r],
            false => 0.0,
        };
        let mut errors = vec![whole];
        for r in (0..own.rows()).rev() {
            errors.push(errors[errors.len() - 1] + lost(r));
        }
        errors.reverse();
        errors.into_iter().map(|error| error.max(0.0)).collect()
    }
}

impl Second<'_> {
    /// `T S Tᵀ` (out, out).
    fn of_outputs(&self, map: &Mat<f64>) -> Mat<f64> {
        let transposed = Arg::Transposed(map.view());
        match *self {
            Self::Sums(second) => {
                let half = multiply(map.view().into(), second.view().into());
                multiply(half.view().into(), transposed)
            }
            Self::Samples { x, means, ridge } => {
                let mut outputs = Mat::zeros(x.rows(), map.rows());
                for start in (0..x.cols()).step_by(PANEL) {
                    let panel = panel(x, means, start);
                    let of = Arg::Transposed(map.view().columns(start, panel.cols()));
                    product(1.0, panel.view().into(), of, outputs.view_mut(), Write::Add);
                }
                let mut square = multiply(Arg::Transposed(outputs.view()), outputs.view().into());
                product(ridge, map.view().into(), transposed, square.view_mut(), Write::Add);
                square
            }
        }
    }

    /// S (inp, inp).
    fn of_inputs(&self) -> Mat<f64> {
        match *self {
            Self::Sums(second) => second.clone(),
            Self::Samples { x, means, ridge } => {
                let wide =
                    Mat::from_fn(x.rows(), x.cols(), |i, j| f64::from(x.at(i, j)) - means[j]);
                let mut square = multiply(Arg::Transposed(wide.view()), wide.view().into());
                (0..x.cols()).for_each(|i| *square.at_mut(i, i) += ridge);
                square
            }
        }
    }
}

/// Some columns in `f64`, less their means.
fn panel(rows: MatRef<'_, f32>, means: &[f64], start: usize) -> Mat<f64> {
    let count = PANEL.min(rows.cols() - start);
    let number = |i, j| f64::from(rows.at(i, start + j)) - means[start + j];
    Mat::from_fn(rows.rows(), count, number)
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
