//! Continuing texts.

use super::{Choice, Finish, Limits, generate};
use crate::error::ModelError;
use crate::tokenizer::{DecodeStream, Tokenizer, TokenizerError};
use crate::transformer::Transformer;

/// Tokens of a prompt that are decoded before its continuation, whose first piece depends on them:
/// a space belongs to a word unless the word begins a text.
const CONTEXT: usize = 4;

/// When a continuation of a text ends, at the latest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopping {
    /// Tokens that are added at most.
    pub new_tokens: usize,
    /// Tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// Strings that end a text; they are not part of it.
    pub stop: Vec<String>,
}

/// Why a continuation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextEnd {
    /// With a token that ends texts.
    End,
    /// Before a string that was to stop it.
    Stop(String),
    /// At the limit of new tokens.
    Length,
    /// At the last position that the model has.
    Positions,
    /// The caller had enough.
    Caller,
}

/// The continuation of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The new text.
    pub text: String,
    /// The new tokens, those of a stop string included.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Why there is no more.
    pub end: TextEnd,
}

/// Text or tokens that cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Continues prompts, given as tokens, side by side. `on_text` sees each new piece of text as
/// (index of the prompt, piece), as soon as it cannot become part of a stop string, and says
/// whether to go on with that prompt.
///
/// # Errors
/// [`GenerateError`].
///
/// # Panics
/// If the model has no head.
pub fn generate_text(
    (model, tokenizer): (&Transformer, &Tokenizer),
    prompts: &[Vec<u32>],
    choice: &Choice,
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
        generate(model, &views, choice, &limits, &mut |index, token| match writers[index]
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

/// The text of one continuation, held back where it could become a stop string.
#[derive(Debug)]
pub struct TextWriter<'a> {
    /// None once the text has ended.
    stream: Option<DecodeStream<'a>>,
    stop: &'a [String],
    /// What is out.
    text: String,
    /// What is held back.
    held: String,
    stopped: Option<String>,
}

impl<'a> TextWriter<'a> {
    /// Of a continuation of this prompt that ends before one of the strings.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that no token has.
    pub fn new(
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        stop: &'a [String],
    ) -> Result<Self, TokenizerError> {
        let mut stream = tokenizer.decode_stream(true);
        for &token in &prompt[prompt.len().saturating_sub(CONTEXT)..] {
            // What it decodes to is the prompt's.
            stream.step(token)?;
        }
        let (text, held) = (String::new(), String::new());
        Ok(Self { stream: Some(stream), stop, text, held, stopped: None })
    }

    /// Takes a token; gives the text that is sure to belong to the continuation.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that no token has.
    pub fn take(&mut self, token: u32) -> Result<String, TokenizerError> {
        let Some(stream) = &mut self.stream else { return Ok(String::new()) };
        let piece = stream.step(token)?;
        Ok(self.release(&piece.unwrap_or_default(), false))
    }

    /// The string that has ended the text, if one has.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Gives what is sure, or at the end all that is left.
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

    /// Length of the longest end that begins a stop string.
    fn unsure(&self) -> usize {
        let starts = self.held.char_indices().map(|(at, _)| at);
        let begins = |at: &usize| self.stop.iter().any(|stop| stop.starts_with(&self.held[*at..]));
        starts.into_iter().find(begins).map_or(0, |at| self.held.len() - at)
    }

    /// The whole text, what stopped it, and what of it was not given yet.
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
