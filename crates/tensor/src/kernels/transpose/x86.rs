//! Squares transposed in registers of AVX.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use std::arch::x86_64::{
    _CMP_LT_OQ, _mm256_castps_si256, _mm256_cmp_ps, _mm256_cvtepi32_ps, _mm256_loadu_ps,
    _mm256_maskstore_ps, _mm256_permute2f128_ps, _mm256_set1_ps, _mm256_setr_epi32,
    _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

/// Side of a square.
const SQUARE: usize = 8;
/// Columns transposed before the next rows' turn: a few cache lines of each.
const STRETCH: usize = 64;

/// Writes the transpose of `from` (rows, cols) to `to` (cols, rows), each with its row stride.
///
/// # Panics
/// If the slices do not hold the matrices.
#[target_feature(enable = "avx")]
pub(in crate::kernels) fn transpose(
    (from, from_stride): (&[f32], usize),
    (to, to_stride): (&mut [f32], usize),
    rows: usize,
    cols: usize,
) {
    if rows * cols == 0 {
        return;
    }
    assert!(from.len() >= (rows - 1) * from_stride + cols, "matrix out of bounds");
    assert!(to.len() >= (cols - 1) * to_stride + rows, "transpose out of bounds");
    let whole = cols - cols % SQUARE;
    for start in (0..whole).step_by(STRETCH) {
        for first in (0..rows).step_by(SQUARE) {
            let height = SQUARE.min(rows - first);
            for col in (start..whole.min(start + STRETCH)).step_by(SQUARE) {
                // SAFETY: numbers `col` to `col + SQUARE` of rows `first` to `first + height` exist
                // by the first assertion, and their places by the second.
                unsafe {
                    let from = from.as_ptr().add(first * from_stride + col);
                    let to = to.as_mut_ptr().add(col * to_stride + first);
                    transpose_square((from, from_stride), height, (to, to_stride));
                }
            }
        }
    }
    for col in whole..cols {
        for row in 0..rows {
            to[col * to_stride + row] = from[row * from_stride + col];
        }
    }
}

/// Transposes `height` rows, at most [`SQUARE`], of [`SQUARE`] numbers each.
///
/// # Safety
/// `from` is valid for those rows, `to` for [`SQUARE`] rows of `height` numbers, at their strides.
#[target_feature(enable = "avx")]
unsafe fn transpose_square(
    (from, from_stride): (*const f32, usize),
    height: usize,
    (to, to_stride): (*mut f32, usize),
) {
    let mut rows = [_mm256_setzero_ps(); SQUARE];
    for (i, row) in rows.iter_mut().enumerate().take(height) {
        // SAFETY: the caller's contract.
        *row = unsafe { _mm256_loadu_ps(from.add(i * from_stride)) };
    }
    // Pairs of rows, then fours, then halves of registers change places.
    let mut pairs = [_mm256_setzero_ps(); SQUARE];
    for i in 0..SQUARE / 2 {
        pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    let mut fours = [_mm256_setzero_ps(); SQUARE];
    for i in [0, 4] {
        for j in [0, 1] {
            let (a, b) = (pairs[i + j], pairs[i + j + 2]);
            fours[i + 2 * j] = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
            fours[i + 2 * j + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
        }
    }
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mask = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(
        _mm256_cvtepi32_ps(lanes),
        _mm256_set1_ps(height as f32),
    ));
    for i in 0..SQUARE {
        let (a, b) = (fours[i % 4], fours[i % 4 + 4]);
        let column = if i < 4 {
            _mm256_permute2f128_ps::<0x20>(a, b)
        } else {
            _mm256_permute2f128_ps::<0x31>(a, b)
        };
        // SAFETY: the caller's contract; the mask leaves out numbers from `height` on.
        unsafe {
            if height == SQUARE {
                _mm256_storeu_ps(to.add(i * to_stride), column);
            } else {
                _mm256_maskstore_ps(to.add(i * to_stride), mask, column);
            }
        }
    }
}
