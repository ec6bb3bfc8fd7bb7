//! A decoder with its tokenizer as the subject of an evaluation.

use super::{LanguageModel, Sequence, TokenScore};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, ModelError, Transformer};
use linwright_ops::NoProbe;
use std::error::Error;

/// A decoder and the tokenizer that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The model.
    pub decoder: &'a Transformer,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
}

impl LanguageModel for Subject<'_> {
    fn encode(&self, text: &str) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
        Ok(self.tokenizer.encode(text, false)?)
    }

    fn bos(&self) -> Option<u32> {
        self.tokenizer.bos()
    }

    fn adds_bos(&self) -> bool {
        self.tokenizer.adds_bos()
    }

    fn max_positions(&self) -> Option<usize> {
        Some(self.decoder.config().max_positions)
    }

    fn score(
        &self,
        sequences: &[Sequence<'_>],
    ) -> Result<Vec<Vec<TokenScore>>, Box<dyn Error + Send + Sync>> {
        Ok(score(self.decoder, sequences)?)
    }
}

/// Scores sequences as one batch.
pub(super) fn score(
    decoder: &Transformer,
    sequences: &[Sequence<'_>],
) -> Result<Vec<Vec<TokenScore>>, ModelError> {
    let tokens: Vec<&[u32]> = sequences.iter().map(|sequence| sequence.tokens).collect();
    let first_counted: Vec<usize> =
        sequences.iter().map(|sequence| sequence.first_counted).collect();
    let batch = Batch::new(&tokens);
    let mut hidden = decoder.embed(&batch)?;
    decoder.run_layers(&mut hidden, &batch, 0..decoder.config().layers.len(), &mut NoProbe)?;
    decoder.token_nll(&hidden, &batch, &first_counted)
}
