//! Plans in files, as JSON or YAML.

use crate::CompressError;
use crate::form::{RecipeError, check_text, form};
use crate::plan::Plan;
use linwright_run::input;
use std::path::Path;

/// Size limit of a plan in bytes.
pub const MAX_PLAN_BYTES: u64 = 1 << 24;

/// Reads a plan.
///
/// # Errors
/// [`RecipeError`] naming the file, what is wrong and, for an unknown key, the nearest valid one.
pub fn read_plan(path: &Path) -> Result<Plan, RecipeError> {
    let text = input::read_text(path, MAX_PLAN_BYTES)
        .map_err(|source| RecipeError::Io { path: path.to_owned(), source })?;
    parse_plan(path, &text)
}

/// Parses a plan, in JSON if the text starts with a brace, else in YAML; `path` is its name in
/// messages.
///
/// # Errors
/// As [`read_plan`].
pub fn parse_plan(path: &Path, text: &str) -> Result<Plan, RecipeError> {
    let read = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|error| error.to_string()),
        false => serde_saphyr::from_str(text).map_err(|error| error.to_string()),
    };
    let plan: Plan = read.map_err(|reason| form(path, &reason))?;
    check_text(path, text)?;
    plan.check().map_err(|error| {
        let (key, reason) = if let CompressError::Size { edit, source } = &error {
            (format!("edits[{}].size", edit - 1), format!("is wrong: {source}"))
        } else {
            ("edits".to_owned(), format!("are wrong: {error}"))
        };
        RecipeError::Value { path: path.to_owned(), key, reason }
    })?;
    Ok(plan)
}
