//! Pooling: one vector per sequence of an encoder.

use super::Transformer;
use crate::batch::Batch;
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

/// Kind of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The vector of the first token (CLS).
    First,
    /// The vector of the last token.
    Last,
    /// The mean over all tokens.
    Mean,
    /// The sum over all tokens, divided by the square root of their number.
    MeanSqrtLength,
    /// The mean with the position of each token, counted from one, as its weight.
    WeightedMean,
    /// The maximum of each feature over all tokens.
    Max,
}

impl Pooling {
    /// Name in protocols.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Mean => "mean",
            Self::MeanSqrtLength => "mean-sqrt-len",
            Self::WeightedMean => "weighted-mean",
            Self::Max => "max",
        }
    }

    /// Pools the output (rows, hidden) of the last layer to one row per sequence (sequences,
    /// hidden), without the first `skipped` tokens of each; zeros for sequences without other
    /// tokens, except that the first token is then that of the whole sequence. Sums are in f64.
    ///
    /// # Panics
    /// Unless there is one row for each token.
    #[must_use]
    pub fn pool(self, hidden: MatRef<'_, f32>, batch: &Batch, skipped: usize) -> Mat<f32> {
        assert_eq!(hidden.rows(), batch.len(), "rows of the batch");
        let mut pooled = Mat::zeros(batch.spans().len(), hidden.cols());
        for (i, span) in batch.spans().iter().enumerate().filter(|(_, span)| !span.is_empty()) {
            let into = pooled.row_mut(i);
            let kept = span.start + skipped.min(span.len())..span.end;
            match self {
                Self::First if kept.is_empty() => into.copy_from_slice(hidden.row(span.start)),
                _ if kept.is_empty() => {}
                Self::First => into.copy_from_slice(hidden.row(kept.start)),
                Self::Last => into.copy_from_slice(hidden.row(kept.end - 1)),
                Self::Mean => {
                    weighted(hidden, kept.clone(), |_| 1.0, 1.0 / kept.len() as f64, into);
                }
                Self::MeanSqrtLength => {
                    let share = 1.0 / (kept.len() as f64).sqrt();
                    weighted(hidden, kept, |_| 1.0, share, into);
                }
                Self::WeightedMean => {
                    let weight = |row: usize| (row - span.start + 1) as f64;
                    let share = 1.0 / kept.clone().map(weight).sum::<f64>();
                    weighted(hidden, kept, weight, share, into);
                }
                Self::Max => {
                    into.fill(f32::NEG_INFINITY);
                    for row in kept {
                        let row = hidden.row(row).iter();
                        into.iter_mut().zip(row).for_each(|(max, &v)| *max = max.max(v));
                    }
                }
            }
        }
        pooled
    }
}

/// `share` times the weighted sum of some rows.
fn weighted(
    hidden: MatRef<'_, f32>,
    rows: Range<usize>,
    weight: impl Fn(usize) -> f64,
    share: f64,
    into: &mut [f32],
) {
    let mut sums = vec![0.0f64; into.len()];
    for row in rows {
        let weight = weight(row);
        let row = hidden.row(row).iter();
        sums.iter_mut().zip(row).for_each(|(sum, &v)| *sum += weight * f64::from(v));
    }
    into.iter_mut().zip(sums).for_each(|(v, sum)| *v = (sum * share) as f32);
}

impl Transformer {
    /// Output of the pooler for each sequence (sequences, hidden), from the last layer's output
    /// (rows, hidden): `tanh(W h + b)` of the first token (Devlin et al. 2018); none if the model
    /// has no pooler.
    ///
    /// # Panics
    /// Unless there is one row for each token.
    #[must_use]
    pub fn pooler_output(&self, hidden: MatRef<'_, f32>, batch: &Batch) -> Option<Mat<f32>> {
        let slot = self.weights.pooler.as_ref()?;
        let first = Pooling::First.pool(hidden, batch, 0);
        let mut out = Mat::zeros(first.rows(), slot.shape().out);
        self.memory.lend(|memory| {
            slot.forward(first.view(), out.view_mut(), None, &mut memory.workspace);
        });
        out.data_mut().iter_mut().for_each(|v| *v = v.tanh());
        Some(out)
    }
}

/// Normalises each row to length one; zero rows are unchanged.
pub fn normalise_rows(rows: &mut Mat<f32>) {
    for i in 0..rows.rows() {
        let row = rows.row_mut(i);
        let length = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|v| *v = (f64::from(*v) / length) as f32);
        }
    }
}
