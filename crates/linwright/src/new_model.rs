//! Training of a new language model on tokenised documents, for the built-in model and any text.

use linwright_model::families::FAMILIES;
use linwright_model::tokenizer::{Bos, Tokenizer, TokenizerError};
use linwright_model::train_lm::{Batching, Documents, LanguageModeling};
use linwright_model::{ConfigError, Transformer, TransformerConfig};
use linwright_tensor::{RngKey, parallel};
use linwright_train::{
    Checkpoint, Control, OptimizerSettings, Outcome, Problem, Rules, Schedule, Slice, TrainError,
    TrainSettings, train,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::error::Error;

/// Factor of the first validation loss beyond which training is stopped.
const DIVERGENCE: f64 = 2.0;

/// Shape of a new model, of the first family, with tied embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) context: usize,
}

impl Shape {
    /// The configuration of the model.
    pub(crate) fn config(
        &self,
        vocab: usize,
        bos: Option<u32>,
        eos: Option<u32>,
    ) -> Result<TransformerConfig, ConfigError> {
        TransformerConfig::from_json(&json!({
            "architectures": [FAMILIES[0].architecture],
            "model_type": FAMILIES[0].model_type,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "hidden_act": "silu",
            "max_position_embeddings": self.context,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "tie_word_embeddings": true,
            "vocab_size": vocab,
            "bos_token_id": bos,
            "eos_token_id": eos,
        }))
    }
}

/// Content of `generation_config.json` of a new model.
pub(crate) fn generation_config(bos: Option<u32>, eos: Option<u32>) -> Value {
    json!({"bos_token_id": bos, "eos_token_id": eos, "do_sample": false})
}

/// Constants of AdamW for new language models.
pub(crate) fn optimizer() -> OptimizerSettings {
    OptimizerSettings {
        beta2: 0.95,
        weight_decay: 0.1,
        clip_norm: Some(1.0),
        ..OptimizerSettings::default()
    }
}

/// Settings that determine the training of a new model, except its length.
#[derive(Debug)]
pub(crate) struct LmTraining<'a> {
    /// Name in messages.
    pub(crate) name: &'a str,
    pub(crate) config: TransformerConfig,
    /// Key of the initial weights.
    pub(crate) weights: RngKey,
    pub(crate) train: &'a Documents,
    pub(crate) validation: &'a Documents,
    pub(crate) batching: Batching,
    pub(crate) schedule: Schedule,
    pub(crate) optimizer: OptimizerSettings,
}

/// Length of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Length {
    /// Number of updates.
    pub(crate) steps: u64,
    /// Updates between two validations.
    pub(crate) validate_every: u64,
}

impl LmTraining<'_> {
    /// Trains a model from random weights, or resumes from the checkpoint.
    ///
    /// # Errors
    /// [`TrainError`]; after an interruption, the same call resumes.
    pub(crate) fn run(
        &self,
        length: Length,
        checkpoint: Option<&Checkpoint>,
        control: &mut dyn Control,
    ) -> Result<(Transformer, Outcome), TrainError> {
        let mut decoder = start(self.config.clone(), self.weights);
        let modeling =
            LanguageModeling::new(&mut decoder, self.train, self.validation, self.batching);
        let settings = TrainSettings {
            name: self.name.to_owned(),
            steps: length.steps,
            schedule: self.schedule,
            optimizer: self.optimizer,
            validate_every: length.validate_every,
            keep_best: false,
            divergence_factor: DIVERGENCE,
            rules: Rules::default(),
        };
        let outcome = train(&mut Task(modeling), &settings, checkpoint, control)?;
        Ok((decoder, outcome))
    }
}

/// Initial gain with which a head copies the tokens it attends to.
const COPY: f32 = 0.1;

/// Initial weights: normal with deviation `1 / sqrt(inp)`, scaled by `1 / sqrt(2 layers)` for those
/// that write into the residual stream. The output projection starts as [`COPY`] times the
/// transpose of the value projection, head by head, so that a head initially copies what it attends
/// to; otherwise a small model needs millions of tokens to learn that names repeat. Source:
/// Trockman and Kolter 2023, arXiv:2305.09828, section 3; their sign is negative and fitted to
/// images.
fn start(config: TransformerConfig, key: RngKey) -> Transformer {
    let residual = 1.0 / (2.0 * config.layers.len() as f64).sqrt();
    let (head_dim, query_width) = (config.head_dim, config.query_width());
    let (mut value, mut group) = (Vec::new(), 1);
    let built = Transformer::from_tensors::<Infallible>(config, &mut |name, shape| {
        let count = shape.iter().product();
        let [_, inp] = *shape else { return Ok(vec![1.0; count]) };
        let writes = name.contains("o_proj") || name.contains("down_proj");
        let scale = if writes { residual } else { 1.0 } / (inp as f64).sqrt();
        let mut weight: Vec<f32> = key.fold(name).stream().normals(count, scale);
        if name.contains("v_proj") {
            value.clone_from(&weight);
            group = query_width / (count / inp);
        } else if name.contains("o_proj") {
            let hidden = count / inp;
            for (at, number) in weight.iter_mut().enumerate() {
                let (out, feature) = (at / inp, at % inp);
                let row = feature / head_dim / group * head_dim + feature % head_dim;
                *number += COPY * value[row * hidden + out];
            }
        }
        Ok(weight)
    });
    match built {
        Ok(decoder) => decoder,
        Err(never) => match never {},
    }
}

/// Documents encoded per work item.
const PIECE: usize = 512;

/// Tokens of documents, with the beginning-of-sequence token before and optionally the
/// end-of-sequence token after each, split into windows of `context` tokens if one is given.
pub(crate) fn encode<S: AsRef<str> + Sync>(
    tokenizer: &Tokenizer,
    documents: &[S],
    end: bool,
    context: Option<usize>,
) -> Result<Documents, TokenizerError> {
    let eos = tokenizer.eos().filter(|_| end);
    let pieces = parallel::map(documents.chunks(PIECE).collect(), |_, piece: &[S]| {
        let one = |document: &S| {
            let mut tokens = tokenizer.encode_document(document.as_ref(), Bos::Always)?;
            tokens.extend(eos);
            Ok(tokens)
        };
        piece.iter().map(one).collect::<Result<Vec<_>, TokenizerError>>()
    });
    let mut all = Documents::default();
    for piece in pieces {
        for tokens in piece? {
            match context {
                Some(context) => all.push_windows(&tokens, context),
                None => all.push(&tokens),
            }
        }
    }
    Ok(all)
}

/// Lines of JSON.
pub(crate) fn lines(values: impl Iterator<Item = Value>) -> Vec<u8> {
    values.map(|value| format!("{value}\n")).collect::<String>().into_bytes()
}

/// Indented JSON.
pub(crate) fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

/// Adapter of language-model training to the training loop.
struct Task<'a>(LanguageModeling<'a>);

impl Problem for Task<'_> {
    fn slices(&mut self) -> Vec<Slice<'_>> {
        let params = self.0.params().into_iter();
        params
            .map(|p| Slice {
                name: p.name,
                values: p.values,
                gradient: p.gradient.into(),
                decay: p.decay,
            })
            .collect()
    }

    fn step(&mut self, step: u64) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.0.step(step)?)
    }

    fn validate(&mut self) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.0.validate()?)
    }
}
