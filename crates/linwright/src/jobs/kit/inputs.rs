//! Hashes of what a job reads: files, and directories of models.

use super::source::POCKET;
use super::{Failure, FailureKind};
use linwright_files::MEASURED;
use linwright_run::{sha256_hex, sha256_of_file, shown};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A file or the directory of a model, and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputHash {
    /// The path as the job names it.
    pub path: PathBuf,
    /// SHA-256 of the bytes of the file; of a directory, of the names and hashes of its files.
    pub sha256: String,
}

/// Whether an input is a file of data. Models are left out: they are hashed as they are loaded.
pub(crate) fn is_data(path: &Path) -> bool {
    path.is_file() && !is_weights(path)
}

/// Whether an input is a file or directory here. The built-in model is part of the program, and the
/// name of a model on the hub is no path.
pub(crate) fn is_local(path: &Path) -> bool {
    path != Path::new(POCKET) && path.exists()
}

/// The hash of a file or of the directory of a model now.
///
/// # Errors
/// [`Failure`] if a file cannot be read.
pub fn hash(path: &Path) -> Result<InputHash, Failure> {
    let sha256 = match path.is_dir() {
        true => sha256_hex(list_of_files(path)?.as_bytes()),
        false => of_file(path)?,
    };
    Ok(InputHash { path: path.to_owned(), sha256 })
}

/// Refuses inputs that changed since they were recorded: the result could not be the same.
pub(crate) fn check_unchanged(recorded: &[InputHash]) -> Result<(), Failure> {
    for known in recorded {
        let now = hash(&known.path)?;
        if now.sha256 != known.sha256 {
            let message = format!(
                "{} has another content than when it was read: SHA-256 {}, then {}",
                known.path.display(),
                now.sha256,
                shown(&known.sha256)
            );
            return Err(Failure::new(FailureKind::Fingerprint, message)
                .hint("bring back what was read then, or run the job again in a new directory"));
        }
    }
    Ok(())
}

/// Names and hashes of the files of a model, a line each. Hidden files and times are left out, and
/// folders beside them, where other work may be, unless they hold modules of the model.
fn list_of_files(model: &Path) -> Result<String, Failure> {
    let mut lines = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = model.join(&folder);
        let failed = |error: std::io::Error| Failure::io(&path.display().to_string(), &error);
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let below = folder.join(&name);
            let (full, shown) = (path.join(&name), name.to_string_lossy());
            if full.is_file() && !shown.starts_with('.') && shown != MEASURED {
                lines.push(format!("{} {}\n", below.display(), of_file(&full)?));
            } else if full.is_dir() && is_module(&shown) && folder.as_os_str().is_empty() {
                folders.push(below);
            }
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// Whether a directory is that of a module of a sentence encoder, such as `1_Pooling`.
fn is_module(name: &str) -> bool {
    let digits = name.chars().take_while(char::is_ascii_digit).count();
    digits > 0 && name[digits..].starts_with('_')
}

fn of_file(path: &Path) -> Result<String, Failure> {
    sha256_of_file(path).map_err(|error| Failure::io(&path.display().to_string(), &error))
}

/// Whether a file is a model: it may be much larger than texts.
fn is_weights(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| {
        matches!(ending.as_str(), "gguf" | "safetensors" | "bin" | "pt" | "pth" | "npz" | "npy")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_model_is_that_of_its_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir_all(model.join("1_Pooling")).unwrap();
        std::fs::create_dir_all(model.join("saved")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(model.join(name), text).unwrap();
        write("config.json", "{}");
        write("1_Pooling/config.json", "{}");
        let first = hash(&model).unwrap();
        for beside in ["measured.json", ".lock", "saved/config.json"] {
            write(beside, "of another run");
            assert_eq!(hash(&model).unwrap(), first, "{beside}");
        }
        let mut known = vec![first];
        for own in ["config.json", "1_Pooling/config.json", "model.safetensors"] {
            write(own, "another");
            let now = hash(&model).unwrap();
            assert!(!known.contains(&now), "{own}");
            known.push(now);
        }
    }

    #[test]
    fn names_are_no_inputs_and_weights_are_no_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("text.jsonl"), "{}").unwrap();
        std::fs::write(path("model.gguf"), "GGUF").unwrap();
        assert!(is_data(&path("text.jsonl")) && is_local(&path("text.jsonl")));
        assert!(!is_data(&path("model.gguf")) && is_local(&path("model.gguf")));
        assert!(!is_local(Path::new("owner/name")));
        assert!(!is_local(Path::new(POCKET)));
    }
}
