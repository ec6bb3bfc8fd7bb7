//! GGUF metadata keys from the fields of a `config.json`.

use super::refuse;
use super::values::Keys;
use crate::checkpoint::gguf::architectures::{ALL, Architecture, Rotary};
use crate::checkpoint::gguf::config::Heads;
use crate::checkpoint::gguf_fault::NoGguf;
use crate::config::{long_attention, yarn_attention};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// GGUF architecture and metadata of a model.
pub(super) struct GgufSettings {
    /// The architecture.
    pub(super) architecture: &'static Architecture,
    /// Attention heads, which some rules need.
    pub(super) heads: Heads,
    /// The metadata keys.
    pub(super) keys: Keys,
    /// Tensors of rotary frequency factors, by name.
    pub(super) rotary_factors: Vec<(&'static str, Vec<f32>)>,
}

/// A `config.json` and its GGUF architecture.
struct Config<'a> {
    fields: &'a Map<String, Value>,
    architecture: &'static Architecture,
}

/// A family with a sliding window that uses the architecture of a family without.
const WINDOWED: (&str, &str) = ("mistral", "llama");

fn size(fields: &Map<String, Value>, field: &str) -> Result<Option<u32>, NoGguf> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|size| u32::try_from(size).ok()) {
            Some(size) => Ok(Some(size)),
            None => Err(refuse(field, format!("is {value}, expected an integer"))),
        },
    }
}

fn number(fields: &Map<String, Value>, field: &str) -> Result<Option<f64>, NoGguf> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(refuse(field, format!("is {value}, expected a number"))),
        },
    }
}

/// `vocab_size`.
pub(super) fn vocab(fields: &Map<String, Value>) -> Result<usize, NoGguf> {
    let vocab = size(fields, "vocab_size")?;
    vocab.map(|vocab| vocab as usize).ok_or_else(|| refuse("vocab_size", "is missing"))
}

pub(super) fn of(
    fields: &Map<String, Value>,
    name: &str,
    dtype: DType,
) -> Result<GgufSettings, NoGguf> {
    let model_type = fields.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let wanted = if model_type == WINDOWED.0 { WINDOWED.1 } else { model_type };
    let architecture = ALL.into_iter().find(|architecture| architecture.model_type == wanted);
    let architecture = architecture.ok_or_else(|| {
        refuse("model_type", format!("is {model_type:?}, which GGUF does not support"))
    })?;
    let config = Config { fields, architecture };
    let mut keys = Keys::default();
    keys.text("general.architecture", architecture.name);
    keys.text("general.type", "model");
    keys.text("general.name", name);
    keys.size("general.file_type", file_type(dtype)?);
    for (key, field) in architecture.sizes {
        let size = match (size(fields, field)?, key) {
            (Some(size), _) => size,
            // The default width is four times that of the model.
            (None, "feed_forward_length") => 4 * config.sized("embedding_length")?,
            (None, _) => return Err(refuse(field, "is missing")),
        };
        keys.size(&config.key(key), size);
    }
    let heads = config.heads(&mut keys)?;
    let (key, field) = architecture.epsilon;
    let epsilon = match field {
        Some(field) => number(fields, field)?.ok_or_else(|| refuse(field, "is missing"))?,
        // Norms without parameters have one epsilon.
        None => 1e-5,
    };
    keys.number(&config.key(key), epsilon);
    config.check_fixed()?;
    let rotary_factors = config.rotary(&mut keys, heads)?;
    config.others(&mut keys, heads)?;
    Ok(GgufSettings { architecture, heads, keys, rotary_factors })
}

/// Type of most tensors, in the numbering of llama.cpp.
fn file_type(dtype: DType) -> Result<u32, NoGguf> {
    match dtype {
        DType::F32 => Ok(0),
        DType::F16 => Ok(1),
        DType::Bf16 => Ok(32),
        DType::F64 => Err(refuse("the storage type", "is F64, expected F32, F16 or BF16")),
    }
}

/// Rejects a model without an embedding: GGUF readers take the vocabulary from it.
pub(super) fn check_embedding(
    architecture: &Architecture,
    tensors: &BTreeMap<&str, &[usize]>,
) -> Result<(), NoGguf> {
    let embedding = architecture.whole.iter().find(|rule| rule.stored == "token_embd");
    let name = embedding.map_or(String::new(), |rule| format!("{}.weight", rule.name));
    match tensors.contains_key(name.as_str()) {
        true => Ok(()),
        false => Err(refuse(format!("tensor {name}"), "is missing")),
    }
}

