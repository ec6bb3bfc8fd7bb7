//! Scores of target tokens.

use super::Transformer;
use crate::batch::Batch;
use crate::error::ModelError;
use linwright_ops::SiteId;
use linwright_tensor::Mat;
use linwright_tensor::kernels::cross_entropy::{Prediction, score};

/// Score of one target token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenScore {
    /// Negative log-likelihood in nats.
    pub nll: f64,
    /// Whether it is the most likely token; ties go to the lowest token id.
    pub is_greedy: bool,
}

/// Callback with the index of a score, its logits (vocab), and the score.
pub type ShowLogits<'a> = dyn FnMut(usize, &[f32], &TokenScore) + 'a;

/// Size of a block of logits: 32 MiB, less than the weights of any model that is slow to run.
const LOGITS_AT_ONCE: usize = 1 << 23;
/// Smallest number of rows in a block, for any vocabulary.
const MIN_ROWS: usize = 64;

impl Transformer {
    /// Scores every token of every sequence from its `first_counted`-th on (both 0 and 1 start at
    /// the second token, since the first has no prediction). `hidden` (rows, hidden) is the output
    /// of the last layer.
    ///
    /// Logits are computed for a block of rows at a time, so memory does not grow with the batch.
    ///
    /// # Errors
    /// [`ModelError::NonFinite`] if a logit is not finite.
    ///
    /// # Panics
    /// If `hidden` or `first_counted` does not belong to `batch`.
    pub fn token_nll(
        &self,
        hidden: &Mat<f32>,
        batch: &Batch,
        first_counted: &[usize],
    ) -> Result<Vec<Vec<TokenScore>>, ModelError> {
        assert_eq!(first_counted.len(), batch.spans().len(), "first counted token per sequence");
        assert_eq!(hidden.rows(), batch.len(), "rows of the batch");
        let counted = batch.spans().iter().zip(first_counted).map(|(span, &first)| {
            // The row before a token predicts it.
            (span.start + first.max(1)).min(span.end).saturating_sub(1)..span.end.saturating_sub(1)
        });
        let counted: Vec<_> = counted.collect();
        let rows = counted.iter().cloned().flatten();
        let wanted: Vec<(usize, u32)> = rows.map(|row| (row, batch.tokens()[row + 1])).collect();
        let mut scores = self.score_rows(hidden, &wanted)?.into_iter();
        Ok(counted.into_iter().map(|rows| scores.by_ref().take(rows.len()).collect()).collect())
    }

    /// Scores target tokens in rows of `hidden` (rows, hidden), the output of the last layer: each
    /// of `wanted` is a row and its target.
    ///
    /// # Errors
    /// [`ModelError::NonFinite`] if a logit is not finite.
    ///
    /// # Panics
    /// If a row or token is out of range.
    pub fn score_rows(
        &self,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
    ) -> Result<Vec<TokenScore>, ModelError> {
        self.score_rows_seen(hidden, wanted, &mut |_, _, _| {})
    }

    /// As [`Self::score_rows`], and calls `show` with the logits (vocab) of each score and its
    /// index in `wanted`.
    ///
    /// # Errors
    /// As [`Self::score_rows`].
    ///
    /// # Panics
    /// As [`Self::score_rows`].
    pub fn score_rows_seen(
        &self,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
        show: &mut ShowLogits<'_>,
    ) -> Result<Vec<TokenScore>, ModelError> {
        let mut scores: Vec<TokenScore> = Vec::with_capacity(wanted.len());
        self.memory.lend(|memory| {
            for wanted in wanted.chunks(self.rows_of_logits()) {
                let workspace = &mut memory.workspace;
                let mut chosen = workspace.take(wanted.len(), hidden.cols());
                for (i, &(row, _)) in wanted.iter().enumerate() {
                    chosen.row_mut(i).copy_from_slice(hidden.row(row));
                }
                let logits = memory.logits.view_mut_of(wanted.len(), self.config.vocab);
                self.logits_into(chosen.view(), &mut memory.head, logits, None, workspace);
                workspace.give(chosen);
                let targets: Vec<u32> = wanted.iter().map(|&(_, token)| token).collect();
                for (i, found) in score(memory.logits.view(), &targets).into_iter().enumerate() {
                    let Prediction { nll, is_greedy } = found;
                    let found = TokenScore { nll, is_greedy };
                    show(scores.len(), memory.logits.row(i), &found);
                    scores.push(found);
                }
            }
        });
        self.weights.release_head();
        if scores.iter().any(|score| !score.nll.is_finite()) {
            return Err(ModelError::NonFinite { site: self.head_site(), what: "logits" });
        }
        Ok(scores)
    }

    /// Number of rows in a block of logits.
    #[must_use]
    pub fn rows_of_logits(&self) -> usize {
        (LOGITS_AT_ONCE / self.config.vocab).max(MIN_ROWS)
    }

    /// Site of the output matrix, for messages.
    pub(super) fn head_site(&self) -> SiteId {
        match &self.weights.head {
            Some(head) => head.id().clone(),
            None => {
                let name = &self.weights.embedding.table.name;
                SiteId(name.trim_end_matches(".weight").to_owned())
            }
        }
    }
}
