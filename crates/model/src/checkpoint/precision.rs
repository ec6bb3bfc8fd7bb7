//! In which type a loaded model holds its matrices.

use linwright_tensor::HalfType;
use linwright_tensor::dtype::DType;

/// In which type a loaded model holds its matrices, those of embeddings included. Norms and biases
/// are always held in `f32`, and everything is computed in `f32`: numbers are widened as they are
/// read, which is exact, so that [`Self::Auto`] changes memory and time and, but for how sums are
/// ordered, no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Each as it is stored: in 16 bits if it has 16, else in `f32`.
    Auto,
    /// In `f32`, which is what training and healing need.
    #[default]
    F32,
    /// In `bf16`, rounded to nearest where stored in more bits.
    Bf16,
    /// In `f16`, rounded to nearest where stored in another type.
    F16,
}

impl Precision {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::Auto, Self::F32, Self::Bf16, Self::F16];

    /// The name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// The type of 16 bits for a tensor of this shape and stored type, if it is to be held in one;
    /// vectors are not.
    pub(super) fn half(self, shape: &[usize], stored: Option<DType>) -> Option<HalfType> {
        if shape.len() < 2 {
            return None;
        }
        match self {
            Self::Auto => stored.and_then(HalfType::of),
            Self::F32 => None,
            Self::Bf16 => Some(HalfType::Bf16),
            Self::F16 => Some(HalfType::F16),
        }
    }
}
