//! The traits of operators and the enum that a slot holds.

use crate::{
    Buffer, BufferMut, Grads, Invertible, KindOptions, OpError, OpSpec, Param, ParamMut, Tape,
    Workspace,
};
use linwright_tensor::kernels::gemm::Weight;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar, Shelf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io;

/// Number of output and input features of a map; a dense weight of this shape is (out, inp).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Features of an output row.
    pub out: usize,
    /// Features of an input row.
    pub inp: usize,
}

impl Shape {
    /// Number of parameters of a dense weight of this shape.
    #[must_use]
    pub fn dense_parameters(self) -> usize {
        self.out * self.inp
    }

    /// The largest rank r with r (out + inp) < out · inp: factors of a higher rank have at least as
    /// many parameters as the dense weight.
    #[must_use]
    pub fn largest_rank(self) -> usize {
        self.dense_parameters().saturating_sub(1) / (self.out + self.inp).max(1)
    }
}

/// A map of rows with named parameters and explicit gradients.
///
/// A map has no bias: the slot of a model holds it.
pub trait Map<T: Scalar>: Debug + Send + Sync {
    /// Kind and hyper-parameters: the specification, from which it can be rebuilt with its
    /// parameters.
    fn spec(&self) -> OpSpec;

    /// Number of output and input features.
    fn shape(&self) -> Shape;

    /// Arithmetic steps of [`Self::forward`] for one row of a large batch.
    ///
    /// A multiply-add is one step. So is a single addition, as in a Hadamard transform, and a
    /// single multiplication, as by a diagonal. Not counted: padding of a batch to whole registers,
    /// changes of sign, powers of two, one factor for a whole matrix product, nonlinear functions,
    /// and values derived from parameters once. A matrix product has rows x depth x columns steps.
    /// [`linwright_tensor::Counted`] counts them.
    fn macs_per_row(&self) -> u64;

    /// Trainable parameters, in a fixed order.
    fn params(&self) -> Vec<Param<'_, T>>;

    /// The same, mutable. Values derived from parameters are recomputed at the next use.
    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>>;

    /// Fixed integer buffers, such as a permutation.
    fn buffers(&self) -> Vec<Buffer<'_>> {
        Vec::new()
    }

    /// The same, mutable.
    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        Vec::new()
    }

    /// Checks that parameters and buffers are valid; called after they were read from a file.
    ///
    /// # Errors
    /// [`OpError::InvalidValues`] with the invalid one.
    fn check(&self) -> Result<(), OpError> {
        Ok(())
    }

    /// Maps the rows of `x` (rows, inp) to `y` (rows, out), and saves intermediate results for
    /// [`Self::backward`] on `tape`, if given.
    ///
    /// # Panics
    /// If the shapes do not match.
    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    );

    /// From `dy` (rows, out), the gradient of a loss with respect to the output, adds the gradient
    /// of every parameter to `grads` and writes that of the input to `dx` (rows, inp), each if
    /// requested. `tape` must come from [`Self::forward`] with the same `x`.
    ///
    /// # Panics
    /// If the shapes do not match or the tape is another operator's.
    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>);

    /// A boxed copy.
    fn clone_op(&self) -> Op<T>;

    /// The weight, if the map is a plain product with a dense one: for callers that batch several
    /// products of the same rows, or need the numbers in their held type.
    fn weight(&self) -> Option<Weight<'_, T>> {
        None
    }

    /// Lets the system reclaim the memory of numbers in a mapped file, after a stage of a network
    /// larger than memory.
    fn release(&self) {}

    /// Parameters as matrices that may be in a file, in the order of [`Self::params`]; none for
    /// kinds with few parameters, which stay in memory.
    fn matrices_mut(&mut self) -> Vec<&mut Mat<T>> {
        Vec::new()
    }

    /// Moves large matrices to a file, unless they are in one.
    ///
    /// # Errors
    /// Those of writing and mapping.
    fn shelve(&mut self, shelf: &Shelf) -> io::Result<()> {
        self.matrices_mut().into_iter().try_for_each(|matrix| matrix.shelve(shelf))
    }

    /// Inverse and determinant, if this kind of map supports them.
    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        None
    }
}

