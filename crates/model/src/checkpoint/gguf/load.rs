//! Loading a model from a GGUF file.

use super::Gguf;
use super::file::ARCHITECTURE;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::loaded::{LoadedModel, content_hash};
use crate::checkpoint::precision::Precision;
use crate::checkpoint::reader::{Used, stored_name};
use crate::checkpoint::sentence::Sentence;
use crate::checkpoint::source::Source;
use crate::checkpoint::verify::RowSource;
use crate::config::TransformerConfig;
use crate::families::Family;
use crate::transformer::{Held, Pooling, TensorSource, Transformer};
use linwright_files::FileError;
use linwright_files::gguf::{MetaValue, Numbers};
use linwright_files::json::Words;
use linwright_ops::SiteId;
use linwright_tensor::HalfType;
use linwright_tensor::dtype::DType;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// Loads a model from a GGUF file. Memory: the weights in their held type, and one tensor in `f32`.
///
/// # Errors
/// [`CheckpointError`] if the file is invalid.
pub(in crate::checkpoint) fn load(
    path: &Path,
    precision: Precision,
) -> Result<LoadedModel, CheckpointError> {
    let gguf = Gguf::open(path)?;
    let source = source(&gguf);
    let config = source.decoder_config()?;
    let tokenizer = source.tokenizer(&config)?;
    let mut reader = Reader::new(&gguf, config.family, precision);
    let config = reader.whole(config);
    let decoder = Transformer::from_source(config, &mut reader)?;
    let used = reader.used;
    let mut notes = notes(&gguf, &used);
    notes.extend(tokenizer.iter().flat_map(|tokenizer| tokenizer.notes()).cloned());
    let text = Value::Object(source.config.clone()).to_string();
    let hash = content_hash(text.as_bytes(), &source, &used);
    let sentence = sentence(&gguf);
    Ok(LoadedModel { decoder, tokenizer, sentence, source, hash, notes })
}

/// The configuration of a model.
pub(in crate::checkpoint) fn configuration(
    path: &Path,
) -> Result<TransformerConfig, CheckpointError> {
    source(&Gguf::open(path)?).decoder_config()
}

/// Pooling of a text into one vector: the one named by the file, or else the mean.
fn sentence(gguf: &Gguf) -> Result<Sentence, String> {
    let metadata = &gguf.contents().header.metadata;
    let architecture = match metadata.get(ARCHITECTURE) {
        Some(MetaValue::Text(name)) => name.as_str(),
        _ => "",
    };
    let key = format!("{architecture}.pooling_type");
    let pooling = match metadata.get(&key) {
        None => Pooling::Mean,
        Some(value) => match value.as_u64() {
            Some(0 | 1) => Pooling::Mean,
            Some(2) => Pooling::First,
            Some(3) => Pooling::Last,
            _ => {
                let (path, found) = (gguf.path().display(), value.describe());
                return Err(format!(
                    "{path}: {key} is {found}, expected 1 (mean), 2 (cls) or 3 (last)"
                ));
            }
        },
    };
    Ok(Sentence::of(pooling))
}

/// The files of an equivalent directory, without weights.
pub(super) fn source(gguf: &Gguf) -> Source {
    let contents = gguf.contents();
    let mut companions = Vec::new();
    if let Ok(files) = &contents.tokenizer {
        for (name, json) in
            [("tokenizer.json", &files.tokenizer), ("tokenizer_config.json", &files.config)]
        {
            companions.push((name.to_owned(), format!("{json:#}\n").into_bytes()));
        }
    }
    let (dir, config) = (gguf.path().into(), contents.config.clone());
    let dtype = main_dtype(gguf);
    Source { dir, config, companions, dtype, folder: None, words: Words::default() }
}

/// The most common type. Block-quantised numbers count as `bf16`: they have no more digits than
/// that, and its range is that of `f32`.
fn main_dtype(gguf: &Gguf) -> DType {
    let mut counts = [(DType::F32, 0), (DType::Bf16, 0), (DType::F16, 0), (DType::F64, 0)];
    for tensor in gguf.contents().tensors.values() {
        let dtype = match tensor.dtype.numbers {
            Some(Numbers::Plain(dtype)) => dtype,
            _ => DType::Bf16,
        };
        let numbers: usize = tensor.shape.iter().product();
        counts.iter_mut().filter(|(other, _)| *other == dtype).for_each(|(_, n)| *n += numbers);
    }
    // Ties go to the first.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(DType::F32, |(dtype, _)| *dtype)
}

