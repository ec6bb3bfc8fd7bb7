//! Row-major matrices and views.
//!
//! Rows are tokens (or samples, or outputs of a weight), columns are features. A view has a row
//! stride, so a block of columns of a larger matrix is a view too.

use crate::Scalar;
use crate::numbers::{Mapped, Numbers, Shelf};
use std::any::TypeId;
use std::io;

/// Owned, contiguous, row-major matrix, in memory or in a mapped file. In a file it is read where
/// it stands, and copied to memory before it is changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mat<T> {
    data: Numbers<T>,
    rows: usize,
    cols: usize,
}

impl<T: Scalar> Mat<T> {
    /// All zeros.
    #[must_use]
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { data: Numbers::Owned(vec![T::ZERO; rows * cols]), rows, cols }
    }

    /// The identity of size `n`.
    #[must_use]
    pub fn identity(n: usize) -> Self {
        Self::from_fn(n, n, |i, j| if i == j { T::ONE } else { T::ZERO })
    }

    /// Element (i, j) is `f(i, j)`.
    pub fn from_fn(rows: usize, cols: usize, mut f: impl FnMut(usize, usize) -> T) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        // A file may declare any number of rows without columns, over which iteration would take
        // forever.
        for i in 0..if cols > 0 { rows } else { 0 } {
            data.extend((0..cols).map(|j| f(i, j)));
        }
        Self { data: Numbers::Owned(data), rows, cols }
    }

    /// Takes `data` in row-major order.
    ///
    /// # Panics
    /// If `data` does not hold exactly `rows * cols` numbers.
    #[must_use]
    #[track_caller]
    pub fn from_vec(rows: usize, cols: usize, data: Vec<T>) -> Self {
        assert_eq!(
            data.len(),
            rows * cols,
            "a {rows} x {cols} matrix needs {} numbers",
            rows * cols
        );
        Self { data: Numbers::Owned(data), rows, cols }
    }

    /// Numbers of a mapped file, in row-major order.
    ///
    /// # Panics
    /// If they are not exactly `rows * cols`.
    #[must_use]
    #[track_caller]
    pub fn mapped(rows: usize, cols: usize, data: Mapped<T>) -> Self {
        assert_eq!(data.numbers().len(), rows * cols, "numbers of a {rows} x {cols} matrix");
        Self { data: Numbers::Mapped(data), rows, cols }
    }

    /// Whether the numbers are in a mapped file.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.data.is_mapped()
    }

    /// Moves the numbers to a file, unless they are in one.
    ///
    /// # Errors
    /// Those of writing and mapping; the matrix is then unchanged.
    pub fn shelve(&mut self, shelf: &Shelf) -> io::Result<()> {
        self.data.shelve(shelf)
    }

    /// Lets the system reclaim the memory of numbers in a file.
    pub fn release(&self) {
        self.data.release();
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All numbers in row-major order.
    #[must_use]
    pub fn data(&self) -> &[T] {
        self.data.as_slice()
    }

    /// All numbers in row-major order, mutable.
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data.to_mut()
    }

    /// The numbers in row-major order.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.data.into_vec()
    }

    /// One row.
    #[must_use]
    pub fn row(&self, i: usize) -> &[T] {
        &self.data()[i * self.cols..(i + 1) * self.cols]
    }

    /// One row, mutable.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data.to_mut()[i * self.cols..(i + 1) * self.cols]
    }

    /// Element (i, j).
    #[must_use]
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data()[i * self.cols + j]
    }

    /// Mutable element (i, j).
    pub fn at_mut(&mut self, i: usize, j: usize) -> &mut T {
        &mut self.data.to_mut()[i * self.cols + j]
    }

    /// View of the whole.
    #[must_use]
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef { data: self.data(), rows: self.rows, cols: self.cols, stride: self.cols }
    }

    /// Mutable view of the whole.
    pub fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut { data: self.data.to_mut(), rows: self.rows, cols: self.cols, stride: self.cols }
    }

    /// Changes the shape, keeping the allocation; all elements are then zero.
    pub fn reset(&mut self, rows: usize, cols: usize) {
        let data = self.data.room();
        data.clear();
        data.resize(rows * cols, T::ZERO);
        (self.rows, self.cols) = (rows, cols);
    }

    /// Changes the shape, keeping the allocation; the contents are then unspecified, which saves
    /// the pass of [`Self::reset`] over memory.
    pub fn resize(&mut self, rows: usize, cols: usize) {
        self.data.room().resize(rows * cols, T::ZERO);
        (self.rows, self.cols) = (rows, cols);
    }

    /// Numbers that fit without another allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.data.capacity()
    }

    /// [`Self::resize`], then a mutable view of the whole.
    pub fn view_mut_of(&mut self, rows: usize, cols: usize) -> MatMut<'_, T> {
        self.resize(rows, cols);
        self.view_mut()
    }

    /// A transposed copy.
    #[must_use]
    pub fn transpose(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i))
    }

    /// A copy in another precision.
    #[must_use]
    pub fn cast<U: Scalar>(&self) -> Mat<U> {
        let data = self.data().iter().map(|v| U::from_f64(v.to_f64())).collect();
        Mat { data: Numbers::Owned(data), rows: self.rows, cols: self.cols }
    }
}

