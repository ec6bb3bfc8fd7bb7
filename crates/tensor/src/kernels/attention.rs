//! Causal attention of packed sequences with grouped queries and an optional window.
//!
//! For each sequence and head, with queries Q, keys K, values V: (positions, head_dim),
//! `O = softmax(Q Kᵀ / sqrt(head_dim)) V`, where query i sees keys j <= i, and with a window of
//! width w only those with j > i - w. Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; groups
//! of query heads that share a key and value head: Ainslie et al. 2023, arXiv:2305.13245.
//!
//! Queries go in blocks of rows, each against the keys that any of them sees, so that products are
//! matrix products and blocks above the diagonal are never touched. The backward pass computes the
//! probabilities anew from the log-sums that the forward pass left (Dao et al. 2022,
//! arXiv:2205.14135, Algorithm 4, without its splitting of keys):
//! `dV = Pᵀ dO`, `dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O))`, `dQ = dS K`, `dK = dSᵀ Q`, all over
//! `sqrt(head_dim)`.

use super::gemm::{Arg, Write, product_on_this_thread as product};
use super::instructions::vectorised;
use super::lanes;
use crate::parallel;
use crate::{MatMut, MatRef};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Queries computed together: few, so that little above the diagonal is computed in vain, and
/// enough for an efficient product.
const QUERIES: usize = 64;

/// What attends to what.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Rows of each sequence: one after another, covering all rows.
    pub spans: &'a [Range<usize>],
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides the query heads.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Keys that a query sees, its own included.
    pub window: Option<usize>,
}

/// Queries (rows, heads * head_dim), keys and values (rows, kv_heads * head_dim).
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Queries.
    pub query: MatRef<'a, f32>,
    /// Keys.
    pub key: MatRef<'a, f32>,
    /// Values.
    pub value: MatRef<'a, f32>,
}

/// The same shapes as [`Inputs`], overwritten with gradients.
#[derive(Debug)]
pub struct Gradients<'a> {
    /// Of queries.
    pub query: MatMut<'a, f32>,
    /// Of keys.
    pub key: MatMut<'a, f32>,
    /// Of values.
    pub value: MatMut<'a, f32>,
}

/// A block of queries and the keys that any of them sees, as positions in their sequence.
#[derive(Clone, Debug)]
struct Block {
    queries: Range<usize>,
    keys: Range<usize>,
}

/// Buffers that pieces of work take and give back.
type Scratch = Mutex<Vec<[Vec<f32>; 2]>>;

