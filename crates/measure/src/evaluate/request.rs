//! The questions that a task may put to a model.
//!
//! Three kinds exist in this field: log-likelihood of a continuation, rolling log-likelihood of a
//! text, and generation. The first two are here; no task needs the third yet.

use super::Protocol;
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
        /// Windows of the protocol.
        protocol: Protocol,
    },
}

/// The answer to a [`Request`] of the same kind.
#[derive(Clone, Copy, Debug, PartialEq)]
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
}

/// The requests of one document or question.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Where it comes from, for messages: `stories.jsonl, line 3`.
    pub place: String,
    /// The requests, answered in this order.
    pub requests: Vec<Request<'a>>,
}
