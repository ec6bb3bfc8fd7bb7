//! Cholesky factor of a symmetric positive definite matrix, and solutions with it.

use super::{NotPositiveDefinite, to_faer};
use crate::{Mat, MatRef};
use faer::Par;
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};

/// `A = L Lᵀ` with L lower triangular.
#[derive(Clone, Debug)]
pub struct Cholesky {
    lower: faer::Mat<f64>,
}

impl Cholesky {
    /// Decomposes A (n, n), of which only the lower triangle is read.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`], also if a number is not finite.
    ///
    /// # Panics
    /// If the matrix is not square.
    #[track_caller]
    pub fn of(a: MatRef<'_, f64>) -> Result<Self, NotPositiveDefinite> {
        assert_eq!(a.rows(), a.cols(), "a symmetric matrix is square");
        let found = to_faer(a).llt(faer::Side::Lower).map_err(|_| NotPositiveDefinite)?;
        let lower = found.L().to_owned();
        let is_good = |i: usize| lower[(i, i)].is_finite() && lower[(i, i)] > 0.0;
        if (0..a.rows()).all(is_good) { Ok(Self { lower }) } else { Err(NotPositiveDefinite) }
    }

    /// L (n, n), with zeros above the diagonal.
    #[must_use]
    pub fn lower(&self) -> Mat<f64> {
        let n = self.lower.nrows();
        Mat::from_fn(n, n, |i, j| if j <= i { self.lower[(i, j)] } else { 0.0 })
    }

    /// The smallest number on the diagonal of L over the largest: zero for a matrix that is nearly
    /// singular. The condition number of A is at least its inverse square.
    #[must_use]
    pub fn evenness(&self) -> f64 {
        let diagonal = (0..self.lower.nrows()).map(|i| self.lower[(i, i)]);
        let (least, most) =
            diagonal.fold((f64::INFINITY, 0.0f64), |(least, most), x| (least.min(x), most.max(x)));
        if most > 0.0 { least / most } else { 1.0 }
    }

    /// `L⁻¹ B`.
    ///
    /// # Panics
    /// If B does not have n rows.
    #[must_use]
    #[track_caller]
    pub fn solve_lower(&self, b: MatRef<'_, f64>) -> Mat<f64> {
        assert_eq!(b.rows(), self.lower.nrows(), "rows of a right side");
        let mut x = to_faer(b);
        solve_lower_triangular_in_place(self.lower.as_ref(), x.as_mut(), Par::Seq);
        Mat::from_fn(b.rows(), b.cols(), |i, j| x[(i, j)])
    }

    /// `L⁻ᵀ B`.
    ///
    /// # Panics
    /// If B does not have n rows.
    #[must_use]
    #[track_caller]
    pub fn solve_upper(&self, b: MatRef<'_, f64>) -> Mat<f64> {
        assert_eq!(b.rows(), self.lower.nrows(), "rows of a right side");
        let mut x = to_faer(b);
        solve_upper_triangular_in_place(self.lower.transpose(), x.as_mut(), Par::Seq);
        Mat::from_fn(b.rows(), b.cols(), |i, j| x[(i, j)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;
    use crate::kernels::gemm::{Arg, Write, product};

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f64> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    fn times(a: Arg<'_, f64>, b: Arg<'_, f64>, (rows, cols): (usize, usize)) -> Mat<f64> {
        let mut c = Mat::zeros(rows, cols);
        product(1.0, a, b, c.view_mut(), Write::Set);
        c
    }

    #[test]
    fn the_factor_multiplies_back_and_solves_from_both_sides() {
        for n in [1, 7, 40] {
            let (x, b) = (random(n + 5, n, 1), random(n, 3, 2));
            let a = times(Arg::Transposed(x.view()), x.view().into(), (n, n));
            let found = Cholesky::of(a.view()).expect("is positive definite");
            let lower = found.lower();
            let back = times(lower.view().into(), Arg::Transposed(lower.view()), (n, n));
            assert!(back.data().iter().zip(a.data()).all(|(p, q)| (p - q).abs() < 1e-10));
            assert!((0..n).all(|i| lower.row(i)[i + 1..].iter().all(|x| *x == 0.0)));
            let cases = [
                (found.solve_lower(b.view()), Arg::Plain(lower.view())),
                (found.solve_upper(b.view()), Arg::Transposed(lower.view())),
            ];
            for (solved, left) in cases {
                let back = times(left, solved.view().into(), (n, 3));
                assert!(back.data().iter().zip(b.data()).all(|(p, q)| (p - q).abs() < 1e-9));
            }
            let evenness = found.evenness();
            assert!(evenness > 0.0 && evenness <= 1.0, "{evenness}");
        }
    }

    #[test]
    fn matrices_that_are_not_positive_definite_are_refused() {
        let bad = [
            Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 2.0 }),
            Mat::from_fn(2, 2, |_, _| f64::NAN),
            Mat::from_fn(2, 2, |i, j| if i == j { f64::INFINITY } else { 0.0 }),
            Mat::zeros(3, 3),
        ];
        for a in bad {
            assert_eq!(Cholesky::of(a.view()).err(), Some(NotPositiveDefinite), "{a:?}");
        }
    }
}
