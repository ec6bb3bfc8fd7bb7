//! Densities of examples: bits per dimension, with standard errors.

use crate::error::check_finite;
use crate::training::{bits_of_levels, check_extent};
use crate::{Flow, FlowError, FlowExamples, Values};
use linwright_ops::Workspace;
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;

/// Examples of a batch.
const BATCH: usize = 128;

/// Densities of examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowScores {
    /// Mean over examples and draws of `(nll + D ln 256) / (D ln 2)`; of numbers in any units, of
    /// `nll / (D ln 2)`.
    pub bits_per_dim: f64,
    /// Its standard error: over draws of the dequantisation noise; for numbers in any units, over
    /// examples.
    pub stderr: f64,
    /// Standard error over examples.
    pub stderr_examples: f64,
    /// Mean negative log-likelihood over examples and draws, in nats per example.
    pub nll: f64,
    /// Number of examples.
    pub examples: usize,
    /// Number of draws of noise.
    pub draws: usize,
}

/// Standard error of a mean.
fn standard_error(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0) / count).sqrt()
}

/// Scores a flow on examples; intensities with several draws of noise under the key, numbers once.
///
/// # Errors
/// [`FlowError::Extent`] for other examples, [`FlowError::NotFinite`] for a density that is not
/// finite; [`FlowError::Interrupted`].
pub fn score_flow(
    flow: &Flow,
    examples: &FlowExamples,
    indices: &[u32],
    (draws, key): (usize, RngKey),
    monitor: &mut dyn Monitor,
) -> Result<FlowScores, FlowError> {
    check_extent(flow, examples)?;
    let draws = if examples.values() == Values::Bytes { draws.max(1) } else { 1 };
    let (mut ws, mut of_draws) = (Workspace::default(), Vec::new());
    let mut of_examples = vec![0.0; indices.len()];
    let (total, mut done) = (draws * indices.len(), 0);
    for draw in 0..draws {
        let (key, mut sum) = (key.fold("draw").fold_index(draw as u64), 0.0);
        for (chunk, sums) in indices.chunks(BATCH).zip(of_examples.chunks_mut(BATCH)) {
            if monitor.interrupted() {
                return Err(FlowError::Interrupted);
            }
            let nll = flow.encode(examples.batch(chunk, key), &mut ws)?.nll();
            check_finite("the density of an example", &nll)?;
            sums.iter_mut().zip(&nll).for_each(|(to, nll)| *to += nll / draws as f64);
            sum += nll.iter().sum::<f64>();
            done += chunk.len() as u64;
            monitor.progress(done, total as u64);
        }
        of_draws.push(sum / indices.len().max(1) as f64);
    }
    let nll = of_draws.iter().sum::<f64>() / draws as f64;
    let bits = 1.0 / (flow.spec().input.numbers() as f64 * LN_2);
    let stderr_examples = bits * standard_error(&of_examples);
    Ok(FlowScores {
        bits_per_dim: bits * nll + bits_of_levels(examples.values()),
        stderr: if draws > 1 { bits * standard_error(&of_draws) } else { stderr_examples },
        stderr_examples,
        nll,
        examples: indices.len(),
        draws,
    })
}
