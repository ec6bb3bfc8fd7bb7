//! Shape of a new model, from its options.

use super::{ModelOptions, TrainingOptions};
use crate::jobs::kit::{Failure, JobError, room};
use crate::new_model::{Length, Shape};
use linwright_model::TransformerConfig;
use linwright_report::number::grouped;
use linwright_train::Schedule;

/// Features of a head, for models of less and of at least [`WIDE`] features.
const HEAD_DIMS: [usize; 2] = [32, 64];
/// See [`HEAD_DIMS`].
const WIDE: usize = 512;
/// The default number of features in an MLP is a multiple of this.
const MULTIPLE: usize = 16;
/// Default learning rate: from 0.001 to 0.003, the highest gave the lowest held-out loss, with
/// `--architecture hidden=128,layers=4 --epochs 2` on 1.1 MB and `hidden=256,layers=5` on 2.2 MB of
/// text.
const RATE: f64 = 3e-3;
/// Models of more features have a smaller rate.
const RATE_WIDTH: f64 = 256.0;
/// The learning rate ends at this share of its peak.
const FLOOR: f64 = 0.01;
/// Bytes in training for each parameter: value, gradient and two moments.
const PARAMETER_BYTES: u64 = 16;
/// Points of the training curve after the first.
const POINTS: u64 = 10;

impl ModelOptions {
    /// The shape of the model.
    pub(super) fn shape(&self) -> Result<Shape, JobError> {
        let hidden = self.hidden;
        let heads = match self.heads {
            Some(heads) => heads,
            None => heads_of(hidden).ok_or_else(|| {
                JobError::new(format!(
                    "--architecture hidden={hidden}: heads need an even number of features"
                ))
            })?,
        };
        if !hidden.is_multiple_of(heads) || !(hidden / heads).is_multiple_of(2) {
            return Err(JobError::new(format!(
                "--architecture: hidden {hidden} does not divide into {heads} heads with an even number of features"
            )));
        }
        let kv_heads = self.kv_heads.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            return Err(JobError::new(format!(
                "--architecture kv_heads={kv_heads}: {heads} heads cannot share them evenly"
            )));
        }
        let intermediate = self
            .intermediate
            .unwrap_or_else(|| (8 * hidden).div_ceil(3).next_multiple_of(MULTIPLE));
        let (layers, context) = (self.layers, self.context);
        Ok(Shape { hidden, intermediate, layers, heads, kv_heads, context })
    }
}

/// The fewest heads whose features are an even number and not too many.
fn heads_of(hidden: usize) -> Option<usize> {
    let most = HEAD_DIMS[usize::from(hidden >= WIDE)];
    let dim = (1..=most / 2).rev().map(|half| 2 * half).find(|dim| hidden.is_multiple_of(*dim))?;
    Some(hidden / dim)
}

impl TrainingOptions {
    /// Checks what needs no text.
    pub(super) fn check(&self) -> Result<(), JobError> {
        match self.rate {
            Some(rate) if rate <= 0.0 || !rate.is_finite() => {
                Err(JobError::new(format!("--rate {rate}: expected a finite number above zero")))
            }
            _ => Ok(()),
        }
    }

    /// The schedule of `steps` updates of a model with `hidden` features.
    pub(super) fn schedule(&self, hidden: usize, steps: u64) -> Schedule {
        let narrow = (RATE_WIDTH / hidden as f64).min(1.0);
        let peak = self.rate.unwrap_or(RATE * narrow);
        let warmup = self.warmup.unwrap_or((steps / 20).min(200));
        Schedule { peak, warmup: warmup.min(steps), floor: FLOOR * peak }
    }

    /// Length and curve of a training of `steps` updates.
    pub(super) fn length(&self, steps: u64) -> Length {
        let validate_every = self.validate_every.unwrap_or(steps.div_ceil(POINTS));
        Length { steps, validate_every }
    }
}

/// Lower bound of the memory of training in bytes: parameters with what the optimiser keeps, and
/// for each token of a batch the residual stream, projections and MLP of every layer.
pub(super) fn training_bytes(
    config: &TransformerConfig,
    shape: &Shape,
    batch_tokens: usize,
) -> u64 {
    let parameters = PARAMETER_BYTES.saturating_mul(config.parameters());
    let floats = shape.layers * (6 * shape.hidden + 2 * shape.intermediate);
    parameters.saturating_add((batch_tokens as u64).saturating_mul(4 * floats as u64))
}

/// Refuses a model that this machine has no memory to train.
pub(super) fn check_memory(config: &TransformerConfig, needed: u64) -> Result<(), Failure> {
    let what = || format!("training {} parameters", grouped(config.parameters()));
    room::ensure(
        what,
        &[needed],
        "give a smaller --vocab, --architecture, or batch_tokens of --training",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_32_features_or_64_where_that_divides() {
        for (hidden, heads) in [(256, Some(8)), (512, Some(8)), (768, Some(12)), (96, Some(3))] {
            assert_eq!(heads_of(hidden), heads, "{hidden}");
        }
        for (hidden, heads) in [(16, Some(1)), (40, Some(2)), (74, Some(37)), (33, None)] {
            assert_eq!(heads_of(hidden), heads, "{hidden}");
        }
    }

    #[test]
    fn a_shape_follows_from_its_width_and_wrong_ones_are_named() {
        let shape = ModelOptions::default().shape().unwrap();
        assert_eq!((shape.heads, shape.kv_heads, shape.intermediate), (8, 8, 688));
        for (options, expected) in [
            (ModelOptions { hidden: 33, ..ModelOptions::default() }, "hidden=33"),
            (
                ModelOptions { heads: Some(7), ..ModelOptions::default() },
                "256 does not divide into 7",
            ),
            (ModelOptions { kv_heads: Some(3), ..ModelOptions::default() }, "kv_heads=3: 8 heads"),
        ] {
            let error = options.shape().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_rate_rises_before_it_falls_in_short_and_long_trainings() {
        let options = TrainingOptions::default();
        for (steps, warmup, every) in [(1, 0, 1), (100, 5, 10), (10_000, 200, 1000)] {
            let (schedule, length) = (options.schedule(256, steps), options.length(steps));
            assert_eq!((schedule.warmup, length.validate_every), (warmup, every), "{steps}");
            assert!(schedule.rate(0, steps) > 0.0 && schedule.rate(steps, steps) < 1e-4);
        }
        let wide = options.schedule(1024, 9).peak;
        assert!((wide - RATE / 4.0).abs() < 1e-9, "{wide}");
        assert!(TrainingOptions { rate: Some(0.0), ..options }.check().is_err());
    }
}
