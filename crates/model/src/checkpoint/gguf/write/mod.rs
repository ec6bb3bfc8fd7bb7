//! Writing of a dense model as one GGUF file, version 3: the inverse of the reader.
//!
//! Matrices are stored in one floating-point type, vectors and tables that are added to embeddings
//! in `f32`, as llama.cpp requires. Tensors
//! are streamed: memory holds one tensor and a block of encoded rows.

mod fields;
mod rotary;
mod save;
mod settings;
mod values;
mod vocabulary;

pub use save::save_gguf;
pub(in crate::checkpoint) use save::{file_name, write_gguf};
use settings::GgufSettings;

use super::file::Heads;
use crate::checkpoint::error::{CheckpointError, WriteError};
use crate::checkpoint::gguf_fault::NoGguf;
use crate::families::gguf::{Architecture, Change, Rule};
use crate::transformer::Pooling;
use linwright_files::gguf::{ALIGNMENT, GgufType, MAGIC};
use linwright_files::writer::write_values;
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Write;
use values::Keys;

/// Version of the format.
const VERSION: u32 = 3;
/// Numbers per block of rows that are permuted and encoded at a time.
const BLOCK: usize = 1 << 20;

/// The model to write, without its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// `config.json`.
    pub config: &'a Map<String, Value>,
    /// `tokenizer.json`, if there is one.
    pub tokenizer: Option<&'a Value>,
    /// `tokenizer_config.json`, if there is one.
    pub tokenizer_config: Option<&'a Value>,
    /// Name of the model.
    pub name: &'a str,
    /// Pooling of an encoder, if the model defines it.
    pub pooling: Option<Pooling>,
}

fn refuse(place: impl Into<String>, reason: impl Into<String>) -> NoGguf {
    NoGguf { place: place.into(), reason: reason.into() }
}

/// A tensor with its GGUF name.
#[derive(Clone, Debug)]
struct Placed {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    change: Change,
    bytes: u64,
}

/// A GGUF file being written: first [`Self::header`], then every tensor in the announced order.
#[derive(Debug)]
pub struct GgufWriter {
    heads: Heads,
    keys: Keys,
    tensors: Vec<Placed>,
    /// Tensors of rotary factors, which come first.
    factors: rotary::Factors,
    notes: Vec<String>,
    next: usize,
}

impl GgufWriter {
    /// Plans a file of these tensors, given by transformers names and shapes; `dtype` is the type
    /// of matrices.
    ///
    /// # Errors
    /// [`NoGguf`] if the architecture is unknown, or the format cannot express the model.
    pub fn new(
        model: Model<'_>,
        tensors: &[(String, Vec<usize>)],
        dtype: DType,
    ) -> Result<Self, NoGguf> {
        let GgufSettings { architecture, heads, mut keys, rotary_factors, notes } =
            settings::of(model.config, model.name, dtype)?;
        let named: BTreeMap<&str, &[usize]> =
            tensors.iter().map(|(name, shape)| (name.as_str(), &shape[..])).collect();
        settings::check_embedding(architecture, &named)?;
        if let Some(pooling) = model.pooling {
            let kind = pooling_type(pooling)
                .ok_or_else(|| refuse("pooling", format!("is {}", pooling.name())))?;
            keys.size(&format!("{}.pooling_type", architecture.name), kind);
        }
        match model.tokenizer {
            None => {
                keys.text("tokenizer.ggml.model", "no_vocab");
                // Otherwise readers count the tokens of the vocabulary.
                let vocab = fields::vocab(model.config)?;
                keys.size(&format!("{}.vocab_size", architecture.name), vocab as u32);
            }
            Some(tokenizer) => {
                let vocab = fields::vocab(model.config)?;
                vocabulary::write(&mut keys, tokenizer, model.tokenizer_config, vocab)?;
            }
        }
        let place = |(name, shape): &(String, Vec<usize>)| {
            placed(architecture, name, shape, dtype)
                .ok_or_else(|| refuse(format!("tensor {name}"), "has no name in GGUF"))
        };
        let tensors = tensors.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Self { heads, keys, tensors, factors: rotary_factors, notes, next: 0 })
    }

    /// Differences to the computation of llama.cpp, each with the field concerned.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The header, and the tensors of rotary factors.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(((self.tensors.len() + self.factors.len()) as u64).to_le_bytes());
        self.keys.append_to(&mut out);
        let mut offset = 0u64;
        let mut entry = |name: &str, dtype: DType, shape: &[usize], bytes: u64| {
            values::append_text(&mut out, name);
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|extent| out.extend((*extent as u64).to_le_bytes()));
            out.extend(GgufType::plain(dtype).id().to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += bytes.next_multiple_of(ALIGNMENT);
        };
        for (name, factors) in &self.factors {
            entry(name, DType::F32, &[factors.len()], factors.len() as u64 * 4);
        }
        for tensor in &self.tensors {
            entry(&tensor.name, tensor.dtype, &tensor.shape, tensor.bytes);
        }
        pad(&mut out);
        for (_, factors) in &self.factors {
            out.extend(DType::F32.encode(factors));
            pad(&mut out);
        }
        out
    }

    /// Writes the numbers of the next tensor.
    ///
    /// # Panics
    /// If all tensors are written, or the number of values differs from the announced shape.
    pub(in crate::checkpoint) fn tensor(
        &mut self,
        out: &mut dyn Write,
        numbers: &[f32],
    ) -> Result<(), WriteError> {
        let tensor = &self.tensors[self.next];
        let expected: usize = tensor.shape.iter().product();
        assert_eq!(numbers.len(), expected, "numbers of {}", tensor.name);
        let rows = Rows::of(tensor, self.heads);
        let columns = rows.columns;
        let step = (BLOCK / columns).max(1);
        let mut block = Vec::new();
        for start in (0..rows.count).step_by(step) {
            let end = rows.count.min(start + step);
            block.clear();
            (start..end).for_each(|row| rows.append(row, numbers, &mut block));
            write_values(out, &tensor.name, tensor.dtype, &block)?;
        }
        let padding = tensor.bytes.next_multiple_of(ALIGNMENT) - tensor.bytes;
        out.write_all(&vec![0; padding as usize])?;
        self.next += 1;
        Ok(())
    }
}

