//! Options of sampling, and a model that writes by them.

use crate::jobs::kit::source::open_model_as;
use crate::jobs::kit::{Failure, FailureKind, Session, bounds};
use crate::jobs::language::precision::PrecisionOptions;
use linwright_model::checkpoint::LoadedModel;
use linwright_model::generate::{Generated, SamplingSettings, Stopping, generate_text};
use linwright_model::tokenizer::Tokenizer;
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default largest number of new tokens.
const NEW_TOKENS: usize = 128;

/// Options of sampling, and of the end of generation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SamplingOptions {
    /// Largest number of new tokens [default: that of the model, or 128].
    #[schemars(extend("x-short" = "n"))]
    #[schemars(range(min = 0, max = bounds::POSITIONS))]
    pub max_new_tokens: Option<usize>,
    /// Sampling temperature, by which logits are divided; 0 is greedy decoding [default: that of
    /// the model, or 0].
    #[schemars(extend("x-hyphen" = true))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub temperature: Option<f64>,
    /// Sample only from this many of the most likely tokens.
    #[schemars(range(min = 1, max = bounds::CLASSES), extend("examples" = [50]))]
    pub top_k: Option<usize>,
    /// Sample only from the most likely tokens with this total probability.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// Sample only from tokens with at least this share of the largest probability.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: Option<f64>,
    /// Penalty of tokens that already occurred: positive logits are divided by it, negative ones
    /// multiplied.
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub repetition_penalty: Option<f64>,
    /// How the model is held in memory.
    #[serde(flatten)]
    pub precision: PrecisionOptions,
    /// Seed of sampling.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// A stop string; may be given more than once.
    #[schemars(extend("x-whole" = true))]
    pub stop: Vec<String>,
}

/// A model with its sampling options.
pub struct Writer {
    /// The model.
    pub loaded: LoadedModel,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    settings: SamplingSettings,
    stopping: Stopping,
}

