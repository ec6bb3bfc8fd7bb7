//! Converts generated tokens to responses of OpenAI's API.

use super::error::ApiError;
use super::protocol::{Order, Prompt};
use linwright::model::generate::{Finish, Step, TextWriter};
use linwright::model::tokenizer::{DecodeStream, Tokenizer};
use linwright::model::transformer::Ranked;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// Number of prompt tokens that are decoded together with the first new tokens.
const CONTEXT: usize = 4;

/// The texts of all tokens, computed on first use.
pub(super) struct TokenTexts<'a> {
    tokenizer: &'a Tokenizer,
    known: Vec<OnceLock<Text>>,
}

impl<'a> TokenTexts<'a> {
    /// For tokens below `vocab`.
    pub(super) fn new(tokenizer: &'a Tokenizer, vocab: usize) -> Self {
        Self { tokenizer, known: (0..vocab).map(|_| OnceLock::new()).collect() }
    }

    fn of(&self, token: u32) -> Result<Text, ApiError> {
        let cell = &self.known[token as usize];
        if let Some(text) = cell.get() {
            return Ok(text.clone());
        }
        let text = Text(self.tokenizer.token_text(token)?.into());
        Ok(cell.get_or_init(|| text).clone())
    }
}

/// The text of a token, shared.
#[derive(Clone, Debug, PartialEq)]
struct Text(Arc<str>);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Most likely tokens by their texts, in decreasing order of probability.
#[derive(Debug, Default)]
struct Top(Vec<(Text, f64)>);

impl Serialize for Top {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(text, log_prob)| map.serialize_entry(text, log_prob))?;
        map.end()
    }
}

/// Log-probabilities in the shape of the API: parallel lists.
#[derive(Debug, Default, Serialize)]
pub(super) struct Logprobs {
    tokens: Vec<Text>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Vec<Option<Top>>,
    text_offset: Vec<usize>,
}

impl Logprobs {
    fn extend(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.token_logprobs.extend(other.token_logprobs);
        self.top_logprobs.extend(other.top_logprobs);
        self.text_offset.extend(other.text_offset);
    }

    /// Adds a token; the first token has no log-probability.
    fn push(
        &mut self,
        token: u32,
        offset: usize,
        ranked: Option<&Ranked>,
        texts: &TokenTexts<'_>,
    ) -> Result<(), ApiError> {
        self.tokens.push(texts.of(token)?);
        self.text_offset.push(offset);
        self.token_logprobs.push(ranked.map(|ranked| ranked.chosen.log_prob));
        let Some(ranked) = ranked else {
            self.top_logprobs.push(None);
            return Ok(());
        };
        let mut top = Top::default();
        for one in ranked.top.iter().chain([&ranked.chosen]) {
            let text = texts.of(one.token)?;
            // Two tokens may have the same text; the more likely one came first.
            if !top.0.iter().any(|(other, _)| *other == text) {
                top.0.push((text, one.log_prob));
            }
        }
        self.top_logprobs.push(Some(top));
        Ok(())
    }
}

/// The part of a choice that one step adds.
#[derive(Debug, Default)]
pub(super) struct Delta {
    text: String,
    logprobs: Option<Logprobs>,
    finish: Option<&'static str>,
}

/// Character offsets of tokens in the text.
struct Offsets<'a> {
    stream: DecodeStream<'a>,
    characters: usize,
}

impl Offsets<'_> {
    fn take(&mut self, token: u32) -> Result<usize, ApiError> {
        let offset = self.characters;
        let piece = self.stream.step(token)?;
        self.characters += piece.map_or(0, |piece| piece.chars().count());
        Ok(offset)
    }
}

/// One choice of a response in progress.
pub(super) struct Growth<'a> {
    order: &'a Order,
    prompt: &'a Prompt,
    texts: &'a TokenTexts<'a>,
    /// None once the text is complete.
    writer: Option<TextWriter<'a>>,
    offsets: Option<Offsets<'a>>,
    begun: bool,
    /// Number of new tokens, including an end-of-sequence token.
    tokens: usize,
    whole: Delta,
}

impl<'a> Growth<'a> {
    pub(super) fn new(
        order: &'a Order,
        prompt: &'a Prompt,
        tokenizer: &'a Tokenizer,
        texts: &'a TokenTexts<'a>,
    ) -> Result<Self, ApiError> {
        let writer = Some(TextWriter::new(tokenizer, &prompt.tokens, &order.stop)?);
        let stream = || tokenizer.decode_stream(false);
        let offsets = order.logprobs.map(|_| Offsets { stream: stream(), characters: 0 });
        let whole = Delta::default();
        Ok(Self { order, prompt, texts, writer, offsets, begun: false, tokens: 0, whole })
    }

    /// Whether the choice is complete.
    pub(super) fn is_over(&self) -> bool {
        self.writer.is_none()
    }

