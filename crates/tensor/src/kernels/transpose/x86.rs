//! Squares transposed in registers of AVX-512 and AVX.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use crate::kernels::instructions::Instructions;
use std::arch::x86_64::{
    __m512, __m512d, _CMP_LT_OQ, _mm256_castps_si256, _mm256_cmp_ps, _mm256_cvtepi32_ps,
    _mm256_loadu_ps, _mm256_maskstore_ps, _mm256_permute2f128_ps, _mm256_set1_ps,
    _mm256_setr_epi32, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
    _mm256_unpacklo_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_shuffle_f32x4,
    _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd,
    _mm512_unpacklo_ps,
};

/// Side of a square in registers of AVX-512.
const LARGE: usize = 16;
/// Side of a square in registers of AVX.
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
    let mut done = 0;
    if Instructions::here() >= Instructions::Avx512 && rows.is_multiple_of(LARGE) {
        done = cols - cols % LARGE;
        for (first, col) in (0..rows)
            .step_by(LARGE)
            .flat_map(|first| (0..done).step_by(LARGE).map(move |col| (first, col)))
        {
            // SAFETY: this machine has the instructions; the square lies within both matrices by
            // the assertions.
            unsafe {
                let from = from.as_ptr().add(first * from_stride + col);
                let to = to.as_mut_ptr().add(col * to_stride + first);
                transpose_large((from, from_stride), (to, to_stride));
            }
        }
    }
    let whole = cols - cols % SQUARE;
    for start in (done..whole).step_by(STRETCH) {
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

/// Transposes [`LARGE`] rows of as many numbers: whole cache lines are read and written.
///
/// # Safety
/// `from` and `to` are valid for such a square at their strides.
#[target_feature(enable = "avx512f")]
unsafe fn transpose_large(
    (from, from_stride): (*const f32, usize),
    (to, to_stride): (*mut f32, usize),
) {
    // SAFETY: the caller's contract.
    let rows: [__m512; LARGE] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_ps(from.add(i * from_stride)) });
    // Pairs of rows, then fours; quarters of registers then change places twice.
    let pairs: [__m512d; LARGE] = std::array::from_fn(|i| {
        let (a, b) = (rows[i & !1], rows[i | 1]);
        _mm512_castps_pd(if i & 1 == 0 {
            _mm512_unpacklo_ps(a, b)
        } else {
            _mm512_unpackhi_ps(a, b)
        })
    });
    let fours: [__m512; LARGE] = std::array::from_fn(|i| {
        let (a, b) = (pairs[(i & !3) + i / 2 % 2], pairs[(i & !3) + i / 2 % 2 + 2]);
        _mm512_castpd_ps(if i & 1 == 0 {
            _mm512_unpacklo_pd(a, b)
        } else {
            _mm512_unpackhi_pd(a, b)
        })
    });
    for c in 0..4 {
        let low_even = _mm512_shuffle_f32x4::<0b10_00_10_00>(fours[c], fours[4 + c]);
        let low_odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(fours[c], fours[4 + c]);
        let high_even = _mm512_shuffle_f32x4::<0b10_00_10_00>(fours[8 + c], fours[12 + c]);
        let high_odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(fours[8 + c], fours[12 + c]);
        let columns = [
            _mm512_shuffle_f32x4::<0b10_00_10_00>(low_even, high_even),
            _mm512_shuffle_f32x4::<0b10_00_10_00>(low_odd, high_odd),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(low_even, high_even),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(low_odd, high_odd),
        ];
        for (quarter, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller's contract.
            unsafe { _mm512_storeu_ps(to.add((4 * quarter + c) * to_stride), column) };
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
