//! A dense weight.
//!
//! `y = x Wᵀ`, W: (out, inp).
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | out · inp | out · inp |

use super::OpSpec;
use crate::{
    Backward, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape, Structured, Tape,
    Workspace,
};
use linwright_tensor::kernels::gemm::{Arg, Weight, Write, linear, product};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar, Shelf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// Options of [`Dense`]: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenseSpec {}

/// A dense weight W (out, inp): `y = x Wᵀ`. Copy on write: clones share the numbers until one is
/// changed, so an edited model costs only its edits.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense<T> {
    weight: Arc<Mat<T>>,
}

impl<T: Scalar> Dense<T> {
    /// Builds from a weight (out, inp).
    #[must_use]
    pub fn new(weight: Mat<T>) -> Self {
        Self::shared(Arc::new(weight))
    }

    /// Builds from a shared weight (out, inp).
    #[must_use]
    pub fn shared(weight: Arc<Mat<T>>) -> Self {
        Self { weight }
    }
}

impl<T: Scalar> Map<T> for Dense<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::Dense(DenseSpec {})
    }

    fn shape(&self) -> Shape {
        Shape { out: self.weight.rows(), inp: self.weight.cols() }
    }

    fn macs_per_row(&self) -> u64 {
        self.shape().dense_parameters() as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let Shape { out, inp } = self.shape();
        vec![Param { name: "weight".into(), shape: vec![out, inp], values: self.weight.data() }]
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let Shape { out, inp } = self.shape();
        vec![ParamMut {
            name: "weight".into(),
            shape: vec![out, inp],
            values: Arc::make_mut(&mut self.weight).data_mut(),
        }]
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        linear(x, self.weight.view(), y, Write::Set);
    }

    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, dx, grads, .. } = args;
        if let Some(grads) = grads {
            let Shape { out, inp } = self.shape();
            let grad = MatMut::new(grads.get_mut(0), out, inp);
            product(T::ONE, Arg::Transposed(dy), Arg::Plain(x), grad, Write::Add);
        }
        if let Some(dx) = dx {
            product(T::ONE, Arg::Plain(dy), Arg::Plain(self.weight.view()), dx, Write::Set);
        }
    }

    fn release(&self) {
        self.weight.release();
    }

    fn matrices_mut(&mut self) -> Vec<&mut Mat<T>> {
        vec![Arc::make_mut(&mut self.weight)]
    }

    fn shelve(&mut self, shelf: &Shelf) -> io::Result<()> {
        match self.weight.is_mapped() {
            true => Ok(()),
            false => Arc::make_mut(&mut self.weight).shelve(shelf),
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn weight(&self) -> Option<Weight<'_, T>> {
        Some(Weight::Full(self.weight.view()))
    }
}

impl<T: Scalar> LinearOp<T> for Dense<T> {
    fn to_dense(&self) -> Mat<T> {
        self.weight.as_ref().clone()
    }
}

impl KindOptions for DenseSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self {}
    }

    fn sizes(&self, _shape: Shape) -> Vec<Self> {
        vec![*self]
    }

    fn shrunk(&self, _by: usize) -> Self {
        *self
    }
}

impl<T: Scalar> Structured<T> for Dense<T> {
    type Spec = DenseSpec;
    const KIND: &'static str = "dense";
    const EQUATION: &'static str = "W";
    const PARAMETERS: &'static str = "out inp";
    const MACS: &'static str = "out inp";

    fn numbers(_spec: &DenseSpec, shape: Shape) -> u64 {
        (shape.out as u64).saturating_mul(shape.inp as u64)
    }

    fn random(_spec: &DenseSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let bound = 1.0 / (shape.inp.max(1) as f64).sqrt();
        let mut stream = key.stream();
        let draw = |_, _| T::from_f64(bound * (2.0 * stream.uniform() - 1.0));
        Ok(Self::new(Mat::from_fn(shape.out, shape.inp, draw)))
    }

    fn examples() -> Vec<(DenseSpec, Shape)> {
        [(8, 8), (5, 12), (7, 3), (1, 6)]
            .map(|(out, inp)| (DenseSpec {}, Shape { out, inp }))
            .to_vec()
    }
}
