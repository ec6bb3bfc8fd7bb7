//! Rotors as matrices, and the gradients of their bivectors.

use super::basis::{Sheet, SpinBasis, bivector_pairs};
use super::entry::Side;
use crate::kernels::gemm::form::Form;
use crate::kernels::gemm::{Write, product_on_this_thread};
use crate::linalg::{SkewEigen, skew_eigen};
use crate::{Mat, Scalar};

/// `exp(b)`, ready to act on sheets, with the decomposition that its gradient needs.
#[derive(Clone, Debug)]
pub struct SpinRotor<T> {
    /// Decomposition of the skew matrix of `b`; none if `b` is not finite.
    eigen: Option<SkewEigen>,
    /// The orthogonal matrix of the rotor on the sheets of each block, (side, side).
    pub(super) forms: Vec<Form<T>>,
}

/// A complex matrix.
#[derive(Clone)]
struct Complex {
    re: Mat<f64>,
    im: Mat<f64>,
}

impl SpinBasis {
    /// The rotor of a bivector, as the product of its commuting plane rotors `cos a + sin a (u ∧
    /// v)`. A non-finite bivector gives a rotor of NaN, which the training loop sees in the loss.
    ///
    /// # Panics
    /// If there are not n (n - 1) / 2 coefficients.
    #[must_use]
    #[track_caller]
    pub fn rotor<T: Scalar>(&self, bivector: &[T], side: Side) -> SpinRotor<T> {
        let used = |block: &usize| {
            let acts = |s: &Sheet| if side == Side::Left { s.left } else { s.right };
            self.sheets.iter().any(|sheet| acts(sheet) == *block)
        };
        let blocks = (0..self.bivectors.len()).filter(used);
        let side_len = self.side();
        let skew = skew_matrix(bivector, self.generators());
        match skew_eigen(skew.view()) {
            Ok(eigen) => {
                let forms = blocks
                    .map(|block| {
                        let matrix = self.real_form(&self.product_of_planes(&eigen, block), side);
                        self.packed(matrix.cast(), side)
                    })
                    .collect();
                SpinRotor { eigen: Some(eigen), forms }
            }
            Err(_) => {
                let nan = |_, _| T::from_f64(f64::NAN);
                let nan = |_| Form::new(Mat::from_fn(side_len, side_len, nan));
                SpinRotor { eigen: None, forms: blocks.map(nan).collect() }
            }
        }
    }

    fn packed<T: Scalar>(&self, matrix: Mat<T>, side: Side) -> Form<T> {
        match self.quaternions(side) {
            Some(rows) => Form::of_quaternions(matrix, rows),
            None => Form::new(matrix),
        }
    }

    fn product_of_planes(&self, eigen: &SkewEigen, block: usize) -> Complex {
        let mut rotor: Option<Complex> = None;
        for plane in eigen.planes().iter().filter(|plane| plane.angle > 0.0) {
            let (sin, cos) = plane.angle.sin_cos();
            let mut factor = Complex::identity(self.size, cos);
            let pairs = bivector_pairs(self.generators());
            for ((i, j), pauli) in pairs.zip(&self.bivectors[block]) {
                let weight = sin * (plane.u[i] * plane.v[j] - plane.v[i] * plane.u[j]);
                for column in 0..self.size {
                    let (row, re, im) = pauli.entry(column);
                    *factor.re.at_mut(row, column) += weight * re;
                    *factor.im.at_mut(row, column) += weight * im;
                }
            }
            rotor = Some(rotor.map_or_else(|| factor.clone(), |rotor| rotor.times(&factor)));
        }
        rotor.unwrap_or_else(|| Complex::identity(self.size, 1.0))
    }

    /// Real form of a complex matrix, acting on the stored columns of a sheet: rows and columns (i,
    /// c) on the left, (c, j) and conjugated on the right; only the real part if rotors are real.
    /// With paired columns, (i, half, c) and (half, c, j).
    fn real_form(&self, rotor: &Complex, side: Side) -> Mat<f64> {
        let mut form = Mat::zeros(self.side(), self.side());
        for row in 0..self.size {
            for column in 0..self.size {
                let (re, im) = (rotor.re.at(row, column), rotor.im.at(row, column));
                for place in self.places(side, row, column) {
                    *form.at_mut(place.row, place.column) = place.re * re + place.im * im;
                }
            }
        }
        form
    }
}

