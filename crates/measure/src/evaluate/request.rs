//! The questions that a task may put to a model.
//!
//! Three kinds exist in this field: log-likelihood of a continuation, rolling log-likelihood of a
//! text, and generation.

use super::Protocol;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One question to the model.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// How likely is `continuation` after `context`?
    LogLikelihood {
        /// Text before.
        context: Cow<'a, str>,
        /// Text judged.
        continuation: Cow<'a, str>,
    },
    /// How likely is a text from its start, in windows?
    Rolling {
        /// The document.
        text: Cow<'a, str>,
        /// How it is cut in windows.
        cut: Cut,
    },
    /// What does the model write after `context`?
    Generate {
        /// Text before.
        context: Cow<'a, str>,
        /// When it ends.
        generation: Generation,
    },
}

impl Request<'_> {
    /// The text that it begins with.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::LogLikelihood { context, .. } | Self::Generate { context, .. } => context,
            Self::Rolling { text, .. } => text,
        }
    }

    /// The text after its first `before` bytes, with what is judged of it.
    #[must_use]
    pub fn own_text(&self, before: usize) -> Cow<'_, str> {
        let own = |text: &str| text.get(before..).unwrap_or_default().to_owned();
        match self {
            Self::LogLikelihood { context, continuation } => (own(context) + continuation).into(),
            Self::Generate { context, .. } => own(context).into(),
            Self::Rolling { text, .. } => Cow::Borrowed(text),
        }
    }
}

/// How a text is cut in windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// By a protocol.
    Protocol(Protocol),
    /// As the evaluation harness does: every token is predicted once, the first after a token that
    /// begins or ends texts; windows of the model's length follow each other, the last one takes in
    /// as much before it as fits.
    Harness,
}

/// When a continuation ends, at the latest. It is decoded greedily.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Texts that end it; they are not part of it.
    pub until: Vec<String>,
    /// Tokens at most.
    pub new_tokens: usize,
}

/// The answer to a [`Request`] of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Answer to [`Request::LogLikelihood`].
    LogLikelihood {
        /// Log-likelihood of the continuation in nats.
        log_likelihood: f64,
        /// Whether greedy decoding gives exactly this continuation.
        is_greedy: bool,
        /// Tokens of the continuation.
        tokens: usize,
        /// Tokens cut from the left of the context to fit the model.
        truncated: usize,
    },
    /// Answer to [`Request::Rolling`].
    Rolling {
        /// Negative log-likelihood of the counted tokens in nats.
        nll: f64,
        /// Tokens counted.
        tokens: usize,
        /// Tokens of the text itself, counted or not.
        text_tokens: usize,
        /// Windows scored.
        windows: usize,
    },
    /// Answer to [`Request::Generate`].
    Generated {
        /// What was written.
        text: String,
        /// Its tokens.
        tokens: usize,
        /// Tokens cut from the left of the context to fit the model.
        truncated: usize,
    },
}

/// The requests of one document or question.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Where it comes from, for messages: `stories.jsonl, line 3`.
    pub place: String,
    /// The requests, answered in this order.
    pub requests: Vec<Request<'a>>,
    /// Bytes at the start of every context that are not the document's own, such as examples.
    pub before: usize,
}
