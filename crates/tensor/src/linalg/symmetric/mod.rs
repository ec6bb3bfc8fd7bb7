//! Eigenvalues and eigenvectors of symmetric matrices.
//!
//! A large matrix is reduced to a band ([`band`]), the band to a tridiagonal matrix
//! ([`tridiagonal`]). Eigenvalues alone come from QL iteration; eigenvalues with eigenvectors from
//! divide and conquer ([`divide`]) and back-transformation ([`back`]). Bits do not depend on the
//! number of threads: work items are fixed by the shape, and each is computed by one thread.
//!
//! Accuracy: values have an error of a small multiple of `ε` times the largest, ε = 1.1e-16.
//! Orthogonality of vectors and residual `A q - w q`, relative to the largest value, are about
//! 1e-14 in `f64` and 1e-6 in `f32` (measured up to 4096 rows).
//!
//! Cost: 2/3 n³ multiply-adds for the band, 6 n² 32 for the tridiagonal matrix, up to 4/3 n³ for
//! its vectors, fewer with deflation, and 2 n³ for the back-transformation. Memory: up to about
//! five matrices of n² numbers, in the last merge.

mod back;
mod band;
mod divide;
mod reflection;
mod tridiagonal;

use super::{NoConvergence, to_faer};
use crate::{Mat, MatRef, Scalar};
pub(super) use band::BLOCK;
use tridiagonal::Tridiagonal;

/// Matrices with fewer rows than this, per byte of a scalar, are passed to the library: it keeps
/// them in cache and moves each number once. Measured with one and two threads.
const SIDE_PER_BYTE: usize = 128;

/// `A = Q diag(w) Qᵀ`, eigenvalues ascending.
#[derive(Clone, Debug)]
pub struct Eigh {
    /// Eigenvalues, ascending.
    pub values: Vec<f64>,
    /// Eigenvectors as columns, (n, n).
    pub vectors: Mat<f64>,
}

/// Eigendecomposition of a symmetric matrix; only the lower triangle is read. From 1024 rows on it
/// uses all threads.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
///
/// # Panics
/// If the matrix is not square.
#[track_caller]
pub fn eigh(a: MatRef<'_, f64>) -> Result<Eigh, NoConvergence> {
    let (values, rows) = eigenvectors::<f64>(a.to_mat())?;
    Ok(Eigh { values, vectors: rows.transpose() })
}

/// All eigenvalues, descending, and the eigenvectors of the largest.
#[derive(Clone, Debug)]
pub struct Leading {
    /// All eigenvalues, descending.
    pub values: Vec<f64>,
    /// Eigenvectors of the first values as rows.
    pub rows: Mat<f64>,
}

/// As [`eigh`], with the vectors of the `count` largest eigenvalues alone: the back-transformation
/// costs 2 n² for each.
///
/// # Errors
/// As [`eigh`].
///
/// # Panics
/// If the matrix is not square.
#[track_caller]
pub fn eigh_leading(mut a: Mat<f64>, count: usize) -> Result<Leading, NoConvergence> {
    let n = a.rows();
    let count = count.min(n);
    if count == 0 {
        return Ok(Leading { values: eigenvalues(a)?, rows: Mat::zeros(0, n) });
    }
    let Some(scale) = scale(&mut a)? else {
        let rows = Mat::from_fn(count, n, |i, j| if i == j { 1.0 } else { 0.0 });
        return Ok(Leading { values: vec![0.0; n], rows });
    };
    let (mut values, rows) = if is_small::<f64>(n) {
        let Eigh { mut values, vectors } = whole(a.view())?;
        values.reverse();
        (values, Mat::from_fn(count, n, |i, j| vectors.at(j, n - 1 - i)))
    } else {
        let (mut values, rows) = by_band::<f64>(a, count, &mut |_| Ok(()))?;
        values.reverse();
        (values, Mat::from_fn(count, n, |i, j| rows.at(count - 1 - i, j)))
    };
    values.iter_mut().for_each(|value| *value /= scale);
    Ok(Leading { values, rows })
}

/// Eigenvalues of a symmetric matrix, ascending, and its eigenvectors as rows. Only the lower
/// triangle is read; the memory is overwritten. The vectors are orthogonal to the accuracy of T.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
///
/// # Panics
/// If the matrix is not square.
#[track_caller]
fn eigenvectors<T: Scalar>(mut a: Mat<f64>) -> Result<(Vec<f64>, Mat<T>), NoConvergence> {
    let n = a.rows();
    let Some(scale) = scale(&mut a)? else {
        return Ok((vec![0.0; n], Mat::identity(n)));
    };
    let (mut values, rows) = if is_small::<T>(n) {
        let Eigh { values, vectors } = whole(a.view())?;
        (values, vectors.transpose().cast())
    } else {
        by_band(a, n, &mut |_| Ok(()))?
    };
    values.iter_mut().for_each(|value| *value /= scale);
    Ok((values, rows))
}

