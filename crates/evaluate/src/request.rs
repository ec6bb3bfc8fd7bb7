//! Requests that a task may send to a model.
//!
//! Three kinds are standard: log-likelihood of a continuation, rolling log-likelihood of a text,
//! and generation. Masked language models, which see the context on both sides, answer cloze
//! requests, and encoders compare the embeddings of two texts.

use super::{Protocol, TokenDivergences};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One request to a model. Its JSON identifies it in fingerprints.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request<'a> {
    /// Log-likelihood of `continuation` after `context`.
    LogLikelihood {
        /// Text before.
        context: Cow<'a, str>,
        /// Text judged.
        continuation: Cow<'a, str>,
        /// Details beyond the score; usually none.
        details: Option<DetailRequest>,
    },
    /// Log-likelihood of a text from its start, in windows.
    Rolling {
        /// The document.
        text: Cow<'a, str>,
        /// How it is split into windows.
        cut: Cut,
    },
    /// Generation of text after `context`.
    Generate {
        /// Text before.
        context: Cow<'a, str>,
        /// When it ends.
        generation: Generation,
    },
    /// Prediction of the tokens in the blank of a text, by masked language models.
    Cloze(Cloze<'a>),
    /// Similarity of the embeddings of two texts.
    Similarity([Cow<'a, str>; 2]),
}

impl Request<'_> {
    /// The first text of the request.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::LogLikelihood { context, .. } | Self::Generate { context, .. } => context,
            Self::Rolling { text, .. } => text,
            Self::Cloze(cloze) => &cloze.context,
            Self::Similarity([first, _]) => first,
        }
    }
}

/// A text with a blank: `context`, a space, `before`, the blank, `after`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cloze<'a> {
    /// The start of the text, truncated from the left if it is too long.
    pub context: Cow<'a, str>,
    /// Largest number of context tokens that are kept, counted from the right; none keeps all.
    pub max_context_tokens: Option<usize>,
    /// Text between the context and the blank.
    pub before: Cow<'a, str>,
    /// Text after the blank.
    pub after: Cow<'a, str>,
    /// Candidate answers, each with its leading space. An answer of `n` tokens is scored with `n`
    /// masks, all of its tokens at once.
    pub answers: Vec<String>,
    /// Index of the correct answer.
    pub gold: usize,
    /// Number of largest log-probabilities to report at the first mask of the correct answer.
    pub top_logprobs: usize,
    /// Number of masks to fill with their most likely tokens as text; 0 fills none.
    pub filled_masks: usize,
}

/// Details of a log-likelihood request. They cost logits that scoring alone does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DetailRequest {
    /// Number of largest log-probabilities to report at the first token of the continuation.
    pub top_logprobs: usize,
    /// Whether to report the log-likelihood of the context, which needs the logits of all its
    /// tokens.
    pub context: bool,
}

/// Details of a reply: rank and largest log-probabilities at the first token of the answer, and
/// the log-likelihood of the context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Rank of the answer's first token, from 0; ties are broken by token id.
    pub rank: usize,
    /// Most likely tokens in descending order: text and log-probability in nats.
    #[serde(rename = "likeliest")]
    pub top_logprobs: Vec<(String, f64)>,
    /// Log-likelihood of the context in nats, without its first token, which has no prediction;
    /// none if it was not requested.
    #[serde(rename = "context")]
    pub context_log_likelihood: Option<f64>,
    /// Tokens of the context, with the beginning-of-sequence token.
    pub context_tokens: usize,
}

/// How a text is split into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// By a perplexity protocol.
    Protocol(Protocol),
    /// As in lm-evaluation-harness: every token is predicted once, the first one after the
    /// beginning- or end-of-sequence token; windows have the model's length and do not overlap,
    /// except that the last one is extended to the left to full length.
    Harness,
}

/// How text is continued, and until when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Generation {
    /// Stop strings, which are not part of the continuation.
    pub until: Vec<String>,
    /// Largest number of new tokens.
    pub new_tokens: usize,
    /// How tokens are sampled; greedy decoding if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
}

impl Generation {
    /// Greedy decoding.
    #[must_use]
    pub fn greedy(until: Vec<String>, new_tokens: usize) -> Self {
        Self { until, new_tokens, sampling: None }
    }

    /// Whether prompts can be continued as one batch: only the seeds may differ.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let without_seeds = |sampling: &Option<Sampling>| {
            sampling.clone().map(|sampling| Sampling { seeds: Vec::new(), ..sampling })
        };
        self.until == other.until
            && self.new_tokens == other.new_tokens
            && without_seeds(&self.sampling) == without_seeds(&other.sampling)
    }
}

/// How tokens are sampled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampling {
    /// Temperature, by which logits are divided; above 0.
    pub temperature: f64,
    /// Samples from this many of the most likely tokens.
    pub top_k: Option<usize>,
    /// Samples from the most likely tokens with this total probability.
    pub top_p: Option<f64>,
    /// Samples from tokens with at least this share of the largest probability.
    pub min_p: Option<f64>,
    /// Seeds of the random streams: one for each prompt, so that a continuation does not depend on
    /// the other prompts of its batch.
    pub seeds: Vec<u64>,
}