/// A pooling in the numbering of llama.cpp.
fn pooling_type(pooling: Pooling) -> Option<u32> {
    match pooling {
        Pooling::Mean => Some(1),
        Pooling::First => Some(2),
        Pooling::Last => Some(3),
        _ => None,
    }
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
}

/// Maps a tensor to its GGUF name, if the architecture has it.
fn placed(
    architecture: &'static Architecture,
    name: &str,
    shape: &[usize],
    dtype: DType,
) -> Option<Placed> {
    let (path, suffix) = name.rsplit_once('.').filter(|(_, s)| matches!(*s, "weight" | "bias"))?;
    let fits = |rules: &'static [Rule], path: &str| {
        let plain = |rule: &&Rule| {
            rule.name == path
                && !matches!(rule.change, Change::Queries | Change::Keys | Change::Values)
        };
        rules.iter().find(plain)
    };
    let (rule, prefix) = match fits(architecture.whole, path) {
        Some(rule) => (rule, String::new()),
        None => {
            let inside = path.strip_prefix(architecture.prefix)?.strip_prefix('.')?;
            let (layer, path) = inside.split_once('.')?;
            let layer: u32 = layer.parse().ok()?;
            (fits(architecture.layer, path)?, format!("blk.{layer}."))
        }
    };
    let matrix = shape.len() == 2;
    // llama.cpp adds tables only in f32.
    let added = ["position_embd", "token_types"].contains(&rule.stored);
    let dtype = if matrix && !added { dtype } else { DType::F32 };
    let mut stored = shape.to_vec();
    if rule.change == Change::Transposed && matrix {
        stored.reverse();
    }
    let count: usize = shape.iter().product();
    let bytes = (count * dtype.size()) as u64;
    let name = format!("{prefix}{}.{suffix}", rule.stored);
    Some(Placed { name, dtype, shape: stored, change: rule.change, bytes })
}

/// The rows of a tensor in stored order, from its numbers in row-major order.
struct Rows {
    count: usize,
    columns: usize,
    change: Change,
    heads: Heads,
}

impl Rows {
    fn of(tensor: &Placed, heads: Heads) -> Self {
        let moves =
            matches!(tensor.change, Change::QueryHalves | Change::KeyHalves | Change::ByHead);
        let (count, columns) = match tensor.shape[..] {
            [rows, columns] => (rows, columns),
            [length] if moves => (length, 1),
            _ => (1, tensor.shape.iter().product()),
        };
        Self { count, columns: columns.max(1), change: tensor.change, heads }
    }

    /// Appends a stored row.
    fn append(&self, row: usize, numbers: &[f32], out: &mut Vec<f32>) {
        let source = match self.change {
            Change::QueryHalves => halves(row, self.count / self.heads.queries),
            Change::KeyHalves => halves(row, self.count / self.heads.keys),
            Change::ByHead => {
                let run = self.count / (3 * self.heads.queries);
                let (part, head) = (row / run / self.heads.queries, row / run % self.heads.queries);
                (3 * head + part) * run + row % run
            }
            Change::Transposed if self.count > 1 => {
                out.extend((0..self.columns).map(|column| numbers[column * self.count + row]));
                return;
            }
            _ => row,
        };
        let numbers = &numbers[source * self.columns..(source + 1) * self.columns];
        match self.change {
            Change::MinusOne => out.extend(numbers.iter().map(|number| number + 1.0)),
            _ => out.extend(numbers),
        }
    }
}

/// Source row of a stored row: rotary halves become interleaved pairs, in heads of `run` rows.
fn halves(row: usize, run: usize) -> usize {
    let (start, place) = (row / run * run, row % run);
    start + place / 2 + place % 2 * (run / 2)
}

impl From<NoGguf> for CheckpointError {
    fn from(reason: NoGguf) -> Self {
        Self::NoGguf(reason)
    }
}

#[cfg(test)]
mod tests;
