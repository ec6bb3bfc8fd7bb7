//! Sums of outer products of columns as inner products of rows, for few rows: nothing is packed.
#![allow(
    unsafe_code,
    reason = "registers are loaded through raw pointers; bounds are checked before"
)]

use super::panels::Columns;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns};
use crate::{MatMut, Scalar};

/// Rows of either factor per register block.
const ROWS: usize = 4;
/// Smallest register width for which this pays.
const MIN_LANES: usize = 8;

/// Adds `A Bᵀ` to `sums`; returns false if the runs are not whole registers. The caller has checked
/// the lengths.
pub(super) fn add_products(a: &[f32], b: &[f32], columns: Columns, sums: MatMut<'_, f32>) -> bool {
    let suits = columns.run.is_multiple_of(MIN_LANES);
    if suits {
        dispatch_columns(columns.run, Dots { a, b, columns, sums });
    }
    suits
}

/// Inner products of the rows of `a` with those of `b`, which hold the runs of all groups.
struct Dots<'a, 's, T> {
    a: &'a [T],
    b: &'a [T],
    columns: Columns,
    sums: MatMut<'s, T>,
}

impl<T: Scalar> Job<T> for Dots<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        V::run(self);
    }
}

impl<V: Lanes> Pass<V> for Dots<'_, '_, V::Number> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (rows, others) = (self.sums.rows(), self.sums.cols());
        for i in (0..rows).step_by(ROWS) {
            for k in (0..others).step_by(ROWS) {
                // Missing rows repeat the last one; their sums are ignored.
                let place = |row: usize, end: usize| row.min(end - 1) * self.columns.row;
                let left = std::array::from_fn(|r| place(i + r, rows));
                let right = std::array::from_fn(|r| place(k + r, others));
                let products = self.products::<V>(left, right);
                for (row, products) in (i..rows).zip(products) {
                    let sums = &mut self.sums.row_mut(row)[k..];
                    sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
                }
            }
        }
    }
}

impl<T: Scalar> Dots<'_, '_, T> {
    /// Inner products of rows with given starts.
    #[inline(always)]
    fn products<V: Lanes<Number = T>>(
        &self,
        left: [usize; ROWS],
        right: [usize; ROWS],
    ) -> [[T; ROWS]; ROWS] {
        let columns = self.columns;
        let mut sums = [[V::splat(T::ZERO); ROWS]; ROWS];
        for group in 0..columns.groups {
            for at in (0..columns.run).step_by(V::WIDTH) {
                let at = group * columns.group + at;
                // SAFETY: rows hold the runs of all groups, and the lanes divide a run.
                let of =
                    |data: &[T], place: usize| unsafe { V::load(data.as_ptr().add(place + at)) };
                let right: [V; ROWS] = std::array::from_fn(|r| of(self.b, right[r]));
                for (sums, &place) in sums.iter_mut().zip(&left) {
                    let left = of(self.a, place);
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = left.times_plus(right, *sum);
                    }
                }
            }
        }
        std::array::from_fn(|r| V::sums(sums[r]))
    }
}