/// Read-only row-major view with a row stride.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, T: Scalar> MatRef<'a, T> {
    /// A contiguous view of `data`.
    ///
    /// # Panics
    /// If `data` does not hold exactly `rows * cols` numbers.
    #[must_use]
    #[track_caller]
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows} x {cols} view needs {} numbers", rows * cols);
        Self { data, rows, cols, stride: cols }
    }

    /// Rows with stride `stride`; numbers after the last row are ignored.
    ///
    /// # Panics
    /// If rows overlap, or `data` ends before the last one does.
    #[must_use]
    #[track_caller]
    pub fn strided(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert_strides(data.len(), rows, cols, stride);
        Self { data, rows, cols, stride }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row stride, in numbers.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The underlying numbers, from the first element on, with the gaps between rows.
    #[must_use]
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// One row.
    #[must_use]
    pub fn row(&self, i: usize) -> &'a [T] {
        &self.data[i * self.stride..i * self.stride + self.cols]
    }

    /// Element (i, j).
    #[must_use]
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data[i * self.stride + j]
    }

    /// Columns `start .. start + count` of every row.
    #[must_use]
    pub fn columns(&self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.cols, "columns {start}+{count} of {}", self.cols);
        let data = if self.rows == 0 { self.data } else { &self.data[start..] };
        Self { data, rows: self.rows, cols: count, stride: self.stride }
    }

    /// Rows `start .. start + count`.
    #[must_use]
    pub fn rows_range(&self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.rows, "rows {start}+{count} of {}", self.rows);
        let from = (start * self.stride).min(self.data.len());
        Self { data: &self.data[from..], rows: count, cols: self.cols, stride: self.stride }
    }

    /// The same view with a concrete scalar type, for code that has determined which one it is.
    ///
    /// # Panics
    /// If the scalars differ.
    pub(crate) fn of_scalar<U: Scalar>(self) -> MatRef<'a, U> {
        assert_eq!(TypeId::of::<T>(), TypeId::of::<U>(), "another scalar");
        let data = bytemuck::cast_slice(self.data);
        MatRef { data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// A contiguous copy.
    #[must_use]
    pub fn to_mat(&self) -> Mat<T> {
        let mut data = Vec::with_capacity(self.rows * self.cols);
        for i in 0..self.rows {
            data.extend_from_slice(self.row(i));
        }
        Mat { data: Numbers::Owned(data), rows: self.rows, cols: self.cols }
    }
}

