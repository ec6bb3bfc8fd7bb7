//! Verification of a saved tokenizer: both tokenizers must encode test texts alike.
//!
//! A vocabulary can be complete and in order and still encode texts differently: normalisation of
//! spaces, pre-tokenization and added special tokens are stored elsewhere. A model that reads other
//! tokens is a different model, and its logits on given tokens do not show this.

use super::error::CheckpointError;
use crate::tokenizer::{Bos, Tokenizer, TokenizerError};
use std::path::Path;

/// Texts on which tokenizers differ: spaces inside and at the end, line breaks, runs of digits,
/// letters with accents, scripts without spaces, characters of several code points, and the empty
/// text. None begins with a space: SentencePiece and llama.cpp add one before the text where
/// transformers does not, regardless of the file.
const TEXTS: [&str; 12] = [
    "",
    "a",
    "Once upon a time, there was a little girl named Lily.",
    "one space",
    "two  spaces   three and at the end ",
    "one\ntwo\n\n\tthree\r\n",
    "In 2024 there were 1234567 of 3.14159, 10% of $99.",
    "It's what they'd've said: \"don't!\" (ALL CAPS)",
    "na\u{ef}ve caf\u{e9}, \u{dc}bergr\u{f6}\u{df}e, e\u{301}",
    "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}, \u{43c}\u{438}\u{440}!",
    "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{6587}\u{3002} \u{4e2d}\u{6587}",
    "x_y = f(a[0]) + 2 // \u{1f600} \u{2192} \u{a0}",
];
/// Number of tokens in a message.
const SHOWN: usize = 24;

/// Compares the encodings of texts by two tokenizers: ids, the beginning-of-sequence token for a
/// `causal` model, and all special tokens for an encoder.
///
/// # Errors
/// [`CheckpointError::Tokens`] with the first text that is encoded differently.
pub(super) fn same_tokens(
    path: &Path,
    own: Option<&Tokenizer>,
    read: Option<&Tokenizer>,
    causal: bool,
) -> Result<(), CheckpointError> {
    let Some(own) = own else { return Ok(()) };
    let differs = |text, expected: &[u32], found| CheckpointError::Tokens {
        path: path.into(),
        text,
        expected: shown(expected),
        found,
    };
    for text in TEXTS {
        let expected = ids(own, text, causal)?;
        match read {
            None => return Err(differs(text, &expected, "nothing: it has no tokenizer".into())),
            Some(read) => {
                let found = ids(read, text, causal)?;
                if found != expected {
                    return Err(differs(text, &expected, shown(&found)));
                }
            }
        }
    }
    Ok(())
}

fn ids(tokenizer: &Tokenizer, text: &str, causal: bool) -> Result<Vec<u32>, TokenizerError> {
    match causal {
        true => tokenizer.encode_document(text, Bos::Auto),
        false => tokenizer.encode_with_special(text),
    }
}

fn shown(ids: &[u32]) -> String {
    let first: Vec<String> = ids.iter().take(SHOWN).map(u32::to_string).collect();
    let rest = if ids.len() > SHOWN { " ..." } else { "" };
    format!("[{}{rest}]", first.join(" "))
}
