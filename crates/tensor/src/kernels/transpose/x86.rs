//! Transposition of square tiles in registers of AVX-512 and AVX.
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
/// Bytes of a cache line.
const LINE: usize = 64;
/// Side of a square in registers of AVX.
const SQUARE: usize = 8;
/// Columns transposed before the next rows: a few cache lines of each.
const STRETCH: usize = 64;

/// Writes the transpose of `from` (rows, cols) to `to` (cols, rows), each with its row stride.
///
/// # Panics
/// If the slices do not hold the matrices.
#[target_feature(enable = "avx")]
pub(in crate::kernels) fn transpose(
    from: &[f32],
    from_stride: usize,
    to: &mut [f32],
    to_stride: usize,
    rows: usize,
    cols: usize,
) {
    if rows * cols == 0 {
        return;
    }
    assert!(from.len() >= (rows - 1) * from_stride + cols, "matrix out of bounds");
    assert!(to.len() >= (cols - 1) * to_stride + rows, "transpose out of bounds");
    if Instructions::here() >= Instructions::Avx512 && rows.min(cols) >= LARGE {
        // SAFETY: this machine has the instructions; the matrices are in bounds.
        return unsafe { in_large(from, from_stride, to, to_stride, rows, cols) };
    }
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
                    transpose_square(from, from_stride, height, to, to_stride);
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

/// [`transpose`] of at least [`LARGE`] rows and columns.
///
/// # Safety
/// The slices hold the matrices.
#[target_feature(enable = "avx512f")]
unsafe fn in_large(
    from: &[f32],
    from_stride: usize,
    to: &mut [f32],
    to_stride: usize,
    rows: usize,
    cols: usize,
) {
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    // SAFETY: squares lie within both matrices.
    let square = |row: usize, col: usize| unsafe {
        let from = from.add(row * from_stride + col);
        transpose_large(from, from_stride, to.add(col * to_stride + row), to_stride);
    };
    // The longer side is the inner loop, so that few rows are active at a time.
    if cols >= rows {
        let lead = from.align_offset(LINE);
        for row in starts(rows, 0) {
            starts(cols, lead).for_each(|col| square(row, col));
        }
    } else {
        let lead = to.align_offset(LINE);
        for col in starts(cols, 0) {
            starts(rows, lead).for_each(|row| square(row, col));
        }
    }
}

/// Starts of squares that cover `count` numbers: aligned to cache lines, the first of them `lead`
/// numbers from the start, and at both ends. Those at the ends overlap others and write the same
/// values.
fn starts(count: usize, lead: usize) -> impl Iterator<Item = usize> {
    let last = count - LARGE;
    let lead = if lead < LARGE { lead } else { 0 };
    let aligned = (lead..last + 1).step_by(LARGE);
    let covered = if aligned.len() > 0 { lead + aligned.len() * LARGE } else { LARGE };
    let first = (lead > 0).then_some(0);
    first.into_iter().chain(aligned).chain((covered < count).then_some(last))
}

/// Transposes [`LARGE`] rows of equal length: whole cache lines are read and written.
///
/// # Safety
/// `from` and `to` are valid for such a square at their strides.
#[target_feature(enable = "avx512f")]
unsafe fn transpose_large(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    // SAFETY: the caller's contract.
    let rows: [__m512; LARGE] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_ps(from.add(i * from_stride)) });
    // Exchanges pairs of rows, then fours, then twice quarters of registers.
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
    from: *const f32,
    from_stride: usize,
    height: usize,
    to: *mut f32,
    to_stride: usize,
) {
    let mut rows = [_mm256_setzero_ps(); SQUARE];
    for (i, row) in rows.iter_mut().enumerate().take(height) {
        // SAFETY: the caller's contract.
        *row = unsafe { _mm256_loadu_ps(from.add(i * from_stride)) };
    }
    // Exchanges pairs of rows, then fours, then halves of registers.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_cover_everything_and_nothing_else() {
        for (count, lead) in (LARGE..100).flat_map(|count| (0..=LARGE).map(move |l| (count, l))) {
            let mut covered = vec![false; count];
            for start in starts(count, lead) {
                covered[start..start + LARGE].fill(true);
            }
            assert!(covered.iter().all(|&covered| covered), "{count} numbers, {lead} ahead");
        }
    }
}
