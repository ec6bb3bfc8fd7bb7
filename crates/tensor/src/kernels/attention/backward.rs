//! Gradients: `dV = Pᵀ dO`, `dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O))`, times `1 - (s / cap)²` where
//! scores `s` are capped, `dQ = scale dS K`, `dK = scale dSᵀ Q`.

use super::parts::Parts;
use super::softmax::tanh;
use super::{Attention, Given, Gradients, Inputs};
use crate::kernels::gemm::{Arg, Write, product_on_this_thread as product};
use crate::kernels::instructions::vectorised;
use crate::kernels::lanes;
use crate::parallel;
use crate::{MatMut, MatRef, Scratch};
use std::ops::Range;

/// Queries per block: few, so that little is computed for masked keys, and enough for an efficient
/// product.
const QUERIES: usize = 128;
/// Keys per block.
const KEYS: usize = 512;

/// Gradients, written in parallel.
struct Targets<'a> {
    query: Parts<'a>,
    key: Parts<'a>,
    value: Parts<'a>,
}

/// Writes the gradients of packed sequences.
pub(super) fn backward(
    attention: &Attention,
    spans: &[Range<usize>],
    inputs: Inputs<'_>,
    given: Given<'_>,
    grads: Gradients<'_>,
) {
    let targets = Targets {
        query: Parts::new(grads.query),
        key: Parts::new(grads.key),
        value: Parts::new(grads.value),
    };
    let pieces: Vec<_> = spans
        .iter()
        .filter(|span| !span.is_empty())
        .flat_map(|span| (0..attention.kv_heads).map(move |kv_head| (span, kv_head)))
        .collect();
    parallel::for_each(pieces, |_, (span, kv_head)| {
        Heads { attention, span, inputs, given, kv_head }.backward(&targets);
    });
}

/// The query heads of one sequence that share a key and value head.
struct Heads<'a> {
    attention: &'a Attention,
    span: &'a Range<usize>,
    inputs: Inputs<'a>,
    given: Given<'a>,
    kv_head: usize,
}

/// Gradient sums of all keys of a sequence, and of a block of queries, (rows, head_dim) each.
struct Sums {
    query: Scratch<f32>,
    key: Scratch<f32>,
    value: Scratch<f32>,
}

/// A block of queries of one head and a block of keys, as positions in their sequence.
struct Block {
    head: usize,
    queries: Range<usize>,
    keys: Range<usize>,
}

