//! Texts as examples of a language model, or of an encoder with a masked-language-model head.

use crate::{AttributeError, ExampleBatch, Examples, NO_TARGET};
use linwright_model::Batch;
use linwright_run::sha256_hex;
use linwright_tensor::{RngKey, index_bytes};
use std::ops::Range;

/// Share of the tokens that are masked, as in BERT (Devlin et al. 2019, arXiv:1810.04805), all of
/// which become the mask token here.
const MASKED: f64 = 0.15;

/// Tokenized texts, each of which is an example. The loss of a language model is that of all tokens
/// except the first one and the given ones; that of a masked model is that of the masked tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    tokens: Vec<Vec<u32>>,
    /// Number of given tokens of each text, at least one.
    given: Vec<usize>,
    masks: Option<Masks>,
}

/// The masked tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Masks {
    /// The mask token.
    token: u32,
    /// The masked positions of each text, ascending.
    places: Vec<Vec<usize>>,
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
                Ok(Self { tokens, given, masks: None })
            }
        }
    }

    /// Tokenized texts, some of whose tokens are replaced by the mask token and are the targets: 15
    /// % of the positions in `open`, at least one, chosen by the tokens of the text alone; all of
    /// them if the flag is set.
    ///
    /// # Errors
    /// [`AttributeError::NoTarget`] for a text without an open position.
    ///
    /// # Panics
    /// Unless there is one entry of `open` for each text, with positions within the text.
    pub fn masked(
        tokens: Vec<Vec<u32>>,
        open: &[(Range<usize>, bool)],
        mask: u32,
    ) -> Result<Self, AttributeError> {
        assert_eq!(open.len(), tokens.len(), "open places of each text");
        let mut places = Vec::with_capacity(tokens.len());
        for (example, (text, (open, is_whole))) in tokens.iter().zip(open).enumerate() {
            assert!(open.end <= text.len(), "places {open:?} of {} tokens", text.len());
            if open.is_empty() {
                return Err(AttributeError::NoTarget { example });
            }
            let key = RngKey::new(0).fold("mask").fold(&sha256_hex(index_bytes(text)));
            let order = key.stream().permutation(open.len());
            let count = match is_whole {
                true => open.len(),
                false => ((open.len() as f64 * MASKED).round() as usize).max(1),
            };
            let mut chosen: Vec<usize> =
                order[..count].iter().map(|at| open.start + *at as usize).collect();
            chosen.sort_unstable();
            places.push(chosen);
        }
        let given = vec![1; tokens.len()];
        Ok(Self { tokens, given, masks: Some(Masks { token: mask, places }) })
    }

    /// The same, where the first `given` tokens of each text are not targets of a language model.
    ///
    /// # Errors
    /// [`AttributeError::NoTarget`] for a text without remaining tokens.
    ///
    /// # Panics
    /// Unless there is one number for each text.
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

    /// Some texts with masked tokens as one batch.
    fn masked_batch(&self, masks: &Masks, examples: Range<usize>) -> ExampleBatch<Batch> {
        let mut texts = self.tokens[examples.clone()].to_vec();
        let mut targets = Vec::new();
        for (text, places) in texts.iter_mut().zip(&masks.places[examples]) {
            let start = targets.len();
            targets.resize(start + text.len(), NO_TARGET);
            for &place in places {
                targets[start + place] = std::mem::replace(&mut text[place], masks.token);
            }
        }
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let input = Batch::new(&texts);
        let spans = input.spans().to_vec();
        ExampleBatch { input, targets, spans }
    }
}

impl Examples<Batch> for Documents {
    fn count(&self) -> usize {
        self.tokens.len()
    }

    fn batch(&self, examples: Range<usize>) -> ExampleBatch<Batch> {
        if let Some(masks) = &self.masks {
            return self.masked_batch(masks, examples);
        }
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
        if let Some(Masks { token, places }) = &self.masks {
            let places: Vec<u32> = places.iter().flatten().map(|&place| place as u32).collect();
            digests.push(sha256_hex(index_bytes(&places)));
            digests.push(token.to_string());
        }
        sha256_hex(digests.concat().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_tokens_are_the_targets_and_nothing_else() {
        let texts: Vec<Vec<u32>> = vec![vec![5, 9, 7, 6], (10..50).collect(), vec![5, 8, 6]];
        let open = [(1..3, true), (1..39, false), (1..2, false)];
        let all = Documents::masked(texts.clone(), &open, 3).unwrap();
        let batch = all.batch(0..3);
        assert_eq!(batch.counted(), [2, 6, 1], "15 of 100, at least one");
        for (text, span) in texts.iter().zip(&batch.spans) {
            for (at, row) in span.clone().enumerate() {
                let (seen, target) = (batch.input.tokens()[row], batch.targets[row]);
                match target {
                    NO_TARGET => assert_eq!(seen, text[at]),
                    hidden => assert_eq!((seen, hidden), (3, text[at])),
                }
            }
        }
        // What is masked does not depend on the other texts.
        let alone = Documents::masked(texts[1..2].to_vec(), &open[1..2], 3).unwrap();
        let of_all = &batch.targets[batch.spans[1].clone()];
        assert_eq!(alone.batch(0..1).targets, of_all);
        let other = Documents::masked(texts.clone(), &open, 4).unwrap();
        let plain = Documents::new(texts.clone()).unwrap();
        assert!(all.identity() != other.identity() && all.identity() != plain.identity());
        let bad = Documents::masked(texts, &[(1..3, true), (2..2, false), (1..2, true)], 3);
        assert!(matches!(bad, Err(AttributeError::NoTarget { example: 1 })));
    }
}
