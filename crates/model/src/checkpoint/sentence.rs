//! The folders of a sentence encoder: `modules.json` names what follows the transformer, such as a
//! pooling, each with a folder of its own.

use super::error::CheckpointError;
use super::source::read_bounded;
use serde_json::Value;
use std::fs;
use std::path::{Component, Path};

/// The list of modules.
const MODULES: &str = "modules.json";
/// Settings of the whole.
const SETTINGS: &str = "config_sentence_transformers.json";
/// Largest list that is read, in bytes.
const LIST_BYTES: u64 = 1 << 20;
/// Most modules, and most files of one: ten times those of any known encoder.
const MODULE_COUNT: usize = 32;

/// Names of the files that make a directory a sentence encoder, its folders included; none where
/// there is no `modules.json`.
pub(super) fn files(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let list = dir.join(MODULES);
    if !list.is_file() {
        return Ok(Vec::new());
    }
    let mut files = vec![MODULES.to_owned()];
    if dir.join(SETTINGS).is_file() {
        files.push(SETTINGS.to_owned());
    }
    for folder in folders(&list)? {
        files.extend(files_of(dir, &folder)?);
    }
    Ok(files)
}

/// The folders that the list names, checked to be plain names.
fn folders(list: &Path) -> Result<Vec<String>, CheckpointError> {
    let wrong = |reason: String| CheckpointError::Json {
        path: list.into(),
        reason,
        expected: "a list of modules, each with a path",
    };
    let bytes = read_bounded(list, LIST_BYTES)?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("not valid JSON ({error})")))?;
    let modules = value.as_array().ok_or_else(|| wrong("the file holds no list".into()))?;
    if modules.len() > MODULE_COUNT {
        return Err(wrong(format!("{} modules, at most {MODULE_COUNT} are read", modules.len())));
    }
    let mut folders = Vec::new();
    for module in modules {
        let folder = module.get("path").and_then(Value::as_str);
        let folder = folder.ok_or_else(|| wrong(format!("{module} has no path")))?;
        // The transformer itself lies beside the list.
        if folder.is_empty() || folder == "." {
            continue;
        }
        let mut parts = Path::new(folder).components();
        let plain = matches!(parts.next(), Some(Component::Normal(part)) if part == folder);
        if !plain || parts.next().is_some() || folder.contains(['\\', '\0']) {
            return Err(wrong(format!("{folder:?} is not the name of a folder beside it")));
        }
        if !folders.iter().any(|other| other == folder) {
            folders.push(folder.to_owned());
        }
    }
    Ok(folders)
}

/// The files of a folder, in the order of their names; a folder that is absent has none.
fn files_of(dir: &Path, folder: &str) -> Result<Vec<String>, CheckpointError> {
    let path = dir.join(folder);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(CheckpointError::read(&path))? {
        let entry = entry.map_err(CheckpointError::read(&path))?;
        let file = entry.path().is_file();
        if let Some(name) = entry.file_name().to_str().filter(|_| file) {
            names.push(format!("{folder}/{name}"));
        }
        if names.len() > MODULE_COUNT {
            return Err(CheckpointError::Json {
                path,
                reason: format!("more than {MODULE_COUNT} files"),
                expected: "the settings and weights of one module",
            });
        }
    }
    names.sort();
    Ok(names)
}
