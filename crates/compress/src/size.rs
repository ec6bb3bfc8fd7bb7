//! Sizes: how much of a weight is kept, in the units of the literature.
//!
//! A size means the same for every method. Those of ranks are counted with the singular values of
//! the original weight; a method that has no ranks takes shares of parameters alone.

use crate::FitError;
use linwright_measure::spectra::Noise;
use linwright_ops::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much of a weight is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// LASER's unit, from 0 (all) to 10 (nothing): rank `trunc(min(out, inp) ((10 - rate) 0.1))`,
    /// evaluated from left to right in `f64`, as in its code.
    Rate(f64),
    /// Share of the full rank: `trunc(rho min(out, inp))`. It differs from `Rate` only by rounding.
    Rho(f64),
    /// Kept over original parameters; as a rank `trunc(keep out inp / (out + inp))`.
    Keep(f64),
    /// Number of components.
    Rank(usize),
    /// Smallest number of components with this share of the squared singular values.
    Energy(f64),
    /// Number of singular values above those of a random matrix (Marchenko and Pastur 1967; see
    /// [`Noise`]).
    MarchenkoPastur,
}

/// Unit of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// See [`Size::Rate`].
    Rate,
    /// See [`Size::Rho`].
    Rho,
    /// See [`Size::Keep`].
    Keep,
    /// See [`Size::Rank`].
    Rank,
    /// See [`Size::Energy`].
    Energy,
    /// See [`Size::MarchenkoPastur`].
    MarchenkoPastur,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 6] =
        [Self::Keep, Self::Rank, Self::Rho, Self::Energy, Self::Rate, Self::MarchenkoPastur];

    /// Its name in plans and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Rho => "rho",
            Self::Keep => "keep",
            Self::Rank => "rank",
            Self::Energy => "energy",
            Self::MarchenkoPastur => "marchenko_pastur",
        }
    }
}

/// A size that a method cannot have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizeError {
    /// A number out of its range.
    #[error("{size}, expected {expected}", size = size.shown())]
    Range {
        /// The size.
        size: Size,
        /// The valid numbers.
        expected: &'static str,
    },
    /// A unit that the method does not have.
    #[error("{method} has no {unit}; {takes}", unit = size.unit().name(), takes = taken(takes))]
    Unit {
        /// The method, or the operator that it fits.
        method: String,
        /// The size.
        size: Size,
        /// Units that it has.
        takes: &'static [Unit],
    },
    /// No size for a method without a standard one.
    #[error("{method} needs a size: {takes}", takes = names(takes))]
    Missing {
        /// The method.
        method: String,
        /// Units that it has.
        takes: &'static [Unit],
    },
}

fn names(units: &[Unit]) -> String {
    units.iter().map(|unit| unit.name()).collect::<Vec<_>>().join(", ")
}

fn taken(units: &[Unit]) -> String {
    match units {
        [] => "it has one size, so leave the size out".to_owned(),
        units => format!("its size is given by {}", names(units)),
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{} {number}", self.unit().name()),
            None => f.write_str(self.unit().name()),
        }
    }
}

impl Size {
    /// Its unit.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Rate(_) => Unit::Rate,
            Self::Rho(_) => Unit::Rho,
            Self::Keep(_) => Unit::Keep,
            Self::Rank(_) => Unit::Rank,
            Self::Energy(_) => Unit::Energy,
            Self::MarchenkoPastur => Unit::MarchenkoPastur,
        }
    }

    /// Its number in this unit, if the unit has numbers.
    fn number(&self) -> Option<f64> {
        match *self {
            Self::Rate(x) | Self::Rho(x) | Self::Keep(x) | Self::Energy(x) => Some(x),
            Self::Rank(rank) => Some(rank as f64),
            Self::MarchenkoPastur => None,
        }
    }

    /// The size in a sentence: `rank is 0`.
    fn shown(&self) -> String {
        let name = self.unit().name();
        self.number().map_or_else(|| name.to_owned(), |number| format!("{name} is {number}"))
    }

    /// The size as a part of a label: `keep0.5`.
    pub(crate) fn label(&self) -> String {
        self.to_string().replacen(' ', "", 1)
    }

    /// The requested share of parameters, if it is one.
    #[must_use]
    pub fn keep(&self) -> Option<f64> {
        if let Self::Keep(keep) = *self { Some(keep) } else { None }
    }

    /// Checks the range of the number.
    ///
    /// # Errors
    /// [`SizeError::Range`].
    pub fn check(&self) -> Result<(), SizeError> {
        let (is_within, expected) = match *self {
            Self::Rate(rate) => ((0.0..=10.0).contains(&rate), "a number from 0 to 10"),
            Self::Rho(share) | Self::Keep(share) | Self::Energy(share) => {
                ((0.0..=1.0).contains(&share), "a number from 0 to 1")
            }
            Self::Rank(rank) => (rank > 0, "at least 1"),
            Self::MarchenkoPastur => (true, ""),
        };
        if is_within { Ok(()) } else { Err(SizeError::Range { size: *self, expected }) }
    }

    /// Checks that a share of parameters leaves some and saves some.
    pub(crate) fn check_saves(&self) -> Result<(), SizeError> {
        if self.keep().is_some_and(|keep| !(keep > 0.0 && keep < 1.0)) {
            return Err(SizeError::Range { size: *self, expected: "a share between 0 and 1" });
        }
        self.check()
    }

    /// Whether it depends on the singular values of a weight.
    #[must_use]
    pub const fn needs_values(&self) -> bool {
        matches!(self, Self::Energy(_) | Self::MarchenkoPastur)
    }

    /// The size for a layer with sides divided by `by`: shares stay.
    #[must_use]
    pub(crate) fn shrunk(self, by: usize) -> Self {
        match self {
            Self::Rank(rank) => Self::Rank((rank / by).max(1)),
            Self::Rate(_)
            | Self::Rho(_)
            | Self::Keep(_)
            | Self::Energy(_)
            | Self::MarchenkoPastur => self,
        }
    }

    /// The kept rank of a weight, possibly zero. `values` are its singular values, which energy and
    /// Marchenko-Pastur need.
    ///
    /// # Errors
    /// [`FitError::Size`] if the size is out of range, a rank is above the full rank, or values are
    /// needed and missing.
    pub fn rank(&self, shape: Shape, values: Option<&[f64]>) -> Result<usize, FitError> {
        let refuse = |reason: String| FitError::Size { shape, reason };
        self.check().map_err(|error| refuse(error.to_string()))?;
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
            Self::MarchenkoPastur => Noise::of(needed()?, shape).map_or(0, |noise| noise.above),
        };
        Ok(rank.min(full))
    }

    /// Share of the entries that is kept, for interventions on single entries.
    pub(crate) fn share_of_numbers(&self) -> Option<f64> {
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
            assert!(matches!(size.rank(SHAPE, None), Err(FitError::Size { .. })), "{size}");
        }
    }
}
