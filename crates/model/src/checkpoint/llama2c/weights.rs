//! The `.bin` file of llama2.c.

use crate::checkpoint::error::CheckpointError;
use crate::config::TransformerConfig;
use crate::transformer::TensorSource;
use linwright_files::FileError;
use linwright_run::input;
use linwright_tensor::MappedFile;
use linwright_tensor::dtype::DType;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Bytes of the header: seven i32.
const HEADER_BYTES: usize = 28;
/// First word of the newer, versioned export.
const MAGIC: u32 = 0x616b_3432;

/// Range of numbers (not bytes) after the header by kind of tensor, over all layers.
type Parts = BTreeMap<&'static str, Range<usize>>;

/// A mapped file whose size matches its header.
pub(super) struct Checkpoint {
    path: PathBuf,
    map: MappedFile,
    sizes: Sizes,
    parts: Parts,
}

/// The checked header.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    dim: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocab: usize,
    positions: usize,
    tied: bool,
}

impl Checkpoint {
    /// Opens a file and checks its header and its exact size.
    pub(super) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let map =
            input::open(path).and_then(MappedFile::of).map_err(CheckpointError::read(path))?;
        let wrong = |reason: String| CheckpointError::Llama2c { path: path.into(), reason };
        let (sizes, parts) = Sizes::of_file(map.bytes()).map_err(wrong)?;
        Ok(Self { path: path.into(), map, sizes, parts })
    }

    /// The equivalent transformers configuration.
    pub(super) fn config(&self) -> Result<TransformerConfig, CheckpointError> {
        self.sizes.config(&self.path)
    }

    /// The numbers of one kind, for kinds with layers those of one layer.
    fn read(
        &self,
        kind: &'static str,
        layer: Option<usize>,
        name: &str,
    ) -> Result<Vec<f32>, CheckpointError> {
        let range = self.parts[kind].clone();
        let part = match layer {
            None => range,
            Some(layer) => {
                let len = range.len() / self.sizes.layers;
                range.start + layer * len..range.start + (layer + 1) * len
            }
        };
        let bytes = HEADER_BYTES + 4 * part.start..HEADER_BYTES + 4 * part.end;
        let values = DType::F32.decode(&self.map.bytes()[bytes.clone()]);
        self.map.release(bytes);
        match values.iter().position(|v| !v.is_finite()) {
            None => Ok(values),
            Some(index) => Err(FileError::NonFinite {
                path: self.path.clone(),
                name: format!("{kind} ({name})"),
                index,
                value: values[index],
            }
            .into()),
        }
    }
}

impl TensorSource for &Checkpoint {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let (layer, kind) = match name.strip_prefix("model.layers.").and_then(|n| n.split_once('.'))
        {
            Some((layer, rest)) => (layer.parse().ok(), rest),
            None => (None, name),
        };
        let kind = match kind {
            "model.embed_tokens.weight" => "token_embedding",
            "input_layernorm.weight" => "rms_att",
            "self_attn.q_proj.weight" => "wq",
            "self_attn.k_proj.weight" => "wk",
            "self_attn.v_proj.weight" => "wv",
            "self_attn.o_proj.weight" => "wo",
            "post_attention_layernorm.weight" => "rms_ffn",
            "mlp.gate_proj.weight" => "w1",
            "mlp.down_proj.weight" => "w2",
            "mlp.up_proj.weight" => "w3",
            "model.norm.weight" => "rms_final",
            "lm_head.weight" => "wcls",
            _ => {
                return Err(FileError::MissingTensor {
                    path: self.path.clone(),
                    name: name.into(),
                    expected: shape.to_vec(),
                }
                .into());
            }
        };
        let values = self.read(kind, layer, name)?;
        let head = self.sizes.dim / self.sizes.heads;
        Ok(match kind {
            "wq" | "wk" => halves_from_neighbours(&values, head, self.sizes.dim),
            _ => values,
        })
    }
}

/// Reorders the rows (of `cols` numbers) of each head from interleaved rotary pairs 0, 1, 2, 3 ...
/// to rotary halves 0, 2, ..., 1, 3, ...
fn halves_from_neighbours(weight: &[f32], head: usize, cols: usize) -> Vec<f32> {
    let mut halves = Vec::with_capacity(weight.len());
    for rows in weight.chunks(head * cols) {
        for parity in 0..2 {
            for pair in rows.chunks(2 * cols) {
                halves.extend_from_slice(&pair[parity * cols..(parity + 1) * cols]);
            }
        }
    }
    halves
}

