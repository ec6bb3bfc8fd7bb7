//! Speed of a whole model: logits of a sequence, and generation.

use super::{BenchError, Machine};
use linwright_measure::timing::MedianRange;
use linwright_model::generate::{Choice, Limits, generate};
use linwright_model::{Batch, ModelError, Transformer};
use linwright_ops::NoProbe;
use linwright_tensor::Mat;
use serde::Serialize;
use std::time::Instant;

/// A prime number coprime to vocabulary sizes; the tokens of the sequence are its multiples.
const STEP: usize = 7919;

/// Options of a model benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelPlan {
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Tokens to generate; zero for an encoder.
    pub new_tokens: usize,
    /// Rounds, after a warm-up round.
    pub rounds: usize,
}

impl ModelPlan {
    /// Rejects sequences longer than a model with `positions`: tokens beyond are not computed and
    /// would make decoding look faster.
    ///
    /// # Errors
    /// [`BenchError::Plan`].
    pub fn check(&self, positions: usize) -> Result<(), BenchError> {
        // The last new token is not an input.
        let inputs = self.tokens.saturating_add(self.new_tokens.saturating_sub(1));
        if inputs <= positions {
            return Ok(());
        }
        Err(BenchError::Plan {
            what: "tokens of the sequence and new ones",
            found: format!("{} tokens and {} new ones", self.tokens, self.new_tokens),
            expected: format!(
                "at most {positions} together, the positions of the model, of which the last new one needs \
                 none"
            ),
        })
    }
}

/// Results of a model benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelBench {
    /// The machine.
    pub machine: Machine,
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Generated tokens.
    pub new_tokens: usize,
    /// Milliseconds for all logits of the prompt.
    pub forward_milliseconds: Option<MedianRange>,
    /// Milliseconds of each round.
    pub forward_rounds: Vec<f64>,
    /// Tokens per second of greedy decoding of one sequence, without the prompt and the first new
    /// token.
    pub decode_tokens_per_second: Option<MedianRange>,
    /// Value of each round.
    pub decode_rounds: Vec<f64>,
    /// Tokens per second including the time of the prompt and the first new token.
    pub generate_tokens_per_second: Option<MedianRange>,
    /// Value of each round.
    pub generate_rounds: Vec<f64>,
}

/// Times a model.
///
/// # Errors
/// [`BenchError::Plan`] if the sequence would be longer than the model's positions, before anything
/// is computed, and [`BenchError::Model`] if the model fails.
///
/// # Panics
/// If there are no rounds, or the model has no head.
pub fn time_model(model: &Transformer, plan: ModelPlan) -> Result<ModelBench, BenchError> {
    plan.check(model.config().max_positions)?;
    let vocab = model.config().vocab;
    let tokens: Vec<u32> = (0..plan.tokens).map(|i| (i * STEP % vocab) as u32).collect();
    let mut forward = Vec::new();
    let (mut decode, mut whole) = (Vec::new(), Vec::new());
    if plan.tokens > 0 {
        let mut logits = Mat::default();
        for round in 0..=plan.rounds {
            let seconds = forward_seconds(model, &tokens, &mut logits)?;
            if round > 0 {
                forward.push(1e3 * seconds);
            }
        }
    }
    if plan.new_tokens > 1 {
        for round in 0..=plan.rounds {
            let [after_first, all] = decode_speeds(model, &tokens, plan.new_tokens)?;
            if round > 0 {
                decode.push(after_first);
                whole.push(all);
            }
        }
    }
    let spread = |values: &[f64]| (!values.is_empty()).then(|| MedianRange::of(values));
    Ok(ModelBench {
        machine: Machine::here(),
        tokens: plan.tokens,
        new_tokens: plan.new_tokens,
        forward_milliseconds: spread(&forward),
        forward_rounds: forward,
        decode_tokens_per_second: spread(&decode),
        decode_rounds: decode,
        generate_tokens_per_second: spread(&whole),
        generate_rounds: whole,
    })
}

fn forward_seconds(
    model: &Transformer,
    tokens: &[u32],
    logits: &mut Mat<f32>,
) -> Result<f64, ModelError> {
    let began = Instant::now();
    let batch = Batch::new(&[tokens]);
    let mut hidden = model.embed(&batch)?;
    model.run_layers(&mut hidden, &batch, 0..model.config().layers.len(), &mut NoProbe)?;
    model.logits_to(hidden.view(), logits);
    Ok(began.elapsed().as_secs_f64())
}

/// Tokens per second after the first new token, and including the prompt.
fn decode_speeds(
    model: &Transformer,
    prompt: &[u32],
    count: usize,
) -> Result<[f64; 2], ModelError> {
    let began = Instant::now();
    let mut first = None;
    let limits = Limits { new_tokens: count, end_tokens: Vec::new() };
    generate(model, &[prompt], &Choice::greedy(), &limits, &mut |_, _| {
        first.get_or_insert_with(Instant::now);
        true
    })?;
    let ended = Instant::now();
    let first = first.unwrap_or(ended);
    let a_second = |count: usize, since: Instant| count as f64 / (ended - since).as_secs_f64();
    Ok([a_second(count - 1, first), a_second(count, began)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_model::TransformerConfig;
    use linwright_tensor::RngKey;

    #[test]
    fn rounds_are_counted_and_times_are_positive() {
        let config = TransformerConfig::from_json(&serde_json::json!({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
            "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 11,
            "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
        }));
        let model = Transformer::random(config.unwrap(), RngKey::new(1));
        let plan = ModelPlan { tokens: 5, new_tokens: 3, rounds: 2 };
        let bench = time_model(&model, plan).unwrap();
        for rounds in [&bench.forward_rounds, &bench.decode_rounds, &bench.generate_rounds] {
            assert!(rounds.len() == 2 && rounds.iter().all(|&value| value > 0.0), "{rounds:?}");
        }
        let forward_only = time_model(&model, ModelPlan { new_tokens: 0, ..plan }).unwrap();
        assert_eq!((forward_only.decode_rounds.len(), forward_only.forward_rounds.len()), (0, 2));
        // 14 tokens and the first two of three new ones fill the positions.
        let full = time_model(&model, ModelPlan { tokens: 14, ..plan }).unwrap();
        assert_eq!(full.decode_rounds.len(), 2);
        for (tokens, new_tokens) in [(15, 3), (16, 2), (17, 0), (usize::MAX, usize::MAX)] {
            let error =
                time_model(&model, ModelPlan { tokens, new_tokens, rounds: 1 }).unwrap_err();
            assert!(matches!(error, BenchError::Plan { .. }), "{error}");
            assert!(error.to_string().contains("at most 16"), "{error}");
        }
    }
}