impl<T: Scalar> SpinRotor<T> {
    /// The gradient of the bivector `b`, from that of the bivector `t` of a further infinitesimal
    /// rotation, `exp(b) exp(t)` at `t = 0`.
    ///
    /// With `A` the skew matrix of `b`, `exp(b + e) = exp(b) exp(∫₀¹ exp(-2sA) E exp(2sA) ds)` to
    /// first order; this applies the transpose of that integral. In the eigenbasis of `A` it
    /// multiplies entry (j, k) by `exp(i d) sin(d) / d`, `d = w_j - w_k`: nothing is divided by a
    /// gap, so equal angles are harmless.
    #[must_use]
    pub fn pull_back(&self, turn: &[f64]) -> Vec<f64> {
        let Some(SkewEigen { values, re, im }) = &self.eigen else {
            return vec![f64::NAN; turn.len()];
        };
        let n = values.len();
        let basis = Complex { re: re.clone(), im: im.clone() };
        let adjoint = basis.adjoint();
        let skew = Complex { re: skew_matrix(turn, n), im: Mat::zeros(n, n) };
        let mut inner = adjoint.times(&skew).times(&basis);
        for j in 0..n {
            for k in 0..n {
                let d = values[j] - values[k];
                let sinc = if d.abs() < 1e-6 { 1.0 - d * d / 6.0 } else { d.sin() / d };
                let (cos, sin) = (sinc * d.cos(), sinc * d.sin());
                let (re, im) = (inner.re.at(j, k), inner.im.at(j, k));
                *inner.re.at_mut(j, k) = cos * re - sin * im;
                *inner.im.at_mut(j, k) = cos * im + sin * re;
            }
        }
        let back = basis.times(&inner).times(&adjoint);
        bivector_pairs(n).map(|(i, j)| back.re.at(i, j)).collect()
    }
}

/// The matrix with `b_ij` above the diagonal and `-b_ij` below.
///
/// # Panics
/// If there are not n (n - 1) / 2 coefficients.
#[track_caller]
pub fn skew_matrix<T: Scalar>(bivector: &[T], n: usize) -> Mat<f64> {
    assert_eq!(bivector.len(), n * n.saturating_sub(1) / 2, "bivector coefficients for n = {n}");
    let mut skew = Mat::zeros(n, n);
    for ((i, j), b) in bivector_pairs(n).zip(bivector) {
        *skew.at_mut(i, j) = b.to_f64();
        *skew.at_mut(j, i) = -b.to_f64();
    }
    skew
}

impl Complex {
    fn identity(size: usize, times: f64) -> Self {
        let re = Mat::from_fn(size, size, |i, j| if i == j { times } else { 0.0 });
        Self { re, im: Mat::zeros(size, size) }
    }

    fn times(&self, other: &Self) -> Self {
        let (rows, cols) = (self.re.rows(), other.re.cols());
        let mut result = Self { re: Mat::zeros(rows, cols), im: Mat::zeros(rows, cols) };
        let add = |sign, a: &Mat<f64>, b: &Mat<f64>, to: &mut Mat<f64>| {
            let (a, b) = (a.view().into(), b.view().into());
            product_on_this_thread(sign, a, b, to.view_mut(), Write::Add);
        };
        add(1.0, &self.re, &other.re, &mut result.re);
        if !(self.is_real() && other.is_real()) {
            add(-1.0, &self.im, &other.im, &mut result.re);
            add(1.0, &self.re, &other.im, &mut result.im);
            add(1.0, &self.im, &other.re, &mut result.im);
        }
        result
    }

    fn is_real(&self) -> bool {
        self.im.data().iter().all(|&v| v == 0.0)
    }

    fn adjoint(&self) -> Self {
        let im = self.im.transpose();
        Self {
            re: self.re.transpose(),
            im: Mat::from_fn(im.rows(), im.cols(), |i, j| -im.at(i, j)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::basis::BladeOrder;
    use super::*;
    use crate::RngKey;
    use crate::kernels::instructions::Instructions;

    #[test]
    fn rotors_of_n_3_to_5_mod_8_are_matrices_of_quaternions() {
        if Instructions::here() == Instructions::Common {
            return;
        }
        for n in 0..=14 {
            let basis = SpinBasis::new(n, BladeOrder::Graded);
            let count = n * n.saturating_sub(1) / 2;
            let bivector: Vec<f32> = RngKey::new(n as u64).stream().normals(count, 1.0);
            for side in [Side::Left, Side::Right] {
                let rotor = basis.rotor(&bivector, side);
                let found = rotor.forms.iter().all(Form::is_of_quaternions);
                assert_eq!(found, matches!(n % 8, 3..=5), "n {n}, {side:?}");
            }
        }
    }
}
