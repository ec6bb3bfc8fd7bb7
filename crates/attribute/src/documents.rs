//! Texts as examples of a language model.

use crate::{AttributeError, ExampleBatch, Examples, NO_TARGET};
use linwright_model::Batch;
use linwright_run::sha256_hex;
use linwright_tensor::index_bytes;
use std::ops::Range;

/// Texts as tokens, each of which is an example: its loss is that of every token that is not given,
/// and of none that is first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    tokens: Vec<Vec<u32>>,
    /// Tokens of each text that are given, at least one.
    given: Vec<usize>,
}

impl Documents {
    /// Texts as tokens.
    ///
    /// # Errors
    /// [`AttributeError::NoTarget`] for a text of fewer than two tokens.
    pub fn new(tokens: Vec<Vec<u32>>) -> Result<Self, AttributeError> {
        match tokens.iter().position(|tokens| tokens.len() < 2) {
            Some(example) => Err(AttributeError::NoTarget { example }),
            None => {
                let given = vec![1; tokens.len()];
                Ok(Self { tokens, given })
            }
        }
    }

    /// The same, where the first `given` tokens of each text are no targets.
    ///
    /// # Errors
    /// [`AttributeError::NoTarget`] for a text of which no token is left.
    ///
    /// # Panics
    /// If there is not one number for each text.
    pub fn with_given(mut self, given: &[usize]) -> Result<Self, AttributeError> {
        assert_eq!(given.len(), self.tokens.len(), "one number for each text");
        self.given = given.iter().map(|&count| count.max(1)).collect();
        let is_whole = |(tokens, &given): (&Vec<u32>, &usize)| given >= tokens.len();
        match self.tokens.iter().zip(&self.given).position(is_whole) {
            Some(example) => Err(AttributeError::NoTarget { example }),
            None => Ok(self),
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
        let texts: Vec<&[u32]> = self.tokens[examples.clone()].iter().map(Vec::as_slice).collect();
        let input = Batch::new(&texts);
        let (mut targets, spans) = (input.next_tokens(), input.spans().to_vec());
        for (span, given) in spans.iter().zip(&self.given[examples]) {
            targets[span.start..span.start + given - 1].fill(NO_TARGET);
        }
        ExampleBatch { input, targets, spans }
    }

    fn identity(&self) -> String {
        let of = |tokens: &Vec<u32>| sha256_hex(index_bytes(tokens));
        let mut digests: Vec<String> = self.tokens.iter().map(of).collect();
        if self.given.iter().any(|given| *given > 1) {
            let given: Vec<u32> = self.given.iter().map(|given| *given as u32).collect();
            digests.push(sha256_hex(index_bytes(&given)));
        }
        sha256_hex(digests.concat().as_bytes())
    }
}
