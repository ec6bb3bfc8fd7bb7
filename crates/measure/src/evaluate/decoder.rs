//! A decoder with its tokenizer as the subject of an evaluation.

use super::language_model::{ModelFailure, Written};
use super::{Generation, LanguageModel, Sequence, TokenScore};
use linwright_model::generate::{Choice, Stopping, generate_text};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, ModelError, Transformer};
use linwright_ops::NoProbe;

/// A decoder and the tokenizer that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    decoder: &'a Transformer,
    tokenizer: &'a Tokenizer,
    max_length: Option<usize>,
}

impl<'a> Subject<'a> {
    /// The model with its own longest input.
    #[must_use]
    pub fn new(decoder: &'a Transformer, tokenizer: &'a Tokenizer) -> Self {
        Self { decoder, tokenizer, max_length: None }
    }

    /// The same with inputs of at most so many tokens, if that is fewer.
    #[must_use]
    pub fn with_max_length(self, max_length: Option<usize>) -> Self {
        Self { max_length, ..self }
    }
}

impl LanguageModel for Subject<'_> {
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelFailure> {
        Ok(self.tokenizer.encode(text, false)?)
    }

    fn bos(&self) -> Option<u32> {
        self.tokenizer.bos()
    }

    fn eos(&self) -> Option<u32> {
        self.tokenizer.eos()
    }

    fn adds_bos(&self) -> bool {
        self.tokenizer.adds_bos()
    }

    fn max_positions(&self) -> Option<usize> {
        let own = self.decoder.config().max_positions;
        Some(self.max_length.map_or(own, |max| max.min(own)))
    }

    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure> {
        Ok(score(self.decoder, sequences)?)
    }

    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Written>, ModelFailure> {
        let stopping = Stopping {
            new_tokens: generation.new_tokens,
            end_tokens: self.tokenizer.eos().into_iter().collect(),
            stop: generation.until.clone(),
        };
        let subject = (self.decoder, self.tokenizer);
        let all = generate_text(subject, prompts, &Choice::greedy(), &stopping, &mut |_, _| true)?;
        let written = |done: linwright_model::generate::Generated| Written {
            text: done.text,
            tokens: done.tokens.len(),
        };
        Ok(all.into_iter().map(written).collect())
    }
}

/// What a sequence is an input by: rows of what its group shares, and rows of its own.
struct Rows {
    shared: usize,
    start: usize,
    own: usize,
}

impl Rows {
    /// The row of a token.
    fn of(&self, token: usize) -> usize {
        if token < self.shared { self.start + token } else { self.own + token - self.shared }
    }
}

/// Scores sequences as one batch. The last token of a sequence is no input.
pub(super) fn score(
    decoder: &Transformer,
    sequences: &[Sequence<'_>],
) -> Result<Vec<Vec<TokenScore>>, ModelError> {
    let (mut groups, mut rows) = (Vec::new(), Vec::with_capacity(sequences.len()));
    let mut next = 0;
    for group in sequences.chunk_by(|_, later| later.shared > 0) {
        let inputs = group.iter().map(|s| &s.tokens[..s.tokens.len().saturating_sub(1)]);
        let inputs: Vec<&[u32]> = inputs.collect();
        let shortest = inputs.iter().map(|input| input.len()).min().unwrap_or(0);
        let shared = match group {
            [_] => shortest,
            _ => group[1..].iter().map(|s| s.shared).fold(shortest, usize::min),
        };
        let mut branches = Vec::new();
        let start = next;
        next += shared;
        for input in &inputs {
            rows.push(Rows { shared, start, own: next });
            let own = &input[shared..];
            // What has no input of its own is predicted by what is shared.
            if !own.is_empty() {
                branches.push(own);
                next += own.len();
            }
        }
        groups.push((inputs.first().map_or(&[][..], |input| &input[..shared]), branches));
    }
    let batch = Batch::branching(&groups);
    let mut hidden = decoder.embed(&batch)?;
    decoder.run_layers(&mut hidden, &batch, 0..decoder.config().layers.len(), &mut NoProbe)?;
    let counted = sequences.iter().zip(&rows).flat_map(|(sequence, rows)| {
        let tokens = sequence.first_counted.max(1)..sequence.tokens.len();
        tokens.map(|token| (rows.of(token - 1), sequence.tokens[token]))
    });
    let mut scores = decoder.score_rows(&hidden, &counted.collect::<Vec<_>>())?.into_iter();
    let count = |s: &Sequence<'_>| s.tokens.len().saturating_sub(s.first_counted.max(1));
    Ok(sequences.iter().map(|s| scores.by_ref().take(count(s)).collect()).collect())
}
