//! Generation of text.

use super::{Choice, Finish, Limits, generate_each};
use crate::error::ModelError;
use crate::tokenizer::{DecodeStream, Tokenizer, TokenizerError};
use crate::transformer::Transformer;

/// Number of prompt tokens decoded together with the continuation: the first piece depends on them,
/// since a leading space is dropped only at the start of a text.
const CONTEXT: usize = 4;

/// Stopping conditions of a text continuation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopping {
    /// Largest number of new tokens.
    pub new_tokens: usize,
    /// End-of-sequence tokens.
    pub end_tokens: Vec<u32>,
    /// Stop strings, which are not part of the continuation.
    pub stop: Vec<String>,
}

/// Reason why a continuation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextEnd {
    /// An end-of-sequence token.
    End,
    /// A stop string.
    Stop(String),
    /// The limit of new tokens.
    Length,
    /// The longest input of the model.
    Positions,
    /// The caller stopped it.
    Caller,
}

/// A generated text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The new text.
    pub text: String,
    /// The new tokens, with those of a stop string.
    pub tokens: Vec<u32>,
    /// Number of prompt tokens.
    pub prompt_tokens: usize,
    /// Reason why it ended.
    pub end: TextEnd,
}

/// An error of text generation.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// An error of the tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// An error of the model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Continues tokenised prompts as one batch. `on_text` receives each new piece of text as (index of
/// the prompt, piece), as soon as it cannot be part of a stop string, and returns whether to
/// continue that prompt.
///
/// # Errors
/// [`GenerateError`].
///
/// # Panics
/// If the model has no head.
pub fn generate_text(
    model: &Transformer,
    tokenizer: &Tokenizer,
    prompts: &[Vec<u32>],
    choice: &Choice,
    stopping: &Stopping,
    on_text: &mut dyn FnMut(usize, &str) -> bool,
) -> Result<Vec<Generated>, GenerateError> {
    let choices = choice.of_places(prompts.len());
    generate_text_each(model, tokenizer, prompts, &choices, stopping, on_text)
}

/// As [`generate_text`], with sampling parameters of each prompt.
///
/// # Errors
/// [`GenerateError`].
///
/// # Panics
/// If the model has no head, or the numbers of prompts and choices differ.
pub fn generate_text_each(
    model: &Transformer,
    tokenizer: &Tokenizer,
    prompts: &[Vec<u32>],
    choices: &[Choice],
    stopping: &Stopping,
    on_text: &mut dyn FnMut(usize, &str) -> bool,
) -> Result<Vec<Generated>, GenerateError> {
    let mut writers = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        writers.push(TextWriter::new(tokenizer, prompt, &stopping.stop)?);
    }
    let limits =
        Limits { new_tokens: stopping.new_tokens, end_tokens: stopping.end_tokens.clone() };
    let views: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let mut failed = None;
    let continuations =
        generate_each(model, &views, choices, &limits, &mut |index, token| match writers[index]
            .take(token)
        {
            Ok(piece) => {
                let goes_on = piece.is_empty() || on_text(index, &piece);
                goes_on && writers[index].stopped().is_none()
            }
            Err(error) => {
                failed = Some(error);
                false
            }
        })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let all = continuations.into_iter().zip(writers).zip(prompts).enumerate();
    all.map(|(index, ((continuation, writer), prompt))| {
        let (text, stopped, rest) = writer.finish()?;
        if !rest.is_empty() {
            on_text(index, &rest);
        }
        let end = match (stopped, continuation.finish) {
            (Some(stop), _) => TextEnd::Stop(stop),
            (None, Finish::End) => TextEnd::End,
            (None, Finish::Length) => TextEnd::Length,
            (None, Finish::Positions) => TextEnd::Positions,
            (None, Finish::Caller) => TextEnd::Caller,
        };
        let prompt_tokens = prompt.len();
        Ok(Generated { text, tokens: continuation.tokens, prompt_tokens, end })
    })
    .collect()
}

/// The text of one continuation, withheld while it may become a stop string.
#[derive(Debug)]
pub struct TextWriter<'a> {
    /// The decoder; none once the text has ended.
    stream: Option<DecodeStream<'a>>,
    stop: &'a [String],
    /// Text already emitted.
    text: String,
    /// Text withheld.
    held: String,
    stopped: Option<String>,
}

impl<'a> TextWriter<'a> {
    /// The text of a continuation of this prompt with these stop strings.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an unknown id.
    pub fn new(
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        stop: &'a [String],
    ) -> Result<Self, TokenizerError> {
        let mut stream = tokenizer.decode_stream(true);
        for &token in &prompt[prompt.len().saturating_sub(CONTEXT)..] {
            // These tokens decode to the end of the prompt.
            stream.step(token)?;
        }
        let (text, held) = (String::new(), String::new());
        Ok(Self { stream: Some(stream), stop, text, held, stopped: None })
    }

    /// Adds a token; returns the text that cannot be part of a stop string.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an unknown id.
    pub fn take(&mut self, token: u32) -> Result<String, TokenizerError> {
        let Some(stream) = &mut self.stream else { return Ok(String::new()) };
        let piece = stream.step(token)?;
        Ok(self.release(&piece.unwrap_or_default(), false))
    }

    /// The stop string that was found, if any.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Emits the text that cannot be part of a stop string, or at the end all of it.
    fn release(&mut self, piece: &str, at_end: bool) -> String {
        self.held.push_str(piece);
        let first = self.stop.iter().filter(|stop| !stop.is_empty());
        let first = first.filter_map(|stop| Some((self.held.find(stop.as_str())?, stop))).min();
        let keep = match first {
            Some((at, stop)) => {
                self.stopped = Some(stop.clone());
                self.stream = None;
                self.held.truncate(at);
                at
            }
            None if at_end => self.held.len(),
            None => self.held.len() - self.unsure(),
        };
        let rest = self.held.split_off(keep);
        let sure = std::mem::replace(&mut self.held, rest);
        self.text.push_str(&sure);
        sure
    }

    /// Length of the longest suffix that is a prefix of a stop string.
    fn unsure(&self) -> usize {
        let starts = self.held.char_indices().map(|(at, _)| at);
        let begins = |at: &usize| self.stop.iter().any(|stop| stop.starts_with(&self.held[*at..]));
        starts.into_iter().find(begins).map_or(0, |at| self.held.len() - at)
    }

    /// The whole text, the stop string found, and the text not yet emitted.
    ///
    /// # Errors
    /// [`TokenizerError::Invalid`] if the decoder fails.
    pub fn finish(mut self) -> Result<(String, Option<String>, String), TokenizerError> {
        let left = match self.stream.take() {
            Some(stream) => stream.finish()?.unwrap_or_default(),
            None => String::new(),
        };
        let rest = if self.stopped.is_none() { self.release(&left, true) } else { String::new() };
        Ok((self.text, self.stopped, rest))
    }
}
