//! The `linwright` object of `config.json`: the operator of each site.
//!
//! Weights without the tensors of an ordinary model must not be mistaken for one: other programs
//! would load the original class with random numbers at every replaced site and only warn. So their
//! configurations have a separate model type and keep the original one under `linwright.base`.
//! Configurations of earlier versions, which kept their type, are read as well.

use super::error::CheckpointError;
use linwright_files::CONFIG;
use linwright_ops::SiteId;
use linwright_ops::archive::Header;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Key of the object.
pub(super) const KEY: &str = "linwright";
/// Schema version of the object.
pub const SCHEMA: u64 = 1;
/// The `model_type` of configurations for this crate and its Python file for transformers.
pub(super) const MODEL_TYPE: &str = "linwright";
/// Class name of the native form, which is not defined by any program.
const CLASS: &str = "LinwrightNative";
/// Key of the original fields, within the object.
const BASE: &str = "base";
const TYPE: &str = "model_type";
const ARCHITECTURES: &str = "architectures";
const AUTO_MAP: &str = "auto_map";

/// Headers of the sites without an ordinary dense weight.
pub(super) type Headers = BTreeMap<SiteId, Header>;

/// Reads the headers from a configuration of the directory `dir`.
pub(super) fn read(dir: &Path, config: &Map<String, Value>) -> Result<Headers, CheckpointError> {
    let wrong = |place: &str, reason: String| CheckpointError::Native {
        path: dir.join(CONFIG),
        place: format!("{KEY}.{place}"),
        reason,
    };
    let object = match config.get(KEY) {
        None => return Ok(Headers::new()),
        Some(Value::Object(object)) => object,
        Some(other) => {
            return Err(wrong(
                "",
                format!("is {}, expected an object", linwright_run::shown(&other.to_string())),
            ));
        }
    };
    let sites = match object.get("sites") {
        None => return Ok(Headers::new()),
        Some(Value::Object(sites)) => sites,
        Some(other) => {
            return Err(wrong(
                "sites",
                format!("is {}, expected an object", linwright_run::shown(&other.to_string())),
            ));
        }
    };
    match object.get("schema") {
        Some(Value::Number(n)) if n.as_u64() == Some(SCHEMA) => {}
        found => {
            let found = found.map_or("missing".into(), |value| {
                format!("is {}", linwright_run::shown(&value.to_string()))
            });
            let reason = format!("{found}, this version reads {SCHEMA}; use a newer one");
            return Err(wrong("schema", reason));
        }
    }
    let mut headers = Headers::new();
    for (site, value) in sites {
        let header = Header::deserialize(value).map_err(|error| {
            wrong(&format!("sites.{site}"), format!("is not an operator: {error}"))
        })?;
        headers.insert(SiteId(site.clone()), header);
    }
    Ok(headers)
}

/// Writes headers and `metadata` into a configuration; if both are empty, the object is removed.
pub(super) fn write(
    config: &mut Map<String, Value>,
    headers: &Headers,
    metadata: &Map<String, Value>,
) {
    // Removal keeps the order of the other keys.
    config.shift_remove(KEY);
    if headers.is_empty() && metadata.is_empty() {
        return;
    }
    let mut object = Map::new();
    object.insert("schema".into(), json!(SCHEMA));
    if !headers.is_empty() {
        let sites = headers.iter().map(|(site, header)| (site.0.clone(), json!(header)));
        object.insert("sites".into(), Value::Object(sites.collect()));
    }
    for (key, value) in metadata {
        object.entry(key.clone()).or_insert_with(|| value.clone());
    }
    config.insert(KEY.into(), Value::Object(object));
}

/// Gives a configuration the model type of the native form, which other programs do not know.
pub(super) fn own(config: &mut Map<String, Value>) {
    rename(config, CLASS, Map::new());
}

/// Sets the native model type and class in a configuration, and stores the original ones under
/// `linwright.base`, together with `more`. The list of Python files is removed, since it belongs to
/// the original.
pub(super) fn rename(config: &mut Map<String, Value>, class: &str, more: Map<String, Value>) {
    let mut base = Map::new();
    for key in [TYPE, ARCHITECTURES] {
        base.insert(key.into(), config.get(key).cloned().unwrap_or(Value::Null));
    }
    base.extend(more);
    config.insert(TYPE.into(), json!(MODEL_TYPE));
    config.insert(ARCHITECTURES.into(), json!([class]));
    config.shift_remove(AUTO_MAP);
    // Even if nothing was replaced, since the Python file expects the object.
    let object = config.entry(KEY).or_insert_with(|| json!({ "schema": SCHEMA }));
    if let Value::Object(object) = object {
        object.entry("sites").or_insert_with(|| json!({}));
        object.insert(BASE.into(), Value::Object(base));
    }
}

/// Restores the original type of a native configuration.
pub(super) fn undo(dir: &Path, config: &mut Map<String, Value>) -> Result<(), CheckpointError> {
    if config.get(TYPE).and_then(Value::as_str) != Some(MODEL_TYPE) {
        return Ok(());
    }
    let wrong = |reason: &str| CheckpointError::Native {
        path: dir.join(CONFIG),
        place: format!("{KEY}.{BASE}"),
        reason: reason.into(),
    };
    let object = config.get_mut(KEY).and_then(Value::as_object_mut);
    let base = object.and_then(|object| object.shift_remove(BASE));
    let Some(Value::Object(mut base)) = base else {
        return Err(wrong("is missing; expected an object with the model_type of the original"));
    };
    let Some(Value::String(model_type)) = base.remove(TYPE) else {
        return Err(wrong("has no model_type; expected that of the original"));
    };
    config.insert(TYPE.into(), json!(model_type));
    match base.remove(ARCHITECTURES) {
        None | Some(Value::Null) => config.shift_remove(ARCHITECTURES),
        Some(architectures) => config.insert(ARCHITECTURES.into(), architectures),
    };
    config.shift_remove(AUTO_MAP);
    Ok(())
}

/// The model type for reading a configuration: the original one for the native type.
pub(crate) fn model_type(config: &Map<String, Value>) -> Option<&str> {
    match config.get(TYPE)?.as_str()? {
        MODEL_TYPE => config.get(KEY)?.get(BASE)?.get(TYPE)?.as_str(),
        other => Some(other),
    }
}
