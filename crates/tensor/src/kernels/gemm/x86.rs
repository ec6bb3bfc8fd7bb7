//! Tiles of AVX-512 and AVX2.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use super::tile::{Lines, Tile};
use crate::kernels::instructions::Instructions;
use std::arch::x86_64::{
    _CMP_LT_OQ, _MM_HINT_T0, _mm_prefetch, _mm256_add_ps, _mm256_castps_si256, _mm256_cmp_ps,
    _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskstore_ps, _mm256_mul_ps,
    _mm256_permute2f128_ps, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps,
    _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm512_add_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_storeu_ps,
};

/// Numbers of the right panel fetched ahead of their use.
const AHEAD: usize = 8;
/// Side of a square that is transposed in registers.
const SQUARE: usize = 8;
/// Numbers of a line packed before the next lines' turn: a few cache lines of each.
const STRETCH: usize = 64;

/// The best tile that this machine can run. Of 32 registers, 28 hold the result of AVX-512's; of
/// 16, 12 hold that of AVX2's.
pub(super) fn tile() -> Option<Tile> {
    match Instructions::here() {
        Instructions::Avx512 => Some(avx512()),
        Instructions::Avx2 => Some(avx2()),
        Instructions::Common => None,
    }
}

fn avx512() -> Tile {
    Tile {
        rows: 14,
        cols: 32,
        pack_left: pack::<14>,
        pack_right: pack::<32>,
        multiply: multiply_avx512,
    }
}

fn avx2() -> Tile {
    Tile {
        rows: 6,
        cols: 16,
        pack_left: pack::<6>,
        pack_right: pack::<16>,
        multiply: multiply_avx2,
    }
}

/// A [`super::tile::Multiply`] of `$rows` rows and two registers of `$lanes` numbers.
macro_rules! multiply {
    ($name:ident, $features:literal, $rows:literal, $lanes:literal, $zero:ident, $set:ident,
     $load:ident, $store:ident, $fused:ident, $times:ident, $plus:ident) => {
        /// # Safety
        /// The panels hold `depth` times the tile's rows and columns, `into` a tile of rows
        /// `stride` apart, to which nobody else has access.
        #[target_feature(enable = $features)]
        unsafe fn $name(
            depth: usize,
            mut left: *const f32,
            mut right: *const f32,
            (into, stride): (*mut f32, usize),
            alpha: f32,
            add: bool,
        ) {
            let mut sums = [[$zero(); 2]; $rows];
            // SAFETY: the caller's contract; addresses that are only fetched need not exist.
            unsafe {
                for row in 0..$rows {
                    _mm_prefetch::<_MM_HINT_T0>(into.add(row * stride).cast());
                    _mm_prefetch::<_MM_HINT_T0>(into.add(row * stride + $lanes).cast());
                }
                for _ in 0..depth {
                    let ahead = right.wrapping_add(AHEAD * 2 * $lanes);
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add($lanes).cast());
                    let (low, high) = ($load(right), $load(right.add($lanes)));
                    for row in 0..$rows {
                        let factor = $set(*left.add(row));
                        sums[row][0] = $fused(factor, low, sums[row][0]);
                        sums[row][1] = $fused(factor, high, sums[row][1]);
                    }
                    left = left.add($rows);
                    right = right.add(2 * $lanes);
                }
                for row in 0..$rows {
                    for half in 0..2 {
                        let to = into.add(row * stride + half * $lanes);
                        let scaled = $times($set(alpha), sums[row][half]);
                        $store(to, if add { $plus($load(to), scaled) } else { scaled });
                    }
                }
            }
        }
    };
}

multiply!(
    multiply_avx512,
    "avx512f",
    14,
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_mul_ps,
    _mm512_add_ps
);

multiply!(
    multiply_avx2,
    "avx2,fma",
    6,
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_mul_ps,
    _mm256_add_ps
);

/// A [`super::tile::Pack`] of panels of `WIDTH` lines.
#[target_feature(enable = "avx")]
fn pack<const WIDTH: usize>(lines: Lines<'_>, count: usize, depth: usize, panel: &mut [f32]) {
    let panel = &mut panel[..depth * WIDTH];
    if count < WIDTH {
        for (q, group) in panel.chunks_exact_mut(WIDTH).enumerate() {
            for (line, number) in group.iter_mut().enumerate() {
                *number = if line < count { lines.at(line, q) } else { 0.0 };
            }
        }
    } else if lines.along {
        transpose::<WIDTH>(lines, depth, panel);
    } else {
        for (q, group) in panel.chunks_exact_mut(WIDTH).enumerate() {
            group.copy_from_slice(&lines.data[q * lines.stride..][..WIDTH]);
        }
    }
}

/// [`pack`] of `WIDTH` lines whose numbers stand side by side.
#[target_feature(enable = "avx")]
fn transpose<const WIDTH: usize>(lines: Lines<'_>, depth: usize, panel: &mut [f32]) {
    assert!(lines.data.len() >= (WIDTH - 1) * lines.stride + depth, "lines out of bounds");
    assert_eq!(panel.len(), depth * WIDTH, "numbers of a panel");
    let whole = depth - depth % SQUARE;
    for start in (0..whole).step_by(STRETCH) {
        for first in (0..WIDTH).step_by(SQUARE) {
            let height = SQUARE.min(WIDTH - first);
            for q in (start..whole.min(start + STRETCH)).step_by(SQUARE) {
                // SAFETY: numbers `q` to `q + SQUARE` of lines `first` to `first + height` exist by
                // the first assertion, and their places in the panel by the second.
                unsafe {
                    let from = lines.data.as_ptr().add(first * lines.stride + q);
                    let to = panel.as_mut_ptr().add(q * WIDTH + first);
                    transpose_square((from, lines.stride), height, (to, WIDTH));
                }
            }
        }
    }
    for q in whole..depth {
        for line in 0..WIDTH {
            panel[q * WIDTH + line] = lines.at(line, q);
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

#[cfg(test)]
mod tests {
    use super::super::blocks;
    use super::super::tests::{in_every_orientation, random};
    use super::*;

    #[test]
    fn both_tiles_equal_the_naive_twin() {
        let mut tiles = Vec::new();
        if Instructions::here() >= Instructions::Avx512 {
            tiles.push(avx512());
        }
        if Instructions::here() >= Instructions::Avx2 {
            tiles.push(avx2());
        }
        for tile in tiles {
            for extents in [(1, 1, 1), (14, 8, 32), (29, 600, 70), (130, 17, 48), (5, 1100, 1030)] {
                for alone in [true, false] {
                    in_every_orientation(extents, |alpha, a, b, c, write| {
                        blocks::product(tile, alpha, (a, b), (c, write), alone);
                    });
                }
            }
        }
    }

    #[test]
    fn panels_hold_lines_side_by_side() {
        if Instructions::here() == Instructions::Common {
            return;
        }
        for (count, depth) in [(14, 19), (14, 64), (14, 130), (9, 5)] {
            let (rows, columns) = (random(count, depth, 1), random(depth, count, 2));
            for (lines, from) in [
                (Lines { data: rows.data(), stride: depth, along: true }, &rows),
                (Lines { data: columns.data(), stride: count, along: false }, &columns.transpose()),
            ] {
                let mut panel = vec![7.0; depth * 14];
                // SAFETY: AVX is there.
                unsafe { pack::<14>(lines, count, depth, &mut panel) };
                for (place, number) in panel.iter().enumerate() {
                    let (q, line) = (place / 14, place % 14);
                    assert_eq!(*number, if line < count { from.at(line, q) } else { 0.0 });
                }
            }
        }
    }
}
