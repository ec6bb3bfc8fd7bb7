//! A diagonal and a product of thin matrices, inverted by Woodbury's identity (Lu and Huang 2020,
//! arXiv:2002.12229, for the channels).

use super::{Words, registered};
use linwright_ops::{DiagonalLowRankSpec, Op, OpSpec};
use linwright_tensor::{RngKey, Scalar};

pub(super) const FORM: &str = "woodbury[:R]";
pub(super) const ABOUT: &str = "a diagonal and rank R, by default a quarter of the channels";

pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(1)?;
    let rank = words.count(0, channels.div_ceil(4), channels)?;
    registered(&OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank }), channels, key)
}

/// Two vectors for each of the rank.
pub(super) fn least_numbers(words: &Words<'_>, channels: u64) -> u64 {
    let rank = words.count(0, channels.div_ceil(4) as usize, channels as usize);
    rank.map_or(0, |rank| 2 * rank as u64 * channels)
}
