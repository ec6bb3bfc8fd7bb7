//! Reading a model from a directory.

use super::error::CheckpointError;
use super::loaded::{LoadedModel, content_hash};
use super::native;
use super::precision::Precision;
use super::reader::{Reader, Used};
use super::source::Source;
use super::{gguf, tied};
use crate::config::TransformerConfig;
use crate::transformer::Transformer;
use linwright_files::json::words_note;
use linwright_files::{CONFIG, FileError, Weights, files_with, gguf_among, gguf_at};
use linwright_run::shown;
use linwright_tensor::Shelf;
use std::path::{Path, PathBuf};

/// Suffixes of tensors that checkpoints contain and no model needs, such as computed tables.
const HARMLESS: [&str; 6] = [
    ".rotary_emb.inv_freq",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    "embeddings.position_ids",
];

/// Loads a model from a directory in dense or native form, from a GGUF file, or from a directory
/// with one GGUF file. Memory: the weights in `f32`, and little more.
///
/// # Errors
/// [`CheckpointError`] with the file and the reason.
pub fn load(dir: &Path) -> Result<LoadedModel, CheckpointError> {
    load_as(dir, Precision::F32)
}

/// The GGUF file at a path: the file itself, or that of a directory without a configuration with
/// one GGUF file, as an export leaves it, or with the parts of one.
fn gguf_of(path: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    if path.is_file() {
        return Ok(gguf_at(path)?);
    }
    if !path.is_dir() || path.join(CONFIG).exists() {
        return Ok(None);
    }
    let files = files_with(path, "gguf")?;
    if let Some(file) = gguf_among(&files) {
        return Ok(Some(file.into()));
    }
    match files.len() {
        0 => Ok(None),
        count => {
            let first: Vec<_> = files.iter().take(2).filter_map(|file| file.file_name()).collect();
            let first: Vec<_> = first.iter().map(|name| name.to_string_lossy()).collect();
            let found =
                format!("{count} GGUF files, {} among them; give one of them", first.join(" and "));
            Err(FileError::NoWeights { path: path.into(), found }.into())
        }
    }
}

/// The configuration of a model, without its weights.
///
/// # Errors
/// As [`load`], for the configuration.
pub fn configuration(dir: &Path) -> Result<TransformerConfig, CheckpointError> {
    match gguf_of(dir)? {
        Some(file) => gguf::configuration(&file),
        None => Source::read(dir)?.0.decoder_config(),
    }
}

/// As [`load`], with matrices held in the given type. Memory: the weights in that type, and little
/// more.
///
/// # Errors
/// As [`load`], and [`FileError::TooLarge`] for a number that the type cannot hold.
pub fn load_as(dir: &Path, precision: Precision) -> Result<LoadedModel, CheckpointError> {
    match gguf_of(dir)? {
        Some(file) => gguf::load(&file, precision),
        None => load_directory(dir, precision, None),
    }
}

/// As [`load_as`] with [`Precision::Auto`], for a model larger than memory: weights stay in their
/// files, where a forward pass reads one stage at a time. Those that cannot be used in place go to
/// the shelf. Memory: the largest tensor. A GGUF file is read into memory completely, with a note.
///
/// # Errors
/// As [`load_as`], and [`CheckpointError::Shelf`] if the shelf is full.
pub fn load_offloaded(dir: &Path, shelf: &Shelf) -> Result<LoadedModel, CheckpointError> {
    let Some(file) = gguf_of(dir)? else {
        return load_directory(dir, Precision::Auto, Some(shelf));
    };
    let mut loaded = gguf::load(&file, Precision::Auto)?;
    loaded.notes.push("a GGUF file is held in memory: only safetensors files are mapped".into());
    Ok(loaded)
}

fn load_directory(
    dir: &Path,
    precision: Precision,
    shelf: Option<&Shelf>,
) -> Result<LoadedModel, CheckpointError> {
    let (mut source, config_bytes) = Source::read(dir)?;
    let dir = &source.transformer_dir();
    let config = source.decoder_config()?;
    let tokenizer = source.tokenizer(&config)?;
    let headers = native::read(dir, &source.config)?;
    let is_own_form = !headers.is_empty();
    let weights = Weights::open(dir)?;
    source.dtype = weights.main_dtype();
    let mut reader = Reader::new(dir, &weights, config.family, headers);
    reader.precision = precision;
    reader.shelf = shelf;
    let mut config = config.with_ends(|name| reader.has(name));
    let untied = tied::settle(&mut source, &mut config, &reader)?;
    let tied = config.tied_embeddings;
    let decoder = Transformer::from_source(config, &mut reader)?;
    let used = reader.finish()?;
    if is_own_form {
        weights.check_listed()?;
    }
    let mut notes: Vec<String> = weights.notes().chain(untied).collect();
    notes.extend(source.unknown_tokens(decoder.config()));
    notes.extend(words_note(CONFIG, &config_bytes));
    notes.extend(unused_notes(&weights, &used, tied));
    match &tokenizer {
        Some(tokenizer) => notes.extend_from_slice(tokenizer.notes()),
        None => notes.push("no tokenizer: text cannot be encoded or decoded".into()),
    }
    let hash = content_hash(&config_bytes, &source, &used);
    let sentence = source.sentence(decoder.config(), tokenizer.as_ref(), precision);
    notes.extend(match &sentence {
        Ok(sentence) => sentence.note().map(str::to_owned),
        Err(reason) => Some(reason.clone()),
    });
    Ok(LoadedModel { decoder, tokenizer, sentence, source, hash, notes })
}

/// Notes on tensors of the files that the model does not use.
fn unused_notes(weights: &Weights, used: &Used, tied: bool) -> Vec<String> {
    const SHOWN: usize = 8;
    let mut notes = Vec::new();
    let mut others = Vec::new();
    for name in weights.names().filter(|name| !used.contains_key(*name)) {
        if tied && name == "lm_head.weight" {
            notes.push("lm_head.weight is not used: config.json ties it to the embedding".into());
        } else if !HARMLESS.iter().any(|end| name.ends_with(end)) {
            others.push(shown(name));
        }
    }
    if !others.is_empty() {
        let more = others.len().saturating_sub(SHOWN);
        let listed = others[..others.len().min(SHOWN)].join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("tensors that this model does not use: {listed}{rest}"));
    }
    notes
}
