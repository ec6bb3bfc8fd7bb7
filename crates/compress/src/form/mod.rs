//! Plans, recipes and operators as text: bounds of their numbers, and errors with advice.

mod advice;
mod numbers;

use linwright_ops::OpSpec;
use linwright_run::shown;
use std::path::{Path, PathBuf};

pub use advice::{form, suggestion};
pub use numbers::check_text;

/// An unusable recipe or plan.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// An unreadable file.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Invalid YAML, or an invalid recipe.
    #[error("{path}: {reason}{suggestion}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The error of the parser, with the position.
        reason: String,
        /// The nearest valid key, if a key was unknown.
        suggestion: String,
    },
    /// An invalid value.
    #[error("{path}: {key} {reason}", key = shown(key))]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Parses an operator specification, `{kind: block_hadamard, depth: 2}`, in YAML or JSON, or a kind
/// alone, in which hyphens count as underscores.
///
/// # Errors
/// [`RecipeError::Form`] with the nearest valid kind or key.
pub fn operator(text: &str) -> Result<OpSpec, RecipeError> {
    let whole = match text.contains('{') {
        true => text.to_owned(),
        false => format!("{{kind: {}}}", text.replace('-', "_")),
    };
    let path = Path::new(text);
    let read = serde_saphyr::from_str(&whole).map_err(|error| form(path, &error.to_string()))?;
    check_text(path, &whole)?;
    Ok(read)
}
