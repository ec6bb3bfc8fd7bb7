//! The built-in model `pocket`: its world, tokenizer, training and files.
//!
//! With the feature `pocket` the program embeds the files, and [`unpack`] writes them to a
//! directory.
//!
//! Everything is determined by a [`PocketRecipe`]. [`Prepared`] has the text and its tokens, which
//! are generated in seconds and never stored; [`Prepared::train`] is the long part and resumes from
//! its checkpoint; [`Prepared::write`] writes model, tokenizer, evaluation text and questions to
//! one directory.

mod carried;

pub use carried::{Unpacked, unpack};

use crate::new_model::{self, Length, LmTraining, Shape, lines, pretty};
use linwright_data::world::{
    FactQuestion, Sample, World, WorldSettings, bytes_sha256, documents_sha256,
};
use linwright_model::checkpoint::{CheckpointError, Form, SaveOptions, SavedModel, Source, save};
use linwright_model::tokenizer::train::{TrainedTokenizer, train_bpe};
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use linwright_model::train_lm::{Batching, Documents};
use linwright_model::{ConfigError, Transformer, TransformerConfig};
use linwright_run::{Fingerprint, atomic};
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use linwright_train::{Checkpoint, Control, OptimizerSettings, Outcome, Schedule, TrainError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// Longest sequence of the model, in tokens.
const CONTEXT: usize = 512;

/// Settings that determine the built-in model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PocketRecipe {
    /// The world.
    pub world: WorldSettings,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Number of documents, from the first, for training the tokenizer.
    pub tokenizer_documents: usize,
    /// Number of documents, from the first, that are shipped as calibration text.
    pub calibration_documents: usize,
    /// Largest number of tokens in a batch.
    pub batch_tokens: usize,
    /// Number of passes over the training text.
    pub epochs: u64,
    /// Number of updates, if it differs from that of the passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Learning rate schedule.
    pub schedule: Schedule,
    /// Constants of AdamW.
    pub optimizer: OptimizerSettings,
    /// Steps between two validations, and between two checkpoints.
    pub validate_every: u64,
}

impl Default for PocketRecipe {
    fn default() -> Self {
        Self {
            world: WorldSettings::default(),
            vocab: 1152,
            tokenizer_documents: 12_000,
            calibration_documents: 600,
            batch_tokens: 1024,
            epochs: 1,
            steps: None,
            schedule: Schedule { peak: 1e-3, warmup: 150, floor: 1e-5 },
            optimizer: new_model::optimizer(),
            validate_every: 100,
        }
    }
}

/// Errors in building the built-in model.
#[derive(Debug, thiserror::Error)]
pub enum PocketError {
    /// An error of the tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// An error in the model's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An error in training, or its cancellation.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// An error in writing the model.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// An error in writing text.
    #[error("pocket: {0}")]
    Output(#[from] atomic::OutputError),
    /// The program was built without the model's files.
    #[error(
        "this program was built without the built-in model; build it with `--features pocket`, or train the model with `linwright train-lm --output DIR` and give DIR"
    )]
    NotCarried,
    /// The model's files cannot be unpacked.
    #[error(
        "the built-in model cannot be unpacked: {why}; and temporarily: {source}; set XDG_CACHE_HOME or TMPDIR to a writable folder"
    )]
    Unpack {
        /// The reason why they cannot be in the cache.
        why: String,
        /// The reason why they cannot be in a temporary directory.
        source: atomic::OutputError,
    },
}

/// World, text and tokens, ready for training.
#[derive(Debug)]
pub struct Prepared {
    recipe: PocketRecipe,
    world: World,
    trained_tokenizer: TrainedTokenizer,
    tokenizer: Tokenizer,
    train: Documents,
    validation: Documents,
    calibration: Vec<String>,
    redrawn: u64,
    corpus_sha256: String,
}

/// Entropy of held-out stories under their grammar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entropy {
    /// Information of all stories in nats.
    pub nats: f64,
    /// Number of their tokens, without beginning and end of sequence.
    pub tokens: usize,
    /// Nats per token.
    pub nats_per_token: f64,
    /// Perplexity of a model that knows the grammar.
    pub perplexity: f64,
}

impl Prepared {
    /// Generates world, text, tokenizer and tokens.
    ///
    /// # Errors
    /// [`PocketError::Tokenizer`].
    pub fn new(recipe: PocketRecipe) -> Result<Self, PocketError> {
        let world = World::new(recipe.world.clone());
        let mut training = world.training();
        let corpus_sha256 = documents_sha256(&training.documents);
        let first = recipe.tokenizer_documents.min(training.documents.len());
        let trained_tokenizer = train_bpe(&training.documents[..first], recipe.vocab, CONTEXT)?;
        let tokenizer = Tokenizer::from_bytes(
            Path::new("pocket"),
            trained_tokenizer.json.as_bytes(),
            Some(&trained_tokenizer.config),
        )?;
        let train = new_model::encode(&tokenizer, &training.documents, true, None)?;
        let held_out: Vec<&str> = world.validation().iter().map(|s| s.text.as_str()).collect();
        let validation = new_model::encode(&tokenizer, &held_out, false, None)?;
        training.documents.truncate(recipe.calibration_documents);
        Ok(Self {
            recipe,
            world,
            trained_tokenizer,
            tokenizer,
            train,
            validation,
            calibration: training.documents,
            redrawn: training.redrawn,
            corpus_sha256,
        })
    }

    /// The world.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// SHA-256 of the training text.
    #[must_use]
    pub fn corpus_sha256(&self) -> &str {
        &self.corpus_sha256
    }

    /// SHA-256 of `tokenizer.json`.
    #[must_use]
    pub fn tokenizer_sha256(&self) -> String {
        bytes_sha256(self.trained_tokenizer.json.as_bytes())
    }

