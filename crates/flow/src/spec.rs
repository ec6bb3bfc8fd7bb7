//! Descriptions of flows: plain data, from which all shapes follow.

use crate::{FlowError, MixSpec};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest side of an image.
const MOST_SIDE: usize = 1 << 10;
/// Largest number of channels of the input.
const MOST_CHANNELS: usize = 1 << 12;
/// Largest number of levels: each divides the sides by two.
const MOST_LEVELS: usize = 8;
/// Largest number of steps of a level.
const MOST_STEPS: usize = 1 << 10;
/// Largest number of hidden channels of a coupling's network.
const MOST_HIDDEN: usize = 1 << 14;
/// Largest number of parameters of the networks of all couplings.
const MOST_NUMBERS: u64 = 1 << 31;

/// Extent of one example: rows and columns of positions, and channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// Channels: colours of a pixel, coordinates of a point.
    pub channels: usize,
    /// Rows of positions; one for points.
    pub height: usize,
    /// Columns of positions; one for points.
    pub width: usize,
}

impl Extent {
    /// Number of places.
    #[must_use]
    pub fn places(self) -> usize {
        self.height * self.width
    }

    /// Number of values, the dimension D of the density.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.places() * self.channels
    }

    /// This extent after a squeeze.
    pub(crate) fn squeezed(self) -> Self {
        let Self { channels, height, width } = self;
        Self { channels: 4 * channels, height: height / 2, width: width / 2 }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.height, self.width, self.channels)
    }
}

/// Order of the channels into which a squeeze turns a block of 2 x 2 positions. A circulant couples
/// channels by the distance of their indices, so this is part of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SqueezeOrder {
    /// Channel by channel, the four positions of each adjacent, as in Glow.
    #[default]
    ChannelMajor,
    /// Position by position, all channels of each adjacent, as in RealNVP.
    PlaceMajor,
}

impl SqueezeOrder {
    /// All orders.
    pub const ALL: [Self; 2] = [Self::ChannelMajor, Self::PlaceMajor];

    /// Its name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ChannelMajor => "channel-major",
            Self::PlaceMajor => "place-major",
        }
    }
}

/// Type of the numbers of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Intensities v from 0 to 255, dequantised by noise u in [0, 1) to `(v + u) / 256 - 0.5`.
    Bytes,
    /// Numbers in any units.
    Numbers,
}

/// A flow: levels of steps, each a normalisation, a mix of the channels and a coupling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Extent of an example.
    pub input: Extent,
    /// Type of its numbers.
    pub values: Values,
    /// Number of levels; images are squeezed before each, and half of the channels leave after all
    /// but the last.
    pub levels: usize,
    /// Steps of each level.
    pub steps: usize,
    /// Hidden channels of the network of each coupling; zero for steps without one, which make the
    /// flow linear.
    pub hidden: usize,
    /// The operator that mixes channels.
    pub layer: MixSpec,
    /// Order of squeezed channels.
    #[serde(default)]
    pub squeeze: SqueezeOrder,
    /// Whether a fixed random permutation precedes each mix.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shuffle: bool,
}

/// A level: the extent of its steps, and that of the channels that leave after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelPlan {
    pub(crate) squeezes: bool,
    pub(crate) extent: Extent,
    /// Channels that continue to the next level; none in the last.
    pub(crate) kept: Option<usize>,
}

impl FlowSpec {
    /// An architecture for data of this extent: points have one level, images at most three, so
    /// that the last has at least four positions.
    #[must_use]
    pub fn for_data(input: Extent, values: Values, layer: MixSpec) -> Self {
        let is_image = input.places() > 1;
        let halvings = input.height.trailing_zeros().min(input.width.trailing_zeros()) as usize;
        let fits = |levels: &usize| input.height.min(input.width) >> levels >= 2;
        let levels = (1..=halvings.min(3)).rev().find(fits).unwrap_or(1);
        let (levels, steps, hidden) = if is_image { (levels, 8, 64) } else { (1, 12, 64) };
        Self {
            input,
            values,
            levels,
            steps,
            hidden,
            layer,
            squeeze: SqueezeOrder::default(),
            shuffle: false,
        }
    }

