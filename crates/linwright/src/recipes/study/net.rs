//! Small networks from files.

use crate::jobs::{Failure, FailureKind};
use linwright_nets::{Net, NetSpec};
use linwright_run::{input, sha256_hex, shown_reason};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A network from files.
pub(super) struct OpenNet {
    pub(super) net: Net,
    /// SHA-256 of its weights.
    pub(super) sha256: String,
    /// Its description and its weights.
    pub(super) files: Vec<PathBuf>,
}

/// Opens a network: a directory with `config.json` and `model.safetensors`, or a description with
/// the key `weights`, a file beside it.
pub(super) fn open_net(path: &Path) -> Result<OpenNet, Failure> {
    let description = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let shown = description.display().to_string();
    let text = input::read_text(&description, input::MAX_SETTINGS_BYTES)
        .map_err(|error| Failure::io(&shown, &error))?;
    let wrong = |reason: &str| {
        Failure::new(FailureKind::Recipe, format!("{shown}: {}", shown_reason(reason)))
    };
    let mut keys: Map<String, Value> =
        serde_saphyr::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    let weights = match keys.remove("weights") {
        Some(Value::String(name)) => description.with_file_name(name),
        _ => description.with_file_name("model.safetensors"),
    };
    let spec: NetSpec = serde_json::from_value(Value::Object(keys))
        .map_err(|error| wrong(&error.to_string()))?;
    let net = Net::load(&spec, &weights)?;
    let bytes = std::fs::read(&weights)
        .map_err(|error| Failure::io(&weights.display().to_string(), &error))?;
    Ok(OpenNet { net, sha256: sha256_hex(&bytes), files: vec![description, weights] })
}
