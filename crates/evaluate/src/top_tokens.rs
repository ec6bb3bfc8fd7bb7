//! The most likely tokens at one position.

use crate::language_model::TopLogprobs;
use linwright_model::TokenScore;
use linwright_model::tokenizer::{Tokenizer, TokenizerError};

/// The largest logits of a row, with the rank of a target token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TopTokens {
    /// Rank of the target, from 0; ties are broken by token id.
    pub(super) rank: usize,
    /// Tokens and log-probabilities in descending order.
    pub(super) tokens: Vec<(u32, f64)>,
}

impl TopTokens {
    /// The `count` largest of the logits (vocab); `score` is that of the target token.
    pub(super) fn of(logits: &[f32], target: u32, score: &TokenScore, count: usize) -> Self {
        let wanted = logits[target as usize];
        let log_sum = score.nll + f64::from(wanted);
        let mut best: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
        let mut rank = 0;
        for (token, &logit) in (0u32..).zip(logits) {
            rank += usize::from(logit > wanted || (logit == wanted && token < target));
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

#[cfg(test)]
mod top_tests {
    use super::*;

    #[test]
    fn the_first_of_equal_logits_comes_first() {
        let logits = [0.0, 2.0, 1.0, 2.0, -1.0];
        let log_sum = logits.iter().map(|z| f64::from(*z).exp()).sum::<f64>().ln();
        let of = |target: u32, count| {
            let nll = log_sum - f64::from(logits[target as usize]);
            TopTokens::of(&logits, target, &TokenScore { nll, is_greedy: false }, count)
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
