//! Step size schedules.

use serde::{Deserialize, Serialize};

/// Linear warm-up, then a cosine from `peak` to `floor` over all remaining steps.
///
/// Deviation from the original code of arXiv 2507.11688: there a cosine with a period of one epoch
/// was advanced once per batch, so the rate alternated between its peak and zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Largest step size.
    pub peak: f64,
    /// Steps of linear warm-up.
    #[serde(default)]
    pub warmup: u64,
    /// Step size at the end.
    #[serde(default)]
    pub floor: f64,
}

impl Schedule {
    /// The step size of `step`, counted from zero, out of `steps`.
    #[must_use]
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let span = steps.saturating_sub(self.warmup).max(1) as f64;
        let progress = ((step - self.warmup) as f64 / span).min(1.0);
        self.floor
            + 0.5 * (self.peak - self.floor) * (1.0 + (std::f64::consts::PI * progress).cos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warms_up_peaks_and_falls_without_ever_rising_again() {
        let schedule = Schedule { peak: 1.0, warmup: 10, floor: 0.1 };
        let rates: Vec<f64> = (0..100).map(|step| schedule.rate(step, 100)).collect();
        assert!((rates[0] - 0.1).abs() < 1e-12 && (rates[9] - 1.0).abs() < 1e-12);
        assert!(rates[10..].windows(2).all(|pair| pair[1] < pair[0]), "the cosine falls");
        assert!(rates[99] > 0.1 && rates[99] < 0.11);
    }

    #[test]
    fn a_schedule_without_steps_or_warm_up_is_finite() {
        assert!(Schedule { peak: 0.05, warmup: 0, floor: 0.0 }.rate(0, 0).is_finite());
    }
}
