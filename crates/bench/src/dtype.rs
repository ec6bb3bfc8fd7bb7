//! Floating-point types in which operators are timed.

use super::Pass;

/// A floating-point type of computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit float.
    #[default]
    F32,
    /// 64-bit float.
    F64,
}

impl Dtype {
    /// Both types.
    pub const ALL: &'static [Self] = &[Self::F32, Self::F64];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Whether a pass exists: training does only in `f32`, the type of Adam's moments.
    #[must_use]
    pub fn has(self, pass: Pass) -> bool {
        self == Self::F32 || pass != Pass::Training
    }

    /// The passes that exist.
    pub fn passes(self) -> impl Iterator<Item = Pass> {
        Pass::ALL.iter().copied().filter(move |&pass| self.has(pass))
    }
}
