//! The traits of operators and the enum that a slot holds.

use crate::{
    Buffer, BufferMut, Grads, Invertible, OpError, OpSpec, Param, ParamMut, Tape, Workspace,
};
use linwright_tensor::kernels::gemm::Weight;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Features out and in of a map; a dense weight of this shape is (out, inp).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Features of an output row.
    pub out: usize,
    /// Features of an input row.
    pub inp: usize,
}

impl Shape {
    /// Parameters of a dense weight of this shape.
    #[must_use]
    pub fn dense_parameters(self) -> usize {
        self.out * self.inp
    }
}

/// A map of rows with named parameters and explicit gradients.
///
/// No bias is inside: the slot of a model holds it.
pub trait Map<T: Scalar>: Debug + Send + Sync {
    /// Kind and hyper-parameters: all that is needed to rebuild it, its parameters apart.
    fn spec(&self) -> OpSpec;

    /// Features out and in.
    fn shape(&self) -> Shape;

    /// Arithmetic steps of [`Self::forward`] for one row of a large batch.
    ///
    /// A multiply-add is one step. So is an addition alone, as in a Hadamard transform, and a
    /// multiplication alone, as by a diagonal. Not counted: what fills a batch up to whole
    /// registers, changes of sign, powers of two, one factor for a whole matrix product,
    /// nonlinear functions, and what is derived from parameters once. A matrix product has
    /// rows x depth x columns steps. [`linwright_tensor::Counted`] counts them.
    fn macs_per_row(&self) -> u64;

    /// Trainable parameters, in a fixed order.
    fn params(&self) -> Vec<Param<'_, T>>;

    /// The same, mutable. Whatever the operator derives from its parameters is derived anew at the
    /// next use.
    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>>;

    /// Fixed integer data that belongs to the operator, such as a permutation.
    fn buffers(&self) -> Vec<Buffer<'_>> {
        Vec::new()
    }

    /// The same, mutable.
    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        Vec::new()
    }

    /// Whether parameters and buffers are ones that the operator can have; called after they were
    /// read from outside.
    ///
    /// # Errors
    /// [`OpError::InvalidValues`] naming the offender.
    fn check(&self) -> Result<(), OpError> {
        Ok(())
    }

    /// Maps the rows of `x` (rows, inp) to `y` (rows, out), and leaves on `tape` what
    /// [`Self::backward`] will need if there is a tape.
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

    /// Given `dy` (rows, out), the gradient of a loss with respect to the output, adds the gradient
    /// of every parameter into `grads` and, if asked, writes that of the input into `dx`
    /// (rows, inp). `tape` must come from [`Self::forward`] with the same `x`.
    ///
    /// # Panics
    /// If the shapes do not match or the tape is another operator's.
    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>);

    /// A copy behind a new box.
    fn clone_op(&self) -> Op<T>;

    /// The weight, of a map that is a product with a dense one and nothing else: for whoever makes
    /// several products of the same rows at once, or wants the numbers as they are held.
    fn weight(&self) -> Option<Weight<'_, T>> {
        None
    }

    /// Inverse and determinant, if maps of this kind have them.
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
    /// What the forward call left.
    pub tape: &'a Tape<T>,
    /// Where the gradient with respect to the input goes, (rows, inp), overwritten.
    pub dx: Option<MatMut<'b, T>>,
    /// Where parameter gradients are added.
    pub grads: &'b mut Grads<T>,
}

/// A map that is linear: `y = x Aᵀ`.
pub trait LinearOp<T: Scalar>: Map<T> {
    /// The dense weight (out, inp) that does the same.
    fn to_dense(&self) -> Mat<T> {
        let Shape { out, inp } = self.shape();
        let mut y = Mat::zeros(inp, out);
        self.forward(Mat::identity(inp).view(), y.view_mut(), None, &mut Workspace::default());
        y.transpose()
    }
}

/// The constructor half of an operator: what the registry and the conformance suite need.
pub trait Structured<T: Scalar>: Map<T> + Sized {
    /// Hyper-parameters.
    type Spec: Clone + Debug + PartialEq + Serialize + for<'de> Deserialize<'de>;

    /// The tag of this kind in files and on the command line.
    const KIND: &'static str;
    /// The map in one line of plain text, for listings.
    const EQUATION: &'static str;
    /// A formula of the parameters, in the letters of the operator's page.
    const PARAMETERS: &'static str;
    /// A formula of [`Map::macs_per_row`].
    const MACS: &'static str;

    /// Numbers that an operator of these options will hold, indices included, counted before it is
    /// made: a file or a recipe may ask for more than there is memory. Saturates.
    fn numbers(spec: &Self::Spec, shape: Shape) -> u64;

    /// Parts that an operator of these options will be made of, such as rotors, factors or terms,
    /// if it has a number of them: a part may hold as little as one number and costs memory and
    /// time of its own. Saturates.
    fn parts(_spec: &Self::Spec, _shape: Shape) -> u64 {
        1
    }

    /// Random parameters, drawn as the source of the operator draws them.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if the kind does not exist for this shape and these options.
    fn random(spec: &Self::Spec, shape: Shape, key: RngKey) -> Result<Self, OpError>;

    /// Small cases for the conformance suite: odd, rectangular and of sizes that are not powers of
    /// two, where the kind has them.
    fn examples() -> Vec<(Self::Spec, Shape)>;
}

/// An operator behind a box: what a slot holds.
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
