//! Determinants by Gaussian elimination with pivoting.

use super::to_faer;
use crate::MatRef;

/// `log|det A|` and the sign of `det A`: minus infinity and zero for a singular matrix, NaN if the
/// matrix has one.
///
/// # Panics
/// If the matrix is not square.
#[must_use]
pub fn log_abs_det(a: MatRef<'_, f64>) -> (f64, f64) {
    assert_eq!(a.rows(), a.cols(), "a determinant is that of a square matrix");
    let lu = to_faer(a).partial_piv_lu();
    let (upper, (order, _)) = (lu.U(), lu.P().arrays());
    let mut sign = 1.0;
    let mut seen = vec![false; order.len()];
    for start in 0..order.len() {
        // Each cycle of even length flips the sign.
        let mut place = start;
        while !seen[place] {
            seen[place] = true;
            place = order[place];
            if place != start {
                sign = -sign;
            }
        }
    }
    let mut log_abs = 0.0;
    for k in 0..a.rows() {
        let pivot = upper[(k, k)];
        if pivot == 0.0 {
            // The following pivots would be divided by zero.
            return (f64::NEG_INFINITY, 0.0);
        }
        log_abs += pivot.abs().ln();
        sign *= pivot.signum();
    }
    (log_abs, sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    /// Laplace expansion along the first row.
    fn expanded(a: &Mat<f64>) -> f64 {
        let n = a.rows();
        if n == 0 {
            return 1.0;
        }
        let minor = |k: usize| {
            expanded(&Mat::from_fn(n - 1, n - 1, |i, j| a.at(i + 1, j + usize::from(j >= k))))
        };
        (0..n).map(|k| a.at(0, k) * minor(k) * if k % 2 == 0 { 1.0 } else { -1.0 }).sum()
    }

    #[test]
    fn determinants_are_those_of_the_expansion() {
        for n in 0..7 {
            let mut stream = RngKey::new(n).stream();
            for _ in 0..8 {
                let a = Mat::from_fn(n as usize, n as usize, |_, _| stream.normal());
                let ((log_abs, sign), det) = (log_abs_det(a.view()), expanded(&a));
                assert!((sign * log_abs.exp() - det).abs() < 1e-12 * (1.0 + det.abs()), "{a:?}");
            }
        }
    }

    #[test]
    fn permutations_singular_matrices_and_nan() {
        let shift = |n: usize| Mat::from_fn(n, n, |i, j| f64::from(u8::from(i == (j + 1) % n)));
        assert_eq!(log_abs_det(shift(4).view()), (0.0, -1.0));
        assert_eq!(log_abs_det(shift(5).view()), (0.0, 1.0));
        assert_eq!(log_abs_det(Mat::zeros(3, 3).view()), (f64::NEG_INFINITY, 0.0));
        assert!(log_abs_det(Mat::from_fn(2, 2, |_, _| f64::NAN).view()).0.is_nan());
    }
}
