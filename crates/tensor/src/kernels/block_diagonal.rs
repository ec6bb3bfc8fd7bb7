//! Products with block-diagonal matrices, of rows of samples and of columns of features alike.
//!
//! [`Blocks`] are `count` matrices (out, inp), one above the other. Each maps features of its own,
//! which are a view of all: nothing is copied. In columns they may stand side by side or in turn,
//! so that a permutation between two products costs nothing.

use super::gemm::{Arg, Write, product_on_this_thread};
use crate::{MatMut, MatRef, Scalar, parallel};

/// Rows computed as one piece.
const ROW_BLOCK: usize = 128;

/// `count` blocks (out, inp) along a diagonal.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a, T> {
    /// Number of blocks.
    pub count: usize,
    /// The blocks, one above the other: (count · out, inp).
    pub weights: MatRef<'a, T>,
}

/// Whether the blocks are applied or their transposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From inputs to outputs.
    Forward,
    /// From gradients of outputs to gradients of inputs.
    Back,
}

/// Which features are a block's. Each of `count` blocks has `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Number i of block k is feature `k · size + i`.
    Consecutive,
    /// Number i of block k is feature `i · count + k`.
    Interleaved,
}

/// Features of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Features<'a, T> {
    /// (samples, features), those of a block side by side.
    Rows(MatRef<'a, T>),
    /// (features, samples).
    Columns(MatRef<'a, T>, Order),
}

/// Features of a batch, to be written.
#[derive(Debug)]
pub enum FeaturesMut<'a, T> {
    /// (samples, features), those of a block side by side.
    Rows(MatMut<'a, T>),
    /// (features, samples).
    Columns(MatMut<'a, T>, Order),
}

impl<'a, T: Scalar> Blocks<'a, T> {
    /// Block `k`, or its transpose.
    fn block(&self, k: usize, direction: Direction) -> Arg<'a, T> {
        let rows = self.weights.rows() / self.count;
        let block = Arg::Plain(self.weights.rows_range(k * rows, rows));
        match direction {
            Direction::Forward => block,
            Direction::Back => block.transposed(),
        }
    }

    /// Features of all outputs and of all inputs.
    fn extents(&self, direction: Direction) -> (usize, usize) {
        let (out, inp) = (self.weights.rows(), self.weights.cols() * self.count);
        match direction {
            Direction::Forward => (out, inp),
            Direction::Back => (inp, out),
        }
    }
}

impl<'a, T: Scalar> Features<'a, T> {
    /// Features and samples.
    fn extents(&self) -> (usize, usize) {
        match self {
            Self::Rows(m) => (m.cols(), m.rows()),
            Self::Columns(m, _) => (m.rows(), m.cols()),
        }
    }

    /// Those of block `k` of `count`, (size, samples).
    fn block(&self, k: usize, count: usize) -> Arg<'a, T> {
        let size = self.extents().0 / count;
        match self {
            Self::Rows(m) => Arg::Transposed(m.columns(k * size, size)),
            Self::Columns(m, Order::Consecutive) => Arg::Plain(m.rows_range(k * size, size)),
            Self::Columns(m, Order::Interleaved) => Arg::Plain(m.rows_every(k, count)),
        }
    }
}

impl<T: Scalar> FeaturesMut<'_, T> {
    fn extents(&self) -> (usize, usize) {
        match self {
            Self::Rows(m) => (m.cols(), m.rows()),
            Self::Columns(m, _) => (m.rows(), m.cols()),
        }
    }

    /// Those of block `k` of `count`.
    fn block(&mut self, k: usize, count: usize) -> FeaturesMut<'_, T> {
        let size = self.extents().0 / count;
        match self {
            Self::Rows(m) => FeaturesMut::Rows(m.reborrow().columns(k * size, size)),
            Self::Columns(m, order) => {
                let m = m.reborrow();
                let view = match order {
                    Order::Consecutive => m.rows_range(k * size, size),
                    Order::Interleaved => m.rows_every(k, count),
                };
                FeaturesMut::Columns(view, *order)
            }
        }
    }
}