impl Sizes {
    /// Parses the header. The error is a description in words.
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(format!(
                "{} bytes, the header alone has {HEADER_BYTES}; the file is truncated",
                bytes.len()
            ));
        };
        let mut words = [0i32; 7];
        for (word, b) in words.iter_mut().zip(header.as_chunks().0) {
            *word = i32::from_le_bytes(*b);
        }
        if words[0].cast_unsigned() == MAGIC {
            let version = words[1];
            return Err(format!(
                "versioned export (version {version}); only the legacy export is read, make it \
                 with --version 0"
            ));
        }
        let names =
            ["dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"];
        let tied = words[5] > 0;
        let mut sizes = [0usize; 7];
        for (index, (size, word)) in sizes.iter_mut().zip(words).enumerate() {
            // The sign of the vocabulary size says whether the output matrix is tied to the
            // embedding.
            let positive = if index == 5 { word.checked_abs() } else { Some(word) };
            match positive {
                Some(value) if value > 0 => *size = value.cast_unsigned() as usize,
                _ => {
                    return Err(format!(
                        "header field {} is {word}, expected a positive number",
                        names[index]
                    ));
                }
            }
        }
        let [dim, hidden, layers, heads, kv_heads, vocab, positions] = sizes;
        if !dim.is_multiple_of(heads) || !(dim / heads).is_multiple_of(2) {
            return Err(format!(
                "dim {dim} of {heads} heads gives no even number of features a head"
            ));
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(format!("n_heads {heads} is not a multiple of n_kv_heads {kv_heads}"));
        }
        Ok(Self { dim, hidden, layers, heads, kv_heads, vocab, positions, tied })
    }

    /// Parses the header and checks the exact size of the file. Returns also the location of each
    /// kind of tensor, as in [`Self::layout`].
    pub(super) fn of_file(bytes: &[u8]) -> Result<(Self, Parts), String> {
        let sizes = Self::read(bytes)?;
        let (parts, numbers) = sizes.layout();
        let (expected, found) = (HEADER_BYTES as u128 + 4 * numbers, bytes.len());
        if expected != found as u128 {
            let word = if (found as u128) < expected { "truncated" } else { "too long" };
            return Err(format!(
                "the header asks for {expected} bytes, the file has {found}; it is {word}, or no \
                 llama2.c file"
            ));
        }
        // All ends lie within the file, whose size is a usize.
        let parts = parts.into_iter().map(|(k, r)| (k, r.start as usize..r.end as usize)).collect();
        Ok((sizes, parts))
    }

    /// The equivalent transformers configuration. `path` appears in messages.
    pub(super) fn config(self, path: &Path) -> Result<TransformerConfig, CheckpointError> {
        let Self { dim, hidden, layers, heads, kv_heads, vocab, positions, tied } = self;
        TransformerConfig::from_json(&json!({
            "model_type": "llama",
            "hidden_size": dim,
            "intermediate_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "vocab_size": vocab,
            "max_position_embeddings": positions,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "tie_word_embeddings": tied,
            "bos_token_id": super::vocabulary::BOS,
            "eos_token_id": super::vocabulary::EOS,
        }))
        .map_err(|source| CheckpointError::Config { path: path.into(), source })
    }

    /// Location of each kind of tensor, in numbers after the header, and the total. Sizes are below
    /// 2^31, so sums of products of three of them fit in 128 bits.
    fn layout(&self) -> (Vec<(&'static str, Range<u128>)>, u128) {
        let [dim, hidden, layers, vocab, positions] =
            [self.dim, self.hidden, self.layers, self.vocab, self.positions].map(|n| n as u128);
        let head = (self.dim / self.heads) as u128;
        let kv = self.kv_heads as u128 * head;
        let kinds = [
            ("token_embedding", vocab * dim),
            ("rms_att", layers * dim),
            ("wq", layers * dim * dim),
            ("wk", layers * kv * dim),
            ("wv", layers * kv * dim),
            ("wo", layers * dim * dim),
            ("rms_ffn", layers * dim),
            ("w1", layers * hidden * dim),
            ("w2", layers * dim * hidden),
            ("w3", layers * hidden * dim),
            ("rms_final", dim),
            ("rotary", positions * head),
            ("wcls", if self.tied { 0 } else { vocab * dim }),
        ];
        let mut end = 0;
        let place = |(kind, count)| {
            let start = end;
            end += count;
            (kind, start..end)
        };
        let parts = kinds.into_iter().map(place).collect();
        (parts, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(words: [i32; 7]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn hostile_headers_are_refused_with_the_field() {
        let good = [8, 12, 2, 4, 2, 300, 16];
        assert!(Sizes::read(&header(good)).is_ok());
        for (index, value, said) in [
            (0, 0, "dim is 0"),
            (1, -1, "hidden_dim is -1"),
            (2, 0, "n_layers is 0"),
            (3, 0, "n_heads is 0"),
            (3, 3, "8 of 3 heads"),
            (3, 8, "8 of 8 heads"),
            (4, 3, "not a multiple of n_kv_heads 3"),
            (5, 0, "vocab_size is 0"),
            (5, i32::MIN, "vocab_size is -2147483648"),
            (6, -5, "seq_len is -5"),
            (0, 0x616b_3432, "legacy export"),
        ] {
            let mut words = good;
            words[index] = value;
            let error = Sizes::read(&header(words)).err().unwrap();
            assert!(error.contains(said), "{error}");
        }
        assert!(Sizes::read(&[0; 27]).err().unwrap().contains("truncated"));
        let huge =
            Sizes::read(&header([i32::MAX - 1, i32::MAX, i32::MAX, 1, 1, i32::MIN + 1, i32::MAX]));
        assert!(huge.unwrap().layout().1 > 1 << 90);
    }

    #[test]
    fn rows_of_a_head_go_from_neighbours_to_halves() {
        let rows: Vec<f32> = (0..8).flat_map(|row| [row as f32, 0.5]).collect();
        let halves = halves_from_neighbours(&rows, 4, 2);
        let order: Vec<f32> = halves.iter().step_by(2).copied().collect();
        assert_eq!(order, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    }
}
