//! Products of diagonal and circulant matrices, the layer of CDFlow.

use super::{Words, registered};
use linwright_ops::{CirculantDiagonalSpec, CirculantParameterisation, Op, OpSpec};
use linwright_run::shown;
use linwright_tensor::{RngKey, Scalar};

pub(super) const FORM: &str = "cd:M[:polar|raw|time]";
pub(super) const ABOUT: &str = "M diagonals and M - 1 circulants";

/// Most factors.
const MOST: usize = 256;

/// `cd:M` with polar parameters, or others by name; diagonals of ones and spectra of random phases.
pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(2)?;
    let factors = words.count(0, 2, MOST)?;
    let parameterisation = match words.0.get(1).copied() {
        None | Some("polar") => CirculantParameterisation::Polar,
        Some("raw") => CirculantParameterisation::Raw,
        Some("time") => CirculantParameterisation::Time,
        Some(other) => {
            return Err(format!("\"{}\" is not one of polar, raw and time", shown(other)));
        }
    };
    let spec = CirculantDiagonalSpec { factors, parameterisation, ..Default::default() };
    let mut op = registered::<T>(&OpSpec::CirculantDiagonal(spec), channels, key)?;
    // Signs never change in training. Random signs of the first diagonal would hide correlations of
    // neighbours from the circulant.
    for signs in op.map_mut().buffers_mut() {
        if signs.name == "diagonal_signs" {
            signs.values.fill(0);
        }
    }
    for diagonals in op.map_mut().params_mut() {
        if diagonals.name == "diagonals" {
            diagonals.values.iter_mut().for_each(|d| *d = d.abs());
        }
    }
    Ok(op)
}

pub(super) fn least_numbers(_words: &Words<'_>, channels: u64) -> u64 {
    channels
}
