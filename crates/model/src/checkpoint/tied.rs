//! An untied output matrix in a checkpoint with `tie_word_embeddings`.
//!
//! Like transformers, this uses the stored matrix if it differs from the embedding: the file takes
//! precedence over the flag. The flag is corrected, so that the model is saved unchanged.

use super::error::CheckpointError;
use super::reader::Reader;
use super::source::Source;
use crate::config::TransformerConfig;
use crate::error::ConfigError;
use crate::families::Head;
use linwright_files::CONFIG;
use serde_json::Value;

/// Unties a configuration if a different output matrix, or its bias, is stored; returns a note for
/// the reader of a report.
pub(super) fn settle(
    source: &mut Source,
    config: &mut TransformerConfig,
    reader: &Reader<'_>,
) -> Result<Option<String>, CheckpointError> {
    let names = &config.family.names;
    let (head, shared) = match names.head {
        Head::Linear(name) => (name, None),
        Head::Masked { output, bias, .. } if config.masked_head => (output, Some(bias)),
        Head::Masked { .. } => return Ok(None),
    };
    if !config.tied_embeddings {
        return Ok(None);
    }
    let weight = format!("{head}.weight");
    let embedding = format!("{}{}.weight", names.prefix, names.embedding);
    let stored = reader.has(&weight);
    let differs = stored && reader.has(&embedding) && !reader.same(&weight, &embedding);
    let own_bias = format!("{head}.bias");
    let own_bias = shared.filter(|shared| {
        reader.has(&own_bias) && reader.has(shared) && !reader.same(&own_bias, shared)
    });
    if !differs && own_bias.is_none() {
        return Ok(None);
    }
    if !stored {
        return Err(CheckpointError::Config {
            path: source.transformer_dir().join(CONFIG),
            source: ConfigError::Inconsistent {
                fields: "tie_word_embeddings",
                reason: format!("{head}.bias is stored, and its weight is not"),
            },
        });
    }
    config.tied_embeddings = false;
    source.config.insert("tie_word_embeddings".into(), Value::Bool(false));
    Ok(Some(format!(
        "{weight} is used: config.json ties it to the embedding, but the file holds a different one"
    )))
}
