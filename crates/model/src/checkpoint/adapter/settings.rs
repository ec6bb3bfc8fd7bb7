//! The configuration of a LoRA adapter of PEFT.

use super::super::error::CheckpointError;
use linwright_files::json::{JSON_BYTES, parse_object, read_bounded};
use linwright_run::shown;
use regex::Regex;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// File name of the configuration.
pub(in crate::checkpoint) const SETTINGS: &str = "adapter_config.json";
/// Fields that describe how an adapter was trained, or that follow from its tensors.
const HARMLESS: [&str; 21] = [
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_bias",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "bias",
];
/// Initialisations that do not change the base.
const INITS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// Ranks and scales of an adapter.
pub(super) struct Settings {
    path: PathBuf,
    rank: u64,
    alpha: f64,
    ranks: Vec<(Regex, u64)>,
    alphas: Vec<(Regex, f64)>,
    by_root: bool,
    /// Whether the rows of each weight have separate lengths (DoRA).
    pub(super) has_magnitudes: bool,
}

/// Reads the configuration of an adapter of any kind.
pub(in crate::checkpoint) fn read_fields(
    dir: &Path,
) -> Result<(PathBuf, Map<String, Value>), CheckpointError> {
    let path = dir.join(SETTINGS);
    let fields = parse_object(&path, &read_bounded(&path, JSON_BYTES)?)?;
    Ok((path, fields))
}

impl Settings {
    pub(super) fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let (path, fields) = read_fields(dir)?;
        let wrong = |field: &str, expected: &str| {
            let found = match fields.get(field) {
                Some(value) => format!("is {}", shown(&value.to_string())),
                None => "is missing".to_owned(),
            };
            let reason = format!("{found}, expected {expected}");
            CheckpointError::Adapted { path: path.clone(), place: field.to_owned(), reason }
        };
        let flag = |field: &str| match fields.get(field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(field, "true or false")),
        };
        if fields.get("peft_type").and_then(Value::as_str) != Some("LORA") {
            return Err(wrong("peft_type", "LORA: merge other kinds with PEFT"));
        }
        let read = [
            "r",
            "lora_alpha",
            "rank_pattern",
            "alpha_pattern",
            "use_rslora",
            "use_dora",
            "init_lora_weights",
        ];
        let unread = fields.iter().find(|(name, value)| {
            let name = name.as_str();
            !read.contains(&name) && !HARMLESS.contains(&name) && !is_nothing(value)
        });
        if let Some((name, _)) = unread {
            return Err(wrong(name, "null: merge this adapter with PEFT"));
        }
        match fields.get("init_lora_weights") {
            None | Some(Value::Null | Value::Bool(_)) => {}
            Some(Value::String(way)) if INITS.contains(&way.as_str()) => {}
            Some(_) => {
                let expected = "true or false: it changes the base; merge this adapter with PEFT";
                return Err(wrong("init_lora_weights", expected));
            }
        }
        let rank = |field: &str, value: Option<&Value>| {
            let rank = value.and_then(Value::as_u64).filter(|rank| *rank > 0);
            rank.ok_or_else(|| wrong(field, "a whole number from 1"))
        };
        let alpha = |field: &str, value: Option<&Value>| {
            value.and_then(Value::as_f64).ok_or_else(|| wrong(field, "a number"))
        };
        let patterns = |field: &str| match fields.get(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(patterns)) => patterns
                .iter()
                .map(|(name, value)| {
                    let regex = Regex::new(&format!(r"^(?:.*\.)?(?:{name})$"));
                    let expected = "patterns without look-around: merge this adapter with PEFT";
                    Ok((regex.map_err(|_| wrong(field, expected))?, value))
                })
                .collect(),
            Some(_) => Err(wrong(field, "an object with names of modules")),
        };
        let each = |field: &str| patterns(field).map(|all| all.into_iter());
        Ok(Self {
            rank: rank("r", fields.get("r"))?,
            alpha: alpha("lora_alpha", fields.get("lora_alpha"))?,
            ranks: each("rank_pattern")?
                .map(|(name, value)| Ok((name, rank("rank_pattern", Some(value))?)))
                .collect::<Result<_, CheckpointError>>()?,
            alphas: each("alpha_pattern")?
                .map(|(name, value)| Ok((name, alpha("alpha_pattern", Some(value))?)))
                .collect::<Result<_, CheckpointError>>()?,
            by_root: flag("use_rslora")?,
            has_magnitudes: flag("use_dora")?,
            path,
        })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Rank of a module, and the scale of its product.
    pub(super) fn of(&self, module: &str) -> (usize, f32) {
        let rank = of(&self.ranks, module).unwrap_or(self.rank);
        let alpha = of(&self.alphas, module).unwrap_or(self.alpha);
        let by = if self.by_root { (rank as f64).sqrt() } else { rank as f64 };
        (usize::try_from(rank).unwrap_or(usize::MAX), (alpha / by) as f32)
    }
}

/// The value of the first pattern that matches the end of a name.
fn of<T: Copy>(patterns: &[(Regex, T)], module: &str) -> Option<T> {
    patterns.iter().find(|(pattern, _)| pattern.is_match(module)).map(|(_, value)| *value)
}

/// Whether a value has no effect.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}
