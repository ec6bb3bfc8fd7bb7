//! A transformer and its tokenizer as a [`LanguageModel`].

use super::language_model::{
    Generated, Infilled, MaskedInput, ModelFailure, Scored, TopLogprobs, TopLogprobsRequest,
};
use super::packed::{Packed, last_stages};
use super::{Cloze, Generation, LanguageModel, Sequence, TokenScore, cloze, similarity};
use linwright_model::checkpoint::Sentence;
use linwright_model::generate::{Choice, Stopping, generate_text};
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use linwright_model::{ModelError, Stream, Transformer};

/// A transformer and its tokenizer, evaluated as a [`LanguageModel`].
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    decoder: &'a Transformer,
    tokenizer: &'a Tokenizer,
    max_length: Option<usize>,
    sentence: Option<Sentence>,
}

impl<'a> Subject<'a> {
    /// The model with the longest input of its configuration.
    #[must_use]
    pub fn new(decoder: &'a Transformer, tokenizer: &'a Tokenizer) -> Self {
        Self { decoder, tokenizer, max_length: None, sentence: None }
    }

    /// Limits inputs to `max_length` tokens, if that is fewer.
    #[must_use]
    pub fn with_max_length(self, max_length: Option<usize>) -> Self {
        Self { max_length, ..self }
    }

    /// Sets the pooling from token vectors to text embeddings, for tasks that compare texts.
    #[must_use]
    pub fn with_sentence(self, sentence: Option<Sentence>) -> Self {
        Self { sentence, ..self }
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

    fn score_with_top_logprobs(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Scored, ModelFailure> {
        let (decoder, packed) = (self.decoder, Packed::new(sequences, top_requests));
        let hidden = Stream::new(decoder.embed(packed.batch())?);
        let (hidden, wanted) = last_stages(decoder, hidden, packed.batch(), (0, packed.wanted()))?;
        packed.read((decoder, self.tokenizer), &hidden, &wanted)
    }

    fn is_masked(&self) -> bool {
        !self.decoder.config().is_causal()
    }

    fn encode_cloze(&self, cloze: &Cloze<'_>, masks: usize) -> Result<MaskedInput, ModelFailure> {
        let limit = self.max_positions().unwrap_or(usize::MAX);
        cloze::encode(self.tokenizer, cloze, masks, limit)
    }

    fn infill(&self, texts: &[MaskedInput]) -> Result<Vec<Infilled>, ModelFailure> {
        cloze::infill((self.decoder, self.tokenizer), texts)
    }

    fn has_head(&self) -> bool {
        self.decoder.has_head()
    }

    fn pooling(&self) -> Option<&'static str> {
        self.sentence.map(Sentence::name)
    }

    fn encode_whole(&self, text: &str) -> Result<(Vec<u32>, usize), ModelFailure> {
        similarity::encode(self.tokenizer, text, self.max_positions().unwrap_or(usize::MAX))
    }

    fn cosines(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<f64>, ModelFailure> {
        let sentence =
            self.sentence.ok_or("the checkpoint defines no pooling for text embeddings")?;
        similarity::cosines(self.decoder, sentence, pairs)
    }

    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Generated>, ModelFailure> {
        let stopping = Stopping {
            new_tokens: generation.new_tokens,
            end_tokens: self.tokenizer.eos().into_iter().collect(),
            stop: generation.until.clone(),
        };
        let subject = (self.decoder, self.tokenizer);
        let all = generate_text(subject, prompts, &Choice::greedy(), &stopping, &mut |_, _| true)?;
        let generated = |done: linwright_model::generate::Generated| Generated {
            text: done.text,
            tokens: done.tokens.len(),
        };
        Ok(all.into_iter().map(generated).collect())
    }
}

/// The largest logits of a row, with the rank of a target token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TopTokens {
    /// Rank of the target, from 0; ties are broken by token id.
    pub(super) rank: usize,
    /// Tokens and log-probabilities in descending order.
    pub(super) tokens: Vec<(u32, f64)>,
}

impl TopTokens {
    /// The `count` largest of logits (vocab); `score` belongs to the target token.
    pub(super) fn of(logits: &[f32], (target, score): (u32, &TokenScore), count: usize) -> Self {
        let own = logits[target as usize];
        let log_sum = score.nll + f64::from(own);
        let mut best: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
        let mut rank = 0;
        for (token, &logit) in (0u32..).zip(logits) {
            rank += usize::from(logit > own || (logit == own && token < target));
            if best.len() < count || best.last().is_some_and(|&(_, least)| logit > least) {
                let index = best.partition_point(|&(_, other)| other >= logit);
                best.insert(index, (token, logit));
                best.truncate(count);
            }
        }
        let tokens = best.into_iter().map(|(token, logit)| (token, f64::from(logit) - log_sum));
        Self { rank, tokens: tokens.collect() }
    }

    /// The same with tokens as text.
    pub(super) fn decode(self, tokenizer: &Tokenizer) -> Result<TopLogprobs, TokenizerError> {
        let text = |(token, log_prob)| Ok((tokenizer.decode(&[token], false)?, log_prob));
        let tokens = self.tokens.into_iter().map(text).collect::<Result<_, _>>()?;
        Ok(TopLogprobs { rank: self.rank, tokens })
    }
}

/// Scores sequences as one batch. The last token of a sequence is no input.
pub(super) fn score(
    decoder: &Transformer,
    sequences: &[Sequence<'_>],
) -> Result<Vec<Vec<TokenScore>>, ModelError> {
    let packed = Packed::new(sequences, &vec![None; sequences.len()]);
    let hidden = Stream::new(decoder.embed(packed.batch())?);
    let (hidden, wanted) = last_stages(decoder, hidden, packed.batch(), (0, packed.wanted()))?;
    packed.scores(decoder, &hidden, &wanted)
}

#[cfg(test)]
mod top_tests {
    use super::*;

    #[test]
    fn the_first_of_equal_logits_comes_first() {
        let logits = [0.0, 2.0, 1.0, 2.0, -1.0];
        let log_sum = logits.iter().map(|z| f64::from(*z).exp()).sum::<f64>().ln();
        let of = |target: u32, count| {
            let nll = log_sum - f64::from(logits[target as usize]);
            TopTokens::of(&logits, (target, &TokenScore { nll, is_greedy: false }), count)
        };
        let ids = |top: &TopTokens| top.tokens.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let top = of(3, 3);
        assert_eq!((top.rank, ids(&top)), (1, vec![1, 3, 2]));
        assert!((top.tokens[2].1 - (1.0 - log_sum)).abs() < 1e-12);
        let all = of(4, 9);
        assert_eq!((all.rank, ids(&all)), (4, vec![1, 3, 2, 0, 4]));
        assert_eq!(ids(&of(0, 1)), [1]);
        assert_eq!((of(0, 0).tokens, of(0, 0).rank), (Vec::new(), 3));
    }
}
