//! Pooling: one vector per sequence of an encoder.

use super::Transformer;
use crate::batch::Batch;
use linwright_tensor::{Mat, MatRef};

/// Kind of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The vector of the first token (CLS).
    First,
    /// The vector of the last token.
    Last,
    /// The mean over all tokens.
    Mean,
    /// The maximum of each feature over all tokens.
    Max,
}

impl Pooling {
    /// Pools the output (rows, hidden) of the last layer to one row per sequence (sequences,
    /// hidden); zeros for empty sequences. Sums are in f64.
    ///
    /// # Panics
    /// If there is not one row for each token.
    #[must_use]
    pub fn pool(self, hidden: MatRef<'_, f32>, batch: &Batch) -> Mat<f32> {
        assert_eq!(hidden.rows(), batch.len(), "rows of the batch");
        let mut pooled = Mat::zeros(batch.spans().len(), hidden.cols());
        for (i, span) in batch.spans().iter().enumerate().filter(|(_, span)| !span.is_empty()) {
            let into = pooled.row_mut(i);
            match self {
                Self::First => into.copy_from_slice(hidden.row(span.start)),
                Self::Last => into.copy_from_slice(hidden.row(span.end - 1)),
                Self::Mean => {
                    let mut sums = vec![0.0f64; into.len()];
                    for row in span.clone() {
                        let row = hidden.row(row).iter();
                        sums.iter_mut().zip(row).for_each(|(sum, &v)| *sum += f64::from(v));
                    }
                    let share = 1.0 / span.len() as f64;
                    into.iter_mut().zip(sums).for_each(|(v, sum)| *v = (sum * share) as f32);
                }
                Self::Max => {
                    into.fill(f32::NEG_INFINITY);
                    for row in span.clone() {
                        let row = hidden.row(row).iter();
                        into.iter_mut().zip(row).for_each(|(max, &v)| *max = max.max(v));
                    }
                }
            }
        }
        pooled
    }
}

impl Transformer {
    /// Output of the pooler for each sequence (sequences, hidden), from the last layer's output
    /// (rows, hidden): `tanh(W h + b)` of the first token (Devlin et al. 2018); none if the model
    /// has no pooler.
    ///
    /// # Panics
    /// If there is not one row for each token.
    #[must_use]
    pub fn pooler_output(&self, hidden: MatRef<'_, f32>, batch: &Batch) -> Option<Mat<f32>> {
        let slot = self.weights.pooler.as_ref()?;
        let first = Pooling::First.pool(hidden, batch);
        let mut out = Mat::zeros(first.rows(), slot.shape().out);
        self.memory.lend(|memory| {
            slot.forward(first.view(), out.view_mut(), None, &mut memory.workspace);
        });
        out.data_mut().iter_mut().for_each(|v| *v = v.tanh());
        Some(out)
    }
}

/// Normalises each row to length one; zero rows stay.
pub fn normalise_rows(rows: &mut Mat<f32>) {
    for i in 0..rows.rows() {
        let row = rows.row_mut(i);
        let length = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|v| *v = (f64::from(*v) / length) as f32);
        }
    }
}