    /// Content of `tokenizer.json`.
    #[must_use]
    pub fn tokenizer_json(&self) -> &str {
        &self.trained_tokenizer.json
    }

    /// Number of tokens of the training text, with special ones.
    #[must_use]
    pub fn training_tokens(&self) -> usize {
        self.train.token_count()
    }

    /// Entropy of stories, in nats per token.
    ///
    /// # Errors
    /// [`PocketError::Tokenizer`].
    pub fn entropy(&self, stories: &[Sample]) -> Result<Entropy, PocketError> {
        let nats: f64 = stories.iter().map(|story| story.nats).sum();
        let mut tokens = 0;
        for story in stories {
            tokens += self.tokenizer.encode(&story.text, false)?.len();
        }
        let nats_per_token = nats / tokens.max(1) as f64;
        Ok(Entropy { nats, tokens, nats_per_token, perplexity: nats_per_token.exp() })
    }

    /// Trains a model from random weights, or resumes from the checkpoint.
    ///
    /// # Errors
    /// [`PocketError::Train`]; after an interruption, the same call resumes.
    pub fn train(
        &self,
        checkpoint: Option<&Path>,
        control: &mut dyn Control,
    ) -> Result<(Transformer, Outcome), PocketError> {
        let key = RngKey::new(self.recipe.world.seed).fold("pocket");
        let batching = Batching { tokens: self.recipe.batch_tokens, key: key.fold("batches") };
        let of_epochs = batching.steps(&self.train, self.recipe.epochs);
        let (steps, schedule) = (self.recipe.steps.unwrap_or(of_epochs), self.recipe.schedule);
        let training = LmTraining {
            name: "pocket",
            config: config(self.recipe.vocab)?,
            weights: key.fold("weights"),
            train: &self.train,
            validation: &self.validation,
            batching,
            schedule: Schedule { warmup: schedule.warmup.min(steps), ..schedule },
            optimizer: self.recipe.optimizer,
        };
        let checkpoint = checkpoint.map(|path| Checkpoint {
            path: path.to_owned(),
            every: self.recipe.validate_every,
            fingerprint: Fingerprint::of(&[
                ("recipe", &self.recipe),
                ("corpus", &self.corpus_sha256),
                ("tokenizer", &self.tokenizer_sha256()),
            ])
            .0,
        });
        let length = Length { steps, validate_every: self.recipe.validate_every };
        Ok(training.run(length, checkpoint.as_ref(), control)?)
    }

    /// Writes model, tokenizer, held-out stories, calibration text, questions and `world.json` to a
    /// directory, with the files in `beside`. With `force` it replaces an existing one.
    ///
    /// # Errors
    /// [`PocketError`]; an existing directory is then unchanged.
    pub fn write(
        &self,
        decoder: &Transformer,
        outcome: &Outcome,
        out: &Path,
        force: bool,
        beside: Vec<(String, Vec<u8>)>,
    ) -> Result<SavedModel, PocketError> {
        let generation = new_model::generation_config(Some(0), Some(1));
        let texts = |stories: &[Sample]| lines(stories.iter().map(|s| json!({"text": s.text})));
        let files = [
            ("tokenizer.json", self.trained_tokenizer.json.clone().into_bytes()),
            ("tokenizer_config.json", pretty(&self.trained_tokenizer.config)),
            ("generation_config.json", pretty(&generation)),
            ("stories-validation.jsonl", texts(self.world.validation())),
            ("stories-test.jsonl", texts(self.world.test())),
            ("calibration.jsonl", lines(self.calibration.iter().map(|d| json!({"text": d})))),
            ("facts.jsonl", lines(self.world.questions().iter().map(question))),
            ("world.json", pretty(&self.description(outcome)?)),
        ];
        let files = files.map(|(name, content)| (name.to_owned(), content)).to_vec();
        let source = Source::of_new_model(decoder.config(), files);
        let mut options = SaveOptions::new(Form::Dense);
        options.dtype = Some(DType::Bf16);
        options.force = force;
        options.files = beside;
        Ok(save(decoder, &source, &options, out)?)
    }

    /// Content of `world.json`.
    fn description(&self, outcome: &Outcome) -> Result<Value, PocketError> {
        let facts: Vec<Value> = self
            .recipe
            .world
            .bands
            .iter()
            .map(|band| {
                let of_band = self.world.questions();
                let of_band = of_band.iter().filter(|question| question.band == band.name);
                let (count, mentions) = of_band.fold((0, 0), |(c, m), q| (c + 1, m + q.mentions));
                json!({"band": band.name, "facts": count, "statements": mentions})
            })
            .collect();
        Ok(json!({
            "recipe": self.recipe,
            "corpus_sha256": self.corpus_sha256,
            "tokenizer_sha256": self.tokenizer_sha256(),
            "training_documents": self.train.len(),
            "training_tokens": self.train.token_count(),
            "stories_redrawn": self.redrawn,
            "facts": facts,
            "entropy": {
                "validation": self.entropy(self.world.validation())?,
                "test": self.entropy(self.world.test())?,
            },
            "training": {
                "steps": outcome.curve.last().map(|point| point.step),
                "validation_loss": outcome.best_loss,
                "curve": outcome.curve,
            },
        }))
    }
}

/// Configuration of the model.
fn config(vocab: usize) -> Result<TransformerConfig, ConfigError> {
    let shape = Shape {
        hidden: 256,
        intermediate: 256,
        layers: 8,
        heads: 8,
        kv_heads: 4,
        context: CONTEXT,
    };
    shape.config(vocab, Some(0), Some(1))
}

fn question(question: &FactQuestion) -> Value {
    serde_json::to_value(question).expect("a question is plain data")
}
