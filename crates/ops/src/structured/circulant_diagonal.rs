//! Products of diagonal and circulant matrices (CD-m), with inverse and determinant.
//!
//! `W = diag(d_0) circ(c_0) diag(d_1) ⋯ circ(c_{m-2}) diag(d_{m-1})`, square, n features,
//! `circ(c)[i, j] = c[(i - j) mod n]`. With the spectra `h = F c`,
//! `W⁻¹ = diag(1/d_{m-1}) circ(F⁻¹ 1/h_{m-2}) ⋯ diag(1/d_0)` and
//! `log|det W| = Σ log|d| + Σ w_k log|h_k|`, w_k = 1 where a bin is its own conjugate, else 2.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | (2 m - 1) n | m n + (m - 1) times about 5 n log2 n |
//!
//! Source: Feng and Liao 2025, CDFlow, arXiv:2510.25323. Deviations: spectra are conjugate
//! symmetric by construction, n real numbers per circulant, since the determinant of any other
//! spectrum belongs to another matrix; polar parameters `± e^t`, `± e^(r + i φ)` are the default;
//! the initialisation is orthogonal with random phases, because the paper's is not known.
//!
//! Numerical notes: factors, spectra and determinants are computed in `f64`; rows run through
//! [`linwright_tensor::kernels::circulant`]. [`CirculantDiagonal::norm_bounds`] bounds how much an
//! inverse amplifies rounding errors.
//!
//! ```
//! use linwright_ops::{CirculantDiagonal, CirculantDiagonalSpec};
//! use linwright_ops::{Invertible, Map, Shape, Structured};
//! use linwright_tensor::RngKey;
//!
//! let spec = CirculantDiagonalSpec::default(); // CD-2, orthogonal
//! let op: CirculantDiagonal<f32> =
//!     CirculantDiagonal::random(&spec, Shape { out: 96, inp: 96 }, RngKey::new(0))?;
//! assert!(op.log_abs_det()?.log_abs.abs() < 1e-4);
//! assert!(op.macs_per_row() < 3_000); // dense: 9,216
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::OpSpec;
use super::circulant_parameters::{Parameters, Values, numbers, reciprocal};
use crate::{
    Backward, Buffer, BufferMut, Grads, Invertible, KindOptions, LinearOp, LogDet, Map, Op,
    OpError, Param, ParamMut, Shape, Structured, Tape, Workspace,
};
use linwright_tensor::kernels::circulant::{
    CirculantChain, CyclicTransform, dense, log_of_product,
};
use linwright_tensor::linalg::CirculantFit;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub use super::circulant_parameters::CirculantParameterisation;

/// Largest number of diagonals; more than twice the features add no expressiveness.
const MAX_FACTORS: usize = 1 << 12;

/// Initialisation of the factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CirculantInit {
    /// All ones: W is the identity.
    Identity,
    /// Signs on the diagonals, `|h| = 1` with uniform phases.
    #[default]
    Orthogonal,
    /// `|d|` uniform in [0.5, 1.5) with random signs; c normal of variance 1/n, `|h|` at least 0.2.
    Random,
}

/// Options of [`CirculantDiagonal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CirculantDiagonalSpec {
    /// Number m of diagonals; there are m - 1 circulants.
    pub factors: usize,
    /// Parametrisation of the factors.
    pub parameterisation: CirculantParameterisation,
    /// Initialisation of the factors.
    pub init: CirculantInit,
}

impl Default for CirculantDiagonalSpec {
    fn default() -> Self {
        Self {
            factors: 2,
            parameterisation: CirculantParameterisation::default(),
            init: CirculantInit::default(),
        }
    }
}

/// Diagonals d_0 to d_{m-1} and first columns c_0 to c_{m-2}, n numbers each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CirculantFactors {
    /// The diagonals, d_0 first.
    pub diagonals: Vec<Vec<f64>>,
    /// The columns, c_0 first.
    pub columns: Vec<Vec<f64>>,
}

