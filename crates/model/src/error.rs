//! Errors of configurations, and of batches and numbers in a model.

use linwright_ops::SiteId;
use linwright_run::shown;
use std::ops::Range;

/// A `config.json` that does not describe a supported model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// JSON that is not an object.
    #[error("config is not a JSON object but {found}; expected the config.json of a decoder")]
    NotAnObject {
        /// The kind of value found.
        found: &'static str,
    },
    /// A missing field without a default.
    #[error("config has no field {field}; add it ({expected})")]
    Missing {
        /// Name of the field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// A field with a wrong type or value.
    #[error("config field {field} is {found}, expected {expected}", found = shown(found))]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// The value.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// An unknown model type.
    #[error("config field model_type is \"{found}\"; known families are {known}", found = shown(found))]
    UnknownFamily {
        /// The model type.
        found: String,
        /// All known ones.
        known: String,
    },
    /// An unsupported feature of the family.
    #[error("config field {field} is {found}, which is not supported; supported: {supported}", found = shown(found))]
    Unsupported {
        /// Name of the field.
        field: &'static str,
        /// The value.
        found: String,
        /// The supported values.
        supported: &'static str,
    },
    /// Fields that contradict each other.
    #[error("config fields {fields} contradict each other: {reason}")]
    Inconsistent {
        /// Their names.
        fields: &'static str,
        /// The contradiction.
        reason: String,
    },
}

/// An invalid batch, or a non-finite number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A token outside the vocabulary.
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
    /// A sequence longer than the longest input.
    #[error(
        "sequence {sequence} of the batch has {length} tokens, the model {max} positions; \
         use a shorter window"
    )]
    SequenceTooLong {
        /// Index of the sequence in its batch.
        sequence: usize,
        /// Its length in tokens.
        length: usize,
        /// Longest input of the model.
        max: usize,
    },
    /// An empty prompt.
    #[error("sequence {sequence} is empty; a prompt needs at least one token")]
    EmptySequence {
        /// Index of the sequence.
        sequence: usize,
    },
    /// An unknown token type.
    #[error("token type {found} at row {row} of the batch; the model has {known}, from 0")]
    TypeOutOfRange {
        /// The type.
        found: u32,
        /// Row in the batch.
        row: usize,
        /// Number of token types of the model.
        known: usize,
    },
    /// A range of layers that does not exist.
    #[error("layers {}..{} of a model that has {layers}", range.start, range.end)]
    LayersOutOfRange {
        /// The requested range.
        range: Range<usize>,
        /// Number of layers.
        layers: usize,
    },
    /// An infinity or NaN.
    #[error(
        "non-finite number in {what} of {site}; the weights or the input of this site hold \
         infinities or NaN, or overflow"
    )]
    NonFinite {
        /// The first site with such a number.
        site: SiteId,
        /// Input, output, gradient or loss.
        what: &'static str,
    },
    /// Training of a weight in 16 bits.
    #[error(
        "{name} is held in 16 bits, which has no gradients; to train or heal, load the model in f32 \
         (--dtype f32)", name = shown(name)
    )]
    HeldInHalf {
        /// The first such weight, by its name in checkpoints.
        name: String,
    },
    /// A batch without targets.
    #[error("no row of the batch has a target; there is nothing to train on")]
    NoTargets,
    /// A model without a head.
    #[error("the model has no language-model head, so its output has no token loss")]
    NoHead,
}
