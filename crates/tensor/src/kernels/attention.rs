//! Attention for sequences of any lengths: causal, with a sliding window, or bidirectional.
//!
//! For a sequence with queries `Q`, keys `K` and values `V` of one head: `s_ij = scale q_i·k_j`,
//! with a soft cap `cap tanh(s_ij / cap)`; `P_i = softmax(s_i)` over the keys that query i attends
//! to; `O = P V`. Vaswani et al. 2017, arXiv:1706.03762, eq. 1; grouped-query attention: Ainslie et
//! al. 2023, arXiv:2305.13245; soft caps: Gemma 2, arXiv:2408.00118, section 2.
//!
//! Keys are processed in blocks, and each query keeps a running maximum, the sum of exponentials
//! and the weighted sum of values (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022,
//! arXiv:2205.14135). So the matrix of scores is never materialised, and fully masked blocks are
//! skipped. The backward pass recomputes the probabilities from the log-sums of the forward pass
//! (Algorithm 4 of the latter).
//!
//! The result of a query depends only on its own sequence, and blocks of keys begin at the first
//! key of the sequence: neither the number of threads nor other sequences change a bit.

mod backward;
mod decode;
mod forward;
mod parts;
mod softmax;

use crate::{MatMut, MatRef};
use parts::Parts;
use std::ops::Range;

/// Parameters of attention, equal for all heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides the query heads.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Scale of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Attention mask.
    pub mask: Mask,
    /// Soft cap: scores `s` become `cap tanh(s / cap)`.
    pub softcap: Option<f32>,
}

/// Attention mask: the keys of its sequence that a query attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Causal: its own key and all before.
    Causal {
        /// Sliding window: this many last keys, its own included; at least one.
        window: Option<usize>,
    },
    /// Bidirectional, as in encoders.
    None,
}

/// One sequence. Its last query belongs to its last key: query i of n is at position `key.rows() -
/// n + i`, so cached keys come first.
#[derive(Clone, Debug)]
pub struct Sequence<'a> {
    /// Rows of the query matrix.
    pub queries: Range<usize>,
    /// All keys of the sequence: (positions, kv_heads * head_dim).
    pub key: MatRef<'a, f32>,
    /// Their values, of the same shape.
    pub value: MatRef<'a, f32>,
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

/// What [`Attention::backward`] starts from, for the rows of [`Inputs`].
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Output of the forward pass: (rows, heads * head_dim).
    pub output: MatRef<'a, f32>,
    /// Its log-sums: (rows, heads).
    pub log_sums: MatRef<'a, f32>,
    /// Gradient of the output, of its shape.
    pub d_output: MatRef<'a, f32>,
}

/// Output buffers for gradients, of the shapes of [`Inputs`].
#[derive(Debug)]
pub struct Gradients<'a> {
    /// Of queries.
    pub query: MatMut<'a, f32>,
    /// Of keys.
    pub key: MatMut<'a, f32>,
    /// Of values.
    pub value: MatMut<'a, f32>,
}