    /// Whether examples are images, not points.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.input.places() > 1
    }

    /// Checks all sizes.
    ///
    /// # Errors
    /// [`FlowError::Option`] naming the first invalid one.
    pub fn check(&self) -> Result<(), FlowError> {
        let Extent { channels, height, width } = self.input;
        let sizes = [
            ("channels", channels, MOST_CHANNELS),
            ("height", height, MOST_SIDE),
            ("width", width, MOST_SIDE),
            ("levels", self.levels, MOST_LEVELS),
            ("steps", self.steps, MOST_STEPS),
            ("hidden", self.hidden, MOST_HIDDEN),
        ];
        for (option, found, most) in sizes {
            let least = usize::from(option != "hidden");
            if !(least..=most).contains(&found) {
                let (found, expected) = (found.to_string(), format!("{least} to {most}"));
                return Err(FlowError::Option { option, found, expected });
            }
        }
        let wrong = |found: String, expected: &str| {
            Err(FlowError::Option { option: "levels", found, expected: expected.to_owned() })
        };
        let found = format!("{} for examples of {}", self.levels, self.input);
        if self.is_image() {
            let sides = 1 << self.levels;
            if !height.is_multiple_of(sides) || !width.is_multiple_of(sides) {
                let expected = format!(
                    "height and width that are multiples of {sides}; resize the images, or take \
                     fewer levels"
                );
                return wrong(found, &expected);
            }
        } else if self.levels > 1 {
            return wrong(found, "1 for points");
        } else if channels < 2 {
            let (found, expected) = ("1 number".to_owned(), "two or more".to_owned());
            return Err(FlowError::Option { option: "a point", found, expected });
        }
        let numbers = self.least_numbers();
        if numbers > MOST_NUMBERS {
            let found = format!("{numbers} numbers for examples of {}", self.input);
            let expected = format!("at most {MOST_NUMBERS}; take fewer steps or hidden channels");
            return Err(FlowError::Option { option: "a flow of", found, expected });
        }
        Ok(())
    }

    /// Levels, first one first, of a checked description.
    pub(crate) fn plan(&self) -> Vec<LevelPlan> {
        let (mut extent, squeezes) = (self.input, self.is_image());
        let mut plans = Vec::with_capacity(self.levels);
        for level in 0..self.levels {
            if squeezes {
                extent = extent.squeezed();
            }
            let kept = (level + 1 < self.levels).then_some(extent.channels / 2);
            plans.push(LevelPlan { squeezes, extent, kept });
            extent.channels = kept.unwrap_or(extent.channels);
        }
        plans
    }

    /// Lower bound of the number of parameters of all steps: a file must contain as many.
    #[must_use]
    pub fn least_numbers(&self) -> u64 {
        let kernel = if self.is_image() { 9 } else { 1 };
        let hidden = self.hidden as u64;
        let of_level = |plan: &LevelPlan| {
            let channels = plan.extent.channels as u64;
            let inp = channels / 2;
            let out = 2 * (channels - inp);
            let of_coupling = match hidden {
                0 => 0,
                hidden => (kernel * inp + hidden + kernel * out + 2) * hidden + out,
            };
            let of_step = 2 * channels + self.layer.least_numbers(plan.extent.channels);
            (of_step + of_coupling).saturating_mul(self.steps as u64)
        };
        self.plan().iter().map(of_level).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(channels: usize, height: usize, width: usize) -> FlowSpec {
        let layer = MixSpec::parse("cd:2").unwrap();
        FlowSpec::for_data(Extent { channels, height, width }, Values::Bytes, layer)
    }

    #[test]
    fn default_architectures_suit_the_data() {
        let cases = [
            ((2, 1, 1), 1),
            ((1, 16, 16), 3),
            ((1, 8, 8), 2),
            ((3, 32, 32), 3),
            ((1, 28, 28), 2),
            ((1, 4, 8), 1),
            ((1, 2, 2), 1),
        ];
        for ((channels, height, width), levels) in cases {
            let spec = spec(channels, height, width);
            assert_eq!(spec.levels, levels, "{}", spec.input);
            spec.check().unwrap();
            let plan = spec.plan();
            assert_eq!(plan.len(), levels);
            let left: usize = plan
                .iter()
                .map(|level| {
                    (level.extent.channels - level.kept.unwrap_or(0)) * level.extent.places()
                })
                .sum();
            assert_eq!(left, spec.input.numbers(), "latents have the size of the input");
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        let cases: [(FlowSpec, &str); 6] = [
            (spec(1, 5, 4), "levels is 1 for examples of 5 x 4 x 1; expected height and width"),
            (FlowSpec { levels: 3, ..spec(1, 28, 28) }, "multiples of 8"),
            (FlowSpec { levels: 2, ..spec(2, 1, 1) }, "expected 1 for points"),
            (spec(1, 1, 1), "two or more"),
            (FlowSpec { steps: 0, ..spec(2, 1, 1) }, "steps is 0"),
            (FlowSpec { hidden: 16_384, steps: 1024, ..spec(4096, 64, 64) }, "at most 2147483648"),
        ];
        for (spec, said) in cases {
            let error = spec.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
