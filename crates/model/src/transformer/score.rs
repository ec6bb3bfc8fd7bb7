//! Logits, and how well a decoder predicts tokens.

use super::Transformer;
use super::forward::norm_of;
use crate::batch::Batch;
use crate::config::{EMBEDDING, HEAD};
use crate::error::ModelError;
use linwright_ops::{SiteId, Tape, Workspace};
use linwright_tensor::kernels::cross_entropy::{Prediction, score};
use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::kernels::norm::norm;
use linwright_tensor::{Mat, MatMut, MatRef};

/// How well one token was predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenScore {
    /// Negative log-likelihood in nats.
    pub nll: f64,
    /// Whether it is the likeliest token; of equally likely ones the first counts.
    pub is_greedy: bool,
}

/// Logits held at a time: 32 MiB, less than the weights of any model that is slow to run.
const LOGITS_AT_ONCE: usize = 1 << 23;
/// Fewest rows of logits made at a time, whatever the vocabulary.
const FEWEST_ROWS: usize = 64;

impl Transformer {
    /// Logits (rows, vocab) of rows (rows, hidden) that left the last layer: final norm and head.
    ///
    /// # Panics
    /// If the rows have another width than the model.
    #[must_use]
    pub fn logits(&self, hidden: MatRef<'_, f32>) -> Mat<f32> {
        let mut logits = Mat::zeros(hidden.rows(), self.config.vocab);
        self.memory.lend(|memory| {
            let mut normed = memory.workspace.take(hidden.rows(), hidden.cols());
            self.logits_into(hidden, &mut normed, logits.view_mut(), None, &mut memory.workspace);
            memory.workspace.give(normed);
        });
        logits
    }

    /// Scores every token of every sequence from its `first_counted`-th on (both 0 and 1 start at
    /// the second token, since nothing predicts the first). `hidden` (rows, hidden) left the last
    /// layer.
    ///
    /// Logits are made for a block of rows at a time, so that memory does not grow with the batch.
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
        let rows: Vec<usize> = counted.iter().cloned().flatten().collect();
        let mut scores = self.score_rows(hidden, batch.tokens(), &rows)?.into_iter();
        Ok(counted.into_iter().map(|rows| scores.by_ref().take(rows.len()).collect()).collect())
    }

    /// How well each of `rows` predicts the token of the row behind it.
    fn score_rows(
        &self,
        hidden: &Mat<f32>,
        tokens: &[u32],
        rows: &[usize],
    ) -> Result<Vec<TokenScore>, ModelError> {
        let mut scores = Vec::with_capacity(rows.len());
        self.memory.lend(|memory| {
            for rows in rows.chunks(self.rows_of_logits()) {
                let workspace = &mut memory.workspace;
                let mut chosen = workspace.take(rows.len(), hidden.cols());
                for (i, &row) in rows.iter().enumerate() {
                    chosen.row_mut(i).copy_from_slice(hidden.row(row));
                }
                let mut normed = workspace.take(rows.len(), hidden.cols());
                let logits = memory.logits.view_mut_of(rows.len(), self.config.vocab);
                self.logits_into(chosen.view(), &mut normed, logits, None, workspace);
                workspace.give(normed);
                workspace.give(chosen);
                let targets: Vec<u32> = rows.iter().map(|row| tokens[row + 1]).collect();
                scores.extend(score(memory.logits.view(), &targets));
            }
        });
        if scores.iter().any(|score: &Prediction| !score.nll.is_finite()) {
            return Err(ModelError::NonFinite { site: self.head_site(), stage: "logits" });
        }
        Ok(scores
            .into_iter()
            .map(|Prediction { nll, is_greedy }| TokenScore { nll, is_greedy })
            .collect())
    }

    /// Rows of logits made at a time.
    pub(super) fn rows_of_logits(&self) -> usize {
        (LOGITS_AT_ONCE / self.config.vocab).max(FEWEST_ROWS)
    }

    /// The place of the output matrix, for messages.
    pub(super) fn head_site(&self) -> SiteId {
        let name = if self.head.is_some() { HEAD } else { EMBEDDING.trim_end_matches(".weight") };
        SiteId(name.to_owned())
    }

    /// Writes the input of the head to `normed` (rows, hidden), and the logits (rows, vocab).
    pub(super) fn logits_into(
        &self,
        hidden: MatRef<'_, f32>,
        normed: &mut Mat<f32>,
        logits: MatMut<'_, f32>,
        tape: Option<&mut Tape<f32>>,
        workspace: &mut Workspace<f32>,
    ) {
        normed.resize(hidden.rows(), hidden.cols());
        norm(hidden, &norm_of(&self.config, &self.norm), normed.view_mut());
        match &self.head {
            Some(head) => head.forward(normed.view(), logits, tape, workspace),
            None => linear(normed.view(), self.embedding.view(), logits, Write::Set),
        }
    }
}