impl CirculantFactors {
    /// `diag(e) + diag(f) P` with the cyclic shift `(P x)_i = x_{i-1}`, as `diag(α) (1 + κ P)
    /// diag(β)`, β_0 = 1: two diagonals and one circulant. None if a number is zero or not finite,
    /// the lengths differ, or the factors are not real, which requires n odd or the product of all
    /// e and f positive.
    ///
    /// Source: the linear factors of Huhtanen and Perämäki 2015.
    #[must_use]
    pub fn of_bidiagonal(e: &[f64], f: &[f64]) -> Option<Self> {
        let n = e.len();
        let all = e.iter().chain(f);
        if n < 2 || f.len() != n || all.clone().any(|&v| v == 0.0 || !v.is_finite()) {
            return None;
        }
        let negative = all.filter(|&&v| v < 0.0).count() % 2 == 1;
        if negative && n.is_multiple_of(2) {
            return None;
        }
        let of = |numbers: &[f64]| log_of_product(numbers.iter().copied());
        let size = ((of(f) - of(e)) / n as f64).exp();
        let kappa = if negative { -size } else { size };
        let mut beta = vec![1.0; n];
        for i in 1..n {
            beta[i] = beta[i - 1] * kappa * e[i] / f[i];
        }
        let alpha = e.iter().zip(&beta).map(|(e, beta)| e / beta).collect();
        let mut column = vec![0.0; n];
        (column[0], column[1]) = (1.0, kappa);
        Some(Self { diagonals: vec![alpha, beta], columns: vec![column] })
    }
}

impl From<CirculantFit> for CirculantFactors {
    fn from(fit: CirculantFit) -> Self {
        Self { diagonals: fit.diagonals, columns: fit.columns }
    }
}

/// Upper bounds of spectral norms, as products over the factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormBounds {
    /// Of W.
    pub norm: f64,
    /// Bound for the inverse; infinite for a singular W.
    pub inverse: f64,
}

/// A product of m diagonal and m - 1 circulant matrices.
#[derive(Clone, Debug)]
pub struct CirculantDiagonal<T> {
    spec: CirculantDiagonalSpec,
    transform: Arc<CyclicTransform<T>>,
    parameters: Parameters<T>,
    /// The factors, computed from the parameters, and the maps built from them.
    values: OnceLock<Values>,
    chain: OnceLock<CirculantChain<T>>,
    inverse: OnceLock<CirculantChain<T>>,
}

impl<T: Scalar> CirculantDiagonal<T> {
    /// Builds from factors in the given parametrisation.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if there are not m diagonals and m - 1 columns of one length;
    /// [`OpError::Singular`] if polar parameters cannot represent a factor, or any is not finite.
    pub fn new(
        parameterisation: CirculantParameterisation,
        factors: &CirculantFactors,
    ) -> Result<Self, OpError> {
        let count = factors.diagonals.len();
        let features = factors.diagonals.first().map_or(0, Vec::len);
        let shape = Shape { out: features, inp: features };
        let all = factors.diagonals.iter().chain(&factors.columns);
        if features == 0 || count != factors.columns.len() + 1 {
            let reason = format!(
                "{count} diagonals and {} circulants, expected one circulant fewer, of one feature or more",
                factors.columns.len()
            );
            return Err(OpError::Unsupported { kind: Self::KIND, shape, reason });
        }
        if let Some(other) = all.map(Vec::len).find(|&len| len != features) {
            let reason = format!("a factor has {other} numbers, expected {features}");
            return Err(OpError::Unsupported { kind: Self::KIND, shape, reason });
        }
        let transform = Arc::new(CyclicTransform::new(features));
        let spectra = factors.columns.iter().map(|c| transform.half_spectrum(c)).collect();
        let values = Values { diagonals: factors.diagonals.concat(), spectra };
        if parameterisation == CirculantParameterisation::Polar {
            values.singular(Self::KIND)?;
        }
        let spec = CirculantDiagonalSpec { factors: count, parameterisation, ..Default::default() };
        Ok(Self::of_values(spec, transform, &values))
    }

