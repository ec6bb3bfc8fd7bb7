//! Linear least squares from moments: the common form of all fits.
//!
//! With `S = Q diag(w) Qᵀ = L Lᵀ`, L = Q diag(√w), and `B = D L⁻ᵀ`, the error of a map A (out, inp)
//! is `|A L - B|² + rest`, where no linear map reduces the rest. The rows of Lᵀ with those of Bᵀ as
//! targets are samples with the same error, so an operator with only forward and backward can also
//! be fitted to moments. For a weight, S and L are the identity.
//!
//! Input directions with eigenvalues below `NO_DATA` of the largest are without data: L is zero
//! there, and closed forms ignore them.

use crate::FitError;
#[cfg(test)]
use crate::fit::counted;
use linwright_ops::Shape;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::{NoConvergence, eigh, solve_spd};
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

/// Eigenvalues of moments below this share of the largest count as zero: sums of products in `f32`
/// do not tell them from rounding errors.
pub(crate) const NO_DATA: f64 = 1e-8;

/// `a b`.
pub fn multiply(a: Arg<'_, f64>, b: Arg<'_, f64>) -> Mat<f64> {
    let (Arg::Plain(left) | Arg::Transposed(left)) = a;
    let (Arg::Plain(right) | Arg::Transposed(right)) = b;
    let rows = if matches!(a, Arg::Plain(_)) { left.rows() } else { left.cols() };
    let cols = if matches!(b, Arg::Plain(_)) { right.cols() } else { right.rows() };
    #[cfg(test)]
    counted::add((rows * cols) as f64 * (left.rows() + left.cols() - rows) as f64);
    let mut c = Mat::zeros(rows, cols);
    product(1.0, a, b, c.view_mut(), Write::Set);
    c
}

/// Converts a failed decomposition into an error with the name of the matrix.
pub(crate) fn numerics(what: &'static str) -> impl Fn(NoConvergence) -> FitError {
    move |error| FitError::Numerics { what, reason: error.to_string() }
}

/// Second moments S of the input with their eigendecomposition.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    second: Mat<f64>,
    /// Q, eigenvectors as columns.
    vectors: Mat<f64>,
    /// √w, zero for directions without data.
    roots: Vec<f64>,
    /// 1/√w, zero for directions without data.
    inverse_roots: Vec<f64>,
}

impl Inputs {
    /// Decomposes S (inp, inp), of which only the lower triangle is read. At most `rank` directions
    /// have data: as many as there are samples.
    pub(crate) fn new(second: MatRef<'_, f64>, rank: usize) -> Result<Self, FitError> {
        let eigen = eigh(second).map_err(numerics("eigenvalues of the Gram matrix"))?;
        let largest = eigen.values.last().copied().unwrap_or(0.0);
        let first = eigen.values.len().saturating_sub(rank);
        let there = |i: usize, w: f64| i >= first && w > NO_DATA * largest;
        let values = || eigen.values.iter().copied().enumerate();
        Ok(Self {
            second: second.to_mat(),
            roots: values().map(|(i, w)| if there(i, w) { w.sqrt() } else { 0.0 }).collect(),
            inverse_roots: values()
                .map(|(i, w)| if there(i, w) { 1.0 / w.sqrt() } else { 0.0 })
                .collect(),
            vectors: eigen.vectors,
        })
    }

    /// Number of directions without data.
    fn dropped(&self) -> usize {
        self.roots.iter().filter(|root| **root == 0.0).count()
    }
}

pub(crate) fn scale_columns(a: &mut Mat<f64>, factors: &[f64]) {
    for i in 0..a.rows() {
        a.row_mut(i).iter_mut().zip(factors).for_each(|(a, factor)| *a *= factor);
    }
}

/// Sum of squares of all entries.
pub fn squares(a: &Mat<f64>) -> f64 {
    a.data().iter().map(|v| v * v).sum()
}

/// `a -= b`, for matrices of the same shape.
pub fn subtract(a: &mut Mat<f64>, b: &Mat<f64>) {
    a.data_mut().iter_mut().zip(b.data()).for_each(|(a, b)| *a -= b);
}

