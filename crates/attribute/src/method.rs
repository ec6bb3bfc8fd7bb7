//! Methods of scoring training examples, by name.

use crate::AttributeError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A method of scoring training examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Method {
    /// Influence by the empirical Fisher matrix of each layer.
    #[default]
    Influence,
    /// Influence over the root of self-influence.
    Relatif,
    /// Cosines of gradients.
    Cosine,
    /// Inner products of gradients.
    GradDot,
    /// Inner products of gradients, summed over checkpoints with weights.
    Tracin,
    /// TRAK, the mean over checkpoints.
    Trak,
    /// Influence by products of moments.
    Kfac,
    /// The same, with corrected eigenvalues.
    Ekfac,
    /// BM25 of words: no gradients.
    Bm25,
    /// Similarity of vectors of the network: no gradients.
    Similarity,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 10] = [
        Self::Influence,
        Self::Relatif,
        Self::Cosine,
        Self::GradDot,
        Self::Tracin,
        Self::Trak,
        Self::Kfac,
        Self::Ekfac,
        Self::Bm25,
        Self::Similarity,
    ];

    /// Its name in options and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Influence => "influence",
            Self::Relatif => "relatif",
            Self::Cosine => "cosine",
            Self::GradDot => "grad-dot",
            Self::Tracin => "tracin",
            Self::Trak => "trak",
            Self::Kfac => "kfac",
            Self::Ekfac => "ekfac",
            Self::Bm25 => "bm25",
            Self::Similarity => "similarity",
        }
    }

    /// Whether it has a damping.
    #[must_use]
    pub fn is_damped(self) -> bool {
        match self {
            Self::Influence | Self::Relatif | Self::Trak | Self::Kfac | Self::Ekfac => true,
            Self::Cosine | Self::GradDot | Self::Tracin | Self::Bm25 | Self::Similarity => false,
        }
    }

    /// Whether it compares gradients.
    #[must_use]
    pub fn has_gradients(self) -> bool {
        !matches!(self, Self::Bm25 | Self::Similarity)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let names = Self::ALL.map(Self::name).join(", ");
        let refused = || AttributeError::Setting {
            name: "method",
            found: text.into(),
            expected: format!("one of {names}"),
        };
        Self::ALL.into_iter().find(|method| method.name() == text).ok_or_else(refused)
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.name().into()
    }
}

impl TryFrom<String> for Method {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}
