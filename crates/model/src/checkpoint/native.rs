//! The `linwright` object of `config.json`: which operator each site holds.

use super::error::CheckpointError;
use super::source::CONFIG;
use linwright_ops::SiteId;
use linwright_ops::archive::Header;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the object.
pub(super) const KEY: &str = "linwright";
/// Version of the object's form.
pub const SCHEMA: u64 = 1;

/// Headers of the sites that do not hold an ordinary dense weight.
pub(super) type Headers = BTreeMap<SiteId, Header>;

/// Reads the headers out of a configuration that was read from `dir`.
pub(super) fn read(dir: &Path, config: &Map<String, Value>) -> Result<Headers, CheckpointError> {
    let wrong = |place: &str, reason: String| CheckpointError::Native {
        path: dir.join(CONFIG),
        place: format!("{KEY}.{place}"),
        reason,
    };
    let object = match config.get(KEY) {
        None => return Ok(Headers::new()),
        Some(Value::Object(object)) => object,
        Some(other) => return Err(wrong("", format!("is {other}, expected an object"))),
    };
    let sites = match object.get("sites") {
        None => return Ok(Headers::new()),
        Some(Value::Object(sites)) => sites,
        Some(other) => return Err(wrong("sites", format!("is {other}, expected an object"))),
    };
    match object.get("schema") {
        Some(Value::Number(n)) if n.as_u64() == Some(SCHEMA) => {}
        found => {
            let found = found.map_or("missing".into(), |value| format!("is {value}"));
            let reason = format!("{found}, this version reads {SCHEMA}; use a newer one");
            return Err(wrong("schema", reason));
        }
    }
    let mut headers = Headers::new();
    for (site, value) in sites {
        let header = Header::deserialize(value)
            .map_err(|error| wrong(&format!("sites.{site}"), format!("is no operator: {error}")))?;
        headers.insert(SiteId(site.clone()), header);
    }
    Ok(headers)
}

/// Puts headers and `metadata` into a configuration; without either the object goes.
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
