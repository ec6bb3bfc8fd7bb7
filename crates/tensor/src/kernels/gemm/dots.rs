//! Sums of products of columns by inner products of rows, where there are few rows: nothing is packed.
#![allow(unsafe_code, reason = "vector loads take raw pointers; every function states its bounds")]

use super::panels::Columns;
use crate::MatMut;
use crate::kernels::instructions::Instructions;
use std::arch::x86_64::{
    __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

/// Rows of either factor whose inner products are summed at one time.
const ROWS: usize = 4;

/// Adds `A Bᵀ` to `sums`; says no if the runs are no whole registers. The caller has found the
/// lengths right.
pub(super) fn add_products(
    (a, b): (&[f32], &[f32]),
    columns: Columns,
    mut sums: MatMut<'_, f32>,
) -> bool {
    let (lanes, tile): (usize, Dots) = match Instructions::here() {
        Instructions::Avx512 => (16, dots_avx512),
        Instructions::Avx2 => (8, dots_avx2),
        Instructions::Common => return false,
    };
    if !columns.run.is_multiple_of(lanes) {
        return false;
    }
    let (rows, others) = (sums.rows(), sums.cols());
    for i in (0..rows).step_by(ROWS) {
        for k in (0..others).step_by(ROWS) {
            // Rows beyond the last are the last once more, and their sums not used.
            let place = |row: usize, end: usize| row.min(end - 1) * columns.row;
            let left = std::array::from_fn(|r| place(i + r, rows));
            let right = std::array::from_fn(|r| place(k + r, others));
            // SAFETY: this machine has the instructions; the rows end within `a` and `b`.
            let products = unsafe { tile(a.as_ptr(), b.as_ptr(), [left, right], columns) };
            for (row, products) in (i..rows).zip(products) {
                let sums = &mut sums.row_mut(row)[k..];
                sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            }
        }
    }
    true
}

/// Inner products of rows that begin at given places, summed over the groups of columns.
type Dots = unsafe fn(*const f32, *const f32, [[usize; ROWS]; 2], Columns) -> [[f32; ROWS]; ROWS];

macro_rules! dots {
    ($name:ident, $features:literal, $vector:ident, $lanes:literal,
     $zero:ident, $load:ident, $store:ident, $fused:ident) => {
        /// # Safety
        /// Rows at the places hold the runs of all groups; the lanes divide a run.
        #[target_feature(enable = $features)]
        unsafe fn $name(
            a: *const f32,
            b: *const f32,
            [rows, others]: [[usize; ROWS]; 2],
            columns: Columns,
        ) -> [[f32; ROWS]; ROWS] {
            let mut sums: [[$vector; ROWS]; ROWS] = [[$zero(); ROWS]; ROWS];
            for group in 0..columns.groups {
                for at in (0..columns.run).step_by($lanes) {
                    let at = group * columns.group + at;
                    // SAFETY: the caller's contract.
                    let right = others.map(|place| unsafe { $load(b.add(place + at)) });
                    for (sums, place) in sums.iter_mut().zip(rows) {
                        // SAFETY: as above.
                        let left = unsafe { $load(a.add(place + at)) };
                        for (sum, right) in sums.iter_mut().zip(right) {
                            *sum = $fused(left, right, *sum);
                        }
                    }
                }
            }
            sums.map(|sums| {
                sums.map(|sum| {
                    let mut lanes = [0.0; $lanes];
                    // SAFETY: as many numbers as lanes.
                    unsafe { $store(lanes.as_mut_ptr(), sum) };
                    lanes.iter().sum::<f32>()
                })
            })
        }
    };
}

dots!(
    dots_avx512,
    "avx512f",
    __m512,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps
);
dots!(
    dots_avx2,
    "avx2,fma",
    __m256,
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps
);