/// The arguments of [`Map::backward`].
#[derive(Debug)]
pub struct Backward<'a, 'b, T> {
    /// Input of the forward call, (rows, inp).
    pub x: MatRef<'a, T>,
    /// Gradient of the loss with respect to the output, (rows, out).
    pub dy: MatRef<'a, T>,
    /// Intermediate results of the forward call.
    pub tape: &'a Tape<T>,
    /// Gradient of the input, (rows, inp), overwritten; none if not requested.
    pub dx: Option<MatMut<'b, T>>,
    /// Parameter gradients, added to; none if not requested: then no operator allocates or computes
    /// a dense one, and a [`crate::HalfDense`] weight has a backward pass.
    pub grads: Option<&'b mut Grads<T>>,
}

/// A linear map: `y = x Aᵀ`.
pub trait LinearOp<T: Scalar>: Map<T> {
    /// The equivalent dense weight (out, inp).
    fn to_dense(&self) -> Mat<T> {
        let Shape { out, inp } = self.shape();
        let mut y = Mat::zeros(inp, out);
        self.forward(Mat::identity(inp).view(), y.view_mut(), None, &mut Workspace::default());
        y.transpose()
    }
}

/// The constructor side of an operator, used by the registry and the conformance suite.
pub trait Structured<T: Scalar>: Map<T> + Sized {
    /// Hyper-parameters.
    type Spec: KindOptions;

    /// Tag of this kind in files and on the command line.
    const KIND: &'static str;
    /// The map in one line of plain text, for listings.
    const EQUATION: &'static str;
    /// Number of parameters as a formula, in the letters of the operator's page.
    const PARAMETERS: &'static str;
    /// [`Map::macs_per_row`] as a formula.
    const MACS: &'static str;

    /// Number of values, with indices, that an operator with these options will hold, counted
    /// before it is built: a file or a recipe may request more than there is memory. Saturates.
    fn numbers(spec: &Self::Spec, shape: Shape) -> u64;

    /// Number of parts, such as rotors, factors or terms, that an operator with these options will
    /// have, if it varies: even a part with a single number takes memory and time. Saturates.
    fn parts(_spec: &Self::Spec, _shape: Shape) -> u64 {
        1
    }

    /// Random parameters, with the distribution of the operator's source.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if the kind does not support this shape and these options.
    fn random(spec: &Self::Spec, shape: Shape, key: RngKey) -> Result<Self, OpError>;

    /// Small cases for the conformance suite: odd, rectangular and non-power-of-two sizes, if the
    /// kind supports them.
    fn examples() -> Vec<(Self::Spec, Shape)>;
}

/// A boxed operator, the content of a slot.
#[derive(Debug)]
pub enum Op<T> {
    /// A linear map.
    Linear(Box<dyn LinearOp<T>>),
    /// A map with a nonlinearity inside.
    Map(Box<dyn Map<T>>),
}

impl<T: Scalar> Op<T> {
    /// The map, linear or not.
    #[must_use]
    pub fn map(&self) -> &dyn Map<T> {
        match self {
            Self::Linear(op) => op.as_ref(),
            Self::Map(op) => op.as_ref(),
        }
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        match self.map().weight() {
            Some(weight) => weight.rows() * weight.cols(),
            None => crate::parameter_count(&self.map().params()),
        }
    }

    /// The map, linear or not, mutable.
    pub fn map_mut(&mut self) -> &mut dyn Map<T> {
        match self {
            Self::Linear(op) => op.as_mut(),
            Self::Map(op) => op.as_mut(),
        }
    }

    /// The dense weight (out, inp).
    ///
    /// # Errors
    /// [`OpError::NotLinear`] for a map with a nonlinearity.
    pub fn to_dense(&self) -> Result<Mat<T>, OpError> {
        match self {
            Self::Linear(op) => Ok(op.to_dense()),
            Self::Map(op) => Err(OpError::NotLinear { kind: op.spec().kind() }),
        }
    }
}

impl<T: Scalar> Clone for Op<T> {
    fn clone(&self) -> Self {
        self.map().clone_op()
    }
}
