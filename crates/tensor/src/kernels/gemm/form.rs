//! A small matrix that maps many columns, ready in both directions.

use super::panels::{Columns, Panels};
use super::sums::add_products;
use super::{Arg, Write, product_on_this_thread as product};
use crate::{Mat, MatMut, MatRef, Scalar};
use std::any::TypeId;
use std::sync::OnceLock;

/// Whether a matrix is applied or its transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The matrix.
    Forward,
    /// Its transpose: the inverse of an orthogonal matrix, and the way of gradients.
    Back,
}

/// A matrix and its transpose, packed where this machine has tiles for the scalar, each when it is
/// first applied: without gradients most go one way.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Form<T> {
    matrix: Mat<T>,
    forward: OnceLock<Option<Panels>>,
    back: OnceLock<Option<Panels>>,
}

impl<T: Scalar> Form<T> {
    pub(in crate::kernels) fn new(matrix: Mat<T>) -> Self {
        Self { matrix, forward: OnceLock::new(), back: OnceLock::new() }
    }

    fn arg(&self, direction: Direction) -> Arg<'_, T> {
        match direction {
            Direction::Forward => Arg::Plain(self.matrix.view()),
            Direction::Back => Arg::Transposed(self.matrix.view()),
        }
    }

    fn panels(&self, direction: Direction) -> Option<&Panels> {
        if TypeId::of::<T>() != TypeId::of::<f32>() {
            return None;
        }
        let packed = match direction {
            Direction::Forward => &self.forward,
            Direction::Back => &self.back,
        };
        packed.get_or_init(|| Panels::new(self.arg(direction).of_scalar())).as_ref()
    }

    /// `y = scale M x` or `y += scale M x`, or the transpose, for columns that lie alike in both.
    ///
    /// # Panics
    /// If the columns reach beyond `x` or `y`.
    pub(in crate::kernels) fn apply(
        &self,
        direction: Direction,
        columns: Columns,
        x: &[T],
        (y, scale, write): (&mut [T], T, Write),
    ) {
        if let Some(panels) = self.panels(direction).filter(|panels| panels.fit(columns)) {
            let y = (bytemuck::cast_slice_mut(y), bytemuck::cast(scale), write);
            return panels.apply(columns, bytemuck::cast_slice(x), y);
        }
        let matrix = self.arg(direction);
        let Columns { groups, run, group, row } = columns;
        for k in 0..groups {
            let of_x = matrix.cols() * row;
            let x = MatRef::new(&x[k * group..][..of_x], matrix.cols(), row).columns(0, run);
            let of_y = matrix.rows() * row;
            let y = MatMut::new(&mut y[k * group..][..of_y], matrix.rows(), row).columns(0, run);
            product(scale, matrix, x.into(), y, write);
        }
    }
}

/// Blocks (out, inp) along a diagonal that map columns of features, (features, width): block k maps
/// features `k · inp` and on to features `k · out` and on.
#[derive(Clone, Debug)]
pub struct ColumnBlocks<T> {
    blocks: Vec<Form<T>>,
    out: usize,
    inp: usize,
}

impl<T: Scalar> ColumnBlocks<T> {
    /// From `count` blocks, one above the other: (count · out, inp).
    ///
    /// # Panics
    /// If they are not equally high.
    #[must_use]
    #[track_caller]
    pub fn new(weights: MatRef<'_, T>, count: usize) -> Self {
        assert!(weights.rows().is_multiple_of(count), "{count} blocks of {} rows", weights.rows());
        let (out, inp) = (weights.rows() / count, weights.cols());
        let block = |k| {
            let block = weights.rows_range(k * out, out);
            Form::new(Mat::from_fn(out, inp, |i, j| block.at(i, j)))
        };
        Self { blocks: (0..count).map(block).collect(), out, inp }
    }

