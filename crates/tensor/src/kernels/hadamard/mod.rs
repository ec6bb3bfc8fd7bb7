//! The unnormalised Walsh-Hadamard transform `H`, `H[i, j] = (-1)^popcount(i & j)`.
//!
//! `H` is symmetric and `H H = size · 1`, so the transform is its own gradient and, divided by the
//! size, its own inverse.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::{MatMut, Scalar, parallel};

/// Transforms every row in place.
///
/// # Panics
/// If the number of columns is not a power of two.
#[track_caller]
pub fn rows<T: Scalar>(x: MatMut<'_, T>) {
    assert!(x.cols().is_power_of_two(), "{} columns", x.cols());
    parallel::for_each(x.row_blocks(parallel::ROW_BLOCK), |_, mut block| {
        for i in 0..block.rows() {
            let row = block.row_mut(i);
            #[cfg(target_arch = "x86_64")]
            if x86::row(row) {
                continue;
            }
            columns(row, 1);
        }
    });
}

/// Transforms `width` interleaved vectors in place: number `k` of vector `b` is
/// `data[k * width + b]`.
///
/// # Panics
/// If the vectors' length is not a power of two.
#[track_caller]
pub fn columns<T: Scalar>(data: &mut [T], width: usize) {
    if data.is_empty() {
        return;
    }
    let size = data.len() / width;
    assert!(
        size.is_power_of_two() && size * width == data.len(),
        "vectors of length {size} in {} numbers",
        data.len()
    );
    #[cfg(target_arch = "x86_64")]
    if x86::columns(data, width) {
        return;
    }
    let mut half = width;
    while half < data.len() {
        for pair in data.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// Transforms `width` interleaved vectors of `size` numbers in place; number `k` of vector `b` is
/// `data[place(k) * width + b]`. Three levels are fused in registers.
///
/// # Panics
/// If `size` is not a power of two, or two places are equal.
#[inline(always)]
pub(super) fn scattered<T: Scalar>(
    data: &mut [T],
    width: usize,
    size: usize,
    place: impl Fn(usize) -> usize,
) {
    assert!(size.is_power_of_two(), "vectors of length {size}");
    let mut step = 1;
    while step < size {
        let radix = (size / step).min(8);
        for first in (0..size).filter(|k| k / step % radix == 0) {
            let range = |k: usize| {
                let start = place(first + k * step) * width;
                start..start + width
            };
            let distinct = "places of a transform are distinct";
            match radix {
                8 => {
                    let ranges = std::array::from_fn(range);
                    let [a, b, c, d, e, f, g, h] = data.get_disjoint_mut(ranges).expect(distinct);
                    butterfly_8([a, b, c, d], [e, f, g, h]);
                }
                4 => {
                    let ranges = std::array::from_fn(range);
                    let [a, b, c, d] = data.get_disjoint_mut(ranges).expect(distinct);
                    butterfly_4(a, b, c, d);
                }
                _ => {
                    let [a, b] = data.get_disjoint_mut([range(0), range(1)]).expect(distinct);
                    butterfly_2(a, b);
                }
            }
        }
        step *= radix;
    }
}

#[inline(always)]
fn butterfly_2<T: Scalar>(a: &mut [T], b: &mut [T]) {
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (*a + *b, *a - *b);
    }
}

#[inline(always)]
fn butterfly_4<T: Scalar>(a: &mut [T], b: &mut [T], c: &mut [T], d: &mut [T]) {
    let len = a.len();
    let (b, c, d) = (&mut b[..len], &mut c[..len], &mut d[..len]);
    for k in 0..len {
        let (s, t) = (a[k] + b[k], a[k] - b[k]);
        let (u, v) = (c[k] + d[k], c[k] - d[k]);
        (a[k], b[k], c[k], d[k]) = (s + u, t + v, s - u, t - v);
    }
}

#[inline(always)]
fn butterfly_8<T: Scalar>(low: [&mut [T]; 4], high: [&mut [T]; 4]) {
    let len = low[0].len();
    let [a, b, c, d] = low.map(|vector| &mut vector[..len]);
    let [e, f, g, h] = high.map(|vector| &mut vector[..len]);
    for k in 0..len {
        let (a1, b1, c1, d1) = (a[k] + b[k], a[k] - b[k], c[k] + d[k], c[k] - d[k]);
        let (e1, f1, g1, h1) = (e[k] + f[k], e[k] - f[k], g[k] + h[k], g[k] - h[k]);
        let (a2, b2, c2, d2) = (a1 + c1, b1 + d1, a1 - c1, b1 - d1);
        let (e2, f2, g2, h2) = (e1 + g1, f1 + h1, e1 - g1, f1 - h1);
        (a[k], b[k], c[k], d[k]) = (a2 + e2, b2 + f2, c2 + g2, d2 + h2);
        (e[k], f[k], g[k], h[k]) = (a2 - e2, b2 - f2, c2 - g2, d2 - h2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn agrees_with_the_definition_for_rows_and_for_interleaved_vectors() {
        let mut stream = RngKey::new(3).stream();
        for size in [1usize, 2, 4, 8, 16, 32, 64] {
            let x: Mat<f64> = Mat::from_fn(5, size, |_, _| stream.normal());
            let want = Mat::from_fn(5, size, |r, i| {
                let sign = |j: usize| {
                    if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
                };
                (0..size).map(|j| sign(j) * x.at(r, j)).sum::<f64>()
            });
            let (mut by_rows, mut by_columns) = (x.clone(), x.transpose());
            rows(by_rows.view_mut());
            // Number k of the scattered vectors is at index size - 1 - k.
            let mut scattered_x = Mat::from_fn(size, 5, |k, r| x.at(r, size - 1 - k));
            scattered(scattered_x.data_mut(), 5, size, |k| size - 1 - k);
            for (k, want) in want.transpose().data().iter().enumerate() {
                let found = scattered_x.at(size - 1 - k / 5, k % 5);
                assert!((found - want).abs() < 1e-12, "size {size}, number {k}");
            }
            columns(by_columns.data_mut(), 5);
            for (k, want) in want.data().iter().enumerate() {
                assert!((by_rows.data()[k] - want).abs() < 1e-12);
                assert!((by_columns.transpose().data()[k] - want).abs() < 1e-12);
            }
        }
    }
}
