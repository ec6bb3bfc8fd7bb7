//! The questions that a task may put to a model.
//!
//! Three kinds exist in this field: log-likelihood of a continuation, rolling log-likelihood of a
//! text, and generation. Masked language models, which know what stands on both sides, are asked
//! one kind of their own, and encoders how alike two texts are.

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
        /// What else is wanted, beyond what scoring needs; usually nothing.
        look: Option<Look>,
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
    /// What stands in the gap of a text? Only masked language models are asked this.
    Fill(Gap<'a>),
    /// How alike are the vectors of two texts?
    Similarity([Cow<'a, str>; 2]),
}

impl Request<'_> {
    /// The text that it begins with.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::LogLikelihood { context, .. } | Self::Generate { context, .. } => context,
            Self::Rolling { text, .. } => text,
            Self::Fill(gap) => &gap.context,
            Self::Similarity([first, _]) => first,
        }
    }
}

/// A text with a gap: `context`, a space, `before`, the gap, `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap<'a> {
    /// The start of the text, which is cut from the left where it is too long.
    pub context: Cow<'a, str>,
    /// Only so many of the context's last tokens are seen.
    pub last: Option<usize>,
    /// Text between the context and the gap.
    pub before: Cow<'a, str>,
    /// Text behind the gap.
    pub after: Cow<'a, str>,
    /// What may stand in the gap, with the space before it. Each has as many masks as it has
    /// tokens, which are judged at once.
    pub answers: Vec<String>,
    /// Index of the answer whose first place is looked at.
    pub gold: usize,
    /// So many of the likeliest tokens in that place.
    pub likeliest: usize,
    /// Masks in whose places the likeliest tokens are written.
    pub written: usize,
}

/// A closer look at where a continuation begins. It costs logits that scoring alone does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// So many of the likeliest tokens in the place of the continuation's first one.
    pub likeliest: usize,
    /// Whether the log-likelihood of the context is wanted, which needs logits of all its tokens.
    pub context: bool,
}

/// What a [`Look`] found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Tokens that are likelier than the first one of the continuation; of equally likely ones
    /// those before it in the vocabulary count.
    pub rank: usize,
    /// The likeliest tokens, falling: text and log-probability in nats.
    pub likeliest: Vec<(String, f64)>,
    /// Log-likelihood of the context in nats without its first token, which nothing predicts; none
    /// if it was not asked for.
    pub context: Option<f64>,
    /// Tokens of the context, with the one that begins it.
    pub context_tokens: usize,
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
        /// What a [`Look`] found, if one was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<Box<Seen>>,
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
    /// Answer to [`Request::Fill`].
    Filled {
        /// For each answer its log-likelihood in nats, and its tokens.
        answers: Vec<(f64, usize)>,
        /// The likeliest token of each mask, as one text.
        text: String,
        /// Where the gold answer begins.
        seen: Box<Seen>,
        /// Tokens cut from the left of the context, most for any answer.
        truncated: usize,
    },
    /// Answer to [`Request::Similarity`].
    Similarity {
        /// Cosine of the two vectors.
        cosine: f64,
        /// Tokens of both texts.
        tokens: usize,
        /// Tokens cut from the ends of the texts to fit the model.
        truncated: usize,
        /// How the model makes one vector of a text.
        pooling: String,
    },
}

/// The requests of one document or question.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Where it comes from, for messages: `stories.jsonl, line 3`.
    pub place: String,
    /// The requests, answered in this order.
    pub requests: Vec<Request<'a>>,
    /// What of each context is the document's own, where contexts hold more, such as examples; one
    /// for all of them or one for each. Empty where contexts are the document's own.
    pub own: &'a [String],
}

impl Item<'_> {
    /// The texts of the document itself, each with what is judged or sought behind it.
    #[must_use]
    pub fn own_texts(&self) -> Vec<Cow<'_, str>> {
        let text = |(index, request): (usize, &'_ Request<'_>)| {
            let own = |context: &str| {
                let own = self.own.get(index).or(self.own.last());
                own.map_or_else(|| context.to_owned(), Clone::clone)
            };
            match request {
                Request::LogLikelihood { context, continuation, .. } => own(context) + continuation,
                Request::Generate { context, .. } => own(context),
                Request::Rolling { text, .. } => text.clone().into_owned(),
                Request::Fill(gap) => format!("{} {}{}", own(&gap.context), gap.before, gap.after),
                Request::Similarity(texts) => texts.join(" "),
            }
        };
        self.requests.iter().enumerate().map(text).map(Cow::Owned).collect()
    }
}
