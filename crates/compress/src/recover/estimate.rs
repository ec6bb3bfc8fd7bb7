//! Cost of a recovery before it is done.

use super::gradients::{Collecting, Gradients};
use super::{Recovery, Supervised, VALIDATIONS};
use crate::CompressError;
use crate::rates::fastest;
use linwright_ops::{CrossEntropy, Differentiable, SiteId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Bytes of gradient, two moments and best value of a trained number, and of the same in a
/// checkpoint while it is written.
pub const BYTES_PER_PARAMETER: u64 = 32;
/// Forward passes that take as long as a step: forward, gradients of inputs, the operators again,
/// gradients of parameters.
const PASSES: f64 = 4.0;

/// Estimated cost of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryEstimate {
    /// Time in seconds.
    pub seconds: f64,
    /// Memory for gradients, moments, best values and a checkpoint.
    pub memory_bytes: u64,
}

/// Estimates the cost of a recovery of `parameters` parameters in the slots `sites`, from the time
/// of a step on the network before its slots are replaced: smaller operators are rather faster.
///
/// # Errors
/// [`CompressError::Network`] for a network that cannot run.
pub fn estimate<N: Differentiable>(
    network: &N,
    sites: &BTreeSet<SiteId>,
    examples: &Supervised<'_, N::Input>,
    settings: &Recovery,
    parameters: u64,
) -> Result<RecoveryEstimate, CompressError> {
    let Supervised { examples, targets } = *examples;
    let batch = examples.batch(0);
    let targets = targets(0, &batch);
    let mut gradients = Gradients::zeros(network, sites, &BTreeSet::new());
    let step = fastest(|| {
        let mut probe = Collecting::new(network, &mut gradients);
        let mut loss = CrossEntropy::mean(&targets);
        let done = network.loss_to_slots(&batch, &mut loss, &mut probe);
        done.map(drop).map_err(|error| CompressError::Network(Box::new(error)))
    })?;
    network.release_scratch();
    let per_row = step / examples.rows(0).max(1) as f64;
    let (training, all) = (examples.training_rows(), examples.all_rows());
    let rows = training as f64 / examples.training_batches().max(1) as f64;
    let validations = (settings.steps.min(VALIDATIONS) + 1) as f64 / PASSES;
    let all_rows = settings.steps as f64 * rows + validations * (all - training) as f64;
    Ok(RecoveryEstimate {
        seconds: per_row * all_rows,
        memory_bytes: BYTES_PER_PARAMETER * parameters,
    })
}
