//! Mixing of channels: the same invertible operator at every position, a 1 x 1 convolution.
//!
//! Positions are rows, so a 1 x 1 convolution is the operator itself. Up to [`MOST_FORMED`]
//! channels its matrix and inverse are formed once after each change of the numbers, and rows go
//! through dense products; gradients of its numbers are then those of the map of unit vectors.
//! Beyond, rows go through the operator's own kernels. The limit is fixed, not timed in each run,
//! since the two paths round differently and the same command must give the same bits. `linwright
//! bench operators circulant_diagonal --dims 48,96,128,192` measures the crossover.

use crate::FlowError;
use linwright_nets::{NetTensor, TensorUse};
use linwright_ops::{Backward, Grads, Invertible, LogDet, Op, OpSpec, Tape, Workspace};
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, Scalar, linalg};
use std::sync::OnceLock;

/// Largest number of channels for which matrices are formed.
pub const MOST_FORMED: usize = 96;
/// Accuracy that an inverse may lose: the condition number must be below this value over the
/// precision.
const MOST_LOST: f64 = 0.1;

/// An invertible operator at every position.
#[derive(Debug)]
pub struct Mixing<T: Scalar> {
    name: String,
    op: Op<T>,
    formed: OnceLock<Result<Formed<T>, Problem>>,
}

/// Values computed once after each change of the numbers.
#[derive(Debug)]
struct Formed<T> {
    log_det: LogDet,
    /// Matrix and inverse, if there are few channels.
    matrices: Option<[Mat<T>; 2]>,
}

/// The reason why there is no inverse.
#[derive(Clone, Debug)]
enum Problem {
    Singular(linwright_ops::OpError),
    Condition(f64),
}

/// Norms of a mixing, and how much its inverse amplifies errors.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MixNorms {
    /// The layer.
    pub layer: String,
    /// Largest singular value.
    pub norm: f64,
    /// Largest singular value of the inverse.
    pub inverse_norm: f64,
    /// Their product.
    pub condition: f64,
    /// `log|det W|` in nats.
    pub log_det: f64,
}

impl<T: Scalar> Clone for Mixing<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), op: self.op.clone(), formed: OnceLock::new() }
    }
}

impl<T: Scalar> Mixing<T> {
    /// A layer with an operator; its name is used in messages and as prefix of its tensors.
    ///
    /// # Errors
    /// [`FlowError::Option`] if the operator has no inverse.
    pub fn new(name: String, op: Op<T>) -> Result<Self, FlowError> {
        if op.map().invertible().is_none() {
            let found = format!("{}, which has no inverse", op.map().spec().kind());
            let expected = "an invertible operator".to_owned();
            return Err(FlowError::Option { option: "layer", found, expected });
        }
        Ok(Self { name, op, formed: OnceLock::new() })
    }

    /// The operator.
    #[must_use]
    pub fn op(&self) -> &Op<T> {
        &self.op
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn invertible(&self) -> &dyn Invertible<T> {
        let invertible = self.op.map().invertible();
        invertible.expect("only operators with an inverse mix channels")
    }

    pub(crate) fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        self.formed = OnceLock::new();
        let (name, params) = (&self.name, self.op.map_mut().params_mut().into_iter());
        params
            .map(|param| NetTensor {
                name: format!("{name}.{}", param.name),
                shape: param.shape,
                values: param.values,
                purpose: TensorUse::Vector,
            })
            .collect()
    }

    /// Fixed indices with their names.
    pub(crate) fn indices(&self) -> Vec<(String, Vec<u32>)> {
        let buffers = self.op.map().buffers().into_iter();
        buffers.map(|b| (format!("{}.{}", self.name, b.name), b.values.to_vec())).collect()
    }

    /// Fixed indices with their names, mutable.
    pub(crate) fn indices_mut(&mut self) -> Vec<(String, &mut [u32])> {
        self.formed = OnceLock::new();
        let (name, buffers) = (&self.name, self.op.map_mut().buffers_mut().into_iter());
        buffers.map(|b| (format!("{name}.{}", b.name), b.values)).collect()
    }

    fn formed(&self) -> Result<&Formed<T>, FlowError> {
        let formed = self.formed.get_or_init(|| self.form());
        formed.as_ref().map_err(|problem| match problem.clone() {
            Problem::Singular(source) => FlowError::Operator { layer: self.name.clone(), source },
            Problem::Condition(condition) => FlowError::IllConditioned {
                layer: self.name.clone(),
                condition,
                precision: T::NAME,
            },
        })
    }

    fn form(&self) -> Result<Formed<T>, Problem> {
        let log_det = self.invertible().log_abs_det().map_err(Problem::Singular)?;
        if self.op.map().shape().inp > MOST_FORMED {
            return Ok(Formed { log_det, matrices: None });
        }
        let matrix = self.op.to_dense().map_err(Problem::Singular)?;
        let inverse = self.invertible().inverse_dense().map_err(Problem::Singular)?;
        let norm = |m: &Mat<T>| m.data().iter().map(|v| v.to_f64().powi(2)).sum::<f64>().sqrt();
        let condition = norm(&matrix) * norm(&inverse);
        let most = MOST_LOST / T::EPSILON.to_f64() * matrix.rows() as f64;
        match condition <= most {
            true => Ok(Formed { log_det, matrices: Some([matrix, inverse]) }),
            false => Err(Problem::Condition(condition)),
        }
    }