/// `y = diag(W_1, …, W_count) x`, or the same with every block transposed, by this thread alone.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn multiply<T: Scalar>(
    blocks: Blocks<'_, T>,
    direction: Direction,
    x: Features<'_, T>,
    mut y: FeaturesMut<'_, T>,
    write: Write,
) {
    let (out, inp) = blocks.extents(direction);
    let samples = x.extents().1;
    assert_eq!(x.extents(), (inp, samples), "features and samples of the input");
    assert_eq!(y.extents(), (out, samples), "features and samples of the output");
    for k in 0..blocks.count {
        let (weight, x) = (blocks.block(k, direction), x.block(k, blocks.count));
        match y.block(k, blocks.count) {
            FeaturesMut::Rows(y) => {
                product_on_this_thread(T::ONE, x.transposed(), weight.transposed(), y, write);
            }
            FeaturesMut::Columns(y, _) => product_on_this_thread(T::ONE, weight, x, y, write),
        }
    }
}

/// Adds the gradient of the blocks, `Σ dy_k x_kᵀ` over samples, to `grad` (count · out, inp), by
/// this thread alone.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn add_gradient<T: Scalar>(
    count: usize,
    dy: Features<'_, T>,
    x: Features<'_, T>,
    mut grad: MatMut<'_, T>,
) {
    let samples = x.extents().1;
    assert_eq!(dy.extents(), (grad.rows(), samples), "features and samples of the output");
    assert_eq!(x.extents(), (grad.cols() * count, samples), "features and samples of the input");
    let out = grad.rows() / count;
    for k in 0..count {
        let (dy, x) = (dy.block(k, count), x.block(k, count).transposed());
        let grad = grad.reborrow().rows_range(k * out, out);
        product_on_this_thread(T::ONE, dy, x, grad, Write::Add);
    }
}

/// [`multiply`] of rows, by all threads.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn multiply_rows<T: Scalar>(
    blocks: Blocks<'_, T>,
    direction: Direction,
    x: MatRef<'_, T>,
    y: MatMut<'_, T>,
) {
    assert_eq!(x.rows(), y.rows(), "rows of a block-diagonal product");
    parallel::for_each(y.row_blocks(ROW_BLOCK), |k, y| {
        let x = Features::Rows(x.rows_range(k * ROW_BLOCK, y.rows()));
        multiply(blocks, direction, x, FeaturesMut::Rows(y), Write::Set);
    });
}

