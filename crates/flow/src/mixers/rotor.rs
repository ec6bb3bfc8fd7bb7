//! Sandwiches of rotors of a Clifford algebra.

use super::{Words, registered};
use linwright_ops::{Op, OpSpec, RotorSpec};
use linwright_tensor::{RngKey, Scalar};

pub(super) const FORM: &str = "rotor";
pub(super) const ABOUT: &str = "one pair of rotors; a rotation and a scale";

pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(0)?;
    if !channels.is_power_of_two() {
        return Err("a rotor needs a power of two".into());
    }
    let spec = RotorSpec { chunk: Some(channels), ..RotorSpec::default() };
    registered(&OpSpec::Rotor(spec), channels, key)
}

pub(super) fn least_numbers(_words: &Words<'_>, _channels: u64) -> u64 {
    1
}
