//! Products of butterfly factors (ButterflyFlow, Meng et al. 2022, without its blocks).

use super::{Words, registered};
use linwright_ops::{ButterflySpec, Op, OpSpec};
use linwright_run::shown;
use linwright_tensor::{RngKey, Scalar};

pub(super) const FORM: &str = "butterfly[:orthogonal]";
pub(super) const ABOUT: &str = "factors that mix or rotate pairs of channels";

/// Free pairs start as rotations, like the other kinds.
pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(1)?;
    let orthogonal = match words.0.first() {
        None => false,
        Some(&"orthogonal") => true,
        Some(other) => return Err(format!("\"{}\" is not orthogonal", shown(other))),
    };
    let spec = OpSpec::Butterfly(ButterflySpec { orthogonal, factors: None });
    let mut op = registered::<T>(&spec, channels, key)?;
    if !orthogonal {
        let mut stream = key.fold("turns").stream();
        for param in op.map_mut().params_mut() {
            for pair in param.values.as_chunks_mut::<4>().0 {
                let (sin, cos) = (std::f64::consts::TAU * stream.uniform()).sin_cos();
                *pair = [cos, -sin, sin, cos].map(T::from_f64);
            }
        }
    }
    Ok(op)
}

pub(super) fn least_numbers(_words: &Words<'_>, channels: u64) -> u64 {
    channels
}
