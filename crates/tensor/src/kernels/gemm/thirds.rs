//! Products in single precision of factors that are packed as [sums of three numbers](super::amx).
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

use super::amx::{DEPTH, LINES, Registers, Side, pack, words, words_of_lines};
use super::blocks::lines_of_left;
use super::tile::Lines;
use super::{Arg, Write};
use crate::{MatMut, MatRef, Scratch};
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

pub(super) use super::amx::is_here;

/// Columns that are written together.
pub(super) const COLS: usize = 2 * LINES;
/// Depth of a panel: those of columns that are written together stay in the nearest cache, half of
/// which they fill.
const PANEL: usize = 4 * DEPTH;
/// Words of a cache line.
const LINE: usize = 16;

/// Words that start at a cache line.
#[derive(Clone, Debug)]
pub(super) struct Words {
    data: Vec<u32>,
    start: usize,
}

impl Words {
    fn new(len: usize) -> Self {
        let data = vec![0; len + LINE];
        let start = data.as_ptr().align_offset(4 * LINE).min(LINE);
        Self { data, start }
    }

    fn of(&self, len: usize) -> &[u32] {
        &self.data[self.start..][..len]
    }
}

/// Words of a right factor of this many columns.
fn words_of_right(cols: usize, depth: usize) -> usize {
    words(cols.next_multiple_of(COLS), depth)
}

/// Packs lines of a factor into the same part of the words of each sixteen.
fn pack_lines(
    side: Side,
    lines: Lines<'_>,
    [count, depth]: [usize; 2],
    (words, size, first): (&mut [u32], usize, usize),
) {
    for (band, to) in words.chunks_exact_mut(size).enumerate() {
        let to = &mut to[first..][..words_of_lines(depth)];
        match count.saturating_sub(band * LINES) {
            0 => to.fill(0),
            rest => pack(side, lines.skip(band * LINES, 0), LINES.min(rest), depth, to),
        }
    }
}

