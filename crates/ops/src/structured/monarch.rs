//! Monarch maps: two block-diagonal maps with a fixed permutation between them.
//!
//! `W = P L Pᵀ R`, R: b blocks (out/b, inp/b), L: out/b blocks (b, b). P writes out = b · q
//! features as a (q, b) grid and reads it by columns: block j of L takes output j of every block of
//! R.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | out · inp / b + out · b | the same |
//!
//! Source: Dao et al. 2022, arXiv 2204.00595, section 3 and the class MB(b, n) of its appendix;
//! blocks are initialised as PyTorch's `Linear`. Deviations: for a rectangle, only R changes the
//! number of features, while the original's code changes it where the middle gets narrower; b
//! defaults to the common divisor of both sides nearest to √inp, in the original to 4. The backward
//! pass recomputes the hidden features, which is cheaper than keeping them.
//!
//! ```
//! use linwright_ops::{Map, Monarch, MonarchSpec, Shape, Structured, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let shape = Shape { out: 1024, inp: 1024 };
//! let op: Monarch<f32> = Monarch::random(&MonarchSpec::default(), shape, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.params()), 2 * 1024 * 32); // dense: 1,048,576
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::columns::{RowBlocks, columns_of};
use super::initial::as_of_linear;
use super::row_pieces::{self, Block};
use super::{OpSpec, divisors};
use crate::{
    Backward, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape, Structured, Tape,
    Workspace,
};
use linwright_tensor::kernels::gemm::{ColumnBlocks, Destination, Direction, Order, Write};
use linwright_tensor::kernels::transpose::from_columns;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar, Scratch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Options of [`Monarch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MonarchSpec {
    /// Number b of blocks of R; the common divisor of both sides nearest to √inp if absent.
    pub blocks: Option<usize>,
}

impl MonarchSpec {
    fn blocks(self, shape: Shape) -> usize {
        self.blocks.unwrap_or_else(|| divisors::common_near_root(shape))
    }
}

/// `W = P L Pᵀ R` with block-diagonal L and R.
#[derive(Clone, Debug)]
pub struct Monarch<T> {
    shape: Shape,
    blocks: usize,
    /// L: (out / b · b, b).
    left: Mat<T>,
    /// R: (b · out / b, inp / b).
    right: Mat<T>,
    /// L and R, packed for products.
    derived: OnceLock<[ColumnBlocks<T>; 2]>,
}

impl<T: Scalar> Monarch<T> {
    /// Number of blocks of L.
    fn left_blocks(&self) -> usize {
        self.shape.out / self.blocks
    }

    fn shapes(&self) -> [Vec<usize>; 2] {
        let Shape { out, inp } = self.shape;
        let (b, q) = (self.blocks, self.left_blocks());
        [vec![q, b, b], vec![b, out / b, inp / b]]
    }

    /// L and R, packed for columns.
    fn packed(&self) -> &[ColumnBlocks<T>; 2] {
        self.derived.get_or_init(|| {
            let left = (self.left.view(), self.left_blocks(), Order::Interleaved);
            let right = (self.right.view(), self.blocks, Order::Consecutive);
            [left, right].map(|(weights, count, order)| ColumnBlocks::new(weights, count, order))
        })
    }

    /// Rows per block.
    fn block_rows(&self) -> usize {
        // Product tiles process two registers of rows.
        RowBlocks::new(self.shape.out.max(self.shape.inp), 2).rows
    }

    fn forward_block(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>) {
        let ([left, right], width) = (self.packed(), RowBlocks::width(x.rows()));
        let out = self.shape.out;
        let hidden = through(right, Direction::Forward, &columns_of(x, width), out, width);
        let columns = through(left, Direction::Forward, &hidden, out, width);
        from_columns(&columns, width, &mut y);
    }

    fn backward_block(&self, block: Block<'_, T>) {
        let Block { x, dy, dx, grads, .. } = block;
        let ([left, right], width) = (self.packed(), RowBlocks::width(x.rows()));
        let Shape { out, inp } = self.shape;
        let grads = grads.map(|grads| grads.split_at_mut(self.left.data().len()));
        let (grad_left, grad_right) = grads.unzip();
        let (x, dy) = (columns_of(x, width), columns_of(dy, width));
        if let Some(grad) = grad_left {
            let hidden = through(right, Direction::Forward, &x, out, width);
            left.add_gradient(&dy, &hidden, width, grad);
        }
        let d_hidden = through(left, Direction::Back, &dy, out, width);
        if let Some(grad) = grad_right {
            right.add_gradient(&d_hidden, &x, width, grad);
        }
        if let Some(mut dx) = dx {
            let columns = through(right, Direction::Back, &d_hidden, inp, width);
            from_columns(&columns, width, &mut dx);
        }
    }
}

/// Applies the blocks to `columns`; the result has `features` columns of the same width.
fn through<T: Scalar>(
    blocks: &ColumnBlocks<T>,
    direction: Direction,
    columns: &[T],
    features: usize,
    width: usize,
) -> Scratch<T> {
    let mut result = Scratch::new(features * width);
    let to = Destination { y: &mut result[..], scale: T::ONE, write: Write::Set };
    blocks.apply(direction, columns, width, to);
    result
}

impl<T: Scalar> Map<T> for Monarch<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::Monarch(MonarchSpec { blocks: Some(self.blocks) })
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn macs_per_row(&self) -> u64 {
        (self.left.data().len() + self.right.data().len()) as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let [left, right] = self.shapes();
        vec![
            Param { name: "left".into(), shape: left, values: self.left.data() },
            Param { name: "right".into(), shape: right, values: self.right.data() },
        ]
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.derived.take();
        let [left, right] = self.shapes();
        vec![
            ParamMut { name: "left".into(), shape: left, values: self.left.data_mut() },
            ParamMut { name: "right".into(), shape: right, values: self.right.data_mut() },
        ]
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.shape.inp), "input of a Monarch map");
        self.packed();
        row_pieces::forward(self.block_rows(), x, y, |x, y| self.forward_block(x, y));
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        self.packed();
        // Every block passes over all gradients, so blocks are larger here, although they leave the
        // cache.
        let block = 2 * self.block_rows();
        row_pieces::backward(block, args, ws, |block| self.backward_block(block));
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for Monarch<T> {}

impl KindOptions for MonarchSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self::default()
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        divisors::common(shape).map(|blocks| Self { blocks: Some(blocks) }).collect()
    }

    fn shrunk(&self, _by: usize) -> Self {
        Self { blocks: None }
    }
}

impl<T: Scalar> Structured<T> for Monarch<T> {
    type Spec = MonarchSpec;
    const KIND: &'static str = "monarch";
    const EQUATION: &'static str = "W = P L P^T R, L and R block diagonal";
    const PARAMETERS: &'static str = "out inp / b + out b";
    const MACS: &'static str = "out inp / b + out b";

    fn numbers(spec: &MonarchSpec, shape: Shape) -> u64 {
        let b = spec.blocks(shape).max(1) as u64;
        let (out, inp) = (shape.out as u64, shape.inp as u64);
        out.saturating_mul((inp / b).saturating_add(b))
    }

    fn random(spec: &MonarchSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        let Shape { out, inp } = shape;
        if out == 0 || inp == 0 {
            return Err(refuse("both sides need at least one feature".into()));
        }
        let b = spec.blocks(shape);
        if b == 0 {
            return Err(refuse("0 blocks; at least 1 is possible".into()));
        }
        if let Some(reason) = divisors::refusal(shape, Shape { out: b, inp: b }) {
            return Err(refuse(format!("{out} x {inp} features with {b} blocks: {reason}")));
        }
        let left = as_of_linear(out, b, b, key.fold("left"));
        let right = as_of_linear(out, inp / b, inp / b, key.fold("right"));
        Ok(Self { shape, blocks: b, left, right, derived: OnceLock::new() })
    }

    fn examples() -> Vec<(MonarchSpec, Shape)> {
        let case = |out, inp, blocks| (MonarchSpec { blocks }, Shape { out, inp });
        vec![
            case(9, 9, None),
            case(12, 20, Some(2)),
            case(10, 5, Some(5)),
            case(8, 24, None),
            case(3, 1, None),
            case(7, 7, Some(7)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_papers_product_of_dense_matrices() {
        let (b, q, p) = (3, 4, 2);
        let spec = MonarchSpec { blocks: Some(b) };
        let shape = Shape { out: b * q, inp: b * p };
        let op: Monarch<f64> = Monarch::random(&spec, shape, RngKey::new(1)).unwrap();
        // Output i of block j of L is at i · q + j, and reads output j of all blocks of R.
        let expected = Mat::from_fn(b * q, b * p, |row, col| {
            let (i, j, k) = (row / q, row % q, col / p);
            op.left.at(j * b + i, k) * op.right.at(k * q + j, col % p)
        });
        let dense = op.to_dense();
        for (found, expected) in dense.data().iter().zip(expected.data()) {
            assert!((found - expected).abs() < 1e-14);
        }
    }

    #[test]
    fn impossible_blocks_are_told_with_the_nearest_shapes() {
        let build = |out, inp, blocks| {
            Monarch::<f32>::random(&MonarchSpec { blocks }, Shape { out, inp }, RngKey::new(0))
                .unwrap_err()
                .to_string()
        };
        let said =
            "12 x 10 features with 4 blocks: 10 is not a multiple of 4; nearest: 12 x 12 or 12 x 8";
        assert!(build(12, 10, Some(4)).contains(said));
        assert!(build(12, 10, Some(0)).contains("0 blocks"));
        assert!(build(0, 10, None).contains("at least one feature"));
    }
}