/// [`add_gradient`] of rows, by all threads.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn add_gradient_of_rows<T: Scalar>(
    count: usize,
    dy: MatRef<'_, T>,
    x: MatRef<'_, T>,
    grad: MatMut<'_, T>,
) {
    assert_eq!(dy.cols(), grad.rows(), "features of the output");
    assert_eq!(x.cols(), grad.cols() * count, "features of the input");
    let (out, inp) = (dy.cols() / count, x.cols() / count);
    parallel::for_each(grad.row_blocks(out), |k, grad| {
        let (dy, x) = (dy.columns(k * out, out), x.columns(k * inp, inp));
        product_on_this_thread(T::ONE, Arg::Transposed(dy), x.into(), grad, Write::Add);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    fn random<T: Scalar>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    /// Feature `i` of block `k`.
    fn place(order: Order, k: usize, i: usize, (count, size): (usize, usize)) -> usize {
        match order {
            Order::Consecutive => k * size + i,
            Order::Interleaved => i * count + k,
        }
    }

    /// The dense form of blocks whose features stand in these orders.
    fn dense<T: Scalar>(blocks: Blocks<'_, T>, (out_order, inp_order): (Order, Order)) -> Mat<f64> {
        let (count, inp) = (blocks.count, blocks.weights.cols());
        let out = blocks.weights.rows() / count;
        let mut dense = Mat::zeros(count * out, count * inp);
        for k in 0..count {
            for i in 0..out {
                for j in 0..inp {
                    let row = place(out_order, k, i, (count, out));
                    let col = place(inp_order, k, j, (count, inp));
                    *dense.at_mut(row, col) = blocks.weights.at(k * out + i, j).to_f64();
                }
            }
        }
        dense
    }

    fn naive<T: Scalar>(a: &Mat<f64>, b: &Mat<T>) -> Mat<f64> {
        let term = |i, k, j| a.at(i, k) * b.at(k, j).to_f64();
        Mat::from_fn(a.rows(), b.cols(), |i, j| (0..a.cols()).map(|k| term(i, k, j)).sum())
    }

    #[track_caller]
    fn assert_close<T: Scalar>(found: &Mat<T>, expected: &Mat<f64>) {
        assert_eq!((found.rows(), found.cols()), (expected.rows(), expected.cols()));
        let tolerance = 200.0 * T::EPSILON.to_f64();
        for (found, expected) in found.data().iter().zip(expected.data()) {
            assert!((found.to_f64() - expected).abs() < tolerance, "{found} is not {expected}");
        }
    }

    const ORDERS: [Order; 2] = [Order::Consecutive, Order::Interleaved];

    fn columns_and_rows<T: Scalar>((count, out, inp): (usize, usize, usize), samples: usize) {
        let weights = random::<T>(count * out, inp, 1);
        let blocks = Blocks { count, weights: weights.view() };
        for (direction, ends) in [(Direction::Forward, (out, inp)), (Direction::Back, (inp, out))] {
            let x = random::<T>(count * ends.1, samples, 2);
            for orders in ORDERS.map(|out| ORDERS.map(|inp| (out, inp))).concat() {
                let whole = match direction {
                    Direction::Forward => dense(blocks, orders),
                    Direction::Back => dense(blocks, (orders.1, orders.0)).transpose(),
                };
                let expected = naive(&whole, &x);
                let mut y = Mat::from_fn(count * ends.0, samples, |_, _| T::ONE);
                let from = Features::Columns(x.view(), orders.1);
                let into = FeaturesMut::Columns(y.view_mut(), orders.0);
                multiply(blocks, direction, from, into, Write::Set);
                assert_close(&y, &expected);
                if orders.0 == Order::Consecutive {
                    let mut y = Mat::zeros(samples, count * ends.0);
                    multiply(blocks, direction, from, FeaturesMut::Rows(y.view_mut()), Write::Add);
                    assert_close(&y.transpose(), &expected);
                }
                if orders == (Order::Consecutive, Order::Consecutive) {
                    let mut y = Mat::zeros(samples, count * ends.0);
                    multiply_rows(blocks, direction, x.transpose().view(), y.view_mut());
                    assert_close(&y.transpose(), &expected);
                }
            }
        }
    }

    #[test]
    fn products_equal_their_naive_twins_in_every_order() {
        for blocks in [(1, 3, 2), (3, 2, 5), (4, 4, 4), (5, 1, 3)] {
            for samples in [0, 1, 7] {
                columns_and_rows::<f64>(blocks, samples);
            }
        }
        columns_and_rows::<f32>((2, 70, 66), 150);
    }

    #[test]
    fn gradients_equal_their_naive_twins_in_every_order() {
        let (count, out, inp, samples) = (3, 4, 2, 9);
        let (dy, x) = (random::<f64>(count * out, samples, 1), random(count * inp, samples, 2));
        let whole = naive(&dy, &x.transpose());
        for (out_order, inp_order) in ORDERS.map(|out| ORDERS.map(|inp| (out, inp))).concat() {
            let expected = Mat::from_fn(count * out, inp, |row, j| {
                let (k, i) = (row / out, row % out);
                let row = place(out_order, k, i, (count, out));
                1.0 + whole.at(row, place(inp_order, k, j, (count, inp)))
            });
            let mut grad = Mat::from_fn(count * out, inp, |_, _| 1.0);
            let from = Features::Columns(x.view(), inp_order);
            add_gradient(count, Features::Columns(dy.view(), out_order), from, grad.view_mut());
            assert_close(&grad, &expected);
            if (out_order, inp_order) == (Order::Consecutive, Order::Consecutive) {
                let (dy, x) = (dy.transpose(), x.transpose());
                let mut grad = Mat::from_fn(count * out, inp, |_, _| 1.0);
                add_gradient_of_rows(count, dy.view(), x.view(), grad.view_mut());
                assert_close(&grad, &expected);
            }
        }
    }
}
