//! Tiles of AVX-512 and AVX2.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use super::tile::{Fetch, Lines, Output, Place, Scaling, Tile};
use crate::kernels::instructions::Instructions;
use crate::kernels::transpose::x86::transpose;
use std::arch::x86_64::{
    _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps, _mm512_add_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_storeu_ps,
};

/// Numbers of the right panel fetched ahead of their use.
const AHEAD: usize = 8;
/// Rows fetched ahead of their packing: they are far apart in memory.
const LINES_AHEAD: usize = 16;
/// The lowest tile of at least `rows` rows, or the highest: of 32 registers, 28 hold the result
/// with AVX-512; of 16, 12 hold that with AVX2.
pub(super) fn tile_of(rows: usize) -> Option<Tile> {
    match Instructions::here() {
        Instructions::Avx512 => Some(avx512(rows)),
        Instructions::Avx2 => Some(avx2(rows)),
        Instructions::Common => None,
    }
}

fn avx512(rows: usize) -> Tile {
    fn of<const ROWS: usize, const HALF: usize>() -> Tile {
        const { assert!(ROWS * 32 <= Tile::MOST) }
        let (pack_left, pack_right) = (pack::<ROWS> as _, pack::<32> as _);
        let (multiply, half) = (multiply_avx512::<ROWS, ROWS>, multiply_avx512::<HALF, ROWS>);
        let multiply_fetching = multiply_fetching_avx512::<ROWS, ROWS, true>;
        Tile {
            rows: ROWS,
            cols: 32,
            pack_left,
            pack_right,
            multiply,
            multiply_half: half,
            multiply_fetching,
        }
    }
    match rows {
        ..=8 => of::<8, 4>(),
        9..=11 => of::<11, 5>(),
        12 | 13 => of::<13, 6>(),
        14.. => of::<14, 7>(),
    }
}

fn avx2(rows: usize) -> Tile {
    fn of<const ROWS: usize, const HALF: usize>() -> Tile {
        const { assert!(ROWS * 32 <= Tile::MOST) }
        let (pack_left, pack_right) = (pack::<ROWS> as _, pack::<16> as _);
        let (multiply, half) = (multiply_avx2::<ROWS, ROWS>, multiply_avx2::<HALF, ROWS>);
        let multiply_fetching = multiply_fetching_avx2::<ROWS, ROWS, true>;
        Tile {
            rows: ROWS,
            cols: 16,
            pack_left,
            pack_right,
            multiply,
            multiply_half: half,
            multiply_fetching,
        }
    }
    match rows {
        ..=4 => of::<4, 2>(),
        5 => of::<5, 2>(),
        6.. => of::<6, 3>(),
    }
}

