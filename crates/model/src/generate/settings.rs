//! Sampling defaults of a checkpoint: `generation_config.json`.

use super::Choice;
use crate::config::fields::{self, Fields};
use crate::error::ConfigError;
use linwright_tensor::RngKey;
use serde_json::Value;

/// Largest allowed `max_new_tokens`.
const MAX_NEW_TOKENS: usize = 1 << 24;

/// Contents of a `generation_config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingSettings {
    /// Sampling parameters: greedy unless `do_sample` is true.
    pub choice: Choice,
    /// Largest number of new tokens, if given.
    pub new_tokens: Option<usize>,
    /// End-of-sequence tokens.
    pub end_tokens: Vec<u32>,
}

impl SamplingSettings {
    /// Reads a `generation_config.json` for this vocabulary size. Absent fields have the defaults
    /// of transformers, except `top_k`: without it no top-k truncation applies.
    ///
    /// # Errors
    /// [`ConfigError`] with the field.
    pub fn from_json(config: &Value, vocab: usize) -> Result<Self, ConfigError> {
        let fields = Fields::new(fields::object(config)?, &[]);
        let mut choice = Choice::greedy();
        if let Some(penalty) = fields.optional_number("repetition_penalty", 1e-3, 1e3)? {
            choice.repetition_penalty = penalty as f32;
        }
        if fields.flag("do_sample", false)? {
            let share = |field| fields.optional_number(field, 0.0, 1.0);
            choice.temperature =
                fields.optional_number("temperature", 0.0, 1e3)?.unwrap_or(1.0) as f32;
            choice.top_k = fields.optional_count("top_k", vocab.max(1 << 24))?.filter(|&k| k > 0);
            choice.top_p = share("top_p")?.map(|share| share as f32);
            choice.min_p = share("min_p")?.map(|share| share as f32);
        }
        Ok(Self {
            choice,
            new_tokens: fields.optional_size("max_new_tokens", MAX_NEW_TOKENS)?,
            end_tokens: fields.tokens("eos_token_id", vocab),
        })
    }

    /// Sets the seed of the random streams.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.choice.key = RngKey::new(seed);
        self
    }
}
