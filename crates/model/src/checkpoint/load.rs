//! Reading a model from a directory.

use super::error::CheckpointError;
use super::native::{self, Headers};
use super::precision::Precision;
use super::sentence::Sentence;
use super::source::Source;
use super::{gguf, tied};
use crate::config::TransformerConfig;
use crate::families::Family;
use crate::tokenizer::Tokenizer;
use crate::transformer::{Held, Orientation, TensorSource, Transformer};
use linwright_files::json::words_note;
use linwright_files::{
    CONFIG, FileError, Placed, StoredType, TOKENIZER_FILES, Weights, files_with, gguf_among,
    gguf_at, hex,
};
use linwright_ops::archive::{self, Tensor, Tensors};
use linwright_ops::{Op, OpSpec, Shape, SiteId};
use linwright_run::shown;
use linwright_tensor::Shelf;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Largest dense size of a site in numbers: ten times the largest known one. An operator without a
/// dense weight is bounded by the contents of its file, see [`archive::load`].
const SITE_NUMBERS: usize = 1 << 33;
/// Suffixes of tensors that checkpoints contain and no model needs, such as computed tables.
const HARMLESS: [&str; 6] = [
    ".rotary_emb.inv_freq",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    "embeddings.position_ids",
];

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
    let mut reader =
        Reader { precision, shelf, ..Reader::new(dir, &weights, config.family, headers) };
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

/// Type name, shape and digest of a tensor of the model.
pub(super) type Used = BTreeMap<String, (&'static str, Vec<usize>, [u8; 32])>;

/// Passes weights and operators from the weight files to the transformer.
pub(super) struct Reader<'a> {
    dir: &'a Path,
    weights: &'a Weights,
    family: &'static Family,
    headers: Headers,
    precision: Precision,
    /// The file for weights that cannot stay in theirs, of a model larger than memory.
    shelf: Option<&'a Shelf>,
    used: Used,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        dir: &'a Path,
        weights: &'a Weights,
        family: &'static Family,
        headers: Headers,
    ) -> Self {
        let (precision, used) = (Precision::F32, Used::new());
        Self { dir, weights, family, headers, precision, shelf: None, used }
    }

    /// Whether there is a tensor of this name, or an operator in its place.
    pub(super) fn has(&self, name: &str) -> bool {
        let replaced = |site: &str| self.headers.contains_key(&SiteId(site.into()));
        self.weights.has(&self.stored(name)) || name.strip_suffix(".weight").is_some_and(replaced)
    }

    /// Whether two tensors exist and hold the same numbers in the same type.
    pub(super) fn same(&self, a: &str, b: &str) -> bool {
        self.weights.same(&self.stored(a), &self.stored(b))
    }

    fn stored(&self, name: &str) -> String {
        stored_name(self.family, name, |name| self.weights.has(name))
    }

    /// The used tensors, once every header has been matched to a site.
    fn finish(self) -> Result<Used, CheckpointError> {
        match self.headers.into_keys().next() {
            None => Ok(self.used),
            Some(site) => Err(CheckpointError::Native {
                path: self.dir.join(CONFIG),
                place: format!("{}.sites.{site}", native::KEY),
                reason: "names a site that this model does not have".into(),
            }),
        }
    }

    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let stored = self.stored(name);
        let tensor = self.weights.read(&stored, shape)?;
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored, entry);
        Ok(tensor.values)
    }

    /// Some rows of a tensor, which are not recorded as used.
    pub(super) fn some_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        let stored = self.stored(name);
        Ok(self.weights.file_of(&stored, &shape)?.read_rows(&stored, shape, rows)?)
    }

    /// Whether a site holds an operator other than a dense matrix.
    pub(super) fn is_structured(&self, site: &SiteId) -> bool {
        self.headers.get(site).is_some_and(|header| !matches!(header.spec, OpSpec::Dense(_)))
    }

    /// A matrix that stays in its file, or goes to the shelf.
    fn offloaded(
        &mut self,
        stored: &str,
        shape: &[usize],
        shelf: &Shelf,
    ) -> Result<Held, CheckpointError> {
        let Some(tensor) = self.weights.placed(stored, shape)? else {
            let tensor = self.weights.read(stored, shape)?;
            let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
            self.used.insert(stored.into(), entry);
            let mapped = shelf.put(&tensor.values).map_err(unshelved(stored))?;
            return Ok(mapped.map_or(Held::Full(tensor.values), Held::MappedFull));
        };
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored.into(), entry);
        Ok(match tensor.numbers {
            Placed::Full(values) => Held::MappedFull(values),
            Placed::Half(of, bits) => Held::MappedHalf(of, bits),
        })
    }

    /// An operator on the shelf, if there is one.
    fn shelved(&self, site: &SiteId, mut op: Op<f32>) -> Result<Op<f32>, CheckpointError> {
        if let Some(shelf) = self.shelf {
            op.map_mut().shelve(shelf).map_err(unshelved(&site.0))?;
        }
        Ok(op)
    }

    /// Numbers in `f32`, rounded to a 16-bit type if the model is requested in one.
    fn read_rounded(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let Some(half) = self.precision.rounding() else { return self.read(name, shape) };
        let stored = self.stored(name);
        let tensor = self.weights.read_half(&stored, shape, half)?;
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored, entry);
        let mut values = vec![0.0; tensor.bits.len()];
        half.widen(&tensor.bits, &mut values);
        Ok(values)
    }

    fn read_archived(&mut self, name: &str) -> Result<Tensor<f32>, CheckpointError> {
        let file = self.weights.file_of(name, &[])?;
        let info = &file.tensors()[name];
        if info.dtype == StoredType::U32 {
            let (values, digest) = file.read_indices(name)?;
            self.used.insert(name.into(), (info.dtype.name(), info.shape.clone(), digest));
            return Ok(Tensor::Indices(values));
        }
        let shape = info.shape.clone();
        let values = self.read_rounded(name, &shape)?;
        Ok(Tensor::Values(shape, values))
    }
}