impl Attention<'_> {
    /// Attends: writes `output` (rows, heads * head_dim) and, for the backward pass, `log_sums`
    /// (rows, heads), the logarithm of the sum of the exponentials of each query's scores.
    ///
    /// # Panics
    /// If shapes do not match, or the spans do not cover the rows one after another.
    #[track_caller]
    pub fn forward(
        &self,
        inputs: Inputs<'_>,
        output: MatMut<'_, f32>,
        log_sums: Option<MatMut<'_, f32>>,
    ) {
        self.check(inputs);
        assert_eq!((output.rows(), output.cols()), (inputs.query.rows(), inputs.query.cols()));
        let mut sums = log_sums.map(|sums| self.pieces(sums).into_iter());
        let pieces: Vec<_> = self
            .blocks()
            .into_iter()
            .zip(self.pieces(output))
            .map(|(block, output)| (block, output, sums.as_mut().and_then(Iterator::next)))
            .collect();
        let scratch = Scratch::default();
        parallel::for_each(pieces, |_, ((span, block), mut output, mut sums)| {
            let [mut scores, rest] = take(&scratch);
            let inputs = inputs.of(span);
            for head in 0..self.heads {
                let head_out = output.reborrow().columns(head * self.head_dim, self.head_dim);
                let block_sums = self.attend(inputs, head, &block, &mut scores, head_out);
                if let Some(sums) = &mut sums {
                    for (i, sum) in block_sums.into_iter().enumerate() {
                        sums.row_mut(i)[head] = sum;
                    }
                }
            }
            give(&scratch, [scores, rest]);
        });
    }

    /// Gradients with respect to queries, keys and values, given `d_output`, the gradient of the
    /// output, and what the forward pass left.
    ///
    /// # Panics
    /// If shapes do not match, or the spans do not cover the rows one after another.
    #[track_caller]
    pub fn backward(
        &self,
        inputs: Inputs<'_>,
        (output, log_sums): (MatRef<'_, f32>, MatRef<'_, f32>),
        d_output: MatRef<'_, f32>,
        grads: Gradients<'_>,
    ) {
        self.check(inputs);
        let spans = |mat| split(mat, self.spans.iter().map(Range::len));
        let pieces: Vec<_> = spans(grads.query)
            .into_iter()
            .zip(spans(grads.key))
            .zip(spans(grads.value))
            .zip(self.spans)
            .map(|(((query, key), value), span)| (span, Gradients { query, key, value }))
            .collect();
        let scratch = Scratch::default();
        parallel::for_each(pieces, |_, (span, mut grads)| {
            let mut buffers = take(&scratch);
            let inputs = inputs.of(span);
            let [output, log_sums, d_output] =
                [output, log_sums, d_output].map(|mat| mat.rows_range(span.start, span.len()));
            grads.key.fill(0.0);
            grads.value.fill(0.0);
            for head in 0..self.heads {
                for block in self.blocks_of(span.len()) {
                    let slopes = self.score_gradients(
                        inputs,
                        (head, &block),
                        (output, log_sums, d_output),
                        &mut buffers,
                    );
                    self.spread(inputs, (head, &block), slopes, d_output, &mut grads);
                }
            }
            give(&scratch, buffers);
        });
    }

    /// One head of one block: writes its output and returns the log-sums of its queries.
    fn attend(
        &self,
        inputs: Inputs<'_>,
        head: usize,
        block: &Block,
        scores: &mut Vec<f32>,
        mut output: MatMut<'_, f32>,
    ) -> Vec<f32> {
        let (query, key, value) = self.block_of(inputs, head, block);
        let (rows, cols) = (query.rows(), key.rows());
        scores.resize((rows * cols).max(scores.len()), 0.0);
        let scores = &mut scores[..rows * cols];
        let target = MatMut::new(scores, rows, cols);
        product(self.scale(), Arg::Plain(query), Arg::Transposed(key), target, Write::Set);
        let sums: Vec<(f32, f32)> = (0..rows)
            .map(|i| {
                let row = &mut scores[i * cols..(i + 1) * cols];
                let seen = self.seen(block, i);
                row[..seen.start].fill(0.0);
                row[seen.end..].fill(0.0);
                exponentials(&mut row[seen])
            })
            .collect();
        let powers = Arg::Plain(MatRef::new(scores, rows, cols));
        product(1.0, powers, Arg::Plain(value), output.reborrow(), Write::Set);
        for (i, (_, sum)) in sums.iter().enumerate() {
            let share = 1.0 / sum;
            output.row_mut(i).iter_mut().for_each(|o| *o *= share);
        }
        sums.into_iter().map(|(max, sum)| max + sum.ln()).collect()
    }

    /// Probabilities and gradient of the scores of one head of one block, (queries, keys) each.
    fn score_gradients<'b>(
        &self,
        inputs: Inputs<'_>,
        (head, block): (usize, &Block),
        (output, log_sums, d_output): (MatRef<'_, f32>, MatRef<'_, f32>, MatRef<'_, f32>),
        [powers, slopes]: &'b mut [Vec<f32>; 2],
    ) -> [MatRef<'b, f32>; 2] {
        let (query, key, value) = self.block_of(inputs, head, block);
        let (rows, cols) = (query.rows(), key.rows());
        let [output, d_output] = [output, d_output].map(|mat| self.head_of(mat, head, block));
        for buffer in [&mut *powers, &mut *slopes] {
            buffer.resize((rows * cols).max(buffer.len()), 0.0);
        }
        let (powers, slopes) = (&mut powers[..rows * cols], &mut slopes[..rows * cols]);
        let target = MatMut::new(powers, rows, cols);
        product(self.scale(), Arg::Plain(query), Arg::Transposed(key), target, Write::Set);
        let target = MatMut::new(slopes, rows, cols);
        product(1.0, Arg::Plain(d_output), Arg::Transposed(value), target, Write::Set);
        for i in 0..rows {
            let row = i * cols..(i + 1) * cols;
            let (powers, slopes) = (&mut powers[row.clone()], &mut slopes[row]);
            let seen = self.seen(block, i);
            for outside in [0..seen.start, seen.end..cols] {
                powers[outside.clone()].fill(0.0);
                slopes[outside].fill(0.0);
            }
            let log_sum = log_sums.at(block.queries.start + i, head);
            let (powers, slopes) = (&mut powers[seen.clone()], &mut slopes[seen]);
            slope_row(powers, slopes, log_sum, output.row(i), d_output.row(i));
        }
        [MatRef::new(powers, rows, cols), MatRef::new(slopes, rows, cols)]
    }

    /// Turns the gradient of scores into gradients of queries, keys and values.
    fn spread(
        &self,
        inputs: Inputs<'_>,
        (head, block): (usize, &Block),
        [powers, slopes]: [MatRef<'_, f32>; 2],
        d_output: MatRef<'_, f32>,
        grads: &mut Gradients<'_>,
    ) {
        let (query, key, _) = self.block_of(inputs, head, block);
        let d_output = self.head_of(d_output, head, block);
        let target = |mat: &mut MatMut<'_, f32>,
                      head: usize,
                      rows: &Range<usize>,
                      work: &mut dyn FnMut(MatMut<'_, f32>)| {
            let rows = mat.reborrow().rows_range(rows.start, rows.len());
            work(rows.columns(head * self.head_dim, self.head_dim));
        };
        let kv_head = head / (self.heads / self.kv_heads);
        target(&mut grads.value, kv_head, &block.keys, &mut |d_value| {
            product(1.0, Arg::Transposed(powers), Arg::Plain(d_output), d_value, Write::Add);
        });
        target(&mut grads.key, kv_head, &block.keys, &mut |d_key| {
            product(self.scale(), Arg::Transposed(slopes), Arg::Plain(query), d_key, Write::Add);
        });
        target(&mut grads.query, head, &block.queries, &mut |d_query| {
            product(self.scale(), Arg::Plain(slopes), Arg::Plain(key), d_query, Write::Set);
        });
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    /// Which of a block's keys its `i`-th query sees.
    fn seen(&self, block: &Block, i: usize) -> Range<usize> {
        let position = block.queries.start + i;
        let first = self.first_key(position).max(block.keys.start);
        first - block.keys.start..position + 1 - block.keys.start
    }

    fn first_key(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// The blocks of a sequence.
    fn blocks_of(&self, len: usize) -> impl Iterator<Item = Block> {
        (0..len).step_by(QUERIES).map(move |start| {
            let end = (start + QUERIES).min(len);
            Block { queries: start..end, keys: self.first_key(start)..end }
        })
    }

    /// The blocks of all sequences, in order, with the rows of their sequence.
    fn blocks(&self) -> Vec<(&Range<usize>, Block)> {
        let of = |span| self.blocks_of(Range::len(span)).map(move |block| (span, block));
        self.spans.iter().flat_map(of).collect()
    }

    /// A matrix cut into the rows of each block.
    fn pieces<'m>(&self, mat: MatMut<'m, f32>) -> Vec<MatMut<'m, f32>> {
        split(mat, self.blocks().into_iter().map(|(_, block)| block.queries.len()))
    }

    /// Queries, keys and values of one head in one block.
    fn block_of<'m>(
        &self,
        inputs: Inputs<'m>,
        head: usize,
        block: &Block,
    ) -> (MatRef<'m, f32>, MatRef<'m, f32>, MatRef<'m, f32>) {
        let kv_head = head / (self.heads / self.kv_heads);
        let keys = |mat: MatRef<'m, f32>| {
            let rows = mat.rows_range(block.keys.start, block.keys.len());
            rows.columns(kv_head * self.head_dim, self.head_dim)
        };
        (self.head_of(inputs.query, head, block), keys(inputs.key), keys(inputs.value))
    }

    /// One head of the queries' rows.
    fn head_of<'m>(&self, mat: MatRef<'m, f32>, head: usize, block: &Block) -> MatRef<'m, f32> {
        let rows = mat.rows_range(block.queries.start, block.queries.len());
        rows.columns(head * self.head_dim, self.head_dim)
    }

    #[track_caller]
    fn check(&self, inputs: Inputs<'_>) {
        let Inputs { query, key, value } = inputs;
        let width = self.kv_heads * self.head_dim;
        assert!(self.heads.is_multiple_of(self.kv_heads), "heads in groups");
        assert_eq!(query.cols(), self.heads * self.head_dim, "width of queries");
        assert_eq!((key.cols(), value.cols()), (width, width), "width of keys and values");
        assert_eq!((key.rows(), value.rows()), (query.rows(), query.rows()), "rows");
        let end = self.spans.iter().fold(0, |end, span| {
            assert_eq!(span.start, end, "spans one after another");
            span.end
        });
        assert_eq!(end, query.rows(), "spans cover all rows");
    }
}