    /// Processes a step and returns the part that it adds.
    ///
    /// # Errors
    /// If a token has no text.
    pub(super) fn take(&mut self, step: &Step) -> Result<Delta, ApiError> {
        let mut delta = Delta { logprobs: self.begin(step)?, ..Delta::default() };
        if self.order.echo && !self.begun {
            delta.text.clone_from(&self.prompt.text);
        }
        self.begun = true;
        let Some(writer) = &mut self.writer else { return Ok(delta) };
        if let Some(token) = step.token {
            self.tokens += 1;
            if step.finish != Some(Finish::End) {
                delta.text.push_str(&writer.take(token)?);
            }
            if let (Some(logprobs), Some(offsets)) = (&mut delta.logprobs, &mut self.offsets) {
                let offset = offsets.take(token)?;
                logprobs.push(token, offset, step.rank.as_ref(), self.texts)?;
            }
        }
        delta.finish = match step.finish {
            _ if writer.stopped().is_some() => Some("stop"),
            Some(Finish::End) => Some("stop"),
            Some(Finish::Length | Finish::Positions | Finish::Caller) => Some("length"),
            None => None,
        };
        if delta.finish.is_some()
            && let Some(writer) = self.writer.take()
        {
            let (_, stopped, rest) = writer.finish()?;
            delta.text.push_str(&rest);
            // The text withheld until the end may have been a stop string.
            delta.finish = if stopped.is_some() { Some("stop") } else { delta.finish };
        }
        Ok(delta)
    }

    /// Log-probabilities of the prompt with the first step, empty otherwise.
    fn begin(&mut self, step: &Step) -> Result<Option<Logprobs>, ApiError> {
        let Some(offsets) = &mut self.offsets else { return Ok(None) };
        let mut logprobs = Logprobs::default();
        if self.begun {
            return Ok(Some(logprobs));
        }
        let tokens = &self.prompt.tokens;
        if !self.order.echo {
            for &token in &tokens[tokens.len().saturating_sub(CONTEXT)..] {
                offsets.take(token)?;
            }
            offsets.characters = 0;
            return Ok(Some(logprobs));
        }
        let ranks = [None].into_iter().chain(step.prompt.iter().map(Some));
        for ((index, &token), ranked) in tokens.iter().enumerate().zip(ranks) {
            // Special tokens before the text are not part of it.
            let offset = if index < self.prompt.added { 0 } else { offsets.take(token)? };
            logprobs.push(token, offset, ranked, self.texts)?;
        }
        Ok(Some(logprobs))
    }

    /// Collects the part that a step added, for a response that is not streamed.
    pub(super) fn keep(&mut self, delta: Delta) {
        self.whole.text.push_str(&delta.text);
        self.whole.finish = self.whole.finish.or(delta.finish);
        if let Some(more) = delta.logprobs {
            self.whole.logprobs.get_or_insert_default().extend(more);
        }
    }
}

/// A response in progress: its id, and the fields of all its chunks.
pub(super) struct Answer<'a> {
    pub(super) order: &'a Order,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: &'a str,
}

#[derive(Serialize)]
struct Completion<'a> {
    index: usize,
    text: &'a str,
    logprobs: Option<&'a Logprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Envelope<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

fn completion(index: usize, delta: &Delta) -> Completion<'_> {
    let Delta { text, logprobs, finish } = delta;
    Completion { index, text, logprobs: logprobs.as_ref(), finish_reason: *finish }
}

impl Answer<'_> {
    fn envelope<C: Serialize>(
        &self,
        object: &'static str,
        choices: Vec<C>,
        usage: Option<Value>,
    ) -> Result<String, ApiError> {
        let (created, model) = (self.created, self.model);
        let envelope = Envelope { id: &self.id, object, created, model, choices, usage };
        serde_json::to_string(&envelope)
            .map_err(|error| ApiError::new(500, format!("cannot write the answer: {error}")))
    }

    /// The whole response, not streamed.
    pub(super) fn whole(&self, choices: &[Growth<'_>]) -> Result<String, ApiError> {
        let usage = Some(self.usage(choices));
        let all = choices.iter().map(|choice| &choice.whole).enumerate();
        if self.order.is_chat {
            let chat = |(index, delta): (usize, &Delta)| {
                json!({
                    "index": index,
                    "message": { "role": "assistant", "content": delta.text },
                    "logprobs": null,
                    "finish_reason": delta.finish,
                })
            };
            return self.envelope("chat.completion", all.map(chat).collect(), usage);
        }
        let choices = all.map(|(index, delta)| completion(index, delta)).collect();
        self.envelope("text_completion", choices, usage)
    }

    /// One event, none if it would be empty. `is_first` is true for the first of a choice.
    pub(super) fn event(
        &self,
        index: usize,
        delta: &Delta,
        is_first: bool,
    ) -> Result<Option<String>, ApiError> {
        let Delta { text, logprobs, finish } = delta;
        if text.is_empty() && logprobs.is_none() && finish.is_none() && !is_first {
            return Ok(None);
        }
        if self.order.is_chat {
            let mut content = json!({ "content": text });
            if is_first {
                content["role"] = "assistant".into();
            }
            let choice = json!({ "index": index, "delta": content, "finish_reason": finish });
            return self.envelope("chat.completion.chunk", vec![choice], None).map(Some);
        }
        self.envelope("text_completion", vec![completion(index, delta)], None).map(Some)
    }

    /// The last event, with token counts.
    pub(super) fn last_event(&self, choices: &[Growth<'_>]) -> Result<String, ApiError> {
        let object = if self.order.is_chat { "chat.completion.chunk" } else { "text_completion" };
        self.envelope::<Value>(object, Vec::new(), Some(self.usage(choices)))
    }

    fn usage(&self, choices: &[Growth<'_>]) -> Value {
        let prompt: usize = self.order.prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        let new: usize = choices.iter().map(|choice| choice.tokens).sum();
        json!({ "prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new })
    }
}