    /// `log|det W|` at one position.
    ///
    /// # Errors
    /// [`FlowError::Operator`] naming the singular part, [`FlowError::IllConditioned`].
    pub fn log_det(&self) -> Result<f64, FlowError> {
        Ok(self.formed()?.log_det.log_abs)
    }

    /// The mixed rows.
    ///
    /// # Errors
    /// As [`Self::log_det`].
    pub fn forward(&self, x: &Mat<T>, ws: &mut Workspace<T>) -> Result<Mat<T>, FlowError> {
        let mut y = ws.take(x.rows(), x.cols());
        match &self.formed()?.matrices {
            Some([matrix, _]) => linear(x.view(), matrix.view(), y.view_mut(), Write::Set),
            None => self.op.map().forward(x.view(), y.view_mut(), None, ws),
        }
        Ok(y)
    }

    /// The inverse of the mix, applied to rows.
    ///
    /// # Errors
    /// As [`Self::log_det`].
    pub fn inverse(&self, y: &Mat<T>, ws: &mut Workspace<T>) -> Result<Mat<T>, FlowError> {
        let mut x = ws.take(y.rows(), y.cols());
        match &self.formed()?.matrices {
            Some([_, inverse]) => linear(y.view(), inverse.view(), x.view_mut(), Write::Set),
            None => self
                .invertible()
                .inverse(y.view(), x.view_mut(), ws)
                .map_err(|source| FlowError::Operator { layer: self.name.clone(), source })?,
        }
        Ok(x)
    }

    /// Input and its gradient, from those of the output; writes the gradients of the numbers.
    /// `of_log_det` is the gradient of the sum of log-determinants over all positions.
    ///
    /// # Errors
    /// As [`Self::log_det`].
    pub fn backward(
        &self,
        y: &Mat<T>,
        dy: &Mat<T>,
        of_log_det: f64,
        grads: &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Result<[Mat<T>; 2], FlowError> {
        let x = self.inverse(y, ws)?;
        let mut dx = ws.take(y.rows(), y.cols());
        let (map, mut own) = (self.op.map(), Grads::zeros(&self.op.map().params()));
        let params = !own.is_empty();
        if let Some([matrix, _]) = &self.formed()?.matrices {
            product(
                T::ONE,
                Arg::Plain(dy.view()),
                Arg::Plain(matrix.view()),
                dx.view_mut(),
                Write::Set,
            );
            if params {
                let n = matrix.rows();
                let mut of_matrix = ws.take(n, n);
                // The gradient of Wᵀ, whose rows belong to unit vectors as inputs.
                let (x, dy) = (Arg::Transposed(x.view()), Arg::Plain(dy.view()));
                product(T::ONE, x, dy, of_matrix.view_mut(), Write::Set);
                let (units, mut tape) = (Mat::identity(n), Tape::default());
                let mut images = ws.take(n, n);
                map.forward(units.view(), images.view_mut(), Some(&mut tape), ws);
                ws.give(images);
                let (x, dy) = (units.view(), of_matrix.view());
                let grads = Some(&mut own);
                map.backward(Backward { x, dy, tape: &tape, dx: None, grads }, ws);
            }
        } else {
            let mut tape = Tape::default();
            if !matches!(map.spec(), OpSpec::CirculantDiagonal(_)) {
                let mut again = ws.take(y.rows(), y.cols());
                map.forward(x.view(), again.view_mut(), Some(&mut tape), ws);
                ws.give(again);
            }
            let (grads, into) = (params.then_some(&mut own), Some(dx.view_mut()));
            let (x, dy) = (x.view(), dy.view());
            map.backward(Backward { x, dy, tape: &tape, dx: into, grads }, ws);
        }
        if params {
            self.invertible()
                .log_det_backward(of_log_det, &mut own)
                .map_err(|source| FlowError::Operator { layer: self.name.clone(), source })?;
        }
        grads.iter_mut().zip(own.iter()).for_each(|(to, own)| to.copy_from_slice(own));
        Ok([x, dx])
    }

    /// Exact norms, from the singular values.
    ///
    /// # Errors
    /// As [`Self::log_det`]; [`FlowError::NotFinite`] if the numbers are not.
    pub fn norms(&self) -> Result<MixNorms, FlowError> {
        let log_det = self.log_det()?;
        let matrix = self
            .op
            .to_dense()
            .map_err(|source| FlowError::Operator { layer: self.name.clone(), source })?;
        let svd = linalg::svd(matrix.cast().view()).map_err(|_| FlowError::NotFinite {
            what: format!("the matrix of {}", self.name),
            index: 0,
            value: f64::NAN,
        })?;
        let (most, least) = (svd.s[0], svd.s[svd.s.len() - 1]);
        Ok(MixNorms {
            layer: self.name.clone(),
            norm: most,
            inverse_norm: 1.0 / least,
            condition: most / least,
            log_det,
        })
    }
}
