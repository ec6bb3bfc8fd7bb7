//! A matrix as a sum of its singular components, of which any subset may be kept.
//!
//! For W (m, n) with m >= n the right singular vectors V come from the Gram matrix `Wᵀ W` in `f64`,
//! the left ones are kept as `W V`; for m < n the other way round. The components of an index set S
//! add up to `W V_S V_Sᵀ`, a projection of W, so nothing is divided by small singular values:
//! unlike a truncated singular value decomposition, this loses no accuracy in them. From 512
//! components on, V is orthogonal to about 1e-6, as in a decomposition in `f32`: components of
//! singular values below 1e-6 of the largest are mixed with those of the largest. Singular values
//! below [`RESOLUTION`](super::RESOLUTION) of the largest are noise, as in
//! [`singular_values`](super::singular_values).
//!
//! The randomised form is that of Halko, Martinsson and Tropp (2011, algorithms 4.4 and 5.1): an
//! orthonormal basis of the image of a few random vectors under W.

use super::symmetric::eigenvectors_of_values;
use super::{NoConvergence, gram, orthonormal_columns, svd};
use crate::kernels::gemm::{Arg, Write, product};
use crate::{Mat, MatRef, RngKey};

/// `W = Σ left_i right_i`, components in descending order of their singular values.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// Singular values, descending. Those of [`Components::of`] are bit for bit those of
    /// [`singular_values`](super::singular_values), so both are interchangeable.
    pub values: Vec<f64>,
    /// (m, count). A column has the norm of its row in `right`, the root of the singular value
    /// (except for negligible values, see the module), so that neither overflows in half precision.
    pub left: Mat<f32>,
    /// (count, n).
    pub right: Mat<f32>,
}

/// How [`Components::randomised`] looks for components: in the span of `rank + oversample` random
/// directions to which W was applied `2 power + 1` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// Components that are wanted.
    pub rank: usize,
    /// Directions beyond the rank.
    pub oversample: usize,
    /// Power iterations.
    pub power: usize,
}

impl Components {
    /// All min(m, n) components of a matrix.
    ///
    /// # Errors
    /// [`NoConvergence`] if the matrix is not finite or the iteration fails.
    pub fn of(w: MatRef<'_, f32>) -> Result<Self, NoConvergence> {
        let (m, n) = (w.rows(), w.cols());
        let side = m.min(n);
        let (squares, vectors) = eigenvectors_of_values::<f32>(gram(w, None))?;
        let values = squares.iter().rev().map(|square| square.max(0.0).sqrt()).collect();
        // Eigenvalues ascend, components descend.
        let mut rows = Mat::zeros(side, side);
        for k in 0..side {
            rows.row_mut(k).copy_from_slice(vectors.row(side - 1 - k));
        }
        drop(vectors);
        let (mut left, mut right);
        if m >= n {
            left = Mat::zeros(m, side);
            let columns = Arg::Transposed(rows.view());
            product(1.0, Arg::Plain(w), columns, left.view_mut(), Write::Set);
            right = rows;
        } else {
            right = Mat::zeros(side, n);
            product(1.0, Arg::Plain(rows.view()), Arg::Plain(w), right.view_mut(), Write::Set);
            left = rows.transpose();
        }
        balance(&mut left, &mut right);
        Ok(Self { values, left, right })
    }

