//! A matrix whose parts are written in parallel.
#![allow(unsafe_code, reason = "pieces of work write disjoint parts of one matrix")]

use crate::MatMut;
use std::marker::PhantomData;
use std::ops::Range;

/// A matrix in parts.
pub(super) struct Parts<'a> {
    data: *mut f32,
    rows: usize,
    cols: usize,
    stride: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: callers of `Parts::part` ensure that no number is in two parts.
unsafe impl Sync for Parts<'_> {}

impl<'a> Parts<'a> {
    pub(super) fn new(mut matrix: MatMut<'a, f32>) -> Self {
        let (rows, cols, stride) = (matrix.rows(), matrix.cols(), matrix.stride());
        let end = rows.saturating_sub(1) * stride + if rows > 0 { cols } else { 0 };
        assert!(matrix.data_mut().len() >= end, "view out of bounds");
        Self { data: matrix.data_mut().as_mut_ptr(), rows, cols, stride, matrix: PhantomData }
    }

    /// Some columns of one row.
    ///
    /// # Safety
    /// No other part has any of these numbers while the part lives.
    #[allow(clippy::mut_from_ref, reason = "the caller keeps the parts disjoint")]
    pub(super) unsafe fn part(&self, row: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(row < self.rows && columns.end <= self.cols, "part out of bounds");
        // SAFETY: within the matrix by the assertions here and in `new`; the caller keeps others
        // out.
        unsafe {
            let start = self.data.add(row * self.stride + columns.start);
            std::slice::from_raw_parts_mut(start, columns.len())
        }
    }
}