/// As [`eigenvectors`], with the bits that [`eigenvalues`] returns for the values, in ascending
/// order: they belong to the vectors within the accuracy of either.
///
/// # Errors
/// As [`eigenvectors`].
///
/// # Panics
/// If the matrix is not square.
#[track_caller]
pub(super) fn eigenvectors_of_values<T: Scalar>(
    mut a: Mat<f64>,
) -> Result<(Vec<f64>, Mat<T>), NoConvergence> {
    let n = a.rows();
    let Some(scale) = scale(&mut a)? else {
        return Ok((vec![0.0; n], Mat::identity(n)));
    };
    let (mut values, rows) = if is_small::<T>(n) {
        let vectors = whole(a.view())?.vectors;
        let tridiagonal = band::to_band(a, None).into_tridiagonal(None);
        (tridiagonal::eigenvalues(tridiagonal)?, vectors.transpose().cast())
    } else {
        // Recomputing them from the tridiagonal matrix takes only n² steps.
        let mut values = Vec::new();
        let rows = by_band(a, n, &mut |tridiagonal| {
            values = tridiagonal::eigenvalues(tridiagonal.clone())?;
            Ok(())
        })?
        .1;
        (values, rows)
    };
    values.iter_mut().for_each(|value| *value /= scale);
    values.sort_by(f64::total_cmp);
    Ok((values, rows))
}

/// Whether the library decomposes a matrix of n rows.
fn is_small<T>(n: usize) -> bool {
    n < SIDE_PER_BYTE * size_of::<T>()
}

/// The same for a matrix whose largest entry is near one, with the vectors of the `count` largest
/// values; `look` sees the tridiagonal matrix. The last steps of the vectors run in T.
fn by_band<T: Scalar>(
    a: Mat<f64>,
    count: usize,
    look: &mut dyn FnMut(&Tridiagonal) -> Result<(), NoConvergence>,
) -> Result<(Vec<f64>, Mat<T>), NoConvergence> {
    let n = a.rows();
    let (mut panels, mut sweeps) = (Vec::new(), Vec::new());
    let tridiagonal = band::to_band(a, Some(&mut panels)).into_tridiagonal(Some(&mut sweeps));
    look(&tridiagonal)?;
    let divide::Parts { values, order, vectors } = divide::eigenvectors::<T>(tridiagonal)?;
    let mut rows = Mat::zeros(count, n);
    for (to, from) in order[n - count..].iter().enumerate() {
        rows.row_mut(to).copy_from_slice(vectors.row(*from));
    }
    drop(vectors);
    back::carry(&mut rows, sweeps, panels);
    Ok((values, rows))
}

/// Eigenvalues of a symmetric matrix, descending. Only the lower triangle is read; the memory is
/// overwritten.
///
/// Their error is a small multiple of `ε` times the largest.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
///
/// # Panics
/// If the matrix is not square.
#[track_caller]
pub fn eigenvalues(mut a: Mat<f64>) -> Result<Vec<f64>, NoConvergence> {
    let Some(scale) = scale(&mut a)? else {
        return Ok(vec![0.0; a.rows()]);
    };
    let tridiagonal = band::to_band(a, None).into_tridiagonal(None);
    let mut values = tridiagonal::eigenvalues(tridiagonal)?;
    values.iter_mut().for_each(|value| *value /= scale);
    values.sort_by(|a, b| b.total_cmp(a));
    Ok(values)
}

/// Scales the largest entry of the lower triangle to about one, and returns the factor; none if all
/// are zero.
#[track_caller]
fn scale(a: &mut Mat<f64>) -> Result<Option<f64>, NoConvergence> {
    assert_eq!(a.rows(), a.cols(), "a symmetric matrix is square");
    let mut largest = 0.0f64;
    for i in 0..a.rows() {
        for value in &a.row(i)[..=i] {
            if !value.is_finite() {
                return Err(NoConvergence);
            }
            largest = largest.max(value.abs());
        }
    }
    if largest == 0.0 {
        return Ok(None);
    }
    // A power of two scales without rounding, and keeps all squares below in range. The inverse of
    // a subnormal number may overflow.
    let scale = (-largest.log2().floor()).min(1022.0).exp2();
    for i in 0..a.rows() {
        a.row_mut(i)[..=i].iter_mut().for_each(|value| *value *= scale);
    }
    Ok(Some(scale))
}

