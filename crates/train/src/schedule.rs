//! Step size schedules.

use crate::CurvePoint;
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

/// A step size that falls when validation no longer improves, instead of along a cosine. Its state
/// is the curve itself, so a resumed run continues as if it had not stopped.
///
/// Source: `ReduceLROnPlateau` of PyTorch. Deviation: points within the warm-up do not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plateau {
    /// Factor of the step size.
    pub factor: f64,
    /// Number of validations without improvement before the rate falls.
    pub patience: u64,
    /// Improvements are larger than this share of the best loss.
    pub threshold: f64,
}

impl Plateau {
    /// Threshold of PyTorch.
    pub const THRESHOLD: f64 = 1e-4;

    /// The step size of `step` after the validations of a curve.
    #[must_use]
    pub fn rate(&self, schedule: &Schedule, step: u64, curve: &[CurvePoint]) -> f64 {
        if step < schedule.warmup {
            return schedule.rate(step, schedule.warmup);
        }
        let (mut rate, mut best, mut waited) = (schedule.peak, f64::INFINITY, 0);
        for point in curve.iter().filter(|point| point.step > 0 && point.step >= schedule.warmup) {
            if point.validation < best * (1.0 - self.threshold) {
                (best, waited) = (point.validation, 0);
            } else {
                waited += 1;
            }
            if waited > self.patience {
                (rate, waited) = ((rate * self.factor).max(schedule.floor), 0);
            }
        }
        rate
    }
}

/// Validations since the one with the lowest loss.
pub(crate) fn since_best(curve: &[CurvePoint]) -> u64 {
    let (mut best, mut since) = (f64::INFINITY, 0);
    for point in curve {
        if point.validation < best {
            (best, since) = (point.validation, 0);
        } else {
            since += 1;
        }
    }
    since
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

    fn curve(losses: &[f64]) -> Vec<CurvePoint> {
        let point = |(k, loss): (usize, &f64)| CurvePoint {
            step: 10 * k as u64,
            train: *loss,
            validation: *loss,
        };
        losses.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_plateau_lowers_the_rate_after_as_many_validations_as_are_waited_for() {
        let schedule = Schedule { peak: 1.0, warmup: 5, floor: 0.2 };
        let plateau = Plateau { factor: 0.5, patience: 1, threshold: 0.01 };
        let rate = |losses: &[f64]| plateau.rate(&schedule, 50, &curve(losses));
        assert_eq!(rate(&[9.0, 4.0, 3.0]), 1.0);
        assert_eq!(rate(&[9.0, 4.0, 3.99]), 1.0, "less than the threshold, waited for once");
        assert_eq!(rate(&[9.0, 4.0, 3.99, 3.98]), 0.5);
        assert_eq!(rate(&[9.0, 4.0, 4.0, 3.0, 3.0]), 1.0, "an improvement between");
        assert_eq!(rate(&[9.0, 4.0, 4.0, 4.0, 4.0, 4.0]), 0.25);
        assert_eq!(rate(&[9.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]), 0.2, "not below the floor");
        assert_eq!(plateau.rate(&schedule, 1, &curve(&[9.0, 9.0, 9.0, 9.0])), 0.4, "warm-up");
    }

    #[test]
    fn validations_are_counted_since_the_best_one() {
        assert_eq!(since_best(&curve(&[3.0, 2.0, 4.0, 5.0])), 2);
        assert_eq!((since_best(&[]), since_best(&curve(&[3.0]))), (0, 0));
    }
}
