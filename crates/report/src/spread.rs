//! Mean and deviation.

/// Mean and deviation of a value over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation, √(Σ(v − mean)²/(n − 1)); `None` for a single run.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Mean and deviation of values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { mean, deviation: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()) })
    }
}
