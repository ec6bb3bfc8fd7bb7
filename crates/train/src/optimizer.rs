//! Adam and AdamW over all parameters of a problem.

use crate::Slice;
use linwright_tensor::kernels::adam::{Adam, adam};
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};

/// Optimiser settings, constant over a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerSettings {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Epsilon, added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay, for slices that request it.
    pub weight_decay: f64,
    /// Clipping norm: the gradient of all parameters together is scaled down to it.
    pub clip_norm: Option<f64>,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip_norm: None }
    }
}

/// Moments of every parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Optimizer {
    /// First moments, slice by slice.
    pub(crate) first: Vec<Vec<f32>>,
    /// Second moments, slice by slice.
    pub(crate) second: Vec<Vec<f32>>,
}

/// Numbers per work item; the work is elementwise, so the boundaries do not affect the result.
const PIECE: usize = 1 << 16;

impl Optimizer {
    /// Clips the gradient if a norm is set, and updates the parameters. Returns the norm of the
    /// gradient before clipping. `step` counts from one.
    pub fn update(
        &mut self,
        settings: &OptimizerSettings,
        rate: f64,
        step: u64,
        slices: Vec<Slice<'_>>,
    ) -> f64 {
        // The norm, if it clips, and the factor.
        let clipped = settings.clip_norm.map(|limit| {
            let squares =
                parallel::map(slices.iter().collect(), |_, s: &Slice<'_>| squares(s.gradient));
            let norm = squares.into_iter().sum::<f64>().sqrt();
            (norm, (limit / norm.max(1e-30)).min(1.0) as f32)
        });
        self.first.resize_with(slices.len(), Vec::new);
        self.second.resize_with(slices.len(), Vec::new);
        let mut pieces = Vec::new();
        let moments = self.first.iter_mut().zip(&mut self.second);
        for (slice, (first, second)) in slices.into_iter().zip(moments) {
            first.resize(slice.values.len(), 0.0);
            second.resize(slice.values.len(), 0.0);
            let decay = if slice.decay { settings.weight_decay } else { 0.0 };
            let parts = slice.values.chunks_mut(PIECE).zip(slice.gradient.chunks_mut(PIECE));
            let moments = first.chunks_mut(PIECE).zip(second.chunks_mut(PIECE));
            pieces.extend(parts.zip(moments).map(|((p, g), (m, v))| (decay, p, g, m, v)));
        }
        let of_pieces =
            parallel::map(pieces, |_, (weight_decay, values, gradient, first, second)| {
                let own = match clipped {
                    Some((_, scale)) => {
                        if scale < 1.0 {
                            gradient.iter_mut().for_each(|g| *g *= scale);
                        }
                        0.0
                    }
                    // Read once, with the update.
                    None => squares(gradient),
                };
                let OptimizerSettings { beta1, beta2, epsilon, .. } = *settings;
                let constants = Adam { rate, beta1, beta2, epsilon, weight_decay };
                adam(&constants, step, values, gradient, first, second);
                own
            });
        clipped.map_or_else(|| of_pieces.into_iter().sum::<f64>().sqrt(), |(norm, _)| norm)
    }
}

fn squares(values: &[f32]) -> f64 {
    // Eight partial sums in a fixed order: fast, and the same bits everywhere.
    let mut sums = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|v| f64::from(*v).powi(2)).sum();
    for chunk in chunks {
        for (sum, v) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*v) * f64::from(*v);
        }
    }
    sums.iter().sum::<f64>() + rest
}
