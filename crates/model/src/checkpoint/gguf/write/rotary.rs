//! Keys and tensors of rotary positions.

use super::fields::{Config, number};
use super::refuse;
use super::values::Keys;
use crate::checkpoint::gguf::file::Heads;
use crate::checkpoint::gguf_fault::NoGguf;
use crate::config::{long_attention, yarn_attention, yarn_attention_of};
use crate::families::gguf::{Rotary, Tables};
use serde_json::{Map, Value};

/// Tables of divisors of the rotary frequencies, by name.
pub(super) type Factors = Vec<(&'static str, Vec<f32>)>;

const ORIGINAL: &str = "original_max_position_embeddings";
const ATTENTION: &str = "attention_factor";
const SCALE: &str = "rope.scaling.attn_factor";

/// The rotary object of a configuration.
struct Scaling<'a> {
    config: &'a Config<'a>,
    object: &'a Map<String, Value>,
    theta: f64,
    /// Features of a head that rotate.
    rotating: usize,
}

impl Config<'_> {
    /// The object with the rotary fields: `rope_parameters`, or the configuration itself.
    fn rotary_fields(&self) -> &Map<String, Value> {
        let object = self.fields.get("rope_parameters").and_then(Value::as_object);
        let full = object.and_then(|o| o.get("full_attention")).and_then(Value::as_object);
        full.or(object).unwrap_or(self.fields)
    }

    /// All keys, and the tables.
    pub(super) fn rotary(&self, keys: &mut Keys, heads: Heads) -> Result<Factors, NoGguf> {
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
        if let Some(local) = self.local_theta()? {
            keys.number(&self.key("rope.freq_base_swa"), local);
        }
        let older = self.fields.get("rope_scaling").and_then(Value::as_object);
        let object = match self.fields.get("rope_parameters") {
            Some(Value::Object(_)) => self.rotary_fields(),
            _ => match older {
                Some(scaling) => scaling,
                None => return Ok(Vec::new()),
            },
        };
        Scaling { config: self, object, theta, rotating }.write(keys)
    }

    /// The base of windowed layers, if it is separate.
    fn local_theta(&self) -> Result<Option<f64>, NoGguf> {
        let object = self.fields.get("rope_parameters").and_then(|o| o.get("sliding_attention"));
        let Some(local) = object.and_then(Value::as_object) else {
            return number(self.fields, "rope_local_base_freq");
        };
        match local.get("rope_type").or(local.get("type")).and_then(Value::as_str) {
            None | Some("default") => number(local, "rope_theta"),
            Some(kind) => {
                let reason =
                    format!("is {kind:?} in windowed layers, which GGUF readers never scale");
                Err(refuse("rope_parameters", reason))
            }
        }
    }
}

