//! Kept part of a cut weight, in every unit.

use linwright_ops::Shape;
use serde::{Deserialize, Serialize};

/// Kept part of a weight, in every applicable unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Number of components; `None` for interventions on single entries.
    pub rank: Option<usize>,
    /// The paper's unit: 10 times the removed share.
    pub rate: f64,
    /// Share of the full rank, or of the entries.
    pub rho: f64,
    /// Parameters of the factors over those of the weight; above one beyond break-even.
    pub keep: f64,
    /// Share of the squared singular values, if known.
    pub energy: Option<f64>,
}

impl Kept {
    /// For a rank.
    pub fn of_rank(rank: usize, shape: Shape, values: Option<&[f64]>) -> Self {
        let Shape { out, inp } = shape;
        let rho = rank as f64 / out.min(inp).max(1) as f64;
        let keep = (rank * (out + inp)) as f64 / (out * inp).max(1) as f64;
        let energy =
            values.map(|values| crate::intervention::share(values, &(0..rank).collect::<Vec<_>>()));
        Self { rank: Some(rank), rate: 10.0 * (1.0 - rho), rho, keep, energy }
    }

    /// For a weight of zeros.
    pub(super) fn nothing(shape: Shape) -> Self {
        Self { energy: Some(0.0), ..Self::of_rank(0, shape, None) }
    }

    /// For a number of kept entries.
    pub(super) fn of_numbers(left: usize, all: usize) -> Self {
        let share = left as f64 / all.max(1) as f64;
        Self { rank: None, rate: 10.0 * (1.0 - share), rho: share, keep: share, energy: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_told_in_every_unit() {
        let kept = Kept::of_rank(2, Shape { out: 4, inp: 8 }, Some(&[2.0, 1.0, 1.0, 0.0]));
        assert_eq!((kept.rank, kept.rate, kept.rho, kept.keep), (Some(2), 5.0, 0.5, 0.75));
        assert!((kept.energy.unwrap() - 5.0 / 6.0).abs() < 1e-12);
    }
}