/// Loss of the counted tokens of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowLoss {
    /// Negative log-likelihood in nats.
    pub nll: f64,
    /// Tokens counted.
    pub tokens: usize,
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
        /// Details, if they were requested.
        #[serde(default, rename = "seen", skip_serializing_if = "Option::is_none")]
        details: Option<Box<Details>>,
    },
    /// Answer to [`Request::Rolling`].
    Rolling {
        /// Negative log-likelihood of the counted tokens in nats.
        nll: f64,
        /// Tokens counted.
        tokens: usize,
        /// Tokens of the text itself, counted or not.
        text_tokens: usize,
        /// Its windows, in their order.
        windows: Vec<WindowLoss>,
        /// Divergence of the counted tokens of each window from another model; none if it was not
        /// requested.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        divergences: Vec<TokenDivergences>,
    },
    /// Answer to [`Request::Generate`].
    Generated {
        /// The generated text.
        text: String,
        /// Its tokens.
        tokens: usize,
        /// Tokens cut from the left of the context to fit the model.
        truncated: usize,
    },
    /// Answer to [`Request::Cloze`].
    #[serde(rename = "filled")]
    Infilled {
        /// Log-likelihood in nats and number of tokens of each answer.
        answers: Vec<(f64, usize)>,
        /// The most likely token of each mask, decoded as one text.
        text: String,
        /// Details at the first mask of the correct answer.
        #[serde(rename = "seen")]
        details: Box<Details>,
        /// Tokens cut from the left of the context, at most, over the answers.
        truncated: usize,
    },
    /// Answer to [`Request::Similarity`].
    Similarity {
        /// Cosine similarity of the two embeddings.
        cosine: f64,
        /// Tokens of both texts.
        tokens: usize,
        /// Tokens cut from the ends of the texts to fit the model.
        truncated: usize,
        /// Pooling from token vectors to the embedding of a text.
        pooling: String,
    },
}

/// The requests of one document or question.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Source of the item, for messages: `stories.jsonl, line 3`.
    pub place: String,
    /// The requests, answered in this order.
    pub requests: Vec<Request<'a>>,
    /// The part of each context that belongs to the document, if contexts also include other text
    /// such as few-shot examples: one entry for all requests, or one for each. Empty if contexts
    /// consist of the document only.
    pub own: &'a [String],
}

impl Item<'_> {
    /// The texts of the document, each with its continuation or answer.
    #[must_use]
    pub fn own_texts(&self) -> Vec<Cow<'_, str>> {
        let text = |(index, request): (usize, &'_ Request<'_>)| {
            let own_text = |context: &str| {
                let own = self.own.get(index).or(self.own.last());
                own.map_or_else(|| context.to_owned(), Clone::clone)
            };
            match request {
                Request::LogLikelihood { context, continuation, .. } => {
                    own_text(context) + continuation
                }
                Request::Generate { context, .. } => own_text(context),
                Request::Rolling { text, .. } => text.clone().into_owned(),
                Request::Cloze(cloze) => {
                    format!("{} {}{}", own_text(&cloze.context), cloze.before, cloze.after)
                }
                Request::Similarity(texts) => texts.join(" "),
            }
        };
        self.requests.iter().enumerate().map(text).map(Cow::Owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_run::Fingerprint;

    fn item(requests: Vec<Request<'_>>) -> Item<'_> {
        Item { place: "a file".into(), requests, own: &[] }
    }

    fn continuation<'a>(context: &'a str, text: &'a str, details: bool) -> Request<'a> {
        let details = details.then_some(DetailRequest { top_logprobs: 3, context: false });
        Request::LogLikelihood { context: context.into(), continuation: text.into(), details }
    }

    #[test]
    fn requests_are_identified_by_all_that_they_ask() {
        let generate = |stop: &str, new_tokens| Request::Generate {
            context: "a".into(),
            generation: Generation::greedy(vec![stop.to_owned()], new_tokens),
        };
        let cloze = |gold| {
            Request::Cloze(Cloze {
                context: "a".into(),
                max_context_tokens: None,
                before: "".into(),
                after: "c".into(),
                answers: vec![" b".into()],
                gold,
                top_logprobs: 0,
                filled_masks: 0,
            })
        };
        let rolling = |cut| Request::Rolling { text: "a".into(), cut };
        let protocol = Protocol::rotor_paper();
        let (a, b) = (|| continuation("a", "b", false), || continuation("a", "b\n", false));
        let all = [
            vec![],
            vec![item(vec![a()])],
            vec![item(vec![b()])],
            vec![item(vec![continuation("ab", "", false)])],
            vec![item(vec![continuation("a", "b", true)])],
            vec![item(vec![a(), a()])],
            vec![item(vec![a()]), item(vec![a()])],
            vec![item(vec![generate("x", 5)])],
            vec![item(vec![generate("x", 6)])],
            vec![item(vec![generate("xy", 5)])],
            vec![item(vec![cloze(0)])],
            vec![item(vec![cloze(1)])],
            vec![item(vec![rolling(Cut::Harness)])],
            vec![item(vec![rolling(Cut::Protocol(protocol))])],
            vec![item(vec![Request::Similarity(["a".into(), "b".into()])])],
        ];
        let print_of = |items: &[Item<'_>]| {
            let requests: Vec<_> = items.iter().map(|item| &item.requests).collect();
            Fingerprint::of(&[("requests", &requests)])
        };
        let prints: Vec<Fingerprint> = all.iter().map(|items| print_of(items)).collect();
        for (index, print) in prints.iter().enumerate() {
            assert!(!prints[..index].contains(print), "{index}");
        }
        // Text is borrowed or owned, and where it is from does not matter.
        let owned = Request::LogLikelihood {
            context: String::from("a").into(),
            continuation: String::from("b").into(),
            details: None,
        };
        let same = Item { place: "another file".into(), ..item(vec![owned]) };
        assert_eq!(print_of(&[same]), prints[1]);
    }
}
