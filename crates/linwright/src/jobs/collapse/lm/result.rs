//! Collapse of a language model, as it is saved and reported.

use crate::jobs::kit::outcome::text;
use linwright_collapse::{LayerReport, report};
use linwright_report::number::seconds;
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// Collapse of the layers of a language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollapseOfModel {
    /// The model.
    pub model: String,
    /// The text.
    pub text: String,
    /// Its SHA-256.
    pub text_sha256: String,
    /// What the classes are: next tokens, or the tokens themselves.
    pub classes_are: String,
    /// Tokens with a class, kept or not.
    pub contexts: u64,
    /// Different tokens that could be classes.
    pub tokens_seen: usize,
    /// Those that are classes.
    pub classes_kept: usize,
    /// Occurrences of a class at least.
    pub min_count: u64,
    /// Occurrences of a class at most.
    pub max_count: Option<u64>,
    /// Tokens of a window.
    pub window: usize,
    /// Times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Measured<PassSeconds>>,
    /// The layers, in the order of a pass.
    pub layers: Vec<LayerReport>,
}

/// Times of the first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PassSeconds {
    /// The model.
    pub model: f64,
    /// Adding its hidden states.
    pub sums: f64,
}

impl Report for CollapseOfModel {
    const KIND: &'static str = "collapse-lm";

    fn document(&self) -> Document {
        report::of_layers("lm", &self.layers)
    }

    fn times(&self) -> Vec<Block> {
        let line = |times: &Measured<PassSeconds>| {
            let PassSeconds { model, sums } = times.0;
            text([format!("model: {}, sums: {}", seconds(model), seconds(sums))])
        };
        self.seconds.iter().map(line).collect()
    }
}