/// [`eigh`] by the library, on one thread.
fn whole(a: MatRef<'_, f64>) -> Result<Eigh, NoConvergence> {
    let eigen = to_faer(a).self_adjoint_eigen(faer::Side::Lower).map_err(|_| NoConvergence)?;
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    Ok(Eigh {
        values: (0..values.nrows()).map(|i| values[i]).collect(),
        vectors: Mat::from_fn(vectors.nrows(), vectors.ncols(), |i, j| vectors[(i, j)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::gemm::{Arg, Write, product};
    use crate::{RngKey, parallel};

    fn random(n: usize, seed: u64) -> Mat<f64> {
        let raw: Vec<f64> = RngKey::new(seed).stream().normals(n * n, 1.0);
        Mat::from_fn(n, n, |i, j| raw[i.max(j) * n + i.min(j)])
    }

    fn times(a: &Mat<f64>, b: Arg<'_, f64>) -> Mat<f64> {
        let mut c = Mat::zeros(a.rows(), a.rows());
        product(1.0, Arg::Plain(a.view()), b, c.view_mut(), Write::Set);
        c
    }

    /// Largest departure from `Q Qᵀ = 1` and from `A Qᵀ = Qᵀ diag(w)`, with eigenvectors as rows.
    fn errors<T: Scalar>(a: &Mat<f64>, values: &[f64], rows: &Mat<T>) -> (f64, f64) {
        let rows: Mat<f64> = rows.cast();
        let n = a.rows();
        let inner = times(&rows, Arg::Transposed(rows.view()));
        let image = times(&rows, Arg::Plain(a.view()));
        let mut worst = (0.0f64, 0.0f64);
        for (k, value) in values.iter().enumerate() {
            for j in 0..n {
                let one = if k == j { 1.0 } else { 0.0 };
                worst.0 = worst.0.max((inner.at(k, j) - one).abs());
                worst.1 = worst.1.max((image.at(k, j) - value * rows.at(k, j)).abs());
            }
        }
        worst
    }

    fn check(a: &Mat<f64>, what: &str) {
        let n = a.rows();
        let largest = a.data().iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let lower = Mat::from_fn(n, n, |i, j| if j <= i { a.at(i, j) } else { f64::NAN });
        let expected = whole(a.view()).unwrap().values;
        let (values, rows) = by_band::<f64>(lower.clone(), n, &mut |_| Ok(())).unwrap();
        for (found, expected) in values.iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= 1e-13 * largest * n as f64,
                "{what}: {found} {expected}"
            );
        }
        let (orthogonal, equation) = errors(a, &values, &rows);
        assert!(orthogonal < 1e-13 * (n as f64).sqrt().max(10.0), "{what}: {orthogonal}");
        assert!(equation <= 1e-14 * largest * n.max(10) as f64, "{what}: {equation} {largest}");
        let (same, short) = by_band::<f32>(lower, n, &mut |_| Ok(())).unwrap();
        assert_eq!(same, values, "{what}");
        let (orthogonal, equation) = errors(a, &values, &short);
        assert!(orthogonal < 3e-6, "{what}: {orthogonal}");
        assert!(equation <= 2e-6 * largest * (n as f64).sqrt(), "{what}: {equation} {largest}");
    }

    #[test]
    fn eigenvectors_are_orthogonal_and_belong_to_their_values_at_every_side() {
        for n in
            [1, 2, 3, 5, 31, 32, 33, 34, 63, 64, 65, 66, 67, 96, 97, 98, 129, 200, 257, 300, 513]
        {
            check(&random(n, n as u64), &format!("{n}"));
        }
    }

    #[test]
    fn equal_and_close_values_and_zeros_have_orthogonal_vectors() {
        let n = 150;
        let basis = whole(random(n, 3).view()).unwrap().vectors;
        let with = |value: &dyn Fn(usize) -> f64| {
            let scaled = Mat::from_fn(n, n, |i, k| basis.at(i, k) * value(k));
            times(&scaled, Arg::Transposed(basis.view()))
        };
        check(&Mat::identity(n), "one");
        check(&Mat::from_fn(n, n, |i, j| if i == j { i as f64 } else { 0.0 }), "diagonal");
        check(&Mat::from_fn(n, n, |_, _| 1.0), "ones");
        check(&with(&|_| 1.0), "an identity with rounding");
        check(&with(&|k| if k < 5 { 1.0 + k as f64 } else { 0.0 }), "low rank");
        check(&with(&|k| 1.0 + 1e-14 * k as f64), "close");
        check(&with(&|k| (-(k as f64)).exp2()), "falling by halves");
        check(&with(&|k| (k % 3) as f64), "three values");
        // Wilkinson's matrices, joined: pairs of values equal to many digits, in an unreduced
        // matrix.
        let wilkinson = Mat::from_fn(n, n, |i, j| match i.abs_diff(j) {
            0 => ((i % 25) as f64 - 12.0).abs(),
            1 => {
                if i.max(j) % 25 == 0 {
                    1e-9
                } else {
                    1.0
                }
            }
            _ => 0.0,
        });
        check(&wilkinson, "Wilkinson");
        check(&random(n, 1).cast::<f32>().cast::<f64>(), "single precision");
    }

    #[test]
    fn either_way_and_at_any_scale_the_decomposition_is_that_of_the_matrix() {
        for n in [40, SIDE_PER_BYTE * size_of::<f32>()] {
            for size in [1e-300, 1e-30, 1.0, 1e30, 1e300] {
                let a = random(n, 9);
                let a = Mat::from_fn(n, n, |i, j| a.at(i, j) * size);
                let (values, rows) = eigenvectors::<f32>(a.clone()).unwrap();
                let largest = values[n - 1].abs().max(values[0].abs());
                assert!(largest > 5.0 * size, "{n} {size:e}: {largest:e}");
                let unit = Mat::from_fn(n, n, |i, j| a.at(i, j) / size);
                let unit_values: Vec<f64> = values.iter().map(|value| value / size).collect();
                let (orthogonal, equation) = errors(&unit, &unit_values, &rows);
                assert!(
                    orthogonal < 3e-6 && equation < 1e-4,
                    "{n} {size:e}: {orthogonal} {equation}"
                );
                let falling = eigenvalues(a).unwrap();
                for (one, other) in values.iter().rev().zip(&falling) {
                    assert!((one - other).abs() < 1e-12 * largest, "{n} {size:e}: {one} {other}");
                }
            }
        }
    }

    #[test]
    fn large_matrices_are_read_below_the_diagonal_only() {
        let n = SIDE_PER_BYTE * size_of::<f64>();
        let a = random(n, 4);
        let lower = Mat::from_fn(n, n, |i, j| if j <= i { a.at(i, j) } else { f64::NAN });
        let Eigh { values, vectors } = eigh(lower.view()).unwrap();
        let (orthogonal, equation) = errors(&a, &values, &vectors.transpose());
        assert!(orthogonal < 1e-13 && equation < 1e-11, "{orthogonal} {equation}");
    }

    #[test]
    fn the_leading_vectors_are_those_of_the_whole() {
        for n in [40, SIDE_PER_BYTE * size_of::<f64>()] {
            let a = random(n, 6);
            let whole = eigh(a.view()).unwrap();
            for count in [0, 1, 7, n, n + 1] {
                let Leading { values, rows } = eigh_leading(a.clone(), count).unwrap();
                assert_eq!((rows.rows(), rows.cols()), (count.min(n), n));
                let close = |(x, y): (&f64, &f64)| (x - y).abs() < 1e-12 * n as f64;
                assert!(values.iter().zip(whole.values.iter().rev()).all(close), "{n} {count}");
                for i in 0..rows.rows() {
                    let other = |j: usize| whole.vectors.at(j, n - 1 - i);
                    let inner: f64 = (0..n).map(|j| rows.at(i, j) * other(j)).sum();
                    assert!((inner.abs() - 1.0).abs() < 1e-9, "{n} {count} {i}: {inner}");
                }
            }
        }
        assert_eq!(eigh_leading(Mat::zeros(3, 3), 2).unwrap().values, vec![0.0; 3]);
    }

    #[test]
    fn numbers_that_are_not_normal() {
        for size in [5e-324, 1e-310, 1e-308] {
            for n in [1, 40] {
                let a = Mat::from_fn(n, n, |i, j| if i == j { size } else { 0.0 });
                assert_eq!(eigh(a.view()).unwrap().values, vec![size; n], "{size:e} {n}");
                assert_eq!(eigenvalues(a).unwrap(), vec![size; n], "{size:e} {n}");
            }
        }
    }

    #[test]
    fn nothing_zeros_and_what_is_not_finite() {
        assert!(eigh(Mat::zeros(0, 0).view()).unwrap().values.is_empty());
        let zeros = eigh(Mat::zeros(3, 3).view()).unwrap();
        assert_eq!((zeros.values, zeros.vectors), (vec![0.0; 3], Mat::identity(3)));
        for bad in [f64::NAN, f64::INFINITY] {
            let mut a = random(40, 1);
            *a.at_mut(20, 3) = bad;
            assert!(eigh(a.view()).is_err());
        }
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        let a = random(333, 5);
        let with = |threads| {
            let both = || {
                (
                    by_band::<f32>(a.clone(), 333, &mut |_| Ok(())).unwrap(),
                    by_band::<f64>(a.clone(), 333, &mut |_| Ok(())).unwrap(),
                )
            };
            parallel::with_threads(threads, both).unwrap()
        };
        assert_eq!(with(1), with(3));
    }
}
