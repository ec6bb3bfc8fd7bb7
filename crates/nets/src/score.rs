//! Scores of networks on labelled examples.

use crate::training::{Loss, loss_of};
use crate::{Labelled, Net, NetError, Targets};
use linwright_run::Monitor;
use linwright_tensor::kernels::cross_entropy;

/// Examples in a batch.
const BATCH: usize = 256;

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// The standard deviation of a term divided by the root of their number; zero for one term.
    pub stderr: f64,
}

impl Mean {
    fn of(terms: &[f64]) -> Self {
        let count = terms.len() as f64;
        let value = terms.iter().sum::<f64>() / count;
        let squares: f64 = terms.iter().map(|term| (term - value).powi(2)).sum();
        Self { value, stderr: (squares / (count - 1.0).max(1.0) / count).sqrt() }
    }
}

/// Scores of a network on examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Number of examples.
    pub examples: usize,
    /// For classes, negative log-likelihood of the label in nats; for values, half the squared
    /// error of an example.
    pub loss: Mean,
    /// For classes, the share of examples whose label has the largest output, ties to the first.
    pub accuracy: Option<Mean>,
}

/// Scores of single examples, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExampleScores {
    /// Losses as in [`Scores`].
    pub losses: Vec<f64>,
    /// For classes, one if the label has the largest output, else zero; empty for values.
    pub right: Vec<f64>,
}

impl ExampleScores {
    /// Their means.
    ///
    /// # Errors
    /// [`NetError::LossNotFinite`].
    pub fn means(&self) -> Result<Scores, NetError> {
        let Self { losses, right } = self;
        let loss = Mean::of(losses);
        if !loss.value.is_finite() {
            return Err(NetError::LossNotFinite);
        }
        let accuracy = (!right.is_empty()).then(|| Mean::of(right));
        Ok(Scores { examples: losses.len(), loss, accuracy })
    }
}

/// Scores a network in inference mode.
///
/// # Errors
/// [`NetError`] for examples that do not match it, non-finite numbers, and if cancelled.
pub fn score(
    net: &Net,
    examples: &Labelled,
    monitor: &mut dyn Monitor,
) -> Result<Scores, NetError> {
    score_each(net, examples, monitor)?.means()
}

/// Scores a network on each example, in inference mode.
///
/// # Errors
/// [`NetError`] for examples that do not match it, non-finite numbers, and if cancelled.
pub fn score_each(
    net: &Net,
    examples: &Labelled,
    monitor: &mut dyn Monitor,
) -> Result<ExampleScores, NetError> {
    examples.check(net)?;
    let (mut losses, mut right) = (Vec::new(), Vec::new());
    let all: Vec<u32> = (0..examples.len() as u32).collect();
    for batch in all.chunks(BATCH) {
        if monitor.interrupted() {
            return Err(NetError::Interrupted);
        }
        let mut outputs = net.outputs(&examples.batch(batch))?;
        match examples.targets().of(batch) {
            Targets::Classes(classes) => {
                for prediction in cross_entropy::score(outputs.view(), &classes) {
                    losses.push(prediction.nll);
                    right.push(f64::from(u8::from(prediction.is_greedy)));
                }
            }
            Targets::Values(values) => {
                for (row, target) in (0..outputs.rows()).zip(values.data().chunks(values.cols())) {
                    let output = outputs.view_mut().rows_range(row, 1);
                    let of_row = Targets::Values(linwright_tensor::Mat::from_vec(
                        1,
                        target.len(),
                        target.to_vec(),
                    ));
                    losses.push(loss_of(Loss::SquaredError, output, &of_row));
                }
            }
        }
        monitor.progress(losses.len() as u64, examples.len() as u64);
    }
    Ok(ExampleScores { losses, right })
}
