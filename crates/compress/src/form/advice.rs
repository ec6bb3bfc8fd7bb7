//! Errors of the parser, with advice on unknown words.

use super::RecipeError;
use crate::Unit;
use linwright_ops::OpSpec;
use linwright_run::shown_reason;
use linwright_run::spelling::distance;
use std::path::Path;

/// Advice for recipes of earlier versions.
const HEAL: &str = "write `heal: []` for `output_projection: null`, and its options, such as ridge, as \
    `heal: [{roles: [output], ridge: ...}]`";

/// The error of a parser, with advice on unknown words.
#[must_use]
pub fn form(path: &Path, reason: &str) -> RecipeError {
    let suggestion = advice(reason).map_or_else(String::new, |advice| format!("\n{advice}"));
    RecipeError::Form { path: path.to_owned(), reason: shown_reason(reason), suggestion }
}

/// The valid key nearest to an unknown one, from a message such as "unknown field `a`, expected one
/// of b, c".
#[must_use]
pub fn suggestion(message: &str) -> Option<String> {
    let start = message.find("unknown field").or_else(|| message.find("unknown variant"))?;
    let line = message[start..].lines().next()?;
    let unknown = line.split('`').nth(1)?;
    let (_, expected) = line.split_once("expected ")?;
    let keys =
        expected.trim_start_matches("one of ").split([',', ' ']).map(|key| key.trim_matches('`'));
    let nearest =
        keys.filter(|key| !key.is_empty()).map(|key| (distance(unknown, key), key)).min()?;
    (nearest.0 <= 1 + unknown.len() / 2).then(|| nearest.1.to_owned())
}

/// Advice about an unknown word.
fn advice(message: &str) -> Option<String> {
    if message.contains("unknown field `output_projection`") {
        return Some(HEAL.to_owned());
    }
    let is_size = |unit: &Unit| message.contains(&format!("unknown field `{}`", unit.name()));
    if let Some(unit) = Unit::ALL.iter().find(|unit| is_size(unit)) {
        let name = unit.name();
        return Some(format!("a size stands beside its method; write `size: {{{name}: ...}}`"));
    }
    if let Some(key) = suggestion(message) {
        return Some(format!("did you mean `{key}`?"));
    }
    let (_, rest) = message.split_once("unknown variant `")?;
    let (word, _) = rest.split_once('`')?;
    OpSpec::KINDS.contains(&word).then(|| {
        format!(
            "`{word}` is an operator, not a method; write `method: structured, operator: {{kind: {word}}}`"
        )
    })
}
