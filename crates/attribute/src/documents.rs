//! Texts as examples of a language model.

use crate::{AttributeError, ExampleBatch, Examples};
use linwright_model::Batch;
use linwright_run::sha256_hex;
use linwright_tensor::index_bytes;
use std::ops::Range;

/// Texts as tokens, each of which is an example: its loss is that of every token but the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    tokens: Vec<Vec<u32>>,
}

impl Documents {
    /// Texts as tokens.
    ///
    /// # Errors
    /// [`AttributeError::NoTarget`] for a text of fewer than two tokens.
    pub fn new(tokens: Vec<Vec<u32>>) -> Result<Self, AttributeError> {
        match tokens.iter().position(|tokens| tokens.len() < 2) {
            Some(example) => Err(AttributeError::NoTarget { example }),
            None => Ok(Self { tokens }),
        }
    }

    /// The tokens of each text.
    #[must_use]
    pub fn tokens(&self) -> &[Vec<u32>] {
        &self.tokens
    }
}

impl Examples<Batch> for Documents {
    fn count(&self) -> usize {
        self.tokens.len()
    }

    fn batch(&self, examples: Range<usize>) -> ExampleBatch<Batch> {
        let texts: Vec<&[u32]> = self.tokens[examples].iter().map(Vec::as_slice).collect();
        let input = Batch::new(&texts);
        let (targets, spans) = (input.next_tokens(), input.spans().to_vec());
        ExampleBatch { input, targets, spans }
    }

    fn identity(&self) -> String {
        let of = |tokens: &Vec<u32>| sha256_hex(index_bytes(tokens));
        let digests: Vec<String> = self.tokens.iter().map(of).collect();
        sha256_hex(digests.concat().as_bytes())
    }
}
