//! Scales of axes, with ticks at round numbers.

use crate::number::compact;
use serde::{Deserialize, Serialize};

/// Scale of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// A scale for all finite values, with a margin. A logarithmic scale ignores values of zero or
    /// less; `None` if no value remains.
    #[must_use]
    pub fn around(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter_map(|value| transform(value, log)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            return None;
        }
        // A single value gets a margin of a factor of two, or of a tenth.
        let least = if log { 0.6 } else { (high.abs() * 0.1).max(1e-9) };
        let margin = ((high - low) * 0.08).max((least - (high - low)) / 2.0);
        Some(Self { low: low - margin, high: high + margin, log })
    }

    /// A linear scale from `low` to `high`, both finite.
    #[must_use]
    pub fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, log: false }
    }

    /// Position between 0 and 1; `None` for a value outside of the domain of the scale.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let place = (transform(value, self.log)? - self.low) / (self.high - self.low);
        (-1e-9..=1.0 + 1e-9).contains(&place).then_some(place)
    }

    /// At most about `wanted` round values with labels, ascending.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = if self.log { self.log_ticks(wanted) } else { self.linear_ticks(wanted) };
        values.into_iter().map(|value| (value, compact(value))).collect()
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(power * 10.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        // Multiplying an integer avoids 0.30000000000000004 after compact().
        (first..=last).map(|index| index as f64 * step).collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let decades = (last - first).max(1) as usize;
        let candidates: [&[f64]; 4] =
            [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let inside = |factors: &[f64], every: i32| -> Vec<f64> {
            (first..=last)
                .filter(|power| power.rem_euclid(every) == 0)
                .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
                .filter(|value| self.place(*value).is_some())
                .collect()
        };
        for factors in candidates {
            let ticks = inside(factors, 1);
            if ticks.len() <= wanted {
                return ticks;
            }
        }
        let every = i32::try_from(decades.div_ceil(wanted.max(1))).unwrap_or(1);
        inside(&[1.0], every.max(1))
    }
}

fn transform(value: f64, log: bool) -> Option<f64> {
    let value = if log { value.log10() } else { value };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale, wanted: usize) -> Vec<String> {
        scale.ticks(wanted).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let log = Scale::around([900.0, 32_768.0].into_iter(), true).unwrap();
        assert_eq!(labels(&log, 6), ["1k", "2k", "5k", "10k", "20k"]);
        let wide = Scale::around([1e-6, 1e6].into_iter(), true).unwrap();
        assert!(wide.ticks(6).len() <= 6);
        let linear = Scale::linear(0.0, 1.0);
        assert_eq!(labels(&linear, 5), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        for scale in [log, wide, linear] {
            assert!(scale.ticks(5).iter().all(|(value, _)| scale.place(*value).is_some()));
        }
    }

    #[test]
    fn odd_values_do_no_harm() {
        assert!(Scale::around(std::iter::empty(), false).is_none());
        assert!(Scale::around([0.0, -1.0, f64::NAN].into_iter(), true).is_none());
        let single = Scale::around([5.0].into_iter(), true).unwrap();
        assert!((single.place(5.0).unwrap() - 0.5).abs() < 1e-9);
        assert!(!single.ticks(5).is_empty());
        let zero = Scale::around([0.0].into_iter(), false).unwrap();
        assert!(zero.place(0.0).is_some() && zero.place(f64::INFINITY).is_none());
        assert!(Scale::linear(3.0, 3.0).ticks(4).len() > 1);
    }
}
