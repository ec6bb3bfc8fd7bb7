//! What can be wrong with a configuration, and with numbers and tokens that go through a model.

use linwright_ops::SiteId;
use linwright_run::shown;
use std::ops::Range;

/// A `config.json` that describes no model we can build.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The file holds JSON that is not an object.
    #[error("config is not a JSON object but {found}; expected the config.json of a decoder")]
    NotAnObject {
        /// The kind of value found.
        found: &'static str,
    },
    /// A field is absent that has no default.
    #[error("config has no field {field}; add it ({expected})")]
    Missing {
        /// Name of the field.
        field: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// A field holds a value of another type or outside its range.
    #[error("config field {field} is {found}, expected {expected}", found = shown(found))]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// The model type names no known family.
    #[error("config field model_type is \"{found}\"; known families are {known}", found = shown(found))]
    UnknownFamily {
        /// The model type found.
        found: String,
        /// All that are known.
        known: String,
    },
    /// A feature of the family that this decoder does not have.
    #[error("config field {field} is {found}, which is not supported; supported: {supported}", found = shown(found))]
    Unsupported {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What would work.
        supported: &'static str,
    },
    /// Two fields contradict each other.
    #[error("config fields {fields} do not fit together: {reason}")]
    Inconsistent {
        /// Their names.
        fields: &'static str,
        /// How they contradict.
        reason: String,
    },
}

/// Tokens or numbers that a model cannot work on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A token that the vocabulary does not have.
    #[error(
        "token {token} at row {row} of the batch is outside the vocabulary of {vocab}; \
         does the tokenizer belong to this model?"
    )]
    TokenOutOfRange {
        /// The token.
        token: u32,
        /// Its row in the batch.
        row: usize,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A sequence longer than the model has positions.
    #[error(
        "sequence {sequence} of the batch has {length} tokens, the model {max} positions; \
         use a shorter window"
    )]
    SequenceTooLong {
        /// Index of the sequence in its batch.
        sequence: usize,
        /// Its length in tokens.
        length: usize,
        /// Positions of the model.
        max: usize,
    },
    /// A prompt without a token.
    #[error("sequence {sequence} is empty; a prompt needs at least one token")]
    EmptySequence {
        /// Index of the sequence.
        sequence: usize,
    },
    /// A token type that the model does not have.
    #[error("token type {found} at row {row} of the batch; the model has {known}, from 0")]
    TypeOutOfRange {
        /// The type.
        found: u32,
        /// Row in the batch.
        row: usize,
        /// Types of the model.
        known: usize,
    },
    /// A range of layers that the model does not have.
    #[error("layers {}..{} of a model that has {layers}", range.start, range.end)]
    LayersOutOfRange {
        /// The range asked for.
        range: Range<usize>,
        /// Layers of the model.
        layers: usize,
    },
    /// An infinity or NaN.
    #[error(
        "non-finite number in {stage} of {site}; the weights or the input of this site hold \
         infinities or NaN, or overflow"
    )]
    NonFinite {
        /// The first place where it shows.
        site: SiteId,
        /// Input, output, gradient or loss.
        stage: &'static str,
    },
    /// Gradients of a weight that is held in 16 bits.
    #[error(
        "{name} is held in 16 bits, which has no gradients; to train or heal, load the model in f32 \
         (--dtype f32)", name = shown(name)
    )]
    HeldInHalf {
        /// The first such weight, by its name in checkpoints.
        name: String,
    },
    /// A batch in which no token is to be predicted.
    #[error("no row of the batch has a target; nothing can be learnt from it")]
    NoTargets,
}