impl<'a> Inputs<'a> {
    /// The rows of one sequence.
    fn of(self, span: &Range<usize>) -> Self {
        let rows = |mat: MatRef<'a, f32>| mat.rows_range(span.start, span.len());
        Self { query: rows(self.query), key: rows(self.key), value: rows(self.value) }
    }
}

/// Cuts a matrix into pieces of the given numbers of rows.
fn split<'m>(mut mat: MatMut<'m, f32>, rows: impl Iterator<Item = usize>) -> Vec<MatMut<'m, f32>> {
    let mut pieces = Vec::new();
    for count in rows {
        let (head, tail) = mat.split_rows(count);
        pieces.push(head);
        mat = tail;
    }
    pieces
}

fn take(scratch: &Scratch) -> [Vec<f32>; 2] {
    scratch.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
}

fn give(scratch: &Scratch, buffers: [Vec<f32>; 2]) {
    scratch.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
}

vectorised! {
    /// Replaces scores by the exponentials of their distance to the largest; returns the largest and
    /// the sum of the exponentials.
    fn exponentials<const FUSED: bool>(scores: &mut [f32]) -> (f32, f32) {
        let max = lanes::max(scores);
        lanes::map(scores, |score| lanes::exp::<FUSED>(score - max));
        (max, lanes::sum(scores))
    }
}

vectorised! {
    /// Turns a row of scores into probabilities, and one of their gradients into those of the scores.
    fn slope_row<const FUSED: bool>(
        powers: &mut [f32],
        slopes: &mut [f32],
        log_sum: f32,
        output: &[f32],
        d_output: &[f32],
    ) {
        let mean = lanes::dot::<FUSED>(output, d_output);
        lanes::map(powers, |score| lanes::exp::<FUSED>(score - log_sum));
        for (power, slope) in powers.iter().zip(slopes) {
            *slope = power * (*slope - mean);
        }
    }
}

#[cfg(test)]
mod tests;