fn notes(gguf: &Gguf, used: &Used) -> Vec<String> {
    let contents = gguf.contents();
    let mut notes = Vec::new();
    let blocks: BTreeSet<&str> = contents
        .tensors
        .values()
        .filter(|tensor| matches!(tensor.dtype.numbers, Some(Numbers::Blocks(_))))
        .map(|tensor| tensor.dtype.name)
        .collect();
    if !blocks.is_empty() {
        let names = blocks.into_iter().collect::<Vec<_>>().join(", ");
        notes.push(format!("weights are stored as {names} and computed in f32"));
        if main_dtype(gguf) == DType::Bf16 {
            notes.push(
                "a model made from them is saved in bf16, unless --dtype says otherwise".into(),
            );
        }
    }
    match &contents.tokenizer {
        Ok(files) => notes.extend_from_slice(&files.notes),
        Err(fault) => notes.push(format!("{fault}: text cannot be encoded or decoded")),
    }
    let unused = contents.tensors.keys().filter(|name| !used.contains_key(*name));
    let unused: Vec<&str> = unused.map(String::as_str).collect();
    if !unused.is_empty() {
        notes.push(format!("tensors that this model does not use: {}", unused.join(", ")));
    }
    notes
}

/// Passes weights to the transformer.
pub(super) struct Reader<'a> {
    gguf: &'a Gguf,
    family: &'static Family,
    precision: Precision,
    used: Used,
}

impl<'a> Reader<'a> {
    pub(super) fn new(gguf: &'a Gguf, family: &'static Family, precision: Precision) -> Self {
        Self { gguf, family, precision, used: Used::new() }
    }

    /// The configuration, with the special tokens of the tokenizer.
    pub(super) fn whole(&self, config: TransformerConfig) -> TransformerConfig {
        config.with_ends(|name| self.has(&self.stored(name)))
    }

    fn has(&self, name: &str) -> bool {
        self.gguf.contents().tensors.contains_key(name)
    }

    fn stored(&self, name: &str) -> String {
        stored_name(self.family, name, |name| self.has(name))
    }

    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let name = self.stored(name);
        let (values, digest) = self.gguf.read(&name, shape)?;
        let dtype = self.gguf.contents().tensors[&name].dtype.name;
        self.used.insert(name, (dtype, shape.to_vec(), digest));
        Ok(values)
    }

    /// The numbers in 16 bits, if the type can hold them.
    fn narrowed(
        &self,
        name: &str,
        values: &[f32],
        of: HalfType,
    ) -> Result<Vec<u16>, CheckpointError> {
        let mut bits = vec![0; values.len()];
        of.narrow(values, &mut bits);
        match bits.iter().position(|&bits| of.has_non_finite(&[bits])) {
            None => Ok(bits),
            Some(index) => Err(FileError::TooLarge {
                path: self.gguf.path().into(),
                name: self.stored(name),
                index,
                value: values[index],
                dtype: of.name(),
            }
            .into()),
        }
    }
}

impl TensorSource for Reader<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let mut values = self.read(name, shape)?;
        if let Some(of) = self.precision.rounding() {
            let bits = self.narrowed(name, &values, of)?;
            of.widen(&bits, &mut values);
        }
        Ok(values)
    }

    fn matrix(&mut self, name: &str, shape: &[usize]) -> Result<Held, CheckpointError> {
        let plain = self.gguf.contents().tensors.get(&self.stored(name)).and_then(|tensor| {
            match tensor.dtype.numbers {
                Some(Numbers::Plain(dtype)) => Some(dtype),
                _ => None,
            }
        });
        let values = self.read(name, shape)?;
        match self.precision.half(shape, plain) {
            Some(of) => self.narrowed(name, &values, of).map(|bits| Held::Half(of, bits)),
            None => Ok(Held::Full(values)),
        }
    }
}

impl RowSource for Reader<'_> {
    fn rows(
        &mut self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        self.gguf.read_rows(&self.stored(name), shape, rows)
    }

    fn is_structured(&self, _site: &SiteId) -> bool {
        false
    }
}