/// The map V (out, n) that minimises `|Y − V X|² + ridge |V − W|²`, from `gram` = X Xᵀ (n, n),
/// `cross` = Y Xᵀ (out, n) and W (out, n): W with a correction that the ridge keeps small.
///
/// # Errors
/// [`FitError::Numerics`] with the name of `gram` if it is not positive definite with the ridge.
pub(crate) fn corrected(
    weight: &Mat<f64>,
    mut gram: Mat<f64>,
    mut cross: Mat<f64>,
    ridge: f64,
    what: &'static str,
) -> Result<Mat<f64>, FitError> {
    subtract(&mut cross, &multiply(weight.view().into(), gram.view().into()));
    (0..gram.rows()).for_each(|i| *gram.at_mut(i, i) += ridge);
    let mut best = solve_spd(gram.view(), cross.view())
        .map_err(|error| FitError::Numerics { what, reason: error.to_string() })?;
    best.data_mut().iter_mut().zip(weight.data()).for_each(|(best, old)| *best += old);
    Ok(best)
}

/// Mean of the diagonal of a matrix of second moments.
pub fn mean_moment(gram: MatRef<'_, f64>) -> f64 {
    (0..gram.rows()).map(|i| gram.at(i, i)).sum::<f64>() / gram.rows().max(1) as f64
}

/// Samples whose squared error, plus the rest, is that of a target.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// Inputs (rows, inp).
    pub x: Mat<f64>,
    /// Targets (rows, out).
    pub y: Mat<f64>,
    /// Error that no linear map reduces.
    pub rest: f64,
    /// Error of the zero map.
    pub power: f64,
}

/// A linear least-squares problem.
#[derive(Clone, Debug)]
pub(crate) struct Regression<'a> {
    /// Moments of the input; `None` for the identity.
    inputs: Option<&'a Inputs>,
    /// D (out, inp).
    cross: Mat<f64>,
    /// B (out, inp).
    whitened: Mat<f64>,
    rest: f64,
    power: f64,
}

impl<'a> Regression<'a> {
    /// The regression for a weight (out, inp).
    pub(crate) fn of_weight(weight: MatRef<'_, f64>) -> Self {
        let cross = weight.to_mat();
        let power = squares(&cross);
        Self { inputs: None, whitened: cross.clone(), cross, rest: 0.0, power }
    }

    /// The regression for moments: D (out, inp) and the target power `E|y|²`.
    pub(crate) fn of_moments(inputs: &'a Inputs, cross: MatRef<'_, f64>, power: f64) -> Self {
        let mut whitened = multiply(cross.into(), inputs.vectors.view().into());
        scale_columns(&mut whitened, &inputs.inverse_roots);
        let rest = (power - squares(&whitened)).max(0.0);
        Self { inputs: Some(inputs), cross: cross.to_mat(), whitened, rest, power }
    }

    /// The regression for the residual of a map A (out, inp).
    pub(crate) fn beside(&self, a: &Mat<f64>) -> Self {
        let mut left = self.clone();
        subtract(&mut left.cross, &self.times_second(a));
        subtract(&mut left.whitened, &self.times_root(a));
        left
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape { out: self.cross.rows(), inp: self.cross.cols() }
    }

    /// D (out, inp).
    pub(crate) fn cross(&self) -> &Mat<f64> {
        &self.cross
    }

    /// B (out, inp).
    pub(crate) fn whitened(&self) -> &Mat<f64> {
        &self.whitened
    }

    /// S; `None` for the identity.
    pub(crate) fn second(&self) -> Option<&Mat<f64>> {
        self.inputs.map(|inputs| &inputs.second)
    }

    /// Entry (i, j) of S.
    pub(crate) fn second_at(&self, i: usize, j: usize) -> f64 {
        self.second().map_or(if i == j { 1.0 } else { 0.0 }, |second| second.at(i, j))
    }

    /// A block of S.
    pub(crate) fn second_block(&self, rows: Range<usize>, columns: Range<usize>) -> Mat<f64> {
        let number = |i: usize, j: usize| self.second_at(rows.start + i, columns.start + j);
        Mat::from_fn(rows.len(), columns.len(), number)
    }

    pub(crate) fn power(&self) -> f64 {
        self.power
    }

    /// Error that no linear map reduces.
    pub(crate) fn rest(&self) -> f64 {
        self.rest
    }

    /// Number of input directions without data.
    pub(crate) fn dropped(&self) -> usize {
        self.inputs.map_or(0, Inputs::dropped)
    }

    /// `A S`.
    pub(crate) fn times_second(&self, a: &Mat<f64>) -> Mat<f64> {
        self.second().map_or_else(|| a.clone(), |s| multiply(a.view().into(), s.view().into()))
    }

