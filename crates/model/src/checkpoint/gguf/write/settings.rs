//! GGUF metadata keys from the fields of a `config.json`.

use super::fields::{Config, number, size};
use super::refuse;
use super::rotary::Factors;
use super::values::Keys;
use crate::checkpoint::gguf::file::Heads;
use crate::checkpoint::gguf_fault::NoGguf;
use crate::families::Family;
use crate::families::gguf::{Architecture, Windows};
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
    pub(super) rotary_factors: Factors,
    /// Differences to the computation of llama.cpp.
    pub(super) notes: Vec<String>,
}

/// A family with a sliding window that uses the architecture of a family without.
const WINDOWED: (&str, &str) = ("mistral", "llama");

pub(super) fn of(
    fields: &Map<String, Value>,
    name: &str,
    dtype: DType,
) -> Result<GgufSettings, NoGguf> {
    let architecture = architecture(fields)?;
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
    let notes = config.windows(&mut keys)?.into_iter().collect();
    Ok(GgufSettings { architecture, heads, keys, rotary_factors, notes })
}

/// The output matrix that readers of this model need although it is tied.
pub(super) fn tied_output(fields: &Map<String, Value>) -> Option<String> {
    architecture(fields).ok().filter(|found| found.stores_output)?.output()
}

fn architecture(fields: &Map<String, Value>) -> Result<&'static Architecture, NoGguf> {
    let model_type = fields.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let wanted = if model_type == WINDOWED.0 { WINDOWED.1 } else { model_type };
    let found = Family::with_gguf().find(|(family, _)| family.model_type == wanted);
    found.map(|(_, architecture)| architecture).ok_or_else(|| {
        refuse("model_type", format!("is {model_type:?}, which GGUF does not support"))
    })
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
    fn heads(&self, keys: &mut Keys) -> Result<Heads, NoGguf> {
        let (width, queries) =
            (self.sized("embedding_length")?, self.sized("attention.head_count")?);
        let kv = size(self.fields, "num_key_value_heads")?.filter(|kv| *kv > 0).unwrap_or(queries);
        let length = size(self.fields, "head_dim")?.unwrap_or(width / queries);
        if !self.architecture.head_dim && length != width / queries {
            let reason = format!("is {length}, GGUF readers use {}", width / queries);
            return Err(refuse("head_dim", reason));
        }
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
        for (field, fixed) in self.architecture.flags {
            if self.fields.get(*field) == Some(&Value::Bool(!fixed)) {
                let architecture = self.architecture.name;
                let reason = format!("is {}, GGUF files of {architecture} have {fixed}", !fixed);
                return Err(refuse(*field, reason));
            }
        }
        let setting = |field: &str| self.fields.get(field).and_then(Value::as_str);
        let said: Vec<_> = self
            .architecture
            .fixed
            .iter()
            .filter_map(|(field, value)| Some((field, value, setting(field)?)))
            .collect();
        let fits =
            |value: &str, setting: &str| setting == value || (value, setting) == ("silu", "swish");
        if said.is_empty() || said.iter().any(|(_, value, setting)| fits(value, setting)) {
            return Ok(());
        }
        let (field, value, setting) = said[0];
        Err(refuse(*field, format!("is {setting:?}, GGUF supports only {value:?}")))
    }

    /// Keys of single architectures.
    fn others(&self, keys: &mut Keys, heads: Heads) -> Result<(), NoGguf> {
        let fields = self.fields;
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
        self.check_caps()?;
        let usual = matches!(self.architecture.windows, Windows::AllButNth(_)).then_some(256.0);
        if let Some(scalar) = number(fields, "query_pre_attn_scalar")?.or(usual) {
            let expected = heads.size as f64;
            let width = f64::from(self.sized("embedding_length")?) / heads.queries as f64;
            let largest = matches!(self.sized("block_count")?, 46 | 62);
            if scalar != if largest { width } else { expected } {
                let reason = format!("is {scalar}, GGUF readers use {expected}");
                return Err(refuse("query_pre_attn_scalar", reason));
            }
        }
        if let Some(types) = size(fields, "type_vocab_size")? {
            keys.flag(&self.key("attention.causal"), false);
            keys.size("tokenizer.ggml.token_type_count", types);
        }
        Ok(())
    }

    /// Rejects scores and logits without a cap if readers always cap them.
    fn check_caps(&self) -> Result<(), NoGguf> {
        for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
            if self.architecture.caps && self.fields.get(field) == Some(&Value::Null) {
                return Err(refuse(field, "is null, but GGUF readers always cap them"));
            }
        }
        Ok(())
    }

    /// The width of attention windows, and the layers that have one. The note names fields that
    /// readers ignore.
    fn windows(&self, keys: &mut Keys) -> Result<Option<String>, NoGguf> {
        const WIDTH: &str = "sliding_window";
        let (family, key) = (self.fields.get("model_type"), self.key("attention.sliding_window"));
        let window = size(self.fields, WIDTH)?;
        match (self.architecture.windows, window) {
            (Windows::Never, _) => self.check_no_windows().map(|()| None),
            (Windows::AllButNth(usual), window) => {
                let period = self.period(usual)?;
                if period != usual {
                    keys.size(&self.key("attention.sliding_window_pattern"), period);
                }
                keys.size(&key, window.ok_or_else(|| refuse(WIDTH, "is missing or null"))?);
                Ok(None)
            }
            // The first family of this architecture does not read the field.
            (Windows::Unused, Some(window))
                if family.and_then(Value::as_str) != Some(WINDOWED.1) =>
            {
                keys.size(&key, window);
                let matters = window < self.sized("context_length")?;
                Ok(matters.then(|| {
                    format!(
                        "{WIDTH} is {window}, which llama.cpp leaves out of account in this \
                         architecture: on texts of more tokens it computes something else"
                    )
                }))
            }
            (Windows::Unused, _) => Ok(None),
        }
    }

    /// Rejects windowed layers.
    fn check_no_windows(&self) -> Result<(), NoGguf> {
        const SWITCH: &str = "use_sliding_window";
        let layers = self.sized("block_count")?;
        let windowed = match self.fields.get("layer_types").and_then(Value::as_array) {
            Some(kinds) => kinds.iter().any(|kind| kind == "sliding_attention"),
            None => size(self.fields, "max_window_layers")?.is_none_or(|first| first < layers),
        };
        let window = size(self.fields, "sliding_window")?.is_some();
        if windowed && window && self.fields.get(SWITCH) == Some(&Value::Bool(true)) {
            return Err(refuse(SWITCH, "is true, GGUF readers have no windows in this family"));
        }
        Ok(())
    }

    /// The period of layers without a window; `usual` if it describes them.
    fn period(&self, usual: u32) -> Result<u32, NoGguf> {
        let layers = self.sized("block_count")?;
        let said = size(self.fields, "sliding_window_pattern")?;
        let Some(kinds) = self.fields.get("layer_types").and_then(Value::as_array) else {
            return Ok(said.filter(|period| *period > 0).unwrap_or(usual));
        };
        let fits = |period: &u32| {
            let full = |layer: u32| (layer + 1).is_multiple_of(*period);
            (0..layers).zip(kinds).all(|(layer, kind)| (kind == "full_attention") == full(layer))
        };
        // With one of more than all layers, every layer has a window.
        let found = [usual].into_iter().chain(1..=layers.saturating_add(1)).find(fits);
        found.ok_or_else(|| {
            refuse("layer_types", "is not a global layer after each run of as many windowed ones")
        })
    }
}
