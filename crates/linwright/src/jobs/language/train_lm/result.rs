//! A training of a language model, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use crate::new_model::Shape;
use linwright_report::number::{bytes, grouped, seconds};
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// A file of documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextFile {
    /// The file.
    pub(crate) path: String,
    /// Its SHA-256.
    pub(crate) sha256: String,
    /// Number of its documents.
    pub(crate) documents: usize,
}

/// Documents that are trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainingDocuments {
    /// Their indices.
    pub(crate) documents: String,
    /// Their number.
    pub(crate) document_count: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// Their predicted tokens.
    pub(crate) tokens: usize,
    /// Updates.
    pub(crate) steps: u64,
    /// Passes over the documents.
    pub(crate) epochs: f64,
}

/// Documents that are held out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldOutDocuments {
    /// The file, if it is another one.
    pub(crate) path: Option<String>,
    /// Its SHA-256.
    pub(crate) sha256: Option<String>,
    /// Their indices.
    pub(crate) documents: String,
    /// Their number.
    pub(crate) document_count: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// Their predicted tokens.
    pub(crate) tokens: usize,
}

/// The tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenizerOfText {
    /// Number of tokens.
    pub(crate) vocab: usize,
    /// SHA-256 of its file.
    pub(crate) sha256: String,
}

/// A model and what it is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainingPlanned {
    /// The text.
    pub(crate) text: TextFile,
    /// Documents that are trained on.
    pub(crate) training: TrainingDocuments,
    /// Documents that are held out.
    pub(crate) held_out: HeldOutDocuments,
    /// The tokenizer.
    pub(crate) tokenizer: TokenizerOfText,
    /// Shape of the model.
    pub(crate) model: Shape,
    /// Its parameters.
    pub(crate) parameters: u64,
}

impl TrainingPlanned {
    /// The training documents in words.
    pub(super) fn told(&self) -> String {
        let TextFile { path, documents, .. } = &self.text;
        format!("{} of {documents} documents of {path}", self.training.document_count)
    }

    fn lines(&self) -> Vec<String> {
        let held_out = match &self.held_out.path {
            Some(name) => format!("held out: {name}"),
            None => format!("held out: documents {}", self.held_out.documents),
        };
        let (training, tokens) = (&self.training, grouped(self.held_out.tokens as u64));
        vec![
            format!(
                "{} parameters, {} tokens in the vocabulary",
                grouped(self.parameters),
                self.tokenizer.vocab
            ),
            format!(
                "{}: {} tokens, {} steps, {:.2} epochs",
                self.told(),
                grouped(training.tokens as u64),
                grouped(training.steps),
                training.epochs
            ),
            format!("{held_out}, {tokens} tokens"),
        ]
    }
}

/// A trained model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelTrained {
    /// The model and its data.
    #[serde(flatten)]
    pub(crate) planned: TrainingPlanned,
    /// Held-out loss of a token.
    pub(crate) nats_per_token: f64,
    /// Its exponential.
    pub(crate) perplexity: f64,
    /// Held-out loss of a byte of text.
    pub(crate) nats_per_byte: f64,
    /// The same in bits.
    pub(crate) bits_per_byte: f64,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Time of training.
    #[serde(default)]
    pub(crate) seconds: Measured<f64>,
    /// Tokens trained on in a second.
    #[serde(default)]
    pub(crate) tokens_per_second: Measured<f64>,
}

impl Report for ModelTrained {
    const KIND: &'static str = "train-lm";

    fn document(&self) -> Document {
        let mut lines = self.planned.lines();
        lines.push(format!(
            "held-out loss {:.4} nats per token, perplexity {:.2}, {:.4} bits per byte",
            self.nats_per_token, self.perplexity, self.bits_per_byte
        ));
        lines.extend(self.output.as_ref().map(|output| format!("wrote {output}")));
        page(vec![text(lines)])
    }

    fn times(&self) -> Vec<Block> {
        let (time, speed) = (seconds(self.seconds.0), self.tokens_per_second.0);
        vec![text([format!("training: {time}, {speed:.0} tokens/s")])]
    }
}

/// What a training would cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainingCost {
    /// The model and its data.
    #[serde(flatten)]
    pub(crate) planned: TrainingPlanned,
    /// Estimated time, speed and memory.
    #[serde(default)]
    pub(crate) estimate: Measured<Estimate>,
}

/// Estimated time, speed and memory of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    /// Time of an update.
    pub(crate) seconds_per_step: f64,
    /// Time of all updates and validations.
    pub(crate) seconds: f64,
    /// Tokens trained on in a second.
    pub(crate) tokens_per_second: f64,
    /// Memory in bytes, if the system reports it.
    pub(crate) memory_bytes: Option<u64>,
}

impl Report for TrainingCost {
    const KIND: &'static str = "train-lm-dry-run";

    fn document(&self) -> Document {
        page(vec![text(self.planned.lines())])
    }

    fn times(&self) -> Vec<Block> {
        let Estimate { seconds: total, tokens_per_second, memory_bytes, .. } = *self.estimate;
        let memory = memory_bytes.map(|memory| format!(", {} of memory", bytes(memory)));
        vec![text([format!(
            "about {} at {tokens_per_second:.0} tokens/s{}",
            seconds(total),
            memory.unwrap_or_default()
        )])]
    }
}

/// The built-in model, trained again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PocketTrained {
    /// The directory.
    pub(crate) output: String,
    /// Parameters of the model.
    pub(crate) parameters: u64,
    /// Bytes of its files.
    pub(crate) bytes: u64,
    /// Loss on validation texts, in nats per token.
    pub(crate) validation_loss: f64,
}

impl Report for PocketTrained {
    const KIND: &'static str = "train-lm-pocket";

    fn document(&self) -> Document {
        let Self { output, parameters, bytes, validation_loss } = self;
        page(vec![text([format!(
            "wrote {output} ({} parameters, {} bytes); validation loss {validation_loss:.4}",
            grouped(*parameters),
            grouped(*bytes)
        )])])
    }
}

/// Texts and tokenizer of the built-in model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PocketPlanned {
    /// SHA-256 of the texts.
    pub(crate) corpus_sha256: String,
    /// SHA-256 of the tokenizer.
    pub(crate) tokenizer_sha256: String,
    /// Tokens that are trained on.
    pub(crate) training_tokens: usize,
}

impl Report for PocketPlanned {
    const KIND: &'static str = "train-lm-pocket-dry-run";

    fn document(&self) -> Document {
        page(vec![text([format!("{} training tokens", grouped(self.training_tokens as u64))])])
    }
}