    fn of_values(
        spec: CirculantDiagonalSpec,
        transform: Arc<CyclicTransform<T>>,
        values: &Values,
    ) -> Self {
        let parameters = Parameters::new(spec.parameterisation, values, &transform);
        let (values, chain, inverse) = Default::default();
        Self { spec, transform, parameters, values, chain, inverse }
    }

    fn features(&self) -> usize {
        self.transform.features()
    }

    fn values(&self) -> &Values {
        self.values.get_or_init(|| self.parameters.values(&self.transform))
    }

    fn chain(&self) -> &CirculantChain<T> {
        self.chain.get_or_init(|| {
            let Values { diagonals, spectra } = self.values();
            let diagonals = diagonals.iter().map(|&d| T::from_f64(d)).collect();
            CirculantChain::new(Arc::clone(&self.transform), diagonals, spectra)
        })
    }

    /// The factors of `W⁻¹` or, `transposed`, of `W⁻ᵀ`.
    fn inverse_values(&self, transposed: bool) -> Values {
        let Values { diagonals, spectra } = self.values();
        let conjugate = |[re, im]: [f64; 2]| if transposed { [re, -im] } else { [re, im] };
        let invert =
            |half: &Vec<[f64; 2]>| half.iter().map(|&h| conjugate(reciprocal(h))).collect();
        let rows = diagonals.chunks_exact(self.features());
        let of_row = |row: &[f64]| row.iter().map(|d| 1.0 / d).collect::<Vec<_>>();
        let (mut rows, mut spectra): (Vec<_>, Vec<Vec<[f64; 2]>>) =
            (rows.map(of_row).collect(), spectra.iter().map(invert).collect());
        if !transposed {
            rows.reverse();
            spectra.reverse();
        }
        Values { diagonals: rows.concat(), spectra }
    }

    fn chain_of(&self, values: &Values) -> CirculantChain<T> {
        let diagonals = values.diagonals.iter().map(|&d| T::from_f64(d)).collect();
        CirculantChain::new(Arc::clone(&self.transform), diagonals, &values.spectra)
    }

    fn inverse_chain(&self) -> Result<&CirculantChain<T>, OpError> {
        self.values().singular(Self::KIND)?;
        Ok(self.inverse.get_or_init(|| self.chain_of(&self.inverse_values(false))))
    }

    /// The factors; diagonals and columns in every parametrisation.
    #[must_use]
    pub fn factors(&self) -> CirculantFactors {
        let Values { diagonals, spectra } = self.values();
        CirculantFactors {
            diagonals: diagonals.chunks_exact(self.features()).map(<[f64]>::to_vec).collect(),
            columns: spectra.iter().map(|half| self.transform.vector(half)).collect(),
        }
    }

    /// Bounds of the norms of W and of its inverse.
    #[must_use]
    pub fn norm_bounds(&self) -> NormBounds {
        let Values { diagonals, spectra } = self.values();
        let mut bounds = NormBounds { norm: 1.0, inverse: 1.0 };
        let mut take = |sizes: &mut dyn Iterator<Item = f64>| {
            let (least, most) = sizes
                .fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
            (bounds.norm, bounds.inverse) = (bounds.norm * most, bounds.inverse / least);
        };
        for row in diagonals.chunks_exact(self.features()) {
            take(&mut row.iter().map(|d| d.abs()));
        }
        for spectrum in spectra {
            take(&mut spectrum.iter().map(|[re, im]| re.hypot(*im)));
        }
        bounds
    }

    /// Backward pass of the inverse: from `x` (rows, n), which [`Invertible::inverse`] computed
    /// from some y, and the gradient `dx` of a loss with respect to it, adds the parameter
    /// gradients to `grads` and writes that of y to `dy` (rows, n).
    ///
    /// # Errors
    /// [`OpError::Singular`].
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn inverse_backward(
        &self,
        x: MatRef<'_, T>,
        dx: MatRef<'_, T>,
        mut dy: MatMut<'_, T>,
        grads: &mut Grads<T>,
    ) -> Result<(), OpError> {
        self.values().singular(Self::KIND)?;
        self.chain_of(&self.inverse_values(true)).forward(dx, dy.reborrow());
        // d(W⁻¹ y) = -W⁻¹ dW x: the gradients of the map at x, with -dy.
        let mut back = self.chain().backward(x, dy.as_ref(), None);
        let all = back.diagonals.iter_mut().chain(&mut back.columns);
        all.for_each(|v| *v = -*v);
        let (values, transform) = (self.values(), &self.transform);
        self.parameters.pull_back(values, &back.diagonals, &back.columns, transform, grads);
        Ok(())
    }
}

