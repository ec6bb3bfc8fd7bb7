//! A small matrix that is applied to many columns, packed for both directions.

use super::panels::{Columns, Panels};
use super::quaternion::{Quaternions, Rows};
use super::sums::add_products;
use super::{Arg, Destination, product_on_this_thread as product};
use crate::{Mat, MatMut, MatRef, Scalar};
use std::any::TypeId;
use std::sync::OnceLock;

/// Whether a matrix or its transpose is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The matrix.
    Forward,
    /// Its transpose: the inverse of an orthogonal matrix, and the backward pass.
    Back,
}

/// A matrix and its transpose, packed if this machine has tiles for the scalar, each on first use:
/// without gradients mostly one direction is needed.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Form<T> {
    matrix: Mat<T>,
    /// Positions of the quaternions in its rows and columns.
    quaternions: Option<Rows>,
    forward: OnceLock<Packed>,
    back: OnceLock<Packed>,
}

/// Packed form for one direction.
#[derive(Clone, Debug)]
enum Packed {
    /// The matrix itself.
    Nothing,
    Panels(Panels),
    Quaternions(Quaternions),
}

impl Packed {
    fn new(matrix: Arg<'_, f32>, quaternions: Option<Rows>) -> Self {
        if let Some(quaternions) = quaternions.and_then(|rows| Quaternions::new(matrix, rows)) {
            return Self::Quaternions(quaternions);
        }
        Panels::new(matrix).map_or(Self::Nothing, Self::Panels)
    }
}

impl<T: Scalar> Form<T> {
    pub(in crate::kernels) fn new(matrix: Mat<T>) -> Self {
        Self { matrix, quaternions: None, forward: OnceLock::new(), back: OnceLock::new() }
    }

    /// For a square matrix of quaternion blocks in these positions: the product takes half as long.
    pub(in crate::kernels) fn of_quaternions(matrix: Mat<T>, rows: Rows) -> Self {
        Self { quaternions: Some(rows), ..Self::new(matrix) }
    }

    /// Whether products are quaternionic.
    #[cfg(test)]
    pub(in crate::kernels) fn is_of_quaternions(&self) -> bool {
        let packed = [Direction::Forward, Direction::Back].map(|way| self.packed(way));
        packed.iter().all(|packed| matches!(packed, Packed::Quaternions(_)))
    }

    fn arg(&self, direction: Direction) -> Arg<'_, T> {
        match direction {
            Direction::Forward => Arg::Plain(self.matrix.view()),
            Direction::Back => Arg::Transposed(self.matrix.view()),
        }
    }

    fn packed(&self, direction: Direction) -> &Packed {
        if TypeId::of::<T>() != TypeId::of::<f32>() {
            return &Packed::Nothing;
        }
        let packed = match direction {
            Direction::Forward => &self.forward,
            Direction::Back => &self.back,
        };
        packed.get_or_init(|| Packed::new(self.arg(direction).of_scalar(), self.quaternions))
    }

    /// `y = scale M x` or `y += scale M x`, or with the transpose, for columns of equal layout.
    ///
    /// # Panics
    /// If the columns reach beyond `x` or `y`.
    pub(in crate::kernels) fn apply(
        &self,
        direction: Direction,
        columns: Columns,
        x: &[T],
        to: Destination<'_, T>,
    ) {
        match self.packed(direction) {
            Packed::Panels(panels) if panels.fit(columns) => {
                return panels.apply(columns, bytemuck::cast_slice(x), single(to));
            }
            Packed::Quaternions(panels) if panels.fit(columns) => {
                return panels.apply(columns, bytemuck::cast_slice(x), single(to));
            }
            Packed::Nothing | Packed::Panels(_) | Packed::Quaternions(_) => {}
        }
        let Destination { y, scale, write } = to;
        let matrix = self.arg(direction);
        let Columns { groups, run, group, row } = columns;
        for k in 0..groups {
            let x = MatRef::strided(&x[k * group..], matrix.cols(), run, row);
            let y = MatMut::strided(&mut y[k * group..], matrix.rows(), run, row);
            product(scale, matrix, x.into(), y, write);
        }
    }
}

/// The destination of a product that was found to be in single precision.
fn single<T: Scalar>(to: Destination<'_, T>) -> Destination<'_, f32> {
    let Destination { y, scale, write } = to;
    Destination { y: bytemuck::cast_slice_mut(y), scale: bytemuck::cast(scale), write }
}

/// Feature indices of a block, of `size` in each of `count` blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Number i of block k is feature `k · size + i`.
    Consecutive,
    /// Number i of block k is feature `i · count + k`.
    Interleaved,
}

/// Diagonal blocks (out, inp) that map columns of features, (features, width), with equal order of
/// inputs and outputs.
#[derive(Clone, Debug)]
pub struct ColumnBlocks<T> {
    blocks: Vec<Form<T>>,
    out: usize,
    inp: usize,
    order: Order,
}

impl<T: Scalar> ColumnBlocks<T> {
    /// From `count` blocks stacked vertically: (count · out, inp).
    ///
    /// # Panics
    /// If their heights differ.
    #[must_use]
    #[track_caller]
    pub fn new(weights: MatRef<'_, T>, count: usize, order: Order) -> Self {
        assert!(weights.rows().is_multiple_of(count), "{count} blocks of {} rows", weights.rows());
        let (out, inp) = (weights.rows() / count, weights.cols());
        let block = |k| {
            let block = weights.rows_range(k * out, out);
            Form::new(Mat::from_fn(out, inp, |i, j| block.at(i, j)))
        };
        Self { blocks: (0..count).map(block).collect(), out, inp, order }
    }