/// The lines of a right factor: its columns.
fn lines_of_right(factor: Arg<'_, f32>) -> Lines<'_> {
    lines_of_left(factor.transposed())
}

/// A right factor (depth, cols) that is packed for many products.
#[derive(Clone, Debug)]
pub(super) struct Thirds {
    depth: usize,
    cols: usize,
    words: Words,
}

impl Thirds {
    /// Packs a factor.
    ///
    /// # Panics
    /// On machines without tiles.
    pub(super) fn new(factor: Arg<'_, f32>) -> Self {
        factor.check();
        let (depth, cols) = (factor.rows(), factor.cols());
        let len = words_of_right(cols, depth);
        let mut words = Words::new(len);
        let start = words.start;
        let to = (&mut words.data[start..][..len], words_of_lines(depth), 0);
        pack_lines(Side::Right, lines_of_right(factor), [cols, depth], to);
        Self { depth, cols, words }
    }

    /// Multiplies every one of `groups` column blocks of `x` (rows, groups · depth) with the factor
    /// into the same block of `y` (rows, groups · cols).
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(super) fn apply(&self, groups: usize, x: MatRef<'_, f32>, y: MatMut<'_, f32>) {
        let (rows, depth, cols) = (x.rows(), self.depth, self.cols);
        Arg::Plain(x).check();
        let bands: Vec<Band> = (0..rows.div_ceil(LINES) * groups)
            .map(|band| {
                let (row, group) = (band / groups * LINES, band % groups);
                Band { row, col: group * cols, height: LINES.min(rows - row) }
            })
            .collect();
        let (size, panel) = (words_of_lines(depth), words_of_lines(PANEL.min(depth)));
        let mut left = Scratch::<f32>::new(bands.len() * panel);
        let left: &mut [u32] = bytemuck::cast_slice_mut(&mut left);
        let lines = lines_of_left(Arg::Plain(x));
        let right = self.words.of(words_of_right(cols, depth));
        let mut y = y;
        for first in (0..depth).step_by(PANEL) {
            let deep = PANEL.min(depth - first);
            let words = words_of_lines(deep);
            let left = &mut left[..bands.len() * words];
            for ((index, band), to) in bands.iter().enumerate().zip(left.chunks_exact_mut(words)) {
                let lines = lines.skip(band.row, index % groups * depth + first);
                pack(Side::Left, lines, band.height, deep, to);
            }
            let right = Strips { words: right, size, first: words_of_lines(first), cols };
            let write = if first == 0 { Write::Set } else { Write::Add };
            multiply(words, (&bands, left), right, y.reborrow(), write);
        }
    }
}

/// `c = Σ_k a_k b_k` or `c += Σ_k a_k b_k`, on the calling thread.
///
/// # Panics
/// If the shapes do not match, or on machines without tiles.
pub(super) fn sum_of_products(factors: &[[Arg<'_, f32>; 2]], c: MatMut<'_, f32>, write: Write) {
    let (rows, cols) = (c.rows(), c.cols());
    // Each starts at a whole tile of depth.
    let depths = factors.iter().map(|[a, _]| words_of_lines(a.cols()));
    let size: usize = depths.clone().sum();
    let bands: Vec<Band> = (0..rows.div_ceil(LINES))
        .map(|band| Band { row: band * LINES, col: 0, height: LINES.min(rows - band * LINES) })
        .collect();
    let numbers = [bands.len() * size, cols.next_multiple_of(COLS) / LINES * size];
    let [mut left, mut right] = numbers.map(Scratch::<f32>::new);
    let left: &mut [u32] = bytemuck::cast_slice_mut(&mut left);
    let right: &mut [u32] = bytemuck::cast_slice_mut(&mut right);
    let mut first = 0;
    for ([a, b], words) in factors.iter().zip(depths) {
        let (of_a, of_b) = (lines_of_left(*a), lines_of_right(*b));
        pack_lines(Side::Left, of_a, [rows, a.cols()], (&mut *left, size, first));
        pack_lines(Side::Right, of_b, [cols, b.rows()], (&mut *right, size, first));
        first += words;
    }
    let right = Strips { words: right, size, first: 0, cols };
    multiply(size, (&bands, left), right, c, write);
}

/// Up to sixteen rows of a result.
#[derive(Clone, Copy, Debug)]
struct Band {
    row: usize,
    col: usize,
    height: usize,
}

/// Prefetches the lines of two tiles that will be written.
fn fetch(corner: *const f32, stride: usize) {
    for line in 0..LINES {
        for half in [0, LINES] {
            // SAFETY: fetching reads no memory; any address is allowed.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(corner.wrapping_add(line * stride + half).cast());
            }
        }
    }
}

/// Packed columns of a right factor, sixteen after the other, each of `size` words.
#[derive(Clone, Copy, Debug)]
struct Strips<'a> {
    words: &'a [u32],
    size: usize,
    /// The first word that counts.
    first: usize,
    cols: usize,
}

/// Multiplies packed bands of a left factor, of `words` words each, with as many words of all
/// columns of a packed right one: columns that are written together stay in the nearest cache.
fn multiply(
    words: usize,
    (bands, left): (&[Band], &[u32]),
    right: Strips<'_>,
    mut y: MatMut<'_, f32>,
    write: Write,
) {
    let Strips { size, first, cols, .. } = right;
    assert!(first + words <= size, "words of columns");
    let stride = y.stride();
    assert!(left.len() >= bands.len() * words, "packed bands");
    let end = |band: &Band| (band.row + band.height - 1) * stride + band.col + cols;
    let to = y.data_mut();
    assert!(bands.iter().all(|band| end(band) <= to.len()), "view out of bounds");
    let registers = Registers::new();
    // For incomplete tiles.
    let mut aside = [[0.0; LINES * COLS]; 2];
    for (pair, right) in right.words.chunks_exact(2 * size).enumerate() {
        let right = &right[first..];
        let width = COLS.min(cols - pair * COLS);
        let corner = |band: &Band| band.row * stride + band.col + pair * COLS;
        for (bands, left) in bands.chunks(2).zip(left.chunks(2 * words)) {
            let whole = width == COLS && bands.iter().all(|band| band.height == LINES);
            let (mut at, mut row) = (aside.each_mut().map(|aside| aside.as_mut_ptr()), COLS);
            if whole {
                let start = to.as_mut_ptr();
                at = [0, bands.len() - 1].map(|k| start.wrapping_add(corner(&bands[k])));
                row = stride;
                at.iter().for_each(|at| fetch(*at, row));
            } else if write == Write::Add {
                for (aside, band) in aside.iter_mut().zip(bands) {
                    let from = to[corner(band)..].chunks(stride).take(band.height);
                    for (aside, from) in aside.chunks_exact_mut(COLS).zip(from) {
                        aside[..width].copy_from_slice(&from[..width]);
                    }
                }
            }
            let add = write == Write::Add;
            // SAFETY: bands and columns have as many words; a corner is that of whole tiles within
            // the result, or of memory of its own, which they fit.
            unsafe {
                let (start, right) = (left.as_ptr(), [right.as_ptr(), right.as_ptr().add(size)]);
                match bands.len() {
                    1 => registers.multiply(words, [start], right, ([at[0]], row), add),
                    _ => {
                        let both = [start, start.add(words)];
                        registers.multiply(words, both, right, (at, row), add);
                    }
                }
            }
            if !whole {
                for (aside, band) in aside.iter().zip(bands) {
                    let into = to[corner(band)..].chunks_mut(stride).take(band.height);
                    for (into, aside) in into.zip(aside.chunks_exact(COLS)) {
                        into[..width].copy_from_slice(&aside[..width]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;
    use crate::Mat;

    /// Sums in double precision, and those of absolute values.
    fn by_definition(a: &Mat<f32>, b: &Mat<f32>) -> [Mat<f64>; 2] {
        [|x: f64| x, f64::abs].map(|of| {
            Mat::from_fn(a.rows(), b.cols(), |i, j| {
                let term = |k| of(f64::from(a.at(i, k)) * f64::from(b.at(k, j)));
                (0..a.cols()).map(term).sum()
            })
        })
    }

    /// Largest error by the sum of absolute values, in units of the last place of a number.
    fn error(found: &Mat<f32>, [want, size]: &[Mat<f64>; 2]) -> f64 {
        let mut most = 0.0_f64;
        for ((found, want), size) in found.data().iter().zip(want.data()).zip(size.data()) {
            most = most.max((f64::from(*found) - want).abs() / size.max(1e-30));
        }
        most / f64::from(f32::EPSILON)
    }

    const SHAPES: [[usize; 3]; 6] =
        [[1, 1, 1], [16, 32, 32], [17, 33, 31], [40, 128, 70], [3, 300, 96], [64, 64, 64]];

    #[test]
    fn products_are_those_of_single_precision_in_every_orientation() {
        if !is_here() {
            return;
        }
        for [rows, depth, cols] in SHAPES {
            let (a, b): (Mat<f32>, Mat<f32>) = (random(rows, depth, 1), random(depth, cols, 2));
            let want = by_definition(&a, &b);
            let turned = [a.transpose(), b.transpose()];
            let lefts = [Arg::Plain(a.view()), Arg::Transposed(turned[0].view())];
            let rights = [Arg::Plain(b.view()), Arg::Transposed(turned[1].view())];
            for (left, right) in lefts.into_iter().flat_map(|l| rights.map(|r| (l, r))) {
                let mut c = Mat::zeros(rows, cols);
                sum_of_products(&[[left, right]], c.view_mut(), Write::Set);
                assert!(
                    error(&c, &want) < 4.0,
                    "{} at {rows} x {depth} x {cols}",
                    error(&c, &want)
                );
            }
        }
    }

    #[test]
    fn products_of_different_depths_are_added_to_what_is_there() {
        if !is_here() {
            return;
        }
        let (rows, cols) = (21, 40);
        let factors: Vec<[Mat<f32>; 2]> = [5, 64]
            .into_iter()
            .map(|depth| [random(rows, depth, 3), random(depth, cols, 4)])
            .collect();
        let args: Vec<_> =
            factors.iter().map(|pair| pair.each_ref().map(|m| m.view().into())).collect();
        let before: Mat<f32> = random(rows, cols, 5);
        let mut found = before.clone();
        sum_of_products(&args, found.view_mut(), Write::Add);
        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
            let products = factors.iter().map(|[a, b]| by_definition(a, b)[0].at(i, j));
            let want = f64::from(before.at(i, j)) + products.sum::<f64>();
            assert!((f64::from(found.at(i, j)) - want).abs() < 1e-5, "{} {want}", found.at(i, j));
        }
    }

    #[test]
    fn numbers_that_are_not_finite_give_none() {
        if !is_here() {
            return;
        }
        for number in [f32::INFINITY, f32::NAN, f32::from_bits(0x7fff_ffff), f32::MAX] {
            let (a, b) = (Mat::from_fn(1, 1, |_, _| number), Mat::from_fn(1, 1, |_, _| 1.0));
            let mut c = Mat::zeros(1, 1);
            sum_of_products(&[[a.view().into(), b.view().into()]], c.view_mut(), Write::Set);
            assert!(c.at(0, 0).is_nan(), "{number} gives {}", c.at(0, 0));
        }
    }
}
