//! Hashes of the files that a job reads.

use super::Failure;
use linwright_data::MAX_FILE_BYTES;
use linwright_run::{input, sha256_hex};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A file and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputHash {
    /// The path as the job names it.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// Hashes of the files among the inputs of a job, each once. Directories and names are left out:
/// models have a hash of their own.
///
/// # Errors
/// [`Failure`] if a file cannot be read.
pub fn hashes(inputs: &[PathBuf]) -> Result<Vec<InputHash>, Failure> {
    let mut found: Vec<InputHash> = Vec::new();
    for path in inputs.iter().filter(|path| path.is_file() && !is_weights(path)) {
        if !found.iter().any(|known| known.path == *path) {
            found.push(hash(path)?);
        }
    }
    Ok(found)
}

/// The hash of a file now.
///
/// # Errors
/// [`Failure`] if it cannot be read.
pub fn hash(path: &Path) -> Result<InputHash, Failure> {
    let bytes = input::read(path, MAX_FILE_BYTES)
        .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
    Ok(InputHash { path: path.to_owned(), sha256: sha256_hex(&bytes) })
}

/// Whether a file is a model: it may be much larger than texts.
fn is_weights(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| {
        matches!(ending.as_str(), "gguf" | "safetensors" | "bin" | "pt" | "pth" | "npz" | "npy")
    })
}
