//! A diagonal plus a product of two thin matrices.
//!
//! `W = diag(d) + U V`, U: (out, r), V: (r, inp); d has min(out, inp) numbers, the main diagonal of
//! a rectangle. `y = (x Vᵀ) Uᵀ + d x`. Rank 0 is only the diagonal.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | min(out, inp) + r (out + inp) | the same |
//!
//! Source: the diagonal-plus-low-rank form of matrices, as in factor analysis (Saunderson et al.
//! 2012, arXiv 1204.1220). U and V are initialised as in [`LowRank`](crate::LowRank), d as 1.
//! Inverse and determinant of a square one use Woodbury's identity, with an r x r system in `f64`;
//! it needs a diagonal without zeros, although the sum may be invertible otherwise.
//!
//! ```
//! use linwright_ops::{DiagonalLowRank, DiagonalLowRankSpec, Map, Shape, Structured};
//! use linwright_tensor::RngKey;
//!
//! let spec = DiagonalLowRankSpec { rank: 8 };
//! let shape = Shape { out: 512, inp: 2048 };
//! let op: DiagonalLowRank<f32> = DiagonalLowRank::random(&spec, shape, RngKey::new(0))?;
//! assert_eq!(op.macs_per_row(), 512 + 8 * (512 + 2048));
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::initial::as_of_linear;
use super::{LowRank, OpSpec};
use crate::{
    Backward, Invertible, KindOptions, LinearOp, LogDet, Map, Op, OpError, Param, ParamMut, Shape,
    Structured, Tape, Workspace,
};
use linwright_tensor::kernels::diagonal::{add_gradient, add_scaled};
use linwright_tensor::kernels::gemm::{Write, linear, product};
use linwright_tensor::linalg::{self, solve};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`DiagonalLowRank`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiagonalLowRankSpec {
    /// Number of columns of U; 0 for only the diagonal.
    pub rank: usize,
}

/// `W = diag(d) + U V`.
#[derive(Clone, Debug, PartialEq)]
pub struct DiagonalLowRank<T> {
    d: Vec<T>,
    thin: LowRank<T>,
}

impl<T: Scalar> DiagonalLowRank<T> {
    /// Builds from the diagonal, of min(out, inp) numbers, and the product U V.
    ///
    /// # Panics
    /// If the diagonal does not match the product's shape.
    #[must_use]
    #[track_caller]
    pub fn new(d: Vec<T>, thin: LowRank<T>) -> Self {
        let Shape { out, inp } = thin.shape();
        assert_eq!(d.len(), out.min(inp), "the diagonal of {out} x {inp}");
        Self { d, thin }
    }
}

impl<T: Scalar> Map<T> for DiagonalLowRank<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank: self.thin.u().cols() })
    }

    fn shape(&self) -> Shape {
        self.thin.shape()
    }

    fn macs_per_row(&self) -> u64 {
        self.d.len() as u64 + self.thin.macs_per_row()
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let mut params =
            vec![Param { name: "d".into(), shape: vec![self.d.len()], values: &self.d }];
        params.extend(self.thin.params());
        params
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let shape = vec![self.d.len()];
        let mut params = vec![ParamMut { name: "d".into(), shape, values: &mut self.d }];
        params.extend(self.thin.params_mut());
        params
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        mut y: MatMut<'_, T>,
        tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        self.thin.forward(x, y.reborrow(), tape, ws);
        add_scaled(x, &self.d, y);
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let Backward { x, dy, tape, mut dx, mut grads } = args;
        let grad_d = grads.as_mut().map(|grads| {
            let mut grad_d = grads.take(1);
            add_gradient(dy, x, grad_d.get_mut(0));
            grad_d
        });
        let d_thin = dx.as_mut().map(MatMut::reborrow);
        let of_thin = grads.as_deref_mut();
        self.thin.backward(Backward { x, dy, tape, dx: d_thin, grads: of_thin }, ws);
        if let Some(dx) = dx {
            add_scaled(dy, &self.d, dx);
        }
        if let (Some(grads), Some(grad_d)) = (grads, grad_d) {
            // The diagonal's parameters come first.
            let rest = grads.take(grads.len());
            grads.append(grad_d);
            grads.append(rest);
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        let Shape { out, inp } = self.shape();
        (out == inp).then_some(self)
    }
}

impl<T: Scalar> LinearOp<T> for DiagonalLowRank<T> {}

/// Terms of Woodbury's identity.
struct Woodbury {
    /// `diag(1/d) U`, transposed: (r, n).
    scaled: Mat<f64>,
    /// `1 + V diag(1/d) U`, transposed: (r, r).
    inner: Mat<f64>,
}

impl<T: Scalar> DiagonalLowRank<T> {
    /// `1 / d`.
    fn reciprocals(&self) -> Result<Vec<f64>, OpError> {
        let reciprocal = |(index, d): (usize, &T)| {
            let value = d.to_f64();
            if value.is_finite() && value != 0.0 {
                return Ok(1.0 / value);
            }
            Err(self.singular("d", index, value))
        };
        self.d.iter().enumerate().map(reciprocal).collect()
    }

    fn singular(&self, part: &str, index: usize, value: f64) -> OpError {
        let kind = <Self as Structured<T>>::KIND;
        OpError::Singular { kind, part: part.into(), index, value }
    }

    fn woodbury(&self, reciprocals: &[f64]) -> Woodbury {
        let (u, v) = (self.thin.u(), self.thin.v().cast());
        let rank = u.cols();
        let scaled = Mat::from_fn(rank, u.rows(), |i, j| u.at(j, i).to_f64() * reciprocals[j]);
        let mut inner = Mat::identity(rank);
        linear(scaled.view(), v.view(), inner.view_mut(), Write::Add);
        Woodbury { scaled, inner }
    }
}