    /// Approximately the first components, as many as the sketch's rank.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn randomised(
        w: MatRef<'_, f32>,
        sketch: Sketch,
        key: RngKey,
    ) -> Result<Self, NoConvergence> {
        let (m, n) = (w.rows(), w.cols());
        let Sketch { rank, oversample, power } = sketch;
        let count = (rank + oversample).min(m.min(n));
        let omega = Mat::from_vec(m.min(n), count, key.stream().normals(m.min(n) * count, 1.0));
        let mut found = Self::by_sketch(w, omega.view(), power)?;
        found.truncate(rank);
        Ok(found)
    }

    /// Components of W within the image of given directions `omega` (min(m, n), count), without
    /// oversampling: reproduces the approximation of LASER's code, `do_low_rank`.
    ///
    /// # Errors
    /// As [`Self::of`].
    ///
    /// # Panics
    /// If `omega` has a wrong number of rows.
    pub fn by_sketch(
        w: MatRef<'_, f32>,
        omega: MatRef<'_, f64>,
        power: usize,
    ) -> Result<Self, NoConvergence> {
        let (m, n) = (w.rows(), w.cols());
        assert_eq!(omega.rows(), m.min(n), "rows of the random directions");
        let wide = w.to_mat().cast::<f64>();
        let tall = if m < n { wide.transpose() } else { wide };
        let times = |a: Arg<'_, f64>, b: &Mat<f64>| {
            let (Arg::Plain(view) | Arg::Transposed(view)) = a;
            let rows = if matches!(a, Arg::Plain(_)) { view.rows() } else { view.cols() };
            let mut c = Mat::zeros(rows, b.cols());
            product(1.0, a, Arg::Plain(b.view()), c.view_mut(), Write::Set);
            orthonormal_columns(c.view())
        };
        let mut basis = times(Arg::Plain(tall.view()), &omega.to_mat())?;
        for _ in 0..power {
            let other = times(Arg::Transposed(tall.view()), &basis)?;
            basis = times(Arg::Plain(tall.view()), &other)?;
        }
        let mut inside = Mat::zeros(basis.cols(), tall.cols());
        let (q, a) = (Arg::Transposed(basis.view()), Arg::Plain(tall.view()));
        product(1.0, q, a, inside.view_mut(), Write::Set);
        let small = svd(inside.view())?;
        let mut first = Mat::zeros(basis.rows(), small.u.cols());
        let (q, u) = (Arg::Plain(basis.view()), Arg::Plain(small.u.view()));
        product(1.0, q, u, first.view_mut(), Write::Set);
        // W or its transpose is `first diag(s) vt`.
        let (columns, rows) =
            if m < n { (small.vt.transpose(), first.transpose()) } else { (first, small.vt) };
        let roots: Vec<f64> = small.s.iter().map(|s| s.sqrt()).collect();
        let left = Mat::from_fn(m, roots.len(), |i, k| (columns.at(i, k) * roots[k]) as f32);
        let right = Mat::from_fn(roots.len(), n, |k, j| (rows.at(k, j) * roots[k]) as f32);
        Ok(Self { values: small.s, left, right })
    }

    /// Keeps the first components only.
    pub fn truncate(&mut self, count: usize) {
        if count < self.values.len() {
            (self.left, self.right) = self.chosen(&(0..count).collect::<Vec<_>>());
            self.values.truncate(count);
        }
    }

    /// Factors (m, k) and (k, n) of the sum of some components.
    ///
    /// # Panics
    /// If a component does not exist.
    #[must_use]
    pub fn chosen(&self, indices: &[usize]) -> (Mat<f32>, Mat<f32>) {
        let is_range = indices.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let first = indices.first().copied().unwrap_or(0);
        let mut left = Mat::zeros(self.left.rows(), indices.len());
        for i in 0..left.rows() {
            let from = self.left.row(i);
            if is_range {
                left.row_mut(i).copy_from_slice(&from[first..first + indices.len()]);
            } else {
                left.row_mut(i).iter_mut().zip(indices).for_each(|(to, k)| *to = from[*k]);
            }
        }
        let mut right = Mat::zeros(indices.len(), self.right.cols());
        for (k, index) in indices.iter().enumerate() {
            right.row_mut(k).copy_from_slice(self.right.row(*index));
        }
        (left, right)
    }
}

