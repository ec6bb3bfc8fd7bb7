//! Block-diagonal maps with Walsh-Hadamard transforms between them (BH-m).
//!
//! `y = F · (H B_{m-1} / √d) ⋯ (H B_1 / √d) · pad(x)`: `B_i` block diagonal with square blocks, `H`
//! the Walsh-Hadamard transform of size d, the next power of two from inp; `F` block diagonal with
//! `blocks` rectangular blocks. BH1 is `F` alone, without padding.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | (m - 1) d · block + d · out / blocks | the same + (m - 1) d log2 d |
//!
//! Source: the BH baseline of arXiv 2507.11688; `F` is initialised as 0.1 N(0, 1), `B_i` as N(0,
//! 1). The original requires that 128 divide both sides. Here `blocks` is 128 if that divides both
//! sides, else the largest power of two that divides both and leaves blocks of at least 4 x 4.
//!
//! ```
//! use linwright_ops::{BlockHadamard, BlockHadamardSpec, Map, Shape, Structured, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let spec = BlockHadamardSpec::default(); // BH1
//! let shape = Shape { out: 512, inp: 2048 };
//! let op: BlockHadamard<f32> = BlockHadamard::random(&spec, shape, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.params()), 8_192);
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::columns::{RowBlocks, columns_of, padded_columns_of};
use super::row_pieces::{self, Block};
use super::{OpSpec, divisors};
use crate::{
    Backward, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape, Structured, Tape,
    Workspace,
};
use linwright_tensor::kernels::gemm::{ColumnBlocks, Destination, Direction, Order, Write};
use linwright_tensor::kernels::hadamard;
use linwright_tensor::kernels::transpose::from_columns;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar, Scratch, parallel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Options of [`BlockHadamard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BlockHadamardSpec {
    /// Number m of block-diagonal maps; 1 is the final one only.
    pub depth: usize,
    /// Side of the square blocks of the inner maps, a power of two; one block if d is smaller.
    pub block: usize,
    /// Number of blocks of the final map; by the rule in the module documentation if absent.
    pub blocks: Option<usize>,
}

impl Default for BlockHadamardSpec {
    fn default() -> Self {
        Self { depth: 1, block: 64, blocks: None }
    }
}

impl BlockHadamardSpec {
    /// Inner width: transforms need a power of two.
    fn width(&self, shape: Shape) -> usize {
        // Shapes beyond the largest power of two are not supported anyway.
        let padded = || shape.inp.checked_next_power_of_two().unwrap_or(usize::MAX);
        if self.depth > 1 { padded() } else { shape.inp }
    }

    /// Default number of blocks of the final map: 128 if it divides both `out` and `inp`, else the
    /// largest power of two that divides both and leaves blocks of at least 4 x 4, if there is one.
    #[must_use]
    pub fn default_blocks(shape: Shape) -> Option<usize> {
        let Shape { out, inp } = shape;
        let divides =
            |k: usize| out > 0 && inp > 0 && out.is_multiple_of(k) && inp.is_multiple_of(k);
        if divides(128) {
            return Some(128);
        }
        let powers = (0..usize::BITS - 1).map(|k| 1 << k).take_while(|&k| divides(k));
        powers.filter(|&k| out / k >= 4 && inp / k >= 4).last()
    }
}

/// Diagonal blocks of one shape.
#[derive(Clone, Debug, PartialEq)]
struct Blocks<T> {
    count: usize,
    /// (count · rows of a block, columns of a block).
    weights: Mat<T>,
}

impl<T: Scalar> Blocks<T> {
    fn random(count: usize, shape: Shape, scale: f64, key: RngKey) -> Self {
        let (rows, cols) = (shape.out, shape.inp / count);
        let weights = Mat::from_vec(rows, cols, key.stream().normals(rows * cols, scale));
        Self { count, weights }
    }

    /// Rows and columns of a block.
    fn block(&self) -> (usize, usize) {
        (self.weights.rows() / self.count, self.weights.cols())
    }

    fn shape(&self) -> Vec<usize> {
        let (rows, cols) = self.block();
        vec![self.count, rows, cols]
    }

    fn packed(&self) -> ColumnBlocks<T> {
        ColumnBlocks::new(self.weights.view(), self.count, Order::Consecutive)
    }
}

/// Block-diagonal maps with Walsh-Hadamard transforms between them.
#[derive(Clone, Debug)]
pub struct BlockHadamard<T> {
    spec: BlockHadamardSpec,
    shape: Shape,
    inner: Vec<Blocks<T>>,
    last: Blocks<T>,
    /// The packed block-diagonal maps.
    derived: OnceLock<Vec<ColumnBlocks<T>>>,
}

impl<T: Scalar> BlockHadamard<T> {
    /// Inner width: inp, padded to a power of two if there are inner maps.
    fn width(&self) -> usize {
        self.last.count * self.last.block().1
    }

    /// The maps packed for columns, the final one last.
    fn packed(&self) -> &[ColumnBlocks<T>] {
        self.derived.get_or_init(|| {
            parallel::map(self.inner.iter().chain([&self.last]).collect(), |_, map| map.packed())
        })
    }

    /// Factor that makes the transform after map `k` orthonormal; the final map has none.
    fn scale(&self, k: usize) -> T {
        let width = if k < self.inner.len() { self.width() } else { 1 };
        T::from_f64(1.0 / (width as f64).sqrt())
    }

    fn blocks(&self) -> RowBlocks {
        // Product tiles process two registers of rows.
        RowBlocks::new(self.width(), 2)
    }

    fn forward_block(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>, saved: Option<&mut [T]>) {
        let (width, features) = (RowBlocks::width(x.rows()), self.width());
        let mut here = padded_columns_of(x, width, features);
        let mut saved = saved.map(|saved| saved.chunks_exact_mut(features * width));
        for (k, map) in self.packed().iter().enumerate() {
            let inner = k < self.inner.len();
            let mut next = Scratch::new(if inner { here.len() } else { self.shape.out * width });
            let to = Destination { y: &mut next[..], scale: self.scale(k), write: Write::Set };
            map.apply(Direction::Forward, &here, width, to);
            if inner {
                hadamard::columns(&mut next, width);
                // The input of each further map is needed for its gradient.
                if let Some(saved) = saved.as_mut().and_then(Iterator::next) {
                    saved.copy_from_slice(&next);
                }
            }
            here = next;
        }
        from_columns(&here, width, &mut y);
    }

    /// `saved`: results of the forward pass for the block.
    fn backward_block(&self, block: Block<'_, T>, saved: &[T]) {
        let Block { x, dy, dx, mut grads, .. } = block;
        let width = RowBlocks::width(x.rows());
        let len = self.width() * width;
        let first = padded_columns_of(x, width, self.width());
        let mut d_here = columns_of(dy, width);
        for (k, map) in self.packed().iter().enumerate().rev() {
            if k < self.inner.len() {
                hadamard::columns(&mut d_here, width);
                // The scale of `forward_block`, once for input and for weights.
                let scale = self.scale(k);
                d_here.iter_mut().for_each(|d| *d *= scale);
            }
            let input = if k == 0 { &first[..] } else { &saved[(k - 1) * len..][..len] };
            let weights = self.inner.get(k).unwrap_or(&self.last).weights.data().len();
            grads = grads.map(|grads| {
                let (before, own) = grads.split_at_mut(grads.len() - weights);
                map.add_gradient(&d_here, input, width, own);
                before
            });
            let mut d_next = Scratch::new(len);
            let to = Destination { y: &mut d_next[..], scale: T::ONE, write: Write::Set };
            map.apply(Direction::Back, &d_here, width, to);
            d_here = d_next;
        }
        if let Some(mut dx) = dx {
            from_columns(&d_here[..self.shape.inp * width], width, &mut dx);
        }
    }

    fn name(index: usize) -> String {
        format!("inner{index}")
    }
}

impl<T: Scalar> Map<T> for BlockHadamard<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::BlockHadamard(self.spec)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn macs_per_row(&self) -> u64 {
        let weights = |blocks: &Blocks<T>| blocks.weights.data().len();
        let butterflies = self.width() * self.width().max(1).ilog2() as usize;
        let inner = self.inner.iter().map(|blocks| weights(blocks) + butterflies).sum::<usize>();
        (inner + weights(&self.last)) as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let named = self.inner.iter().enumerate().map(|(k, blocks)| (Self::name(k), blocks));
        named
            .chain([("final".into(), &self.last)])
            .map(|(name, b)| Param { name, shape: b.shape(), values: b.weights.data() })
            .collect()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.derived.take();
        let named = self.inner.iter_mut().enumerate().map(|(k, blocks)| (Self::name(k), blocks));
        named
            .chain([("final".into(), &mut self.last)])
            .map(|(name, b)| ParamMut { name, shape: b.shape(), values: b.weights.data_mut() })
            .collect()
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.shape.inp), "input of block-Hadamard");
        assert_eq!(y.cols(), self.shape.out, "output of block-Hadamard");
        self.packed();
        let block = self.blocks().rows;
        let len = self.inner.len() * self.width() * RowBlocks::width(block);
        row_pieces::forward_and_keep(block, x, y, tape, len, |x, y, saved| {
            self.forward_block(x, y, saved);
        });
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let (x, dy, tape) = (args.x, args.dy, args.tape);
        assert_eq!((x.rows(), x.cols()), (dy.rows(), self.shape.inp), "input of block-Hadamard");
        assert_eq!(dy.cols(), self.shape.out, "output of block-Hadamard");
        row_pieces::backward(self.blocks().rows, args, ws, |block| {
            let saved = tape.saved(0).row(block.index);
            self.backward_block(block, saved);
        });
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for BlockHadamard<T> {}

impl KindOptions for BlockHadamardSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    /// BH2: the default, BH1, mixes no blocks.
    fn standard() -> Self {
        Self { depth: 2, ..Self::default() }
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        let depth = self.depth;
        // Inner maps have the next power of two as their width.
        let padded = if depth > 1 { shape.inp.next_power_of_two() } else { shape.inp };
        let inner = divisors::powers_of_two(if depth > 1 { padded } else { 1 });
        let of_block = |block: usize| {
            divisors::common(Shape { inp: padded, ..shape }).map(move |blocks| Self {
                depth,
                block,
                blocks: Some(blocks),
            })
        };
        inner.flat_map(of_block).collect()
    }

    fn shrunk(&self, by: usize) -> Self {
        Self { blocks: self.blocks.map(|blocks| (blocks / by).max(1)), ..*self }
    }
}

impl<T: Scalar> Structured<T> for BlockHadamard<T> {
    type Spec = BlockHadamardSpec;
    const KIND: &'static str = "block_hadamard";
    const EQUATION: &'static str = "W = F (H B_(m-1)) .. (H B_1), F and B block diagonal";
    const PARAMETERS: &'static str = "(m - 1) d block + d out / blocks";
    const MACS: &'static str = "parameters + (m - 1) d log2 d";

    fn numbers(spec: &BlockHadamardSpec, shape: Shape) -> u64 {
        let width = spec.width(shape);
        let blocks = spec
            .blocks
            .or_else(|| BlockHadamardSpec::default_blocks(Shape { out: shape.out, inp: width }));
        let inputs = width / blocks.unwrap_or(1).max(1);
        let last = (shape.out as u64).saturating_mul(inputs as u64);
        let side = width / width.div_ceil(spec.block.max(1)).max(1);
        let inner = (width as u64).saturating_mul(side as u64);
        inner.saturating_mul(spec.depth.saturating_sub(1) as u64).saturating_add(last)
    }

    /// The block-diagonal maps.
    fn parts(spec: &BlockHadamardSpec, _shape: Shape) -> u64 {
        spec.depth as u64
    }

    fn random(spec: &BlockHadamardSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        if spec.depth == 0 || !spec.block.is_power_of_two() {
            return Err(refuse(format!(
                "depth {} must be at least 1 and block {} a power of two",
                spec.depth, spec.block
            )));
        }
        if shape.out == 0 || shape.inp == 0 {
            return Err(refuse("both sides need at least one feature".into()));
        }
        let width = spec.width(shape);
        let padded = Shape { out: shape.out, inp: width };
        let blocks = spec.blocks.or_else(|| BlockHadamardSpec::default_blocks(padded));
        let blocks = blocks.ok_or_else(|| {
            refuse("no number of blocks leaves at least 4 x 4 each; set `blocks`".into())
        })?;
        if blocks == 0 || !shape.out.is_multiple_of(blocks) || !width.is_multiple_of(blocks) {
            return Err(refuse(format!("{blocks} blocks do not divide {width} and {}", shape.out)));
        }
        let square = Shape { out: width, inp: width };
        let count = width.div_ceil(spec.block);
        let inner = (0..spec.depth - 1)
            .map(|k| Blocks::random(count, square, 1.0, key.fold("inner").fold_index(k as u64)))
            .collect();
        let last = Blocks::random(blocks, padded, 0.1, key.fold("final"));
        let spec = BlockHadamardSpec { blocks: Some(blocks), ..*spec };
        Ok(Self { spec, shape, inner, last, derived: OnceLock::new() })
    }

    fn examples() -> Vec<(BlockHadamardSpec, Shape)> {
        let spec = |depth, block, blocks| BlockHadamardSpec { depth, block, blocks };
        vec![
            (spec(1, 64, None), Shape { out: 8, inp: 16 }),
            (spec(1, 64, Some(3)), Shape { out: 9, inp: 6 }),
            (spec(2, 4, None), Shape { out: 12, inp: 13 }),
            (spec(3, 64, Some(2)), Shape { out: 10, inp: 8 }),
            (spec(2, 64, Some(1)), Shape { out: 3, inp: 1 }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter_count;
    use linwright_tensor::kernels::gemm::linear;

    #[test]
    fn blocks_follow_the_rule_and_parameters_are_the_papers() {
        let count = |out, inp, spec: BlockHadamardSpec| {
            let op =
                BlockHadamard::<f32>::random(&spec, Shape { out, inp }, RngKey::new(0)).unwrap();
            (op.spec.blocks.unwrap(), parameter_count(&op.params()))
        };
        let bh1 = BlockHadamardSpec::default();
        assert_eq!(count(2048, 2048, bh1), (128, 32_768));
        assert_eq!(count(512, 2048, bh1), (128, 8_192));
        assert_eq!(count(64, 96, bh1), (16, 64 * 96 / 16));
        assert_eq!(count(12, 24, bh1), (2, 144));
        let bh2 = BlockHadamardSpec { depth: 2, ..bh1 };
        assert_eq!(count(128, 100, bh2), (128, 128 * 64 + 128));
    }

    #[test]
    fn impossible_shapes_are_named() {
        let build = |out, inp, blocks| {
            let spec = BlockHadamardSpec { blocks, ..BlockHadamardSpec::default() };
            BlockHadamard::<f32>::random(&spec, Shape { out, inp }, RngKey::new(0))
                .unwrap_err()
                .to_string()
        };
        assert!(build(3, 8, None).contains("cannot map 8 to 3 features"));
        assert!(build(8, 8, Some(3)).contains("3 blocks do not divide 8 and 8"));
    }

    #[test]
    fn an_inner_map_is_a_block_product_then_the_orthonormal_transform() {
        let spec = BlockHadamardSpec { depth: 2, block: 2, blocks: Some(1) };
        let shape = Shape { out: 4, inp: 3 };
        let op: BlockHadamard<f64> = BlockHadamard::random(&spec, shape, RngKey::new(4)).unwrap();
        let block_diagonal =
            Mat::from_fn(
                4,
                4,
                |i, j| {
                    if i / 2 == j / 2 { op.inner[0].weights.at(i, j % 2) } else { 0.0 }
                },
            );
        let mut expected = block_diagonal.transpose();
        hadamard::rows(expected.view_mut());
        let mut want = Mat::zeros(4, 4);
        linear(op.last.weights.view(), expected.view(), want.view_mut(), Write::Set);
        for i in 0..4 {
            for j in 0..3 {
                assert!((op.to_dense().at(i, j) - want.at(i, j) / 2.0).abs() < 1e-12);
            }
        }
    }
}