/// A [`super::tile::Multiply`] of two registers of `$lanes` numbers a row.
macro_rules! multiply {
    ($name:ident, $fetching:ident, $features:literal, $zero:ident, $set:ident, $load:ident,
     $store:ident, $fused:ident, $times:ident, $plus:ident) => {
        /// # Safety
        /// The left panel holds `depth` times `PITCH` numbers, of which the first `ROWS` count,
        /// `right` as many rows and `into` `height` rows of two registers, at most `ROWS`; no
        /// other code has access to those of `into`.
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROWS: usize, const PITCH: usize>(
            depth: usize,
            left: *const f32,
            right: Place<*const f32>,
            into: Output,
            scaling: Scaling,
        ) {
            // SAFETY: the caller's contract.
            unsafe {
                $fetching::<ROWS, PITCH, false>(
                    depth,
                    left,
                    right,
                    into,
                    scaling,
                    Fetch { lines: std::ptr::null(), shift: 0 },
                );
            }
        }

        /// As above; with `FETCH`, there is a line for every [`Fetch::EVERY`] numbers.
        ///
        /// # Safety
        /// As above.
        #[target_feature(enable = $features)]
        #[inline]
        unsafe fn $fetching<const ROWS: usize, const PITCH: usize, const FETCH: bool>(
            depth: usize,
            mut left: *const f32,
            right: Place<*const f32>,
            Output { place: into, height }: Output,
            Scaling { alpha, add }: Scaling,
            fetch: Fetch,
        ) {
            let mut sums = [[$zero(); 2]; ROWS];
            let (mut low, mut high) = (right.at, right.at.wrapping_add(right.register));
            let ahead = AHEAD * right.row;
            // SAFETY: the caller's contract; addresses that are only fetched need not exist.
            unsafe {
                for row in 0..ROWS {
                    let to = into.at.wrapping_add(row * into.row);
                    _mm_prefetch::<_MM_HINT_T0>(to.cast());
                    _mm_prefetch::<_MM_HINT_T0>(to.wrapping_add(into.register).cast());
                }
                for number in 0..depth {
                    if FETCH && number % Fetch::EVERY == 0 {
                        let line = *fetch.lines.add(number / Fetch::EVERY);
                        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(fetch.shift).cast());
                    }
                    _mm_prefetch::<_MM_HINT_T0>(low.wrapping_add(ahead).cast());
                    _mm_prefetch::<_MM_HINT_T0>(high.wrapping_add(ahead).cast());
                    let (first, second) = ($load(low), $load(high));
                    for row in 0..ROWS {
                        let factor = $set(*left.add(row));
                        sums[row][0] = $fused(factor, first, sums[row][0]);
                        sums[row][1] = $fused(factor, second, sums[row][1]);
                    }
                    left = left.add(PITCH);
                    low = low.wrapping_add(right.row);
                    high = high.wrapping_add(right.row);
                }
                for (row, sums) in sums.into_iter().enumerate() {
                    if row >= height {
                        break;
                    }
                    for (register, sum) in sums.into_iter().enumerate() {
                        let to = into.at.add(row * into.row + register * into.register);
                        let scaled = $times($set(alpha), sum);
                        $store(to, if add { $plus($load(to), scaled) } else { scaled });
                    }
                }
            }
        }
    };
}

multiply!(
    multiply_avx512,
    multiply_fetching_avx512,
    "avx512f",
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
    multiply_fetching_avx2,
    "avx2,fma",
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
    if lines.along {
        if count < WIDTH {
            panel.fill(0.0);
        }
        transpose(lines.data, lines.stride, panel, WIDTH, count, depth);
    } else if count == WIDTH {
        for (q, group) in panel.chunks_exact_mut(WIDTH).enumerate() {
            let from = &lines.data[q * lines.stride..][..WIDTH];
            let ahead = from.as_ptr().wrapping_add(LINES_AHEAD * lines.stride);
            for line in (0..WIDTH).step_by(16) {
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line).cast());
            }
            // Register by register: so short a copy of a slice would call a function.
            let (to, rest) = group.as_chunks_mut::<8>();
            let (registers, others) = from.as_chunks::<8>();
            to.iter_mut().zip(registers).for_each(|(to, from)| *to = *from);
            rest.iter_mut().zip(others).for_each(|(to, from)| *to = *from);
        }
    } else {
        for (q, group) in panel.chunks_exact_mut(WIDTH).enumerate() {
            let (there, lacking) = group.split_at_mut(count);
            there.copy_from_slice(&lines.data[q * lines.stride..][..count]);
            lacking.fill(0.0);
        }
    }
}

/// Every tile for this machine.
#[cfg(test)]
pub(super) fn all() -> Vec<Tile> {
    let mut tiles = Vec::new();
    if Instructions::here() >= Instructions::Avx512 {
        tiles.extend([8, 11, 13, 14].map(avx512));
    }
    if Instructions::here() >= Instructions::Avx2 {
        tiles.extend([4, 5, 6].map(avx2));
    }
    tiles
}

#[cfg(test)]
mod tests {
    use super::super::blocks;
    use super::super::tests::{in_every_orientation, random};
    use super::*;

    #[test]
    fn tiles_equal_the_naive_twin() {
        for tile in all() {
            for extents in [(1, 1, 1), (14, 8, 32), (29, 600, 70), (130, 17, 48), (5, 1100, 1030)] {
                for alone in [true, false] {
                    in_every_orientation(extents, |alpha, a, b, c, write| {
                        let mut into = [(blocks::Right::of(b), c)];
                        blocks::products(tile, alpha, a, &mut into, write, alone);
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
