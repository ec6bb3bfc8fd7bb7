//! Summary of a simulation: energy drift, temperature, pressure.

use super::Thermo;
use serde::{Deserialize, Serialize};

/// Largest number of points of a curve.
const POINTS: usize = 256;
/// Femtoseconds in a picosecond.
const PICOSECOND: f64 = 1000.0;

/// Mean of a quantity and its standard deviation over the recorded steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fluctuation {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// Summary of the recorded steps of a simulation, each added once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MdSummary {
    first: Option<Thermo>,
    last: Option<Thermo>,
    count: u64,
    time: Sums,
    energy: Sums,
    /// Sum of products of time and energy.
    product: f64,
    temperature: Sums,
    pressure: Sums,
    pressures: u64,
    curve: Vec<Thermo>,
    /// Interval between steps in the curve.
    stride: u64,
}

/// Sum and sum of squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    sum: f64,
    square: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.square += value * value;
    }

    fn spread(&self, count: u64) -> Fluctuation {
        let count = count.max(1) as f64;
        let mean = self.sum / count;
        Fluctuation { mean, deviation: (self.square / count - mean * mean).max(0.0).sqrt() }
    }
}

impl MdSummary {
    /// Adds a recorded step.
    pub fn add(&mut self, thermo: Thermo) {
        let first = *self.first.get_or_insert(thermo);
        // Differences from the first step are small, so their squares keep their precision.
        let (time, energy) = (thermo.time - first.time, thermo.total_energy - first.total_energy);
        self.time.add(time);
        self.energy.add(energy);
        self.product += time * energy;
        self.temperature.add(thermo.temperature);
        if let Some(pressure) = thermo.pressure {
            self.pressure.add(pressure);
            self.pressures += 1;
        }
        self.stride = self.stride.max(1);
        if self.count.is_multiple_of(self.stride) {
            self.curve.push(thermo);
        }
        if self.curve.len() > POINTS {
            self.stride *= 2;
            let mut index = 0;
            self.curve.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.count += 1;
        self.last = Some(thermo);
    }

    /// Recorded steps.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first recorded step and the last one; none if nothing was added.
    #[must_use]
    pub fn ends(&self) -> Option<[Thermo; 2]> {
        Some([self.first?, self.last?])
    }

    /// Slope of the total energy over time by least squares, in electron volts per picosecond, and
    /// the root mean square deviation from that line in electron volts; none with fewer than three
    /// steps.
    #[must_use]
    pub fn drift(&self) -> Option<(f64, f64)> {
        if self.count < 3 {
            return None;
        }
        let count = self.count as f64;
        let along = self.time.square - self.time.sum * self.time.sum / count;
        let both = self.product - self.time.sum * self.energy.sum / count;
        let across = self.energy.square - self.energy.sum * self.energy.sum / count;
        let slope = both / along;
        let rest = (across - slope * both).max(0.0) / count;
        Some((PICOSECOND * slope, rest.sqrt()))
    }

    /// Temperature in kelvins.
    #[must_use]
    pub fn temperature(&self) -> Fluctuation {
        self.temperature.spread(self.count)
    }

    /// Pressure in gigapascals, for periodic cells.
    #[must_use]
    pub fn pressure(&self) -> Option<Fluctuation> {
        (self.pressures > 0).then(|| self.pressure.spread(self.pressures))
    }

    /// Some of the recorded steps, evenly spaced.
    #[must_use]
    pub fn curve(&self) -> &[Thermo] {
        &self.curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thermo(step: u64, total_energy: f64) -> Thermo {
        Thermo {
            step,
            time: 0.5 * step as f64,
            potential_energy: 0.0,
            kinetic_energy: 0.0,
            total_energy,
            temperature: 300.0 + if step.is_multiple_of(2) { 1.0 } else { -1.0 },
            pressure: None,
        }
    }

    #[test]
    fn the_drift_is_the_slope_of_a_line_and_the_deviation_is_from_it() {
        let mut summary = MdSummary::default();
        for step in 0..1000 {
            let off = if step % 2 == 0 { 1e-4 } else { -1e-4 };
            summary.add(thermo(step, -1e5 + 2e-6 * 0.5 * step as f64 + off));
        }
        let (slope, rest) = summary.drift().unwrap();
        assert!((slope - 2e-3).abs() < 1e-5, "{slope}");
        assert!((rest - 1e-4).abs() < 1e-6, "{rest}");
        let temperature = summary.temperature();
        assert!((temperature.mean - 300.0).abs() < 1e-9);
        assert!((temperature.deviation - 1.0).abs() < 1e-9);
        assert_eq!((summary.count(), summary.pressure()), (1000, None));
    }

    #[test]
    fn curves_are_short_and_even() {
        let mut summary = MdSummary::default();
        assert_eq!((summary.ends(), summary.drift()), (None, None));
        (0..5000).for_each(|step| summary.add(thermo(step, 0.0)));
        let steps: Vec<u64> = summary.curve().iter().map(|thermo| thermo.step).collect();
        assert!((100..=POINTS).contains(&steps.len()), "{}", steps.len());
        let stride = steps[1];
        assert!(steps.iter().enumerate().all(|(index, step)| *step == index as u64 * stride));
    }
}
