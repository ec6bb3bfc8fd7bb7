//! Texts as tokens with targets: the next token for models that continue texts, masked tokens for
//! encoders with such a head.

use super::examples::Reading;
use crate::jobs::kit::Failure;
use crate::jobs::kit::source::OpenModel;
use linwright_attribute::{AttributeError, Documents};
use linwright_evaluate::Bos;
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use std::ops::Range;

/// How texts become tokens.
pub(super) struct Encoding<'a> {
    tokenizer: &'a Tokenizer,
    bos: Bos,
    /// Tokens after which texts are cut.
    longest: usize,
    /// The mask token of an encoder.
    mask: Option<u32>,
}

/// A text as tokens.
pub(super) struct Encoded {
    tokens: Vec<u32>,
    /// The tokens that may be targets.
    open: Range<usize>,
    /// Whether a part of the text is given.
    has_given: bool,
    /// Whether the text was cut.
    pub(super) is_cut: bool,
}

impl<'a> Encoding<'a> {
    /// The encoding of a model.
    ///
    /// # Errors
    /// [`Failure`] for a choice about the first token that an encoder does not have.
    pub(super) fn of(
        model: &'a OpenModel,
        reading: Reading,
        longest: usize,
    ) -> Result<Self, Failure> {
        let (tokenizer, bos) = (model.tokenizer()?, reading.bos);
        let is_causal = model.loaded.decoder.config().is_causal();
        let mask = tokenizer.mask().filter(|_| !is_causal).map(|(token, _)| token);
        if mask.is_some() && bos != Bos::Auto {
            return Err(Failure::usage(
                "--reading bos: an encoder adds the tokens that it was trained with",
            ));
        }
        Ok(Self { tokenizer, bos, longest, mask })
    }

    /// A text whose first bytes are given.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(super) fn encode(&self, text: &str, given: usize) -> Result<Encoded, TokenizerError> {
        let plain = |text: &str| match self.mask {
            Some(_) => self.tokenizer.encode(text, false),
            None => self.tokenizer.encode_document(text, self.bos),
        };
        let mut tokens = plain(text)?;
        let first = match given {
            0 => 0,
            bytes => common(&plain(&text[..bytes])?, &tokens),
        };
        let around = self.around(text, &tokens)?;
        let kept = self.longest.saturating_sub(around[0].len() + around[1].len());
        let is_cut = tokens.len() > kept;
        tokens.truncate(kept);
        let before = around[0].len();
        let open = before + first.min(tokens.len())..before + tokens.len();
        let [before, after] = around;
        let tokens = [before, tokens, after].concat();
        Ok(Encoded { tokens, open, has_given: given > 0, is_cut })
    }

    /// Tokens that an encoder adds before and after a text.
    fn around(&self, text: &str, plain: &[u32]) -> Result<[Vec<u32>; 2], TokenizerError> {
        if self.mask.is_none() {
            return Ok([Vec::new(), Vec::new()]);
        }
        let whole = self.tokenizer.encode(text, true)?;
        let added = whole.len().saturating_sub(plain.len());
        let is_there = |start: &usize| whole[*start..].starts_with(plain);
        let start = (0..=added).find(is_there).unwrap_or(0);
        let end = (start + plain.len()).min(whole.len());
        Ok([whole[..start].to_vec(), whole[end..].to_vec()])
    }

    /// Texts with their targets.
    ///
    /// # Errors
    /// [`AttributeError::NoTarget`] for a text without one.
    pub(super) fn documents(&self, all: Vec<Encoded>) -> Result<Documents, AttributeError> {
        let Some(mask) = self.mask else {
            let given: Vec<usize> = all.iter().map(|text| text.open.start).collect();
            let tokens = all.into_iter().map(|text| text.tokens).collect();
            return Documents::new(tokens)?.with_given(&given);
        };
        let open: Vec<_> = all.iter().map(|text| (text.open.clone(), text.has_given)).collect();
        Documents::masked(all.into_iter().map(|text| text.tokens).collect(), &open, mask)
    }
}

/// Number of tokens that two texts have in common from the first.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}