impl TensorSource for Reader<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        self.read_rounded(name, shape)
    }

    fn matrix(&mut self, name: &str, shape: &[usize]) -> Result<Held, CheckpointError> {
        let stored = self.stored(name);
        // Vectors are always held in f32.
        if let Some(shelf) = self.shelf.filter(|_| shape.len() >= 2) {
            return self.offloaded(&stored, shape, shelf);
        }
        let dtype = self.weights.info(&stored).and_then(|info| info.dtype.float());
        let Some(of) = self.precision.half(shape, dtype) else {
            return self.read(name, shape).map(Held::Full);
        };
        let tensor = self.weights.read_half(&stored, shape, of)?;
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored, entry);
        Ok(Held::Half(of, tensor.bits))
    }

    fn operator(
        &mut self,
        site: &SiteId,
        shape: Shape,
        orientation: Orientation,
    ) -> Result<Op<f32>, CheckpointError> {
        let Shape { out, inp } = shape;
        let header = match self.headers.remove(site) {
            Some(header) if header.shape != shape || out * inp > SITE_NUMBERS => {
                return Err(CheckpointError::Native {
                    path: self.dir.join(CONFIG),
                    place: format!("{}.sites.{site}", native::KEY),
                    reason: format!(
                        "maps {} to {} features, the configuration requires {inp} to {out}",
                        header.shape.inp, header.shape.out
                    ),
                });
            }
            Some(header) if !matches!(header.spec, OpSpec::Dense(_)) => header,
            _ => {
                let weight = self.matrix(&format!("{site}.weight"), &orientation.stored(shape))?;
                return self.shelved(site, orientation.dense(shape, weight));
            }
        };
        let bias = format!("{site}.bias");
        let mut tensors = Tensors::new();
        for name in self.weights.names_of(&site.0).into_iter().filter(|name| *name != bias) {
            tensors.insert(name[site.0.len() + 1..].to_owned(), self.read_archived(&name)?);
        }
        let op = archive::load(&header, tensors)
            .map_err(|source| CheckpointError::Operator { site: site.clone(), source })?;
        self.shelved(site, op)
    }
}

/// The error for weights that cannot be moved to the shelf.
fn unshelved(name: &str) -> impl FnOnce(std::io::Error) -> CheckpointError {
    move |source| CheckpointError::Shelf { name: name.to_owned(), source }
}

/// The stored name of a tensor: files of the bare model omit its prefix, and some write parts of
/// names differently.
pub(super) fn stored_name(family: &Family, name: &str, has: impl Fn(&str) -> bool) -> String {
    let bare = name.strip_prefix(family.names.prefix);
    for name in [Some(name), bare].into_iter().flatten() {
        if has(name) {
            return name.into();
        }
        for (found, meant) in family.names.variants {
            let variant = name.replace(meant, found);
            if has(&variant) {
                return variant;
            }
        }
    }
    name.into()
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