impl Config<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    /// Value of the field that belongs to a size key.
    fn sized(&self, key: &str) -> Result<u32, NoGguf> {
        let field = self.architecture.sizes.iter().find(|(other, _)| *other == key);
        let field = field.map_or("", |(_, field)| field);
        match size(self.fields, field)? {
            Some(size) if size > 0 => Ok(size),
            _ => Err(refuse(field, "is missing or zero")),
        }
    }

    fn heads(&self, keys: &mut Keys) -> Result<Heads, NoGguf> {
        let (width, queries) =
            (self.sized("embedding_length")?, self.sized("attention.head_count")?);
        let kv = size(self.fields, "num_key_value_heads")?.filter(|kv| *kv > 0).unwrap_or(queries);
        let own = size(self.fields, "head_dim")?.filter(|_| self.architecture.head_dim);
        let length = own.unwrap_or(width / queries);
        keys.size(&self.key("attention.head_count_kv"), kv);
        if self.architecture.head_dim {
            keys.size(&self.key("attention.key_length"), length);
            keys.size(&self.key("attention.value_length"), length);
        }
        let [queries, kv, length] = [queries, kv, length].map(|count| count as usize);
        Ok(Heads { queries, keys: kv, size: length })
    }

    /// Rejects fields whose value the architecture fixes otherwise.
    fn check_fixed(&self) -> Result<(), NoGguf> {
        let found = |field: &str| self.fields.get(field).and_then(Value::as_str);
        let said: Vec<_> = self
            .architecture
            .fixed
            .iter()
            .filter_map(|(field, value)| Some((field, value, found(field)?)))
            .collect();
        let fits = |value: &str, found: &str| found == value || (value, found) == ("silu", "swish");
        if said.is_empty() || said.iter().any(|(_, value, found)| fits(value, found)) {
            return Ok(());
        }
        let (field, value, found) = said[0];
        Err(refuse(*field, format!("is {found:?}, GGUF supports only {value:?}")))
    }

    /// The object with the rotary fields: `rope_parameters`, or the configuration itself.
    fn rotary_fields(&self) -> &Map<String, Value> {
        let object = self.fields.get("rope_parameters").and_then(Value::as_object);
        let full = object.and_then(|o| o.get("full_attention")).and_then(Value::as_object);
        full.or(object).unwrap_or(self.fields)
    }

    fn rotary(
        &self,
        keys: &mut Keys,
        heads: Heads,
    ) -> Result<Vec<(&'static str, Vec<f32>)>, NoGguf> {
        let share = match self.architecture.rotary {
            Rotary::Never => return Ok(Vec::new()),
            Rotary::Whole => 1.0,
            Rotary::Share(field) => {
                let own = number(self.fields, field)?;
                let newer = number(self.rotary_fields(), "partial_rotary_factor")?;
                own.or(newer).unwrap_or(1.0)
            }
        };
        let rotating = (heads.size as f64 * share) as usize;
        keys.size(&self.key("rope.dimension_count"), rotating as u32);
        let theta = number(self.rotary_fields(), "rope_theta")?;
        let theta = theta.or(number(self.fields, self.architecture.theta)?).unwrap_or(10_000.0);
        keys.number(&self.key("rope.freq_base"), theta);
        let older = self.fields.get("rope_scaling").and_then(Value::as_object);
        let scaling = match self.fields.get("rope_parameters") {
            Some(Value::Object(_)) => self.rotary_fields(),
            _ => match older {
                Some(scaling) => scaling,
                None => return Ok(Vec::new()),
            },
        };
        self.scaling(keys, scaling, theta, rotating)
    }

    fn scaling(
        &self,
        keys: &mut Keys,
        scaling: &Map<String, Value>,
        theta: f64,
        rotating: usize,
    ) -> Result<Vec<(&'static str, Vec<f32>)>, NoGguf> {
        let kind = scaling.get("rope_type").or(scaling.get("type")).and_then(Value::as_str);
        let needed = |field: &str| {
            number(scaling, field)?.ok_or_else(|| refuse(field, "is missing in rope_scaling"))
        };
        let original = || needed("original_max_position_embeddings");
        match kind {
            None | Some("default") => Ok(Vec::new()),
            // Early files with long factors name other methods.
            Some("longrope" | "su" | "yarn") if scaling.contains_key("long_factor") => {
                self.long_scaling(keys, scaling, rotating)
            }
            Some(kind @ ("linear" | "yarn")) => {
                let factor = needed("factor")?;
                keys.text(&self.key("rope.scaling.type"), kind);
                keys.number(&self.key("rope.scaling.factor"), factor);
                if kind == "yarn" {
                    let key = self.key("rope.scaling.original_context_length");
                    keys.size(&key, original()? as u32);
                    if let Some(own) = number(scaling, "attention_factor")? {
                        let key = self.key("rope.scaling.attn_factor");
                        keys.number(&key, own / yarn_attention(factor));
                    }
                }
                Ok(Vec::new())
            }
            Some("llama3") => {
                let original = original()?;
                keys.size(&self.key("rope.scaling.original_context_length"), original as u32);
                let (low, high) = (needed("low_freq_factor")?, needed("high_freq_factor")?);
                let factor = needed("factor")?;
                if (low, high) != (1.0, 4.0) {
                    return Err(refuse(
                        "low_freq_factor",
                        "is not 1, or high_freq_factor is not 4",
                    ));
                }
                let of = |pair: usize| {
                    let turns = original * theta.powf(-2.0 * pair as f64 / rotating as f64)
                        / std::f64::consts::TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 / ((1.0 - kept) / factor + kept)) as f32
                };
                Ok(vec![("rope_freqs.weight", (0..rotating / 2).map(of).collect())])
            }
            Some("longrope" | "su") => self.long_scaling(keys, scaling, rotating),
            Some(other) => {
                Err(refuse("rope_scaling", format!("is {other:?}, which GGUF does not support")))
            }
        }
    }

    /// LongRoPE. Readers take the scale of cosines and sines from its key, and 1 without.
    fn long_scaling(
        &self,
        keys: &mut Keys,
        scaling: &Map<String, Value>,
        rotating: usize,
    ) -> Result<Vec<(&'static str, Vec<f32>)>, NoGguf> {
        const ORIGINAL: &str = "original_max_position_embeddings";
        let factors = |field: &'static str| {
            let list = scaling.get(field).and_then(Value::as_array);
            let numbers: Option<Vec<f32>> =
                list.and_then(|l| l.iter().map(|v| v.as_f64().map(|n| n as f32)).collect());
            let numbers = numbers.filter(|numbers| numbers.len() == rotating / 2);
            numbers.ok_or_else(|| refuse(field, "is not a list with one number per rotary pair"))
        };
        let (long, short) = (factors("long_factor")?, factors("short_factor")?);
        let positions = f64::from(self.sized("context_length")?);
        let whole = number(self.fields, ORIGINAL)?;
        let inner = number(scaling, ORIGINAL)?;
        let original = whole.or(inner).unwrap_or(positions);
        if whole.is_none() {
            keys.size(&self.key("rope.scaling.original_context_length"), original as u32);
        }
        let factor = number(scaling, "factor")?.unwrap_or(positions / original);
        let own = number(scaling, "attention_factor")?;
        let attention = own.unwrap_or_else(|| long_attention(factor, original));
        keys.number(&self.key("rope.scaling.attn_factor"), attention);
        Ok(vec![("rope_factors_long.weight", long), ("rope_factors_short.weight", short)])
    }

    /// Keys of single architectures.
    fn others(&self, keys: &mut Keys, heads: Heads) -> Result<(), NoGguf> {
        let fields = self.fields;
        let windows = fields.get("use_sliding_window") != Some(&Value::Bool(false));
        if let Some(window) = size(fields, "sliding_window")?.filter(|_| windows) {
            keys.size(&self.key("attention.sliding_window"), window);
        }
        for (field, key) in [
            ("attn_logit_softcapping", "attn_logit_softcapping"),
            ("final_logit_softcapping", "final_logit_softcapping"),
            ("clip_qkv", "attention.clamp_kqv"),
        ] {
            if let Some(value) = number(fields, field)? {
                keys.number(&self.key(key), value);
            }
        }
        if let Some(Value::Bool(parallel)) = fields.get("use_parallel_residual") {
            keys.flag(&self.key("use_parallel_residual"), *parallel);
        }
        if let Some(original) = size(fields, "original_max_position_embeddings")? {
            keys.size(&self.key("rope.scaling.original_context_length"), original);
        }
        self.local_layers(keys)?;
        if let Some(scalar) = number(fields, "query_pre_attn_scalar")? {
            let expected = heads.size as f64;
            let width = f64::from(self.sized("embedding_length")?) / heads.queries as f64;
            let largest = matches!(self.sized("block_count")?, 46 | 62);
            if scalar != if largest { width } else { expected } {
                let reason = format!("is {scalar}, GGUF readers use {expected}");
                return Err(refuse("query_pre_attn_scalar", reason));
            }
        }
        if fields.contains_key("type_vocab_size") {
            keys.flag(&self.key("attention.causal"), false);
        }
        Ok(())
    }

    /// Checks the pattern of sliding-window layers where it is not every other one, and adds its
    /// rotary base.
    fn local_layers(&self, keys: &mut Keys) -> Result<(), NoGguf> {
        const PATTERN: u32 = 6;
        let object = self.fields.get("rope_parameters").and_then(|o| o.get("sliding_attention"));
        let newer = match object.and_then(Value::as_object) {
            Some(local) => number(local, "rope_theta")?,
            None => None,
        };
        let Some(theta) = newer.or(number(self.fields, "rope_local_base_freq")?) else {
            return Ok(());
        };
        let layers = self.sized("block_count")?;
        let kinds = self.fields.get("layer_types").and_then(Value::as_array);
        let full = |layer: u32| (layer + 1).is_multiple_of(PATTERN);
        let fits = |kinds: &Vec<Value>| {
            (0..layers).zip(kinds).all(|(layer, kind)| (kind == "full_attention") == full(layer))
        };
        let said = size(self.fields, "sliding_window_pattern")?.unwrap_or(PATTERN);
        if said != PATTERN || !kinds.is_none_or(fits) {
            return Err(refuse("layer_types", "is not five windowed layers, then a global one"));
        }
        keys.number(&self.key("rope.freq_base_swa"), theta);
        Ok(())
    }
}