/// Gives each column of `left` and row of `right` the same norm.
fn balance(left: &mut Mat<f32>, right: &mut Mat<f32>) {
    let count = right.rows();
    let square = |x: f32| f64::from(x) * f64::from(x);
    let mut columns = vec![0.0f64; count];
    for i in 0..left.rows() {
        columns.iter_mut().zip(left.row(i)).for_each(|(sum, x)| *sum += square(*x));
    }
    let rows = (0..count).map(|k| right.row(k).iter().map(|x| square(*x)).sum::<f64>());
    let ratio = |(row, column): (f64, &f64)| {
        let ratio = (row / column).sqrt().sqrt();
        if ratio.is_normal() { ratio } else { 1.0 }
    };
    let ratios: Vec<f32> = rows.zip(&columns).map(|pair| ratio(pair) as f32).collect();
    for i in 0..left.rows() {
        left.row_mut(i).iter_mut().zip(&ratios).for_each(|(x, ratio)| *x *= ratio);
    }
    for (k, ratio) in ratios.iter().enumerate() {
        right.row_mut(k).iter_mut().for_each(|x| *x /= ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::singular_values;

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    fn sum(parts: (Mat<f32>, Mat<f32>)) -> Mat<f64> {
        let (left, right) = (parts.0.cast::<f64>(), parts.1.cast::<f64>());
        let mut c = Mat::zeros(left.rows(), right.cols());
        product(1.0, Arg::Plain(left.view()), Arg::Plain(right.view()), c.view_mut(), Write::Set);
        c
    }

    fn residual(w: &Mat<f32>, of: &Mat<f64>) -> f64 {
        let pairs = w.data().iter().zip(of.data());
        pairs.map(|(a, b)| (f64::from(*a) - b).powi(2)).sum()
    }

    #[test]
    fn what_is_left_out_is_the_sum_of_squares_of_the_values_left_out() {
        for (m, n) in [(40, 17), (17, 40), (24, 24), (5, 1), (1, 5)] {
            let w = random(m, n, 1);
            let all = Components::of(w.view()).unwrap();
            let side = m.min(n);
            let exact = singular_values(w.view()).unwrap();
            for (found, exact) in all.values.iter().zip(&exact) {
                assert!((found - exact).abs() < 1e-6 * exact.max(1.0), "{m} x {n}");
            }
            assert_eq!(all.values, exact, "{m} x {n}: the same bits");
            for keep in [0, 1, side / 2, side] {
                let indices: Vec<usize> = (0..keep).collect();
                let found = residual(&w, &sum(all.chosen(&indices)));
                let wanted: f64 = exact[keep..].iter().map(|s| s * s).sum();
                assert!(
                    (found - wanted).abs() < 1e-4 * wanted.max(1e-4),
                    "{m} x {n}, {keep}: {found} {wanted}"
                );
                // The others are what is missing.
                let others: Vec<usize> = (keep..side).collect();
                let (kept, rest) = (sum(all.chosen(&indices)), sum(all.chosen(&others)));
                let both = Mat::from_fn(m, n, |i, j| kept.at(i, j) + rest.at(i, j));
                assert!(residual(&w, &both) < 1e-8, "{m} x {n}, {keep}");
            }
        }
    }

    #[test]
    fn many_components_are_as_exact_as_in_single_precision() {
        // Values fall from 1 to 1e-4.
        let side = 512;
        for (m, n) in [(600, side), (side, 600)] {
            let w = random(m, n, 8);
            let first = Components::of(w.view()).unwrap();
            let scale = |k: usize| (1e-4f64).powf(k as f64 / side as f64) / first.values[k];
            let scaled = Mat::from_fn(side, n, |k, j| first.right.at(k, j) * scale(k) as f32);
            let mut w = Mat::zeros(m, n);
            product(
                1.0,
                Arg::Plain(first.left.view()),
                Arg::Plain(scaled.view()),
                w.view_mut(),
                Write::Set,
            );
            let all = Components::of(w.view()).unwrap();
            assert_eq!(all.values, singular_values(w.view()).unwrap(), "{m} x {n}: the same bits");
            for keep in [1, side / 2, side] {
                let indices: Vec<usize> = (0..keep).collect();
                let found = residual(&w, &sum(all.chosen(&indices)));
                let wanted: f64 = all.values[keep..].iter().map(|s| s * s).sum();
                assert!(
                    (found - wanted).abs() < 1e-5 * wanted + 1e-8,
                    "{m} x {n}, {keep}: {found}"
                );
            }
            for (k, value) in all.values.iter().enumerate() {
                let row: f64 = all.right.row(k).iter().map(|x| f64::from(*x).powi(2)).sum();
                assert!((row / value - 1.0).abs() < 1e-3, "{m} x {n}, {k}: {row} {value}");
            }
            let with = |threads| {
                crate::parallel::with_threads(threads, || Components::of(w.view()).unwrap())
                    .unwrap()
            };
            assert_eq!(with(1), with(3), "{m} x {n}");
        }
    }

    #[test]
    fn a_matrix_of_low_rank_or_of_zeros_has_finite_components() {
        let (u, v) = (random(30, 3, 1), random(3, 20, 2));
        let w = Mat::from_fn(30, 20, |i, j| (0..3).map(|k| u.at(i, k) * v.at(k, j)).sum());
        let all = Components::of(w.view()).unwrap();
        assert!(residual(&w, &sum(all.chosen(&[0, 1, 2]))) < 1e-8);
        assert!(all.left.data().iter().chain(all.right.data()).all(|x| x.is_finite()));
        let zeros = Components::of(Mat::zeros(4, 6).view()).unwrap();
        assert_eq!(zeros.values, [0.0; 4]);
        assert!(sum(zeros.chosen(&[0, 3])).data().iter().all(|x| *x == 0.0));
        assert!(Components::of(Mat::from_fn(3, 3, |_, _| f32::NAN).view()).is_err());
    }

    #[test]
    fn columns_and_rows_have_the_root_of_the_value_as_length() {
        for (m, n) in [(30, 20), (20, 30)] {
            let all = Components::of(random(m, n, 5).view()).unwrap();
            for (k, value) in all.values.iter().enumerate() {
                let column: f32 = (0..m).map(|i| all.left.at(i, k).powi(2)).sum();
                let row: f32 = all.right.row(k).iter().map(|x| x * x).sum();
                assert!((f64::from(column) - value).abs() < 1e-4 * value, "{column} {value}");
                assert!((f64::from(row) - value).abs() < 1e-4 * value, "{row} {value}");
            }
        }
    }

    #[test]
    fn random_directions_come_close_and_are_those_of_their_key() {
        // A spectrum that falls, as trained weights have it.
        let (u, v) = (random(60, 60, 1), random(60, 45, 2));
        let w = Mat::from_fn(60, 45, |i, j| {
            (0..60).map(|k| u.at(i, k) * v.at(k, j) / (1 + k * k) as f32).sum()
        });
        for w in [w.clone(), w.transpose()] {
            let exact = Components::of(w.view()).unwrap();
            let key = RngKey::new(7);
            let sketch = Sketch { rank: 6, oversample: 8, power: 2 };
            let found = Components::randomised(w.view(), sketch, key).unwrap();
            assert_eq!(found.values.len(), 6);
            let indices: Vec<usize> = (0..6).collect();
            let best = residual(&w, &sum(exact.chosen(&indices)));
            let here = residual(&w, &sum(found.chosen(&indices)));
            assert!(here <= 1.0001 * best && here >= best * (1.0 - 1e-4), "{here} {best}");
            assert_eq!(found, Components::randomised(w.view(), sketch, key).unwrap());
        }
    }
}
