//! A product of two thin matrices.
//!
//! `y = (x Vᵀ) Uᵀ`, U: (out, r), V: (r, inp), so `W ≈ U V`.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | r (out + inp) | r (out + inp) |
//!
//! Source: the LR-r baseline of arXiv 2507.11688, two linear maps without bias, each initialised as
//! PyTorch's `Linear`. Closed-form fits are in the fitting methods.

use super::OpSpec;
use crate::{
    Backward, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape, Structured, Tape,
    Workspace,
};
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`LowRank`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LowRankSpec {
    /// Number of columns of U.
    pub rank: usize,
}

/// `W = U V` with U (out, r) and V (r, inp).
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank<T> {
    u: Mat<T>,
    v: Mat<T>,
}

impl<T: Scalar> LowRank<T> {
    /// Builds from factors U (out, r) and V (r, inp).
    ///
    /// # Panics
    /// If the inner extents differ.
    #[must_use]
    #[track_caller]
    pub fn new(u: Mat<T>, v: Mat<T>) -> Self {
        assert_eq!(u.cols(), v.rows(), "columns of U and rows of V");
        Self { u, v }
    }

    /// U, (out, r).
    #[must_use]
    pub fn u(&self) -> &Mat<T> {
        &self.u
    }

    /// V, (r, inp).
    #[must_use]
    pub fn v(&self) -> &Mat<T> {
        &self.v
    }
}

impl<T: Scalar> Map<T> for LowRank<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::LowRank(LowRankSpec { rank: self.u.cols() })
    }

    fn shape(&self) -> Shape {
        Shape { out: self.u.rows(), inp: self.v.cols() }
    }

    fn macs_per_row(&self) -> u64 {
        (self.u.data().len() + self.v.data().len()) as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let shape = |m: &Mat<T>| vec![m.rows(), m.cols()];
        vec![
            Param { name: "u".into(), shape: shape(&self.u), values: self.u.data() },
            Param { name: "v".into(), shape: shape(&self.v), values: self.v.data() },
        ]
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let shape = |m: &Mat<T>| vec![m.rows(), m.cols()];
        vec![
            ParamMut { name: "u".into(), shape: shape(&self.u), values: self.u.data_mut() },
            ParamMut { name: "v".into(), shape: shape(&self.v), values: self.v.data_mut() },
        ]
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        let (rows, rank) = (x.rows(), self.u.cols());
        if let Some(tape) = tape {
            let hidden = tape.save(rows, rank);
            linear(x, self.v.view(), hidden.view_mut(), Write::Set);
            linear(hidden.view(), self.u.view(), y, Write::Set);
        } else {
            let mut hidden = ws.take(rows, rank);
            linear(x, self.v.view(), hidden.view_mut(), Write::Set);
            linear(hidden.view(), self.u.view(), y, Write::Set);
            ws.give(hidden);
        }
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let Backward { x, dy, tape, dx, grads } = args;
        let (Shape { out, inp }, rank) = (self.shape(), self.u.cols());
        let mut d_hidden = ws.take(x.rows(), rank);
        product(T::ONE, dy.into(), self.u.view().into(), d_hidden.view_mut(), Write::Set);
        if let Some(grads) = grads {
            let hidden = tape.saved(0).view();
            let grad_u = MatMut::new(grads.get_mut(0), out, rank);
            product(T::ONE, Arg::Transposed(dy), Arg::Plain(hidden), grad_u, Write::Add);
            let grad_v = MatMut::new(grads.get_mut(1), rank, inp);
            product(T::ONE, Arg::Transposed(d_hidden.view()), x.into(), grad_v, Write::Add);
        }
        if let Some(dx) = dx {
            product(T::ONE, d_hidden.view().into(), self.v.view().into(), dx, Write::Set);
        }
        ws.give(d_hidden);
    }

    fn release(&self) {
        self.u.release();
        self.v.release();
    }

    fn matrices_mut(&mut self) -> Vec<&mut Mat<T>> {
        vec![&mut self.u, &mut self.v]
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for LowRank<T> {}

impl KindOptions for LowRankSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self { rank: 64 }
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        (1..=shape.largest_rank()).map(|rank| Self { rank }).collect()
    }

    fn with_rank(&self, rank: usize) -> Option<Self> {
        Some(Self { rank })
    }

    fn shrunk(&self, by: usize) -> Self {
        Self { rank: (self.rank / by).max(1) }
    }
}

impl<T: Scalar> Structured<T> for LowRank<T> {
    type Spec = LowRankSpec;
    const KIND: &'static str = "low_rank";
    const EQUATION: &'static str = "W = U V";
    const PARAMETERS: &'static str = "r (out + inp)";
    const MACS: &'static str = "r (out + inp)";

    fn numbers(spec: &LowRankSpec, shape: Shape) -> u64 {
        (spec.rank as u64).saturating_mul((shape.out as u64).saturating_add(shape.inp as u64))
    }

    fn random(spec: &LowRankSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        if spec.rank == 0 || spec.rank > shape.out.min(shape.inp) {
            let reason = format!("rank {} is not in 1..={}", spec.rank, shape.out.min(shape.inp));
            return Err(OpError::Unsupported { kind: Self::KIND, shape, reason });
        }
        let factor = |name: &str, rows: usize, cols: usize| {
            let bound = 1.0 / (cols as f64).sqrt();
            let mut stream = key.fold(name).stream();
            Mat::from_fn(rows, cols, |_, _| T::from_f64(bound * (2.0 * stream.uniform() - 1.0)))
        };
        let (u, v) = (factor("u", shape.out, spec.rank), factor("v", spec.rank, shape.inp));
        Ok(Self { u, v })
    }

    fn examples() -> Vec<(LowRankSpec, Shape)> {
        [(8, 8, 2), (5, 12, 3), (7, 3, 1), (1, 6, 1)]
            .map(|(out, inp, rank)| (LowRankSpec { rank }, Shape { out, inp }))
            .to_vec()
    }
}
