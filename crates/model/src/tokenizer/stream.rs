//! Decoding of tokens as they come.

use super::{Tokenizer, TokenizerError};

/// What a decoder writes for bytes that are no character, and while one is not complete.
const REPLACEMENT: char = '\u{FFFD}';

/// Tokens after which bytes that are no character will not become one: a character has at most four
/// bytes, and a token at least one.
const LONGEST_CHARACTER: usize = 16;

/// Gives the text of tokens one by one, each piece as soon as its characters are complete.
///
/// The pieces, [`Self::finish`] included, joined are [`Tokenizer::decode`] of all ids. One
/// difference is possible: a decoder of sentencepiece that finds bytes which are no character gives
/// up the whole run of bytes, also those before that were one and are out already.
#[derive(Debug)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    skip_special: bool,
    /// The tokens of the last piece, for what a decoder does at the start of a text, then those
    /// that have no text yet.
    ids: Vec<u32>,
    /// How many of them are out.
    done: usize,
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, skip_special: bool) -> Self {
        Self { tokenizer, skip_special, ids: Vec::new(), done: 0 }
    }

    /// Takes the next token and gives the text that it completes, if any.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`]; the token is then not taken.
    pub fn step(&mut self, id: u32) -> Result<Option<String>, TokenizerError> {
        self.ids.push(id);
        let text = match self.rest() {
            Ok(text) => text,
            Err(error) => {
                self.ids.pop();
                return Err(error);
            }
        };
        let waits = text.ends_with(REPLACEMENT) && self.ids.len() - self.done < LONGEST_CHARACTER;
        if text.is_empty() || waits {
            return Ok(None);
        }
        self.ids.drain(..self.done);
        self.done = self.ids.len();
        Ok(Some(text))
    }

    /// Gives what is left: characters that never became complete, as U+FFFD.
    ///
    /// # Errors
    /// [`TokenizerError::Invalid`] if the decoder fails.
    pub fn finish(self) -> Result<Option<String>, TokenizerError> {
        Ok(Some(self.rest()?).filter(|text| !text.is_empty()))
    }

    /// The text of the tokens that are not out.
    fn rest(&self) -> Result<String, TokenizerError> {
        let out = self.tokenizer.decode(&self.ids[..self.done], self.skip_special)?;
        let all = self.tokenizer.decode(&self.ids, self.skip_special)?;
        match all.strip_prefix(&out) {
            Some(rest) => Ok(rest.to_owned()),
            // A run of bytes turned out to be none: what is out stays, the new tokens stand alone.
            None => self.tokenizer.decode(&self.ids[self.done..], self.skip_special),
        }
    }
}

impl Tokenizer {
    /// Decodes tokens one by one; with `skip_special` as [`Self::decode`].
    #[must_use]
    pub fn decode_stream(&self, skip_special: bool) -> DecodeStream<'_> {
        DecodeStream::new(self, skip_special)
    }
}