/// End-of-sequence tokens, from the generation configuration, the model configuration and the
/// tokenizer.
#[must_use]
pub fn end_tokens(own: Vec<u32>, loaded: &LoadedModel, tokenizer: &Tokenizer) -> Vec<u32> {
    let config = loaded.decoder.config().eos_tokens.iter().copied();
    let mut all: Vec<u32> = own.into_iter().chain(config).chain(tokenizer.eos()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl SamplingOptions {
    /// Opens a model, and combines its generation configuration with the options.
    ///
    /// # Errors
    /// [`Failure`] if the model cannot be opened or cannot generate text, or an option is out of
    /// bounds.
    pub fn writer(&self, model: &str, session: &mut Session<'_>) -> Result<Writer, Failure> {
        let mut loaded = open_model_as(model, self.precision.dtype, session)?.loaded;
        if !loaded.decoder.has_head() || !loaded.decoder.config().is_causal() {
            return Err(Failure::general(format!(
                "{model} is an encoder, which cannot generate text; give a causal language model"
            )));
        }
        let Some(tokenizer) = loaded.tokenizer.take() else {
            return Err(Failure::general(format!(
                "{model} has no tokenizer; put tokenizer.json or tokenizer.model beside config.json"
            )));
        };
        let mut settings = self.settings(&loaded, session)?;
        let own = std::mem::take(&mut settings.end_tokens);
        let end_tokens = end_tokens(own, &loaded, &tokenizer);
        let new_tokens = self.max_new_tokens.or(settings.new_tokens).unwrap_or(NEW_TOKENS);
        let stopping = Stopping { new_tokens, end_tokens, stop: self.stop.clone() };
        Ok(Writer { loaded, tokenizer, settings, stopping })
    }

    fn settings(
        &self,
        loaded: &LoadedModel,
        session: &Session<'_>,
    ) -> Result<SamplingSettings, Failure> {
        let vocab = loaded.decoder.config().vocab;
        let given = [
            ("max_new_tokens", self.max_new_tokens.is_some()),
            ("temperature", self.temperature.is_some()),
            ("top_k", self.top_k.is_some()),
            ("top_p", self.top_p.is_some()),
            ("min_p", self.min_p.is_some()),
            ("repetition_penalty", self.repetition_penalty.is_some()),
        ];
        let given = given.iter().filter(|(_, is_given)| *is_given).map(|(field, _)| *field);
        let given: Vec<&str> = given.collect();
        let (mut settings, note) = loaded.source.generation_settings(vocab, &given)?;
        if let Some(note) = note {
            session.note(&format!("note: {note}"));
        }
        let choice = &mut settings.choice;
        let within = |flag: &str, value: Option<f64>, most: f64| match value {
            Some(v) if !(0.0..=most).contains(&v) => {
                Err(Failure::usage(format!("{flag} is {v}; expected a number from 0 to {most}")))
            }
            _ => Ok(value.map(|v| v as f32)),
        };
        if let Some(temperature) = within("--temperature", self.temperature, 1e3)? {
            choice.temperature = temperature;
        }
        choice.top_k = self.top_k.or(choice.top_k);
        choice.top_p = within("--top-p", self.top_p, 1.0)?.or(choice.top_p);
        choice.min_p = within("--min-p", self.min_p, 1.0)?.or(choice.min_p);
        let draws = self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some();
        if draws && choice.temperature == 0.0 {
            if self.temperature.is_some() {
                let text = "--temperature 0 is greedy decoding, to which --top-k and the like do not apply";
                return Err(Failure::usage(text.to_owned()));
            }
            choice.temperature = 1.0;
        }
        if let Some(penalty) = within("--repetition-penalty", self.repetition_penalty, 1e3)? {
            if penalty == 0.0 {
                return Err(Failure::usage("--repetition-penalty must be above 0".to_owned()));
            }
            choice.repetition_penalty = penalty;
        }
        choice.key = RngKey::new(self.seed);
        Ok(settings)
    }
}

/// How tokens were drawn, in results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingProtocol {
    /// Temperature; zero is greedy.
    pub temperature: f64,
    /// Number of the most likely tokens drawn from.
    pub top_k: Option<usize>,
    /// Total probability of the most likely tokens drawn from.
    pub top_p: Option<f64>,
    /// Smallest probability, relative to the most likely token.
    pub min_p: Option<f64>,
    /// Factor against repeated tokens.
    pub repetition_penalty: f64,
    /// The most new tokens.
    pub max_new_tokens: usize,
    /// Tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// Texts that end it.
    pub stop: Vec<String>,
}

impl Writer {
    /// Continues prompts; `on_text` as in [`generate_text`].
    ///
    /// # Errors
    /// [`Failure`] if a prompt does not fit, or `cancelled` says so.
    pub fn write(
        &self,
        prompts: &[Vec<u32>],
        on_text: &mut dyn FnMut(usize, &str) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Generated>, Failure> {
        let mut on_text = |index, piece: &str| on_text(index, piece) && !cancelled();
        let written = generate_text(
            &self.loaded.decoder,
            &self.tokenizer,
            prompts,
            &self.settings.choice,
            &self.stopping,
            &mut on_text,
        );
        let written = written.map_err(Failure::from)?;
        if cancelled() {
            return Err(Failure::new(FailureKind::Interrupted, "interrupted"));
        }
        Ok(written)
    }

    /// The sampling options, for results.
    pub(in crate::jobs) fn protocol(&self) -> SamplingProtocol {
        let choice = &self.settings.choice;
        SamplingProtocol {
            temperature: f64::from(choice.temperature),
            top_k: choice.top_k,
            top_p: choice.top_p.map(f64::from),
            min_p: choice.min_p.map(f64::from),
            repetition_penalty: f64::from(choice.repetition_penalty),
            max_new_tokens: self.stopping.new_tokens,
            end_tokens: self.stopping.end_tokens.clone(),
            stop: self.stopping.stop.clone(),
        }
    }
}