impl Heads<'_> {
    fn backward(&self, targets: &Targets<'_>) {
        let (dim, group) = (self.attention.head_dim, self.attention.group());
        let count = self.span.len();
        let mut sums = Sums {
            query: Scratch::new(QUERIES * dim),
            key: Scratch::zeros(count * dim),
            value: Scratch::zeros(count * dim),
        };
        let mut memory = [Scratch::new(QUERIES * KEYS), Scratch::new(QUERIES * KEYS)];
        for head in self.kv_head * group..(self.kv_head + 1) * group {
            for start in (0..count).step_by(QUERIES) {
                let queries = start..count.min(start + QUERIES);
                let attended =
                    self.attended(queries.start).start..self.attended(queries.end - 1).end;
                sums.query[..queries.len() * dim].fill(0.0);
                for start in attended.clone().step_by(KEYS) {
                    let keys = start..attended.end.min(start + KEYS);
                    let block = Block { head, queries: queries.clone(), keys };
                    let slopes = self.score_gradients(&block, &mut memory);
                    self.spread(&block, slopes, &mut sums);
                }
                self.write(&targets.query, queries, head, &sums.query);
            }
        }
        self.write(&targets.key, 0..count, self.kv_head, &sums.key);
        self.write(&targets.value, 0..count, self.kv_head, &sums.value);
    }

    /// Keys that a query attends to.
    fn attended(&self, query: usize) -> Range<usize> {
        self.attention.attended(query, self.span.len(), self.span.len())
    }

    /// Some rows of one head.
    fn part<'m>(&self, mat: MatRef<'m, f32>, rows: &Range<usize>, head: usize) -> MatRef<'m, f32> {
        let dim = self.attention.head_dim;
        mat.rows_range(self.span.start + rows.start, rows.len()).columns(head * dim, dim)
    }

    /// Probabilities and gradient of the scores of a block, (queries, keys) each, the latter before
    /// scaling.
    fn score_gradients<'b>(
        &self,
        block: &Block,
        [powers, slopes]: &'b mut [Scratch<f32>; 2],
    ) -> [MatRef<'b, f32>; 2] {
        let Attention { scale, softcap, .. } = *self.attention;
        let Block { head, queries, keys } = block;
        let Given { output, log_sums, d_output } = self.given;
        let query = self.part(self.inputs.query, queries, *head);
        let [key, value] =
            [self.inputs.key, self.inputs.value].map(|mat| self.part(mat, keys, self.kv_head));
        let [output, d_output] = [output, d_output].map(|mat| self.part(mat, queries, *head));
        let (rows, cols) = (queries.len(), keys.len());
        let (powers, slopes) = (&mut powers[..rows * cols], &mut slopes[..rows * cols]);
        let target = MatMut::new(powers, rows, cols);
        product(scale, Arg::Plain(query), Arg::Transposed(key), target, Write::Set);
        let target = MatMut::new(slopes, rows, cols);
        product(1.0, Arg::Plain(d_output), Arg::Transposed(value), target, Write::Set);
        for i in 0..rows {
            let row = i * cols..(i + 1) * cols;
            let (powers, slopes) = (&mut powers[row.clone()], &mut slopes[row]);
            let attended = self.attended(queries.start + i);
            let [from, to] = [attended.start, attended.end]
                .map(|end| end.clamp(keys.start, keys.end) - keys.start);
            for outside in [0..from, to..cols] {
                powers[outside.clone()].fill(0.0);
                slopes[outside].fill(0.0);
            }
            let log_sum = log_sums.at(self.span.start + queries.start + i, *head);
            let (powers, slopes) = (&mut powers[from..to], &mut slopes[from..to]);
            slope_row(powers, slopes, log_sum, softcap, output.row(i), d_output.row(i));
        }
        [MatRef::new(powers, rows, cols), MatRef::new(slopes, rows, cols)]
    }

    /// Converts the gradient of scores to gradients of queries, keys and values.
    fn spread(&self, block: &Block, [powers, slopes]: [MatRef<'_, f32>; 2], sums: &mut Sums) {
        let Attention { head_dim: dim, scale, .. } = *self.attention;
        let Block { head, queries, keys } = block;
        let query = self.part(self.inputs.query, queries, *head);
        let d_output = self.part(self.given.d_output, queries, *head);
        let key = self.part(self.inputs.key, keys, self.kv_head);
        let of_keys = keys.start * dim..keys.end * dim;
        let target = MatMut::new(&mut sums.value[of_keys.clone()], keys.len(), dim);
        product(1.0, Arg::Transposed(powers), Arg::Plain(d_output), target, Write::Add);
        let target = MatMut::new(&mut sums.key[of_keys], keys.len(), dim);
        product(scale, Arg::Transposed(slopes), Arg::Plain(query), target, Write::Add);
        let target = MatMut::new(&mut sums.query[..queries.len() * dim], queries.len(), dim);
        product(scale, Arg::Plain(slopes), Arg::Plain(key), target, Write::Add);
    }

    /// Writes gradient sums to some rows of one head.
    #[allow(unsafe_code, reason = "pieces of work write disjoint parts of one matrix")]
    fn write(&self, target: &Parts<'_>, rows: Range<usize>, head: usize, sums: &[f32]) {
        let dim = self.attention.head_dim;
        for (row, sums) in rows.zip(sums.chunks_exact(dim)) {
            let columns = head * dim..(head + 1) * dim;
            // SAFETY: spans do not overlap, and each head of one belongs to one piece.
            unsafe { target.part(self.span.start + row, columns) }.copy_from_slice(sums);
        }
    }
}

vectorised! {
    /// Replaces a row of scores by probabilities, and the gradient of the probabilities by that of
    /// the scores before the cap.
    fn slope_row<const FUSED: bool>(
        powers: &mut [f32],
        slopes: &mut [f32],
        log_sum: f32,
        softcap: Option<f32>,
        output: &[f32],
        d_output: &[f32],
    ) {
        let mean = lanes::dot::<FUSED>(output, d_output);
        if let Some(cap) = softcap {
            let inverse = 1.0 / cap;
            for (power, slope) in powers.iter_mut().zip(&mut *slopes) {
                let share = tanh::<FUSED>(*power * inverse);
                *power = cap * share;
                *slope = (*slope - mean) * (1.0 - share * share);
            }
        } else {
            slopes.iter_mut().for_each(|slope| *slope -= mean);
        }
        lanes::map(powers, |score| lanes::exp::<FUSED>(score - log_sum));
        for (power, slope) in powers.iter().zip(slopes) {
            *slope *= power;
        }
    }
}