    /// Start of the first column of block `k`, of `size` each, and their strides.
    fn columns(&self, k: usize, size: usize, width: usize) -> (usize, Columns) {
        let (first, step) = match self.order {
            Order::Consecutive => (k * size, 1),
            Order::Interleaved => (k, self.blocks.len()),
        };
        (first * width, Columns { groups: 1, run: width, group: 0, row: step * width })
    }

    /// Maps the columns of `x` (features in, width), or applies the transpose, to those of `to`
    /// (features out, width).
    ///
    /// # Panics
    /// If the lengths do not fit.
    #[track_caller]
    pub fn apply(
        &self,
        direction: Direction,
        x: &[T],
        width: usize,
        Destination { y, scale, write }: Destination<'_, T>,
    ) {
        let (to, from) = match direction {
            Direction::Forward => (self.out, self.inp),
            Direction::Back => (self.inp, self.out),
        };
        let count = self.blocks.len();
        let lengths = (count * from * width, count * to * width);
        assert_eq!((x.len(), y.len()), lengths, "columns of {count} blocks");
        for (k, block) in self.blocks.iter().enumerate() {
            let ((x_at, columns), (y_at, _)) =
                (self.columns(k, from, width), self.columns(k, to, width));
            let to = Destination { y: &mut y[y_at..], scale, write };
            block.apply(direction, columns, &x[x_at..], to);
        }
    }

    /// Adds the gradients of the blocks, `Σ dy xᵀ`, to `grad`, in the layout of the blocks.
    ///
    /// # Panics
    /// If the lengths do not fit.
    #[track_caller]
    pub fn add_gradient(&self, dy: &[T], x: &[T], width: usize, grad: &mut [T]) {
        let Self { out, inp, .. } = *self;
        let count = self.blocks.len();
        let lengths = (count * out * width, count * inp * width, count * out * inp);
        let found = (dy.len(), x.len(), grad.len());
        assert_eq!(found, lengths, "columns and gradients of {count} blocks");
        for k in 0..count {
            let ((dy_at, columns), (x_at, _)) =
                (self.columns(k, out, width), self.columns(k, inp, width));
            let grad = &mut grad[k * out * inp..][..out * inp];
            add_products(&dy[dy_at..], &x[x_at..], columns, MatMut::new(grad, out, inp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Write;
    use super::super::tests::random;
    use super::*;

    /// Index of feature `i` of block `k`, of `size` in each of `count`.
    fn place(order: Order, (k, i): (usize, usize), (count, size): (usize, usize)) -> usize {
        match order {
            Order::Consecutive => k * size + i,
            Order::Interleaved => i * count + k,
        }
    }

    fn blocks_map_pull_back_and_have_gradients<T: Scalar>(
        (out, inp, width): (usize, usize, usize),
        order: Order,
    ) {
        let count = 3;
        let weights: Mat<T> = random(count * out, inp, 1);
        let blocks = ColumnBlocks::new(weights.view(), count, order);
        let (x, dy): (Mat<T>, Mat<T>) =
            (random(count * inp, width, 2), random(count * out, width, 3));
        let close = |found: T, want: f64| {
            assert!((found.to_f64() - want).abs() < 1e-4, "{found:?} is not {want}");
        };
        let times = |a: T, b: T| a.to_f64() * b.to_f64();
        let of_x = |k: usize, j: usize| place(order, (k, j), (count, inp));
        let of_y = |k: usize, i: usize| place(order, (k, i), (count, out));
        let mut y = dy.clone();
        let to = Destination { y: y.data_mut(), scale: T::from_f64(2.0), write: Write::Add };
        blocks.apply(Direction::Forward, x.data(), width, to);
        for (row, b) in (0..count * out).flat_map(|row| (0..width).map(move |b| (row, b))) {
            let (k, at) = (row / out, of_y(row / out, row % out));
            let sum: f64 = (0..inp).map(|j| times(weights.at(row, j), x.at(of_x(k, j), b))).sum();
            close(y.at(at, b), dy.at(at, b).to_f64() + 2.0 * sum);
        }
        let mut dx = x.clone();
        let to = Destination { y: dx.data_mut(), scale: T::ONE, write: Write::Set };
        blocks.apply(Direction::Back, dy.data(), width, to);
        for (row, b) in (0..count * inp).flat_map(|row| (0..width).map(move |b| (row, b))) {
            let (k, j) = (row / inp, row % inp);
            let term = |i: usize| times(weights.at(k * out + i, j), dy.at(of_y(k, i), b));
            close(dx.at(of_x(k, j), b), (0..out).map(term).sum());
        }
        let mut grad = weights.clone();
        blocks.add_gradient(dy.data(), x.data(), width, grad.data_mut());
        for (row, j) in (0..count * out).flat_map(|row| (0..inp).map(move |j| (row, j))) {
            let (k, i) = (row / out, row % out);
            let term = |b: usize| times(dy.at(of_y(k, i), b), x.at(of_x(k, j), b));
            let sum: f64 = (0..width).map(term).sum();
            close(grad.at(row, j), weights.at(row, j).to_f64() + sum);
        }
    }

    #[test]
    fn blocks_equal_their_definition() {
        for extents in [(16, 16, 32), (64, 64, 32), (5, 9, 32), (70, 12, 64), (3, 4, 7), (1, 2, 16)]
        {
            for order in [Order::Consecutive, Order::Interleaved] {
                blocks_map_pull_back_and_have_gradients::<f32>(extents, order);
                blocks_map_pull_back_and_have_gradients::<f64>(extents, order);
            }
        }
    }
}