impl Attention {
    /// Computes attention: writes `output` (rows, heads * head_dim) and, for the backward pass,
    /// `log_sums` (rows, heads), the log-sum-exp of each query's scores. Rows outside the sequences
    /// are unchanged.
    ///
    /// Queries without any key, which only encoders can have, get zeros, and a log-sum of minus
    /// infinity.
    ///
    /// # Panics
    /// If shapes do not match, sequences do not come in the order of their queries, or a causal one
    /// has fewer keys than queries.
    #[track_caller]
    pub fn forward(
        &self,
        query: MatRef<'_, f32>,
        sequences: &[Sequence<'_>],
        output: MatMut<'_, f32>,
        log_sums: Option<MatMut<'_, f32>>,
    ) {
        self.check(query, sequences);
        assert_eq!((output.rows(), output.cols()), (query.rows(), query.cols()), "output");
        if let Some(sums) = &log_sums {
            assert_eq!((sums.rows(), sums.cols()), (query.rows(), self.heads), "log-sums");
        }
        let results = Results { output: Parts::new(output), log_sums: log_sums.map(Parts::new) };
        let (few, many): (Vec<_>, Vec<_>) =
            sequences.iter().partition(|sequence| decode::suits(self, sequence));
        decode::forward(self, query, &few, &results);
        forward::forward(self, query, &many, &results);
    }

    /// [`Self::forward`] for sequences without cached keys, whose rows are contiguous.
    ///
    /// # Panics
    /// If shapes do not match, or the spans do not cover the rows one after another.
    #[track_caller]
    pub fn forward_packed(
        &self,
        spans: &[Range<usize>],
        inputs: Inputs<'_>,
        output: MatMut<'_, f32>,
        log_sums: Option<MatMut<'_, f32>>,
    ) {
        self.check_packed(spans, inputs);
        let sequences: Vec<_> = spans.iter().map(|span| inputs.of(span)).collect();
        self.forward(inputs.query, &sequences, output, log_sums);
    }

    /// Gradients of queries, keys and values of [`Self::forward_packed`], from its results and the
    /// gradient of the output.
    ///
    /// # Panics
    /// If shapes do not match, or the spans do not cover the rows one after another.
    #[track_caller]
    pub fn backward(
        &self,
        spans: &[Range<usize>],
        inputs: Inputs<'_>,
        given: Given<'_>,
        grads: Gradients<'_>,
    ) {
        self.check_packed(spans, inputs);
        let Inputs { query, key, .. } = inputs;
        let Given { output, log_sums, d_output } = given;
        let (wide, narrow) = ((query.rows(), query.cols()), (key.rows(), key.cols()));
        assert_eq!((output.rows(), output.cols()), wide, "output");
        assert_eq!((d_output.rows(), d_output.cols()), wide, "gradient of the output");
        assert_eq!((log_sums.rows(), log_sums.cols()), (query.rows(), self.heads), "log-sums");
        assert_eq!((grads.query.rows(), grads.query.cols()), wide, "gradient of queries");
        assert_eq!((grads.key.rows(), grads.key.cols()), narrow, "gradient of keys");
        assert_eq!((grads.value.rows(), grads.value.cols()), narrow, "gradient of values");
        backward::backward(self, spans, inputs, given, grads);
    }

    /// Query heads that share a key and value head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Positions of the keys that query `index` of `queries` attends to, of `keys`.
    fn attended(&self, index: usize, queries: usize, keys: usize) -> Range<usize> {
        match self.mask {
            Mask::Causal { window } => {
                let end = keys - queries + index + 1;
                window.map_or(0, |window| end.saturating_sub(window))..end
            }
            Mask::None => 0..keys,
        }
    }

    #[track_caller]
    fn check(&self, query: MatRef<'_, f32>, sequences: &[Sequence<'_>]) {
        let width = self.kv_heads * self.head_dim;
        assert!(self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads), "heads in groups");
        assert!(self.head_dim > 0, "heads without features");
        assert!(self.mask != Mask::Causal { window: Some(0) }, "a window of no key");
        assert_eq!(query.cols(), self.heads * self.head_dim, "width of queries");
        let mut end = 0;
        for Sequence { queries, key, value } in sequences {
            assert_eq!((key.cols(), value.cols()), (width, width), "width of keys and values");
            assert_eq!(key.rows(), value.rows(), "rows of keys and values");
            assert!(end <= queries.start && queries.start <= queries.end, "sequences in order");
            let fit = self.mask == Mask::None || queries.len() <= key.rows();
            assert!(fit, "{} queries of {} keys", queries.len(), key.rows());
            end = queries.end;
        }
        assert!(end <= query.rows(), "{end} of {} rows", query.rows());
    }

    #[track_caller]
    fn check_packed(&self, spans: &[Range<usize>], inputs: Inputs<'_>) {
        let Inputs { query, key, value } = inputs;
        assert_eq!((key.rows(), value.rows()), (query.rows(), query.rows()), "rows");
        let end = spans.iter().fold(0, |end, span| {
            assert_eq!(span.start, end, "spans one after another");
            span.end
        });
        assert_eq!(end, query.rows(), "spans cover all rows");
    }
}

impl<'a> Inputs<'a> {
    /// One sequence.
    fn of(self, span: &Range<usize>) -> Sequence<'a> {
        let rows = |mat: MatRef<'a, f32>| mat.rows_range(span.start, span.len());
        Sequence { queries: span.clone(), key: rows(self.key), value: rows(self.value) }
    }
}

/// Output buffers, written in parallel.
struct Results<'a> {
    output: Parts<'a>,
    log_sums: Option<Parts<'a>>,
}

impl Results<'_> {
    /// Writes the result of one query of one head.
    ///
    /// # Safety
    /// No other thread writes the same.
    #[allow(unsafe_code, reason = "pieces of work write disjoint parts of one matrix")]
    unsafe fn write(&self, row: usize, head: usize, output: &[f32], log_sum: f32) {
        let at = head * output.len();
        // SAFETY: the caller's contract.
        unsafe { self.output.part(row, at..at + output.len()) }.copy_from_slice(output);
        if let Some(sums) = &self.log_sums {
            // SAFETY: as above.
            unsafe { sums.part(row, head..head + 1) }.fill(log_sum);
        }
    }
}

#[cfg(test)]
mod tests;
