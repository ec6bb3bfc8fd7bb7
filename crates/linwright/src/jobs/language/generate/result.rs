//! Continuations of prompts, as they are saved and reported.

use crate::jobs::kit::outcome::{page, text};
use crate::jobs::language::sampling::SamplingProtocol;
use linwright_model::generate::{Generated, TextEnd};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Continuations of prompts by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Continuations {
    /// The model.
    pub model: String,
    /// SHA-256 of its configuration, tokenizer and weights.
    pub model_hash: String,
    /// Seed of what was drawn.
    pub seed: u64,
    /// How tokens were drawn.
    pub protocol: SamplingProtocol,
    /// One for each prompt.
    pub results: Vec<Continuation>,
}

/// A prompt and what follows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Continuation {
    /// The prompt.
    pub prompt: String,
    /// The new text.
    pub text: String,
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// Number of tokens of the prompt.
    pub prompt_tokens: usize,
    /// Why it ended.
    pub finish: Finish,
    /// The text at which it ended, if one was given.
    pub stop: Option<String>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// By a token that ends texts.
    End,
    /// By a text of `--stop`.
    Stop,
    /// By its length.
    Length,
    /// By the positions of the model.
    Positions,
    /// By the caller.
    Caller,
}

impl Continuation {
    pub(super) fn of(prompt: &str, written: &Generated) -> Self {
        let (finish, stop) = match &written.end {
            TextEnd::End => (Finish::End, None),
            TextEnd::Stop(stop) => (Finish::Stop, Some(stop.clone())),
            TextEnd::Length => (Finish::Length, None),
            TextEnd::Positions => (Finish::Positions, None),
            TextEnd::Caller => (Finish::Caller, None),
        };
        Self {
            prompt: prompt.to_owned(),
            text: written.text.clone(),
            tokens: written.tokens.clone(),
            prompt_tokens: written.prompt_tokens,
            finish,
            stop,
        }
    }
}

impl Report for Continuations {
    const KIND: &'static str = "generate";

    fn document(&self) -> Document {
        let whole = self.results.iter().map(|one| format!("{}{}", one.prompt, one.text));
        page(vec![text(whole)])
    }
}