#[track_caller]
fn assert_strides(len: usize, rows: usize, cols: usize, stride: usize) {
    assert!(stride >= cols || rows < 2, "rows of {cols} numbers, {stride} apart");
    let end = rows.saturating_sub(1) * stride + if rows > 0 { cols } else { 0 };
    assert!(len >= end, "{rows} rows of {cols} numbers, {stride} apart, in {len} numbers");
}

/// Mutable row-major view with a row stride.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, T: Scalar> MatMut<'a, T> {
    /// A contiguous view of `data`.
    ///
    /// # Panics
    /// If `data` does not hold exactly `rows * cols` numbers.
    #[must_use]
    #[track_caller]
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows} x {cols} view needs {} numbers", rows * cols);
        Self { data, rows, cols, stride: cols }
    }

    /// As [`MatRef::strided`].
    #[must_use]
    #[track_caller]
    pub fn strided(data: &'a mut [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert_strides(data.len(), rows, cols, stride);
        Self { data, rows, cols, stride }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row stride, in numbers.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The underlying numbers, from the first element on, with the gaps between rows.
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// One row.
    #[must_use]
    pub fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.stride..i * self.stride + self.cols]
    }

    /// One row, mutable.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.stride..i * self.stride + self.cols]
    }

    /// A shorter-lived mutable view of the same numbers.
    pub fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { data: self.data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// A read-only view of the same numbers.
    #[must_use]
    pub fn as_ref(&self) -> MatRef<'_, T> {
        MatRef { data: self.data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// Columns `start .. start + count` of every row.
    #[must_use]
    pub fn columns(self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.cols, "columns {start}+{count} of {}", self.cols);
        let (rows, stride) = (self.rows, self.stride);
        let data = if rows == 0 { self.data } else { &mut self.data[start..] };
        Self { data, rows, cols: count, stride }
    }

    /// Rows `start .. start + count`.
    #[must_use]
    pub fn rows_range(self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.rows, "rows {start}+{count} of {}", self.rows);
        let from = (start * self.stride).min(self.data.len());
        Self { data: &mut self.data[from..], rows: count, cols: self.cols, stride: self.stride }
    }

    /// As [`MatRef::of_scalar`].
    pub(crate) fn of_scalar<U: Scalar>(self) -> MatMut<'a, U> {
        assert_eq!(TypeId::of::<T>(), TypeId::of::<U>(), "another scalar");
        let data = bytemuck::cast_slice_mut(self.data);
        MatMut { data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// Sets every element.
    pub fn fill(&mut self, value: T) {
        for i in 0..self.rows {
            self.row_mut(i).fill(value);
        }
    }

    /// Copies a matrix of the same shape.
    #[track_caller]
    pub fn copy_from(&mut self, other: MatRef<'_, T>) {
        assert_eq!((self.rows, self.cols), (other.rows(), other.cols()), "copy between shapes");
        for i in 0..self.rows {
            self.row_mut(i).copy_from_slice(other.row(i));
        }
    }

    /// Splits into the first `count` rows and the others.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    #[track_caller]
    pub fn split_rows(self, count: usize) -> (Self, Self) {
        let Self { data, rows, cols, stride } = self;
        assert!(count <= rows, "{count} of {rows} rows");
        let cut = if count == rows { data.len() } else { count * stride };
        let (head, tail) = data.split_at_mut(cut);
        let part = |data, rows| MatMut { data, rows, cols, stride };
        (part(head, count), part(tail, rows - count))
    }

    /// Splits into blocks of `block` rows (the last may be shorter), for parallel work.
    #[must_use]
    pub fn row_blocks(self, block: usize) -> Vec<Self> {
        let Self { mut data, rows, cols, stride } = self;
        let mut blocks = Vec::with_capacity(rows.div_ceil(block.max(1)));
        let mut left = rows;
        while left > 0 {
            let take = left.min(block.max(1));
            left -= take;
            let cut = if left == 0 { data.len() } else { take * stride };
            let (head, tail) = data.split_at_mut(cut);
            blocks.push(MatMut { data: head, rows: take, cols, stride });
            data = tail;
        }
        blocks
    }
}
