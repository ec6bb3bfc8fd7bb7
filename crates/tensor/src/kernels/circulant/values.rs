//! Dense form of a chain with one circulant, and the magnitude of a product of many numbers.

use crate::kernels::instructions::vectorised;
use crate::{Mat, Scalar};

/// `diag(left) circ(column) diag(right)`, (n, n).
///
/// # Panics
/// If the lengths differ.
#[must_use]
#[track_caller]
pub(super) fn dense<T: Scalar>(left: &[f64], column: &[f64], right: &[f64]) -> Mat<T> {
    let n = column.len();
    assert_eq!((left.len(), right.len()), (n, n), "numbers of the diagonals");
    // Reversed and doubled, so that every row is a contiguous slice of it.
    let backwards = || column[..1].iter().chain(column[1..].iter().rev());
    let twice: Vec<f64> = backwards().chain(backwards()).copied().collect();
    let mut matrix = Mat::zeros(n, n);
    fill(matrix.data_mut(), left, &twice, right);
    matrix
}

vectorised! {
    fn fill<const FUSED: bool, T: Scalar>(to: &mut [T], left: &[f64], twice: &[f64], right: &[f64]) {
        let n = right.len();
        for (i, (to, left)) in to.chunks_exact_mut(n).zip(left).enumerate() {
            let stretch = &twice[n - i..][..n];
            for ((to, c), right) in to.iter_mut().zip(stretch).zip(right) {
                *to = T::from_f64(left * c * right);
            }
        }
    }
}

/// Natural logarithm of the absolute value of a product of finite, non-zero factors of any size.
/// Mantissas are multiplied and exponents added: one logarithm serves hundreds of factors.
#[must_use]
pub fn log_of_product(factors: impl Iterator<Item = f64>) -> f64 {
    /// Mantissas are below two: this many cannot overflow.
    const TOGETHER: u32 = 1000;
    const EXPONENT: u64 = 0x7ff << 52;
    const ONE: u64 = 1023 << 52;
    let (mut product, mut count, mut exponents, mut logarithms) = (1.0, 0, 0_i64, 0.0);
    for factor in factors {
        // Subnormal numbers have no exponent of their own.
        let small = factor.abs() < f64::MIN_POSITIVE;
        let bits = if small { factor * 2f64.powi(64) } else { factor }.to_bits();
        exponents += ((bits & EXPONENT) >> 52) as i64 - 1023 - if small { 64 } else { 0 };
        product *= f64::from_bits(bits & !EXPONENT & (u64::MAX >> 1) | ONE);
        count += 1;
        if count == TOGETHER {
            logarithms += product.ln();
            (product, count) = (1.0, 0);
        }
    }
    logarithms + product.ln() + exponents as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn logarithms_of_products_are_sums_of_logarithms() {
        let mut stream = RngKey::new(4).stream();
        for count in [0, 1, 2, 96, 999, 1000, 1001, 5000] {
            let factors: Vec<f64> =
                (0..count).map(|_| stream.normal() * 10f64.powf(40.0 * stream.normal())).collect();
            let want: f64 = factors.iter().map(|v| v.abs().ln()).sum();
            let found = log_of_product(factors.into_iter());
            assert!((found - want).abs() <= 1e-12 * (1.0 + count as f64), "{found}, {want}");
        }
        let tiny = [5e-324, -1e-310, f64::MAX];
        let want: f64 = tiny.iter().map(|v: &f64| v.abs().ln()).sum();
        assert!((log_of_product(tiny.into_iter()) - want).abs() < 1e-12);
    }

    #[test]
    fn dense_forms_are_the_definition() {
        let (left, column, right) = ([2.0, -1.0, 0.5], [1.0, 10.0, 100.0], [1.0, 3.0, -1.0]);
        let found = dense::<f64>(&left, &column, &right);
        for i in 0..3 {
            for j in 0..3 {
                assert_eq!(found.at(i, j), left[i] * column[(i + 3 - j) % 3] * right[j]);
            }
        }
    }
}
