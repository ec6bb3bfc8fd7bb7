//! Sums over a batch of products of columns, `Σ a bᵀ`, for columns that lie in runs.
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

use super::panels::Columns;
use super::tile::{Lines, Place, Tile};
use super::{Arg, Write, product_on_this_thread};
use crate::{Mat, MatRef, Scalar, Scratch};
use std::any::TypeId;

/// From this side on, packing is paid for by what tiles save.
const WIDE: usize = 64;

/// Adds `A Bᵀ` to `sums` (rows, rows): entry (i, k) is the sum over all columns of number i of `a`
/// times number k of `b`, which lie alike.
///
/// # Panics
/// If the columns reach beyond `a` or `b`, or `sums` is not square.
pub(in crate::kernels) fn add_products<T: Scalar>(
    (a, b): (&[T], &[T]),
    columns: Columns,
    sums: &mut Mat<T>,
) {
    let side = sums.rows();
    assert_eq!(side, sums.cols(), "a matrix of sums is square");
    let Columns { groups, run, group, row } = columns;
    let end = groups.saturating_sub(1) * group + side * row;
    assert!(a.len() >= end && b.len() >= end, "columns out of bounds");
    let single = TypeId::of::<T>() == TypeId::of::<f32>();
    if let Some(tile) = Tile::for_rows(side).filter(|_| single) {
        let factors = (bytemuck::cast_slice(a), bytemuck::cast_slice(b));
        let sums = (bytemuck::cast_slice_mut(sums.data_mut()), side);
        #[cfg(target_arch = "x86_64")]
        if side < WIDE && super::dots::add_products(factors, columns, (&mut *sums.0, side)) {
            return;
        }
        return in_tiles(tile, factors, columns, sums);
    }
    for k in 0..groups {
        let [a, b] = [a, b]
            .map(|data| MatRef::new(&data[k * group..][..side * row], side, row).columns(0, run));
        product_on_this_thread(T::ONE, a.into(), Arg::Transposed(b), sums.view_mut(), Write::Add);
    }
}

fn in_tiles(
    tile: Tile,
    (a, b): (&[f32], &[f32]),
    columns: Columns,
    (sums, side): (&mut [f32], usize),
) {
    let depth = columns.groups * columns.run;
    let right = packed((tile, tile.cols), b, columns, side);
    let left = packed((tile, tile.rows), a, columns, side);
    let mut product = Scratch::new(tile.rows * tile.cols);
    for (i, left) in left.chunks_exact(tile.rows * depth).enumerate() {
        for (j, right) in right.chunks_exact(tile.cols * depth).enumerate() {
            let from = Place { at: right.as_ptr(), row: tile.cols, register: tile.cols / 2 };
            let at = product.as_mut_ptr();
            let into = Place { at, row: tile.cols, register: tile.cols / 2 };
            // SAFETY: both panels hold `depth` groups of numbers and `product` a whole tile.
            unsafe {
                (tile.multiply)(depth, left.as_ptr(), from, into, tile.rows, (1.0, false));
            }
            let (first, column) = (i * tile.rows, j * tile.cols);
            let rows = sums.chunks_exact_mut(side).skip(first).zip(product.chunks_exact(tile.cols));
            for (sums, product) in rows.take(tile.rows) {
                sums[column..].iter_mut().zip(product).for_each(|(sum, &number)| *sum += number);
            }
        }
    }
}

/// Panels of `width` lines each, a number of every line side by side.
fn packed(
    (tile, width): (Tile, usize),
    data: &[f32],
    columns: Columns,
    side: usize,
) -> Scratch<f32> {
    let Columns { groups, run, group, row } = columns;
    let pack = if width == tile.cols { tile.pack_right } else { tile.pack_left };
    let mut panels = Scratch::new(side.next_multiple_of(width) * groups * run);
    for (k, panel) in panels.chunks_exact_mut(width * groups * run).enumerate() {
        let first = k * width;
        for (g, part) in panel.chunks_exact_mut(width * run).enumerate() {
            let data = &data[g * group + first * row..];
            let lines = Lines { data, stride: row, along: true };
            // SAFETY: the tile is one of this machine's.
            unsafe { pack(lines, width.min(side - first), run, part) };
        }
    }
    panels
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;

    #[test]
    fn sums_equal_the_definition_and_are_added() {
        for (side, groups, run) in
            [(64, 1, 80), (64, 3, 16), (20, 2, 32), (1, 5, 16), (16, 3, 48), (7, 2, 5), (128, 2, 7)]
        {
            let a: Mat<f32> = random(groups * side, run, 1);
            let b: Mat<f32> = random(groups * side, run, 2);
            let before: Mat<f32> = random(side, side, 3);
            let columns = Columns { groups, run, group: side * run, row: run };
            let mut sums = before.clone();
            add_products((a.data(), b.data()), columns, &mut sums);
            let wide = |m: &Mat<f32>| -> Mat<f64> { m.cast() };
            let mut in_double = wide(&before);
            add_products((wide(&a).data(), wide(&b).data()), columns, &mut in_double);
            for (i, k) in (0..side * side).map(|entry| (entry / side, entry % side)) {
                let of_group = |g: usize| {
                    let pairs = a.row(g * side + i).iter().zip(b.row(g * side + k));
                    pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
                };
                let want = f64::from(before.at(i, k)) + (0..groups).map(of_group).sum::<f64>();
                assert!((f64::from(sums.at(i, k)) - want).abs() < 1e-4, "side {side}");
                assert!((in_double.at(i, k) - want).abs() < 1e-9, "side {side}");
            }
        }
    }
}
