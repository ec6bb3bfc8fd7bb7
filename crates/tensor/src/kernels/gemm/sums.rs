//! Sums over a batch of outer products of columns, `Σ a bᵀ`, for columns that are stored in runs.
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

use super::panels::Columns;
use super::tile::{Lines, Output, Place, Scaling, Tile};
use super::{Arg, Write, dots, product_on_this_thread};
use crate::{MatMut, MatRef, Scalar, Scratch};
use std::any::TypeId;

/// Smallest side for which packing pays.
const WIDE: usize = 64;

/// Adds `A Bᵀ` to `sums`: entry (i, k) is the sum over all columns of feature i of `a` times
/// feature k of `b`; both have the same layout.
///
/// # Panics
/// If the columns reach beyond `a` or `b`.
#[track_caller]
pub(in crate::kernels) fn add_products<T: Scalar>(
    a: &[T],
    b: &[T],
    columns: Columns,
    mut sums: MatMut<'_, T>,
) {
    let (rows, others) = (sums.rows(), sums.cols());
    let Columns { groups, run, group, row } = columns;
    let end = |rows: usize| groups.saturating_sub(1) * group + rows.max(1) * row - row + run;
    assert!(a.len() >= end(rows) && b.len() >= end(others), "columns out of bounds");
    let single = TypeId::of::<T>() == TypeId::of::<f32>();
    if let Some(tile) = Tile::for_rows(rows).filter(|_| single) {
        let (a, b) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b));
        if rows.min(others) < WIDE && dots::add_products(a, b, columns, sums.reborrow().of_scalar())
        {
            return;
        }
        return in_tiles(tile, a, b, columns, sums.of_scalar());
    }
    for k in 0..groups {
        let a = MatRef::strided(&a[k * group..], rows, run, row);
        let b = MatRef::strided(&b[k * group..], others, run, row);
        product_on_this_thread(T::ONE, a.into(), Arg::Transposed(b), sums.reborrow(), Write::Add);
    }
}

fn in_tiles(tile: Tile, a: &[f32], b: &[f32], columns: Columns, mut sums: MatMut<'_, f32>) {
    let depth = columns.groups * columns.run;
    let right = packed(tile, tile.cols, b, columns, sums.cols());
    let left = packed(tile, tile.rows, a, columns, sums.rows());
    let mut product = Scratch::new(tile.rows * tile.cols);
    for (i, left) in left.chunks_exact(tile.rows * depth).enumerate() {
        for (j, right) in right.chunks_exact(tile.cols * depth).enumerate() {
            let from = Place { at: right.as_ptr(), row: tile.cols, register: tile.cols / 2 };
            let at = product.as_mut_ptr();
            let into = Place { at, row: tile.cols, register: tile.cols / 2 };
            // SAFETY: both panels hold `depth` groups of numbers and `product` a whole tile.
            unsafe {
                let scaling = Scaling { alpha: 1.0, add: false };
                (tile.multiply)(
                    depth,
                    left.as_ptr(),
                    from,
                    Output { place: into, height: tile.rows },
                    scaling,
                );
            }
            let (first, column) = (i * tile.rows, j * tile.cols);
            let rows = first..sums.rows().min(first + tile.rows);
            for (row, product) in rows.zip(product.chunks_exact(tile.cols)) {
                let sums = &mut sums.row_mut(row)[column..];
                sums.iter_mut().zip(product).for_each(|(sum, &number)| *sum += number);
            }
        }
    }
}

/// Panels of `width` lines each, interleaved number by number.
fn packed(tile: Tile, width: usize, data: &[f32], columns: Columns, side: usize) -> Scratch<f32> {
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
    use crate::Mat;

    #[test]
    fn sums_equal_the_definition_and_are_added() {
        for ((rows, others), groups, run) in [
            ((64, 64), 1, 80),
            ((64, 64), 3, 16),
            ((64, 100), 2, 32),
            ((20, 20), 2, 32),
            ((1, 1), 5, 16),
            ((16, 9), 3, 48),
            ((7, 7), 2, 5),
            ((128, 128), 2, 7),
        ] {
            let side = rows.max(others);
            let a: Mat<f32> = random(groups * side, run, 1);
            let b: Mat<f32> = random(groups * side, run, 2);
            let before: Mat<f32> = random(rows, others, 3);
            let columns = Columns { groups, run, group: side * run, row: run };
            let mut sums = before.clone();
            add_products(a.data(), b.data(), columns, sums.view_mut());
            let wide = |m: &Mat<f32>| -> Mat<f64> { m.cast() };
            let mut in_double = wide(&before);
            add_products(wide(&a).data(), wide(&b).data(), columns, in_double.view_mut());
            for (i, k) in (0..rows * others).map(|entry| (entry / others, entry % others)) {
                let of_group = |g: usize| {
                    let pairs = a.row(g * side + i).iter().zip(b.row(g * side + k));
                    pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
                };
                let want = f64::from(before.at(i, k)) + (0..groups).map(of_group).sum::<f64>();
                assert!((f64::from(sums.at(i, k)) - want).abs() < 1e-4, "{rows} x {others}");
                assert!((in_double.at(i, k) - want).abs() < 1e-9, "{rows} x {others}");
            }
        }
    }
}
