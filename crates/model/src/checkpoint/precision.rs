//! The type in which a loaded model holds its matrices.

use linwright_tensor::HalfType;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};

/// The type in which a loaded model holds its matrices, embeddings included. All computation is in
/// `f32`: numbers are widened when they are read, which is exact. So [`Self::Auto`] changes memory
/// and time and, up to the order of sums, no result. Norms, biases and the parameters of other
/// operators than dense ones have the numbers of the type, as in a file of it, in memory for `f32`;
/// so have the modules after the transformer of a sentence encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// As stored: in 16 bits if stored in 16, else in `f32`.
    Auto,
    /// In `f32`, which training and healing need.
    #[default]
    F32,
    /// In `bf16`, rounded to nearest if stored in more bits.
    Bf16,
    /// In `f16`, rounded to nearest if stored in another type.
    F16,
}

impl Precision {
    /// All choices.
    pub const ALL: [Self; 4] = [Self::Auto, Self::F32, Self::Bf16, Self::F16];

    /// Value of the option.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// The 16-bit type to which all parameters are rounded, if they are.
    pub(super) fn rounding(self) -> Option<HalfType> {
        match self {
            Self::Auto | Self::F32 => None,
            Self::Bf16 => Some(HalfType::Bf16),
            Self::F16 => Some(HalfType::F16),
        }
    }

    /// The 16-bit type for a tensor of this shape and stored type, if it is held in one; vectors
    /// are not.
    pub(super) fn half(self, shape: &[usize], stored: Option<DType>) -> Option<HalfType> {
        if shape.len() < 2 {
            return None;
        }
        match self {
            Self::Auto => stored.and_then(HalfType::of),
            Self::F32 | Self::Bf16 | Self::F16 => self.rounding(),
        }
    }
}