impl<T: Scalar> Map<T> for CirculantDiagonal<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::CirculantDiagonal(self.spec)
    }

    fn shape(&self) -> Shape {
        Shape { out: self.features(), inp: self.features() }
    }

    fn macs_per_row(&self) -> u64 {
        let factors = self.spec.factors as u64;
        (factors - 1) * self.transform.macs_per_row() + factors * self.features() as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        self.parameters.params()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        (self.values, self.chain, self.inverse) = Default::default();
        self.parameters.params_mut()
    }

    fn buffers(&self) -> Vec<Buffer<'_>> {
        self.parameters.buffers()
    }

    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        (self.values, self.chain, self.inverse) = Default::default();
        self.parameters.buffers_mut()
    }

    fn check(&self) -> Result<(), OpError> {
        self.parameters.check(Self::KIND)
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        self.chain().forward(x, y);
    }

    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, dx, grads, .. } = args;
        let back = self.chain().backward(x, dy, dx);
        if let Some(grads) = grads {
            let (values, transform) = (self.values(), &self.transform);
            self.parameters.pull_back(values, &back.diagonals, &back.columns, transform, grads);
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        Some(self)
    }
}

impl<T: Scalar> Invertible<T> for CirculantDiagonal<T> {
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        x: MatMut<'_, T>,
        _ws: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        self.inverse_chain()?.forward(y, x);
        Ok(())
    }

    /// Of order n² for m = 2.
    fn inverse_dense(&self) -> Result<Mat<T>, OpError> {
        self.values().singular(Self::KIND)?;
        let values = self.inverse_values(false);
        Ok(dense(&self.transform, &values.diagonals, &values.spectra))
    }

    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        if let Some((log_abs, sign)) = self.parameters.log_abs_det()
            && log_abs.is_finite()
        {
            return Ok(LogDet { log_abs, sign });
        }
        let values = self.values();
        values.singular(Self::KIND)?;
        let (log_abs, sign) = values.log_abs_det();
        Ok(LogDet { log_abs, sign })
    }

    fn log_det_backward(&self, scale: f64, grads: &mut Grads<T>) -> Result<(), OpError> {
        self.values().singular(Self::KIND)?;
        self.parameters.log_det_back(self.values(), scale, &self.transform, grads);
        Ok(())
    }
}

impl<T: Scalar> LinearOp<T> for CirculantDiagonal<T> {
    fn to_dense(&self) -> Mat<T> {
        dense(&self.transform, &self.values().diagonals, &self.values().spectra)
    }
}

/// Draws factors by `init`.
fn draw<T: Scalar>(
    init: CirculantInit,
    factors: usize,
    transform: &CyclicTransform<T>,
    key: RngKey,
) -> Values {
    let (features, bins) = (transform.features(), transform.bins());
    let mut stream = key.stream();
    let mut sign = || if stream.uniform() < 0.5 { -1.0 } else { 1.0 };
    let signs: Vec<f64> = (0..factors * features).map(|_| sign()).collect();
    let mut stream = key.fold("sizes").stream();
    let size = |sign: f64| sign * (0.5 + stream.uniform());
    let mut stream = key.fold("circulants").stream();
    let mut phases = || -> Vec<[f64; 2]> {
        let mut turn = || std::f64::consts::TAU * stream.uniform();
        let half = |k: usize, angle: f64| {
            let real = k == 0 || 2 * k == features;
            if real { [angle.cos().signum(), 0.0] } else { [angle.cos(), angle.sin()] }
        };
        (0..bins).map(|k| half(k, turn())).collect()
    };
    let circulants = factors - 1;
    match init {
        CirculantInit::Identity => Values {
            diagonals: vec![1.0; factors * features],
            spectra: vec![vec![[1.0, 0.0]; bins]; circulants],
        },
        CirculantInit::Orthogonal => {
            Values { diagonals: signs, spectra: (0..circulants).map(|_| phases()).collect() }
        }
        CirculantInit::Random => {
            let scale = 1.0 / (features as f64).sqrt();
            let spectra = (0..circulants).map(|j| {
                let key = key.fold("columns").fold_index(j as u64);
                floored(transform.half_spectrum(&key.stream().normals(features, scale)))
            });
            let spectra = spectra.collect();
            Values { diagonals: signs.into_iter().map(size).collect(), spectra }
        }
    }
}

