//! A model in memory, with its companions and its digest.

use super::reader::Used;
use super::sentence::Sentence;
use super::source::Source;
use crate::tokenizer::Tokenizer;
use crate::transformer::Transformer;
use linwright_files::{TOKENIZER_FILES, hex};
use sha2::{Digest, Sha256};

/// A loaded model with its companions.
#[derive(Debug)]
pub struct LoadedModel {
    /// The model.
    pub decoder: Transformer,
    /// The tokenizer, if there is one.
    pub tokenizer: Option<Tokenizer>,
    /// Pooling of a text into one vector, or why it is not supported, with file and field.
    pub sentence: Result<Sentence, String>,
    /// Configuration and companion files, for saving.
    pub source: Source,
    /// Digest of the content: SHA-256 over `config.json`, the tokenizer's files and, in the order
    /// of names, every tensor that the model uses (name, type, shape and digest of its bytes, see
    /// [`Tensor::digest`](linwright_files::Tensor)). It does not depend on the division into
    /// shards.
    pub hash: String,
    /// Notes for the reader of a report: unused tensors, a missing tokenizer.
    pub notes: Vec<String>,
}

/// The digest of a model: see [`LoadedModel::hash`].
pub(super) fn content_hash(config: &[u8], source: &Source, used: &Used) -> String {
    let mut hash = Sha256::new();
    // A raw vocabulary is part of the digest if there is no tokenizer.json.
    let raw = source.companion("tokenizer.json").is_none();
    let names =
        |name: &str| name.starts_with("tokenizer") || (raw && TOKENIZER_FILES.contains(&name));
    let tokenizer = source.companions.iter().filter(|(name, _)| names(name));
    for bytes in [config].into_iter().chain(tokenizer.map(|(_, bytes)| bytes.as_slice())) {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    for (name, (dtype, shape, digest)) in used {
        hash.update(format!("{name}\0{dtype}\0{shape:?}\0"));
        hash.update(digest);
    }
    hex(&hash.finalize())
}
