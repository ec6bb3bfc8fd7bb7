//! Comparing the tokenizer of a saved model with the one in memory, by what both make of texts.
//!
//! A vocabulary can be whole and in order, and still give other tokens: how spaces are written,
//! where a text is cut and what stands before it are said elsewhere. A model that reads other
//! tokens is another model, and its logits on given tokens do not show it.

use super::error::CheckpointError;
use crate::tokenizer::{Bos, Tokenizer, TokenizerError};
use std::path::Path;

/// Texts on which ways to cut differ: spaces inside and at the end, line breaks, digits in runs,
/// letters with accents, scripts without spaces, signs of several characters, and no text at all.
/// None begins with a space: sentencepiece and llama.cpp put one more before it where transformers
/// does not, whatever a file says.
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
/// Tokens that a message shows.
const SHOWN: usize = 24;

/// Compares what two tokenizers make of texts: ids, the token before a text of a `causal` model,
/// and those around one of an encoder.
///
/// # Errors
/// [`CheckpointError::Tokens`] naming the first text of which they make something else.
pub(super) fn same_tokens(
    path: &Path,
    (own, read): (Option<&Tokenizer>, Option<&Tokenizer>),
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