    /// Maps or pulls back the columns of `x` to those of `y`, times `scale`.
    ///
    /// # Panics
    /// If the lengths do not fit.
    #[track_caller]
    pub fn apply(
        &self,
        direction: Direction,
        (x, width): (&[T], usize),
        (y, scale, write): (&mut [T], T, Write),
    ) {
        let (to, from) = match direction {
            Direction::Forward => (self.out * width, self.inp * width),
            Direction::Back => (self.inp * width, self.out * width),
        };
        let count = self.blocks.len();
        assert_eq!((x.len(), y.len()), (count * from, count * to), "columns of {count} blocks");
        let columns = Columns { groups: 1, run: width, group: 0, row: width };
        for (k, block) in self.blocks.iter().enumerate() {
            let y = (&mut y[k * to..][..to], scale, write);
            block.apply(direction, columns, &x[k * from..][..from], y);
        }
    }

    /// Adds the gradients of the blocks, `Σ dy xᵀ`, to `grad`, which lies as the blocks do.
    ///
    /// # Panics
    /// If the lengths do not fit.
    #[track_caller]
    pub fn add_gradient(&self, dy: &[T], (x, width): (&[T], usize), grad: &mut [T]) {
        let columns = Columns { groups: 1, run: width, group: 0, row: width };
        let pieces = dy.chunks_exact(self.out * width).zip(x.chunks_exact(self.inp * width));
        let grads = grad.chunks_exact_mut(self.out * self.inp);
        assert_eq!(grads.len(), self.blocks.len(), "gradients of the blocks");
        assert_eq!(pieces.len(), self.blocks.len(), "columns of the blocks");
        for (grad, (dy, x)) in grads.zip(pieces) {
            add_products((dy, x), columns, MatMut::new(grad, self.out, self.inp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;

    fn blocks_map_pull_back_and_have_gradients<T: Scalar>(out: usize, inp: usize, width: usize) {
        let count = 3;
        let weights: Mat<T> = random(count * out, inp, 1);
        let blocks = ColumnBlocks::new(weights.view(), count);
        let (x, dy): (Mat<T>, Mat<T>) =
            (random(count * inp, width, 2), random(count * out, width, 3));
        let close = |found: T, want: f64| {
            assert!((found.to_f64() - want).abs() < 1e-4, "{found:?} is not {want}");
        };
        let times = |a: T, b: T| a.to_f64() * b.to_f64();
        let mut y = dy.clone();
        let target = (y.data_mut(), T::from_f64(2.0), Write::Add);
        blocks.apply(Direction::Forward, (x.data(), width), target);
        for (row, b) in (0..count * out).flat_map(|row| (0..width).map(move |b| (row, b))) {
            let k = row / out;
            let sum: f64 = (0..inp).map(|j| times(weights.at(row, j), x.at(k * inp + j, b))).sum();
            close(y.at(row, b), dy.at(row, b).to_f64() + 2.0 * sum);
        }
        let mut dx = x.clone();
        blocks.apply(Direction::Back, (dy.data(), width), (dx.data_mut(), T::ONE, Write::Set));
        for (row, b) in (0..count * inp).flat_map(|row| (0..width).map(move |b| (row, b))) {
            let (k, j) = (row / inp, row % inp);
            let terms = (0..out).map(|i| k * out + i);
            close(dx.at(row, b), terms.map(|i| times(weights.at(i, j), dy.at(i, b))).sum());
        }
        let mut grad = weights.clone();
        blocks.add_gradient(dy.data(), (x.data(), width), grad.data_mut());
        for (row, j) in (0..count * out).flat_map(|row| (0..inp).map(move |j| (row, j))) {
            let k = row / out;
            let sum: f64 = (0..width).map(|b| times(dy.at(row, b), x.at(k * inp + j, b))).sum();
            close(grad.at(row, j), weights.at(row, j).to_f64() + sum);
        }
    }

    #[test]
    fn blocks_equal_their_definition() {
        for (out, inp, width) in [(16, 16, 32), (64, 64, 32), (5, 9, 32), (70, 12, 64), (3, 4, 7)] {
            blocks_map_pull_back_and_have_gradients::<f32>(out, inp, width);
            blocks_map_pull_back_and_have_gradients::<f64>(out, inp, width);
        }
    }
}
