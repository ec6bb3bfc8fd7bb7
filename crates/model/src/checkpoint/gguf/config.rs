//! The `config.json` of a GGUF model.

use super::file::{File, Heads};
use super::{rope, special};
use crate::checkpoint::gguf_fault::GgufFault;
use crate::families::gguf::Rotary;
use linwright_files::gguf::{ContainerFault, MetaValue};
use serde_json::{Map, Value, json};

/// Default rotary base.
const THETA: f64 = 10_000.0;

impl File<'_> {
    /// Rejects more layers than there are tensors, so that work per layer is bounded by the file.
    fn check_layers(&self) -> Result<(), GgufFault> {
        if self.size("block_count")? > self.header.tensors.len() as u64 {
            let found = "the file names more layers than tensors".into();
            return Err(GgufFault::NotAModel { found, advice: "it does not hold a whole model" });
        }
        Ok(())
    }

    /// The configuration as JSON.
    pub(super) fn config(&self) -> Result<Map<String, Value>, GgufFault> {
        let architecture = self.architecture;
        self.check_layers()?;
        let mut config = Map::new();
        let mut set = |field: &str, value: Value| drop(config.insert(field.to_owned(), value));
        set("architectures", json!([architecture.class]));
        set("model_type", json!(self.family.model_type));
        for (key, field) in architecture.sizes {
            set(field, json!(self.size(key)?));
        }
        let heads = self.heads()?;
        if !matches!(architecture.rotary, Rotary::Never) {
            set("num_key_value_heads", json!(heads.keys));
        }
        if architecture.head_dim {
            set("head_dim", json!(heads.size));
        }
        set("vocab_size", json!(self.vocab()?));
        let (key, field) = architecture.epsilon;
        let missing = || GgufFault::MissingKey { key: self.key(key), expected: "a number" };
        if let Some(field) = field {
            set(field, json!(self.optional_number(key)?.ok_or_else(missing)?));
        }
        for (field, value) in architecture.fixed {
            set(field, json!(value));
        }
        if architecture.ties {
            set("tie_word_embeddings", json!(self.tied()));
        }
        let vocab = self.vocab()? as u64;
        for (key, field) in
            [("bos", "bos_token_id"), ("eos", "eos_token_id"), ("padding", "pad_token_id")]
        {
            let id = self.get(&format!("tokenizer.ggml.{key}_token_id"));
            set(field, json!(id.and_then(MetaValue::as_u64).filter(|id| *id < vocab)));
        }
        self.set_rotary(&mut config, heads)?;
        special::add(architecture.special, self, heads, &mut config)?;
        Ok(config)
    }

    fn set_rotary(&self, config: &mut Map<String, Value>, heads: Heads) -> Result<(), GgufFault> {
        let share = match self.architecture.rotary {
            Rotary::Never => return Ok(()),
            Rotary::Whole => None,
            Rotary::Share(field) => Some(field),
        };
        let rotating = self.optional_size("rope.dimension_count")?.unwrap_or(heads.size as u64);
        match share {
            Some(field) if rotating <= heads.size as u64 => {
                config.insert(field.into(), json!(quotient(rotating as f64, heads.size as f64)));
            }
            None if rotating == heads.size as u64 => {}
            _ => {
                return Err(ContainerFault::Key {
                    key: self.key("rope.dimension_count"),
                    found: rotating.to_string(),
                    expected: "the length of keys",
                }
                .into());
            }
        }
        let theta = self.optional_number("rope.freq_base")?.unwrap_or(THETA);
        config.insert(self.architecture.theta.into(), json!(theta));
        let scaling = rope::scaling(self, theta, rotating as usize)?;
        config.insert("rope_scaling".into(), scaling);
        Ok(())
    }
}

/// The share `part / whole`, rounded such that its product with `whole` is at least `part`.
fn quotient(part: f64, whole: f64) -> f64 {
    let share = part / whole;
    if share * whole < part { share.next_up() } else { share }
}