    /// `A L`.
    pub(crate) fn times_root(&self, a: &Mat<f64>) -> Mat<f64> {
        let Some(inputs) = self.inputs else { return a.clone() };
        let mut product = multiply(a.view().into(), inputs.vectors.view().into());
        scale_columns(&mut product, &inputs.roots);
        product
    }

    /// The A of minimum norm with `A L = V` on the directions with data.
    pub(crate) fn unwhiten(&self, mut v: Mat<f64>) -> Mat<f64> {
        let Some(inputs) = self.inputs else { return v };
        scale_columns(&mut v, &inputs.inverse_roots);
        multiply(v.view().into(), Arg::Transposed(inputs.vectors.view()))
    }

    /// The least-squares map (out, inp).
    pub(crate) fn least_squares(&self) -> Mat<f64> {
        self.unwhiten(self.whitened.clone())
    }

    /// The error of a map A (out, inp).
    pub(crate) fn error(&self, a: &Mat<f64>) -> f64 {
        let mut away = self.times_root(a);
        subtract(&mut away, &self.whitened);
        squares(&away) + self.rest
    }

    /// Samples with the same error.
    pub(crate) fn rows(&self) -> Rows {
        let inp = self.shape().inp;
        let root = self.times_root(&Mat::identity(inp));
        let (x, y) = (root.transpose(), self.whitened.transpose());
        Rows { x, y, rest: self.rest, power: self.power }
    }
}

/// The X of minimum norm that minimises `tr (X G Xᵀ - 2 X Cᵀ)`: `C G⁺`, for G (n, n) symmetric
/// positive semidefinite and C (m, n).
pub(crate) fn solve_normal(
    g: MatRef<'_, f64>,
    c: MatRef<'_, f64>,
    what: &'static str,
) -> Result<Mat<f64>, FitError> {
    let eigen = eigh(g).map_err(numerics(what))?;
    let largest = eigen.values.last().copied().unwrap_or(0.0);
    // Smaller eigenvalues are rounding errors of the sums in G.
    let least = 1e-13 * largest;
    let inverses: Vec<f64> =
        eigen.values.iter().map(|&w| if w > least { 1.0 / w } else { 0.0 }).collect();
    let mut turned = multiply(c.into(), eigen.vectors.view().into());
    scale_columns(&mut turned, &inverses);
    Ok(multiply(turned.view().into(), Arg::Transposed(eigen.vectors.view())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{inputs_of, random};

    #[test]
    fn the_error_of_a_map_is_that_of_samples_moments_and_rows() {
        let (x, y, a) = (random(50, 6, 1), random(50, 4, 2), random(4, 6, 3));
        let predicted = multiply(x.view().into(), Arg::Transposed(a.view()));
        let mut away = predicted.clone();
        subtract(&mut away, &y);
        let expected = squares(&away);
        let inputs = inputs_of(&x);
        let cross = multiply(Arg::Transposed(y.view()), x.view().into());
        let regression = Regression::of_moments(&inputs, cross.view(), squares(&y));
        assert!((regression.error(&a) / expected - 1.0).abs() < 1e-12);
        let rows = regression.rows();
        let mut away = multiply(rows.x.view().into(), Arg::Transposed(a.view()));
        subtract(&mut away, &rows.y);
        assert!(((squares(&away) + rows.rest) / expected - 1.0).abs() < 1e-12);
        let beside = regression.beside(&a);
        assert!((beside.error(&Mat::zeros(4, 6)) / expected - 1.0).abs() < 1e-12);
        let best = regression.error(&regression.least_squares());
        assert!((best / regression.rest - 1.0).abs() < 1e-12 && best < expected);
    }

    #[test]
    fn directions_without_data_are_left_out_and_counted() {
        let mut x = random(40, 4, 1);
        (0..40).for_each(|i| *x.at_mut(i, 3) = x.at(i, 0));
        let y = random(40, 2, 2);
        let inputs = inputs_of(&x);
        let cross = multiply(Arg::Transposed(y.view()), x.view().into());
        let regression = Regression::of_moments(&inputs, cross.view(), squares(&y));
        assert_eq!(regression.dropped(), 1);
        let best = regression.least_squares();
        for i in 0..2 {
            assert!((best.at(i, 0) - best.at(i, 3)).abs() < 1e-10, "the norm is least");
        }
        let solved = solve_normal(inputs.second.view(), cross.view(), "a test").expect("solves");
        assert!(solved.data().iter().zip(best.data()).all(|(a, b)| (a - b).abs() < 1e-8));
    }
}