impl Scaling<'_> {
    fn write(&self, keys: &mut Keys) -> Result<Factors, NoGguf> {
        let field = |name| self.object.get(name).and_then(Value::as_str);
        match field("rope_type").or(field("type")) {
            None | Some("default") => Ok(Vec::new()),
            // Early files with long factors name other methods.
            Some("longrope" | "su" | "yarn") if self.object.contains_key("long_factor") => {
                self.long(keys)
            }
            Some("longrope" | "su") => self.long(keys),
            Some(kind @ "linear") => {
                keys.text(&self.config.key("rope.scaling.type"), kind);
                keys.number(&self.config.key("rope.scaling.factor"), self.needed("factor")?);
                Ok(Vec::new())
            }
            Some("yarn") => self.yarn(keys).map(|()| Vec::new()),
            Some(kind @ "llama3") => self.llama3(keys, kind),
            Some(other) => {
                Err(refuse("rope_scaling", format!("is {other:?}, which GGUF does not support")))
            }
        }
    }

    fn needed(&self, field: &str) -> Result<f64, NoGguf> {
        number(self.object, field)?.ok_or_else(|| refuse(field, "is missing in rope_scaling"))
    }

    /// The original context, and its key: the configuration itself may hold it, which is written
    /// with its other fields.
    fn original(&self, keys: &mut Keys) -> Result<f64, NoGguf> {
        if let Some(whole) = number(self.config.fields, ORIGINAL)? {
            return Ok(whole);
        }
        let positions = f64::from(self.config.sized("context_length")?);
        let original = number(self.object, ORIGINAL)?.unwrap_or(positions);
        keys.size(&self.config.key("rope.scaling.original_context_length"), original as u32);
        Ok(original)
    }

    fn check_tables(&self, kind: &str, read: &[Tables]) -> Result<(), NoGguf> {
        if read.contains(&self.config.architecture.tables) {
            return Ok(());
        }
        let name = self.config.architecture.name;
        Err(refuse(
            "rope_scaling",
            format!("is {kind:?}, which GGUF readers do not support in {name}"),
        ))
    }

    /// Readers compute the scale of cosines and sines from the factor, and multiply it by a key.
    fn yarn(&self, keys: &mut Keys) -> Result<(), NoGguf> {
        let key = |name| self.config.key(name);
        if self.object.get("truncate") == Some(&Value::Bool(false)) {
            let reason = "is false, GGUF readers round the range of frequencies to whole pairs";
            return Err(refuse("truncate", reason));
        }
        let some = |field| Ok(number(self.object, field)?.filter(|number| *number > 0.0));
        // Files may have keys for them, which llama.cpp reads only in other architectures.
        for (field, fixed) in [("beta_fast", 32.0), ("beta_slow", 1.0)] {
            if let Some(turns) = some(field)?.filter(|turns| *turns != fixed) {
                return Err(refuse(field, format!("is {turns}, GGUF readers use {fixed}")));
            }
        }
        let original = self.original(keys)?;
        let positions = f64::from(self.config.sized("context_length")?);
        let factor = number(self.object, "factor")?.unwrap_or(positions / original);
        keys.text(&key("rope.scaling.type"), "yarn");
        keys.number(&key("rope.scaling.factor"), factor);
        let [whole, part] = ["mscale", "mscale_all_dim"].map(some);
        let own = number(self.object, ATTENTION)?;
        let scale = yarn_attention_of(factor, own, [whole?, part?]) / yarn_attention(factor);
        if scale != 1.0 {
            if self.config.local_theta()?.is_some() {
                let reason = "or mscale is set, GGUF readers would scale windowed layers, too";
                return Err(refuse(ATTENTION, reason));
            }
            keys.number(&key(SCALE), scale);
        }
        Ok(())
    }

    /// A table of divisors.
    fn llama3(&self, keys: &mut Keys, kind: &str) -> Result<Factors, NoGguf> {
        self.check_tables(kind, &[Tables::Any])?;
        let original = self.original(keys)?;
        let (low, high) = (self.needed("low_freq_factor")?, self.needed("high_freq_factor")?);
        let factor = self.needed("factor")?;
        let of = |pair: usize| {
            let turns = original * self.theta.powf(-2.0 * pair as f64 / self.rotating as f64)
                / std::f64::consts::TAU;
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / ((1.0 - kept) / factor + kept)) as f32
        };
        Ok(vec![("rope_freqs.weight", (0..self.rotating / 2).map(of).collect())])
    }

    /// LongRoPE. Readers take the scale of cosines and sines from its key, and 1 without.
    fn long(&self, keys: &mut Keys) -> Result<Factors, NoGguf> {
        const KIND: &str = "longrope";
        self.check_tables(KIND, &[Tables::Any, Tables::ShortAndLong])?;
        if self.config.architecture.tables == Tables::Any {
            // Otherwise readers search for the table of the other kind.
            keys.text(&self.config.key("rope.scaling.type"), KIND);
        }
        let factors = |field: &'static str| {
            let list = self.object.get(field).and_then(Value::as_array);
            let numbers: Option<Vec<f32>> =
                list.and_then(|l| l.iter().map(|v| v.as_f64().map(|n| n as f32)).collect());
            let numbers = numbers.filter(|numbers| numbers.len() == self.rotating / 2);
            numbers.ok_or_else(|| refuse(field, "is not a list with one number per rotary pair"))
        };
        let (long, short) = (factors("long_factor")?, factors("short_factor")?);
        let original = self.original(keys)?;
        let positions = f64::from(self.config.sized("context_length")?);
        let factor = number(self.object, "factor")?.unwrap_or(positions / original);
        let own = number(self.object, ATTENTION)?;
        let attention = own.unwrap_or_else(|| long_attention(factor, original));
        keys.number(&self.config.key(SCALE), attention);
        Ok(vec![("rope_factors_long.weight", long), ("rope_factors_short.weight", short)])
    }
}
