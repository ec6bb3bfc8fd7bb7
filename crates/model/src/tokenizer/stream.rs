//! Streaming decoding of tokens.

use super::{Tokenizer, TokenizerError};

/// The replacement character, which decoders write for invalid or incomplete UTF-8.
const REPLACEMENT: char = '\u{FFFD}';

/// Number of tokens after which invalid bytes can no longer become a character: a character has at
/// most four bytes, and a token at least one.
const LONGEST_CHARACTER: usize = 16;

/// Decodes tokens one by one and emits text as soon as its characters are complete.
///
/// The pieces joined, with [`Self::finish`], equal [`Tokenizer::decode`] of all ids. One difference
/// is possible: a SentencePiece decoder that finds invalid bytes replaces the whole run of byte
/// tokens, including valid characters that were already emitted.
#[derive(Debug)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    skip_special: bool,
    /// Tokens of the last piece, as context for decoders that treat the start of a text
    /// differently, followed by tokens not yet emitted.
    ids: Vec<u32>,
    /// Number of tokens already emitted.
    done: usize,
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, skip_special: bool) -> Self {
        Self { tokenizer, skip_special, ids: Vec::new(), done: 0 }
    }

    /// Adds a token and returns the text that it completes, if any.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`]; the token is then not added.
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

    /// Returns the rest: incomplete characters as U+FFFD.
    ///
    /// # Errors
    /// [`TokenizerError::Invalid`] if the decoder fails.
    pub fn finish(self) -> Result<Option<String>, TokenizerError> {
        Ok(Some(self.rest()?).filter(|text| !text.is_empty()))
    }

    /// The text of tokens not yet emitted.
    fn rest(&self) -> Result<String, TokenizerError> {
        let out = self.tokenizer.decode(&self.ids[..self.done], self.skip_special)?;
        let all = self.tokenizer.decode(&self.ids, self.skip_special)?;
        match all.strip_prefix(&out) {
            Some(rest) => Ok(rest.to_owned()),
            // A run of bytes turned out to be invalid: the emitted text is kept, and the new tokens
            // are decoded separately.
            None => self.tokenizer.decode(&self.ids[self.done..], self.skip_special),
        }
    }
}

impl Tokenizer {
    /// A streaming decoder; `skip_special` as in [`Self::decode`].
    #[must_use]
    pub fn decode_stream(&self, skip_special: bool) -> DecodeStream<'_> {
        DecodeStream::new(self, skip_special)
    }
}
