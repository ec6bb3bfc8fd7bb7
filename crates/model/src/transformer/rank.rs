//! Log-probabilities and ranks of tokens.

use super::Transformer;
use crate::error::ModelError;
use linwright_tensor::kernels::cross_entropy::log_sums;
use linwright_tensor::{Mat, MatRef, parallel};

/// Rows per block: a row is as long as the vocabulary.
const ROWS: usize = 8;

/// A token and its log-probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: u32,
    /// Log-probability in nats; positive only by rounding.
    pub log_prob: f64,
}

/// Log-probabilities at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The target token.
    pub chosen: Candidate,
    /// Most likely tokens in descending order; ties are ordered by token id.
    pub top: Vec<Candidate>,
}

impl Transformer {
    /// As [`Self::score_rows`], with the `top` most likely tokens of each row. The probabilities
    /// are those of [`TokenScore`](super::TokenScore).
    ///
    /// # Errors
    /// [`ModelError::NonFinite`] if a logit is not finite.
    ///
    /// # Panics
    /// If a row or token is out of range.
    pub fn rank_rows(
        &self,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
        top: usize,
    ) -> Result<Vec<Ranked>, ModelError> {
        let mut ranked = Vec::with_capacity(wanted.len());
        let (mut chosen, mut logits) = (Mat::default(), Mat::default());
        for wanted in wanted.chunks(self.rows_of_logits()) {
            chosen.resize(wanted.len(), hidden.cols());
            for (i, &(row, _)) in wanted.iter().enumerate() {
                chosen.row_mut(i).copy_from_slice(hidden.row(row));
            }
            self.logits_to(chosen.view(), &mut logits);
            let tokens: Vec<u32> = wanted.iter().map(|&(_, token)| token).collect();
            ranked.extend(self.rank_logits(logits.view(), &tokens, top)?);
        }
        Ok(ranked)
    }

    /// Log-probabilities of one target token in each row of logits (rows, vocab).
    ///
    /// # Errors
    /// [`ModelError::NonFinite`] if a logit is not finite.
    ///
    /// # Panics
    /// Unless there is one token of the vocabulary for each row.
    pub fn rank_logits(
        &self,
        logits: MatRef<'_, f32>,
        tokens: &[u32],
        top: usize,
    ) -> Result<Vec<Ranked>, ModelError> {
        assert_eq!(logits.rows(), tokens.len(), "tokens of rows");
        let blocks: Vec<&[u32]> = tokens.chunks(ROWS).collect();
        let ranked = parallel::map(blocks, |block, tokens| {
            let rows = logits.rows_range(block * ROWS, tokens.len());
            let sums = log_sums(rows).into_iter().enumerate().zip(tokens);
            sums.map(|((i, sum), &token)| rank(rows.row(i), token, sum, top)).collect::<Vec<_>>()
        });
        let ranked: Option<Vec<Ranked>> = ranked.into_iter().flatten().collect();
        ranked.ok_or_else(|| ModelError::NonFinite { site: self.head_site(), what: "logits" })
    }
}

/// Log-probabilities for one row with a known log-sum-exp; none if a number is not finite.
fn rank(row: &[f32], token: u32, log_sum: f64, top: usize) -> Option<Ranked> {
    let of = |token: u32, logit: f32| Candidate { token, log_prob: f64::from(logit) - log_sum };
    let chosen = of(token, row[token as usize]);
    let top = likeliest(row, top).into_iter().map(|(token, logit)| of(token, logit)).collect();
    (log_sum.is_finite() && chosen.log_prob.is_finite()).then_some(Ranked { chosen, top })
}

/// The largest numbers and their indices, in descending order.
fn likeliest(row: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut held: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
    for (at, &logit) in (0..).zip(row) {
        if held.len() < count || held.last().is_some_and(|&(_, least)| logit > least) {
            // After equal ones, which have lower indices.
            let place = held.partition_point(|&(_, other)| other >= logit);
            held.insert(place, (at, logit));
            held.truncate(count);
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::config::TransformerConfig;
    use linwright_ops::NoProbe;
    use linwright_tensor::RngKey;
    use serde_json::json;

    #[test]
    fn the_likeliest_are_found_in_order() {
        let row = [0.5, 2.0, -1.0, 2.0, 1.0];
        assert_eq!(likeliest(&row, 3), [(1, 2.0), (3, 2.0), (4, 1.0)]);
        assert_eq!(likeliest(&row, 0), []);
        assert_eq!(likeliest(&row, 9).len(), 5);
        assert_eq!(likeliest(&row, 9)[4], (2, -1.0));
    }

    #[test]
    fn a_row_is_ranked_as_computed_by_hand() {
        // e^0 + e^ln 3 = 4: probabilities of a quarter and of three quarters.
        let (row, sum) = ([0.0, 3f32.ln()], 4f64.ln());
        let ranked = rank(&row, 0, sum, 1).expect("finite");
        assert_eq!((ranked.chosen.token, ranked.top[0].token), (0, 1));
        assert!((ranked.chosen.log_prob - 0.25f64.ln()).abs() < 1e-7);
        assert!((ranked.top[0].log_prob - 0.75f64.ln()).abs() < 1e-7);
        assert_eq!(rank(&[f32::NAN, 1.0], 1, f64::NAN, 1), None);
        assert_eq!(rank(&[f32::NEG_INFINITY, 1.0], 0, 1.0, 1), None);
    }

    #[test]
    fn ranks_are_scores_and_bad_numbers_name_the_head() {
        let config = json!({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "vocab_size": 11,
            "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16,
        });
        let config = TransformerConfig::from_json(&config).expect("a valid config");
        let model = Transformer::random(config, RngKey::new(2));
        let batch = Batch::new(&[&[1, 2, 3, 4]]);
        let mut hidden = model.embed(&batch).expect("known tokens");
        model.run_layers(&mut hidden, &batch, 0..1, &mut NoProbe).expect("finite");
        let wanted = [(0, 2), (2, 4)];
        let ranked = model.rank_rows(&hidden, &wanted, 11).expect("finite");
        let scores = model.score_rows(&hidden, &wanted).expect("finite");
        for (ranked, score) in ranked.iter().zip(scores) {
            assert_eq!(ranked.chosen.log_prob, -score.nll);
            assert_eq!(ranked.top[0].token == ranked.chosen.token, score.is_greedy);
            assert!(ranked.top.contains(&ranked.chosen));
            let total: f64 = ranked.top.iter().map(|one| one.log_prob.exp()).sum();
            assert!((total - 1.0).abs() < 1e-6, "{total}");
        }
        let broken = Mat::from_vec(1, 11, vec![f32::NAN; 11]);
        let error = model.rank_logits(broken.view(), &[3], 2).expect_err("not numbers");
        assert!(error.to_string().contains("logits of lm_head"), "{error}");
    }
}
