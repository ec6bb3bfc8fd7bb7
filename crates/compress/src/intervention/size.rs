//! Kept part of a weight, in the units of the literature.

use crate::FitError;
use linwright_measure::spectra::Noise;
use linwright_ops::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Kept part of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// The paper's unit, from 0 (all) to 10 (nothing): rank `trunc(min(out, inp) ((10 - rate)
    /// 0.1))`, evaluated from left to right in `f64`, as in its code.
    Rate(f64),
    /// Share of the full rank: `trunc(rho min(out, inp))`. It differs from `Rate` only by rounding.
    Rho(f64),
    /// Share of the parameters: rank `trunc(keep out inp / (out + inp))`.
    Keep(f64),
    /// Number of components.
    Rank(usize),
    /// Smallest number of components with this share of the squared singular values.
    Energy(f64),
    /// Number of singular values above those of a random matrix (Marchenko and Pastur 1967; see
    /// [`Noise`]).
    MarchenkoPastur,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "rate {rate}"),
            Self::Rho(rho) => write!(f, "rho {rho}"),
            Self::Keep(keep) => write!(f, "keep {keep}"),
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Energy(energy) => write!(f, "energy {energy}"),
            Self::MarchenkoPastur => f.write_str("marchenko_pastur"),
        }
    }
}

impl Size {
    /// Checks the range of the number.
    ///
    /// # Errors
    /// The valid range, for a message.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: f64, most: f64| match (0.0..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} is {value}, expected a number from 0 to {most}")),
        };
        match *self {
            Self::Rate(rate) => within("rate", rate, 10.0),
            Self::Rho(rho) => within("rho", rho, 1.0),
            Self::Keep(keep) => within("keep", keep, 1.0),
            Self::Energy(energy) => within("energy", energy, 1.0),
            Self::Rank(0) => Err("rank is 0; use intervention zero".into()),
            Self::Rank(_) | Self::MarchenkoPastur => Ok(()),
        }
    }

    /// The kept rank of a weight, possibly zero. `values` are its singular values, which energy and
    /// Marchenko-Pastur need.
    ///
    /// # Errors
    /// [`FitError::Budget`] if the size is out of range, a rank is above the full rank, or values
    /// are needed and missing.
    pub fn rank(&self, shape: Shape, values: Option<&[f64]>) -> Result<usize, FitError> {
        let refuse = |reason: String| FitError::Budget { shape, reason };
        self.check().map_err(refuse)?;
        let Shape { out, inp } = shape;
        let full = out.min(inp);
        let needed = || values.ok_or_else(|| refuse(format!("{self} needs the singular values")));
        let rank = match *self {
            Self::Rate(rate) => (full as f64 * ((10.0 - rate) * 0.1)) as usize,
            Self::Rho(rho) => (rho * full as f64) as usize,
            Self::Keep(keep) => (keep * (out * inp) as f64 / (out + inp) as f64) as usize,
            Self::Rank(rank) if rank > full => {
                return Err(refuse(format!("rank {rank} is above the full rank {full}")));
            }
            Self::Rank(rank) => rank,
            Self::Energy(energy) => of_energy(needed()?, energy),
            Self::MarchenkoPastur => {
                Noise::of(needed()?, (out, inp)).map_or(0, |noise| noise.above)
            }
        };
        Ok(rank.min(full))
    }

    /// Share of the entries that is kept, for interventions on single entries.
    pub(super) fn share_of_numbers(&self) -> Option<f64> {
        match *self {
            Self::Rate(rate) => Some((10.0 - rate) * 0.1),
            Self::Rho(share) | Self::Keep(share) => Some(share),
            Self::Rank(_) | Self::Energy(_) | Self::MarchenkoPastur => None,
        }
    }
}

fn of_energy(values: &[f64], energy: f64) -> usize {
    let all: f64 = values.iter().map(|s| s * s).sum();
    let mut sum = 0.0;
    for (index, value) in values.iter().enumerate() {
        if sum >= energy * all {
            return index;
        }
        sum += value * value;
    }
    values.len()
}

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
    pub(super) fn of_rank(rank: usize, shape: Shape, values: Option<&[f64]>) -> Self {
        let Shape { out, inp } = shape;
        let rho = rank as f64 / out.min(inp).max(1) as f64;
        let keep = (rank * (out + inp)) as f64 / (out * inp).max(1) as f64;
        let energy = values.map(|values| super::share(values, &(0..rank).collect::<Vec<_>>()));
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

    const SHAPE: Shape = Shape { out: 16384, inp: 4096 };

    #[test]
    fn rates_are_truncated_as_in_the_papers_code() {
        let rank = |size: Size| size.rank(SHAPE, None).unwrap();
        for (rate, expected) in
            [(9.9, 40), (9.95, 20), (8.0, 819), (1.0, 3686), (0.0, 4096), (10.0, 0)]
        {
            assert_eq!(rank(Size::Rate(rate)), expected, "rate {rate}");
        }
        let small = Shape { out: 1600, inp: 6400 };
        assert_eq!(Size::Rate(9.9).rank(small, None).unwrap(), 15);
        assert_eq!(Size::Rho(0.01).rank(small, None).unwrap(), 16);
        assert_eq!(rank(Size::Keep(0.5)), 1638);
        assert_eq!(rank(Size::Rank(7)), 7);
    }

    #[test]
    fn energy_takes_the_fewest_components() {
        let shape = Shape { out: 4, inp: 3 };
        let rank = |energy| Size::Energy(energy).rank(shape, Some(&[3.0, 1.0, 0.0])).unwrap();
        assert_eq!([0.0, 0.5, 0.9, 0.91, 1.0].map(rank), [0, 1, 1, 2, 2]);
        assert_eq!(Size::Energy(0.5).rank(shape, Some(&[0.0; 3])).unwrap(), 0);
        let error = Size::Energy(0.5).rank(shape, None).unwrap_err().to_string();
        assert!(error.contains("needs the singular values"), "{error}");
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let wrong = [
            Size::Rate(10.5),
            Size::Rate(-1.0),
            Size::Rate(f64::NAN),
            Size::Rho(1.1),
            Size::Keep(-0.1),
            Size::Energy(2.0),
            Size::Rank(0),
            Size::Rank(4097),
        ];
        for size in wrong {
            assert!(matches!(size.rank(SHAPE, None), Err(FitError::Budget { .. })), "{size}");
        }
    }

    #[test]
    fn what_stays_is_told_in_every_unit() {
        let kept = Kept::of_rank(2, Shape { out: 4, inp: 8 }, Some(&[2.0, 1.0, 1.0, 0.0]));
        assert_eq!((kept.rank, kept.rate, kept.rho, kept.keep), (Some(2), 5.0, 0.5, 0.75));
        assert!((kept.energy.unwrap() - 5.0 / 6.0).abs() < 1e-12);
    }
}