/// Name of the r x r system in errors.
const INNER: &str = "pivots of 1 + V diag(1/d) U";

impl<T: Scalar> Invertible<T> for DiagonalLowRank<T> {
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        mut x: MatMut<'_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        let reciprocals = self.reciprocals()?;
        let Woodbury { scaled, inner } = self.woodbury(&reciprocals);
        let solved = solve(inner.view(), scaled.view())
            .map_err(|singular| self.singular(INNER, singular.index, singular.pivot))?;
        let reciprocals: Vec<T> = reciprocals.into_iter().map(T::from_f64).collect();
        x.fill(T::ZERO);
        add_scaled(y, &reciprocals, x.reborrow());
        let mut hidden = ws.take(y.rows(), inner.rows());
        linear(x.as_ref(), self.thin.v().view(), hidden.view_mut(), Write::Set);
        product(-T::ONE, hidden.view().into(), solved.cast().view().into(), x, Write::Add);
        ws.give(hidden);
        Ok(())
    }

    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        let reciprocals = self.reciprocals()?;
        let (log_abs, sign) = linalg::log_abs_det(self.woodbury(&reciprocals).inner.view());
        if !log_abs.is_finite() {
            return Err(self.singular("determinant of 1 + V diag(1/d) U", 0, sign));
        }
        let of_diagonal: f64 = reciprocals.iter().map(|value| value.abs().ln()).sum();
        let negative = reciprocals.iter().filter(|value| **value < 0.0).count();
        let turn = if negative.is_multiple_of(2) { 1.0 } else { -1.0 };
        Ok(LogDet { log_abs: log_abs - of_diagonal, sign: sign * turn })
    }
}

impl KindOptions for DiagonalLowRankSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self { rank: 64 }
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        (0..=shape.largest_rank()).map(|rank| Self { rank }).collect()
    }

    fn with_rank(&self, rank: usize) -> Option<Self> {
        Some(Self { rank })
    }

    /// Rank 0 stays, since it has a closed form.
    fn shrunk(&self, by: usize) -> Self {
        Self { rank: self.rank.div_ceil(by) }
    }
}

impl<T: Scalar> Structured<T> for DiagonalLowRank<T> {
    type Spec = DiagonalLowRankSpec;
    const KIND: &'static str = "diagonal_low_rank";
    const EQUATION: &'static str = "W = diag(d) + U V";
    const PARAMETERS: &'static str = "min(out, inp) + r (out + inp)";
    const MACS: &'static str = "min(out, inp) + r (out + inp)";

    fn numbers(spec: &DiagonalLowRankSpec, shape: Shape) -> u64 {
        let Shape { out, inp } = shape;
        let thin = (spec.rank as u64).saturating_mul((out as u64).saturating_add(inp as u64));
        thin.saturating_add(out.min(inp) as u64)
    }

    fn random(spec: &DiagonalLowRankSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let (Shape { out, inp }, rank) = (shape, spec.rank);
        if rank > out.min(inp) {
            let reason = format!("rank {rank} is not in 0..={}", out.min(inp));
            return Err(OpError::Unsupported { kind: Self::KIND, shape, reason });
        }
        let u = as_of_linear(out, rank, rank, key.fold("u"));
        let v = as_of_linear(rank, inp, inp, key.fold("v"));
        Ok(Self { d: vec![T::ONE; out.min(inp)], thin: LowRank::new(u, v) })
    }

    fn examples() -> Vec<(DiagonalLowRankSpec, Shape)> {
        [(8, 8, 2), (5, 12, 3), (7, 3, 1), (1, 6, 1), (4, 6, 0)]
            .map(|(out, inp, rank)| (DiagonalLowRankSpec { rank }, Shape { out, inp }))
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_diagonal_plus_the_product() {
        let thin = LowRank::new(Mat::from_fn(2, 1, |i, _| i as f64), Mat::identity(1));
        let op = DiagonalLowRank::new(vec![5.0], thin);
        assert_eq!(op.to_dense().data(), [5.0, 1.0]);
    }

    #[test]
    fn what_has_no_inverse_says_where() {
        let of = |d: Vec<f64>, u: f64| {
            let u = Mat::from_fn(2, 1, |i, _| if i == 0 { u } else { 0.0 });
            let v = Mat::from_fn(1, 2, |_, j| if j == 0 { 1.0 } else { 0.0 });
            DiagonalLowRank::new(d, LowRank::new(u, v))
        };
        let fails = |op: &DiagonalLowRank<f64>, text: &str| {
            let (y, mut x) = (Mat::zeros(1, 2), Mat::zeros(1, 2));
            let inverse = op.inverse(y.view(), x.view_mut(), &mut Workspace::default());
            for error in [inverse.unwrap_err(), op.log_abs_det().unwrap_err()] {
                assert!(error.to_string().contains(text), "{error}");
            }
        };
        fails(&of(vec![1.0, 0.0], 1.0), "d[1] is 0");
        fails(&of(vec![f64::NAN, 1.0], 1.0), "d[0] is NaN");
        fails(&of(vec![1.0, 2.0], -1.0), "1 + V diag(1/d) U[0] is 0");
        let found = of(vec![-3.0, 2.0], 1.0).log_abs_det().unwrap();
        assert!((found.log_abs - 4.0_f64.ln()).abs() < 1e-15 && found.sign == -1.0);
    }

    #[test]
    fn ranks_beyond_the_shape_are_told() {
        let shape = Shape { out: 3, inp: 5 };
        let error =
            DiagonalLowRank::<f32>::random(&DiagonalLowRankSpec { rank: 4 }, shape, RngKey::new(0));
        assert!(error.unwrap_err().to_string().contains("rank 4 is not in 0..=3"));
    }
}
