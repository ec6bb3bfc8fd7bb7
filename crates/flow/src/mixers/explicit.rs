//! Operators whose dense matrix is formed: mixers of few channels, for which a dense product is
//! fastest.

use linwright_ops::{
    Backward, Buffer, BufferMut, Grads, Invertible, LinearOp, LogDet, Map, Op, OpError, OpSpec,
    Param, ParamMut, Shape, Tape, Workspace,
};
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, MatMut, MatRef, Scalar};
use std::fmt::Debug;
use std::sync::OnceLock;

/// A matrix (n, n) as a function of numbers, with inverse and determinant.
pub(super) trait Form: Clone + Debug + Send + Sync + 'static {
    /// Name in messages.
    const NAME: &'static str;

    /// Number n of channels.
    fn channels(&self) -> usize;

    /// Names and shapes of the tensors of numbers.
    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)>;

    /// Names of the tensors of fixed indices, and these.
    fn indices(&self) -> Vec<(&'static str, &[u32])> {
        Vec::new()
    }

    /// The fixed indices, mutable.
    fn indices_mut(&mut self) -> Vec<(&'static str, &mut [u32])> {
        Vec::new()
    }

    /// Checks the fixed indices.
    fn check(&self) -> Result<(), OpError> {
        Ok(())
    }

    /// W from the numbers, tensor by tensor; not finite if it does not exist.
    fn matrix(&self, numbers: &[Vec<f64>]) -> Mat<f64>;

    /// The gradients of the numbers, from the gradient of W.
    fn pull_back(&self, numbers: &[Vec<f64>], dw: &Mat<f64>) -> Vec<Vec<f64>>;

    /// `W⁻¹`.
    fn inverse(&self, numbers: &[Vec<f64>]) -> Result<Mat<f64>, OpError>;

    /// The determinant.
    fn log_abs_det(&self, numbers: &[Vec<f64>]) -> Result<LogDet, OpError>;

    /// Gradients of `log|det W|`.
    fn log_det_gradients(&self, numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, OpError>;
}

/// The error for a part that makes the matrix singular.
pub(super) fn singular<F: Form>(part: &str, index: usize, value: f64) -> OpError {
    OpError::Singular { kind: F::NAME, part: part.to_owned(), index, value }
}

/// A [`Form`] with its numbers, as an operator.
#[derive(Clone, Debug)]
pub(super) struct Explicit<F, T> {
    form: F,
    numbers: Vec<Vec<T>>,
    /// The numbers in double precision and W, computed on first use.
    formed: OnceLock<(Vec<Vec<f64>>, Mat<T>)>,
}

impl<F: Form, T: Scalar> Explicit<F, T> {
    /// An operator with these numbers, tensor by tensor.
    pub(super) fn new(form: F, numbers: Vec<Vec<f64>>) -> Self {
        let sizes = form.tensors().into_iter().map(|(_, shape)| shape.iter().product::<usize>());
        assert!(sizes.eq(numbers.iter().map(Vec::len)), "numbers of {}", F::NAME);
        let narrow = |values: Vec<f64>| values.into_iter().map(T::from_f64).collect();
        let numbers = numbers.into_iter().map(narrow).collect();
        Self { form, numbers, formed: OnceLock::new() }
    }

    fn formed(&self) -> &(Vec<Vec<f64>>, Mat<T>) {
        self.formed.get_or_init(|| {
            let wide = |values: &Vec<T>| values.iter().map(|value| value.to_f64()).collect();
            let wide: Vec<Vec<f64>> = self.numbers.iter().map(wide).collect();
            let matrix = self.form.matrix(&wide).cast();
            (wide, matrix)
        })
    }

    fn add(grads: &mut Grads<T>, scale: f64, own: &[Vec<f64>]) {
        for (to, own) in grads.iter_mut().zip(own) {
            to.iter_mut().zip(own).for_each(|(to, own)| *to += T::from_f64(scale * own));
        }
    }
}

impl<F: Form, T: Scalar> Map<T> for Explicit<F, T> {
    fn spec(&self) -> OpSpec {
        OpSpec::External { name: F::NAME }
    }

    fn shape(&self) -> Shape {
        let n = self.form.channels();
        Shape { out: n, inp: n }
    }

    fn macs_per_row(&self) -> u64 {
        self.shape().dense_parameters() as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let tensors = self.form.tensors().into_iter().zip(&self.numbers);
        tensors.map(|((name, shape), values)| Param { name: name.into(), shape, values }).collect()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.formed = OnceLock::new();
        let tensors = self.form.tensors().into_iter().zip(&mut self.numbers);
        let named =
            tensors.map(|((name, shape), values)| ParamMut { name: name.into(), shape, values });
        named.collect()
    }

    fn buffers(&self) -> Vec<Buffer<'_>> {
        let indices = self.form.indices().into_iter();
        indices.map(|(name, values)| Buffer { name: name.into(), values }).collect()
    }

    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        self.formed = OnceLock::new();
        let indices = self.form.indices_mut().into_iter();
        indices.map(|(name, values)| BufferMut { name: name.into(), values }).collect()
    }

    fn check(&self) -> Result<(), OpError> {
        self.form.check()
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        linear(x, self.formed().1.view(), y, Write::Set);
    }

    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, dx, grads, .. } = args;
        let (numbers, matrix) = self.formed();
        if let Some(grads) = grads {
            let mut dw = Mat::zeros(matrix.rows(), matrix.cols());
            product(T::ONE, Arg::Transposed(dy), Arg::Plain(x), dw.view_mut(), Write::Set);
            Self::add(grads, 1.0, &self.form.pull_back(numbers, &dw.cast()));
        }
        if let Some(dx) = dx {
            product(T::ONE, Arg::Plain(dy), Arg::Plain(matrix.view()), dx, Write::Set);
        }
    }

    fn clone_op(&self) -> Op<T> {
        super::linear(self.clone())
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        Some(self)
    }
}

impl<F: Form, T: Scalar> LinearOp<T> for Explicit<F, T> {
    fn to_dense(&self) -> Mat<T> {
        self.formed().1.clone()
    }
}

impl<F: Form, T: Scalar> Invertible<T> for Explicit<F, T> {
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        x: MatMut<'_, T>,
        _ws: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        linear(y, self.inverse_dense()?.view(), x, Write::Set);
        Ok(())
    }

    fn inverse_dense(&self) -> Result<Mat<T>, OpError> {
        Ok(self.form.inverse(&self.formed().0)?.cast())
    }

    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        self.form.log_abs_det(&self.formed().0)
    }

    fn log_det_backward(&self, scale: f64, grads: &mut Grads<T>) -> Result<(), OpError> {
        Self::add(grads, scale, &self.form.log_det_gradients(&self.formed().0)?);
        Ok(())
    }
}

/// `a b`, in double precision.
pub(super) fn times(a: Arg<'_, f64>, b: Arg<'_, f64>) -> Mat<f64> {
    let rows = match a {
        Arg::Plain(a) => a.rows(),
        Arg::Transposed(a) => a.cols(),
    };
    let cols = match b {
        Arg::Plain(b) => b.cols(),
        Arg::Transposed(b) => b.rows(),
    };
    let mut c = Mat::zeros(rows, cols);
    product(1.0, a, b, c.view_mut(), Write::Set);
    c
}