/// Raises small bins to 0.2.
fn floored(mut spectrum: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    const LEAST: f64 = 0.2;
    for [re, im] in &mut spectrum {
        let size = re.hypot(*im);
        if size == 0.0 {
            *re = LEAST;
        } else if size < LEAST {
            (*re, *im) = (*re * (LEAST / size), *im * (LEAST / size));
        }
    }
    spectrum
}

/// Largest number of diagonals of a size: more are slow to fit and gain little.
const DIAGONALS: usize = 16;

impl KindOptions for CirculantDiagonalSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = true;

    fn standard() -> Self {
        Self::default()
    }

    fn sizes(&self, _shape: Shape) -> Vec<Self> {
        (1..=DIAGONALS).map(|factors| Self { factors, ..*self }).collect()
    }

    fn shrunk(&self, _by: usize) -> Self {
        *self
    }
}

impl<T: Scalar> Structured<T> for CirculantDiagonal<T> {
    type Spec = CirculantDiagonalSpec;
    const KIND: &'static str = "circulant_diagonal";
    const EQUATION: &'static str = "W = diag(d_0) circ(c_0) diag(d_1) ... diag(d_(m-1))";
    const PARAMETERS: &'static str = "(2 m - 1) n";
    const MACS: &'static str = "m n + about 5 (m - 1) n log2 n";

    fn numbers(spec: &CirculantDiagonalSpec, shape: Shape) -> u64 {
        numbers(spec.parameterisation, spec.factors, shape.inp)
    }

    fn parts(spec: &CirculantDiagonalSpec, _shape: Shape) -> u64 {
        spec.factors as u64
    }

    fn random(spec: &CirculantDiagonalSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        if shape.out != shape.inp || shape.inp == 0 {
            let side = shape.out.min(shape.inp).max(1);
            return Err(refuse(format!(
                "it is square; the nearest possible shape is {side} to {side} features"
            )));
        }
        if !(1..=MAX_FACTORS).contains(&spec.factors) {
            let factors = spec.factors;
            return Err(refuse(match factors {
                0 => "0 factors, expected 1 diagonal or more".into(),
                _ => format!("{factors} factors, expected at most {MAX_FACTORS}"),
            }));
        }
        let transform = Arc::new(CyclicTransform::new(shape.inp));
        let values = draw(spec.init, spec.factors, &transform, key);
        Ok(Self::of_values(*spec, transform, &values))
    }

    fn examples() -> Vec<(CirculantDiagonalSpec, Shape)> {
        let case = |features, factors, parameterisation, init| {
            let spec = CirculantDiagonalSpec { factors, parameterisation, init };
            (spec, Shape { out: features, inp: features })
        };
        use CirculantInit::{Identity, Orthogonal, Random};
        use CirculantParameterisation::{Polar, Raw, Time};
        vec![
            case(8, 2, Polar, Orthogonal),
            case(12, 2, Raw, Random),
            case(7, 3, Polar, Random),
            case(5, 2, Time, Random),
            case(11, 3, Time, Orthogonal),
            case(17, 2, Polar, Orthogonal),
            case(6, 4, Raw, Orthogonal),
            case(1, 2, Polar, Random),
            case(2, 3, Raw, Random),
            case(9, 1, Polar, Random),
            case(4, 1, Time, Identity),
        ]
    }
}
