//! Values of metrics.

use serde_json::{Value as Json, json};

/// Value of a metric for one document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number.
    Number(f64),
    /// Log-likelihood, and number of words or bytes to normalise by.
    Weighted(f64, f64),
    /// Several truths about a document.
    Truths(Vec<bool>),
    /// True class of a document (`None` if invalid) and predicted class.
    Classes(Option<usize>, usize),
    /// True class of a document (`None` if invalid) and probability of each class.
    Probabilities(Option<usize>, Vec<f64>),
    /// Reference and answer, and their counts for a score of the corpus.
    Overlap([String; 2], Vec<f64>),
}

impl Value {
    /// Value as written to the harness's samples.
    pub(super) fn json(&self) -> Json {
        let class = |class: &Option<usize>| class.map_or(json!(-100), |class| json!(class));
        match self {
            Self::Number(value) => json!(value),
            Self::Weighted(value, weight) => json!([value, *weight as u64]),
            Self::Truths(truths) => json!(truths),
            Self::Classes(gold, predicted) => json!([class(gold), predicted]),
            Self::Probabilities(gold, shares) => json!([class(gold), shares]),
            Self::Overlap(texts, _) => json!(texts),
        }
    }

    /// A number per document to compare models by, if there is one.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Classes(gold, predicted) => Some(f64::from(u8::from(*gold == Some(*predicted)))),
            Self::Weighted(..) | Self::Truths(_) | Self::Probabilities(..) | Self::Overlap(..) => {
                None
            }
        }
    }
}
