//! Saved results of any verb.

use super::kit::shards;
use super::{STREAMED, VERBS};
use linwright_report::{AnyReport, ReportError, ReportKind};
use linwright_run::{shown, spelling};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The fields by which a result with a kind is known.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "linwright")]
    _linwright: String,
}

/// All kinds of results.
pub fn result_kinds() -> impl Iterator<Item = &'static ReportKind> {
    let verbs = VERBS.iter().chain(STREAMED);
    verbs.flat_map(|verb| verb.results).chain(shards::RESULTS)
}

/// Whether a text is the JSON of a result with a kind.
#[must_use]
pub fn has_kind(text: &str) -> bool {
    serde_json::from_str::<Head>(text).is_ok()
}

/// Reads a saved result of any kind.
///
/// # Errors
/// [`ReportError`] if no command has this kind, or the fields are not those of its version.
pub fn saved_result(saved: Map<String, Value>) -> Result<Box<dyn AnyReport>, ReportError> {
    let name = saved.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(kind) = result_kinds().find(|kind| kind.name == name) else {
        let names: Vec<&str> = result_kinds().map(|kind| kind.name).collect();
        let nearest = spelling::nearest_names(name, &names);
        return Err(ReportError::Kind { found: shown(name).to_string(), nearest });
    };
    kind.read(saved)
}
