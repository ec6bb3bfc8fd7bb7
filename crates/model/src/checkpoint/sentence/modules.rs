//! The list of modules of a sentence encoder, and the files that it names.

use crate::checkpoint::error::CheckpointError;
pub(super) use linwright_files::SentenceModule as Module;
use linwright_files::{FileError, SENTENCE_TRANSFORMER, transformer_dir};
pub(super) use linwright_files::{SENTENCE_ENCODER as ENCODER, SENTENCE_MODULES as MODULES};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Largest file that is read, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 20;
/// Largest number of files of a module: ten times those of any known encoder.
const MAX_FILES: usize = 32;

/// Names of the files of a sentence encoder that are copied unchanged: the list of modules, the
/// configurations, and the files of every module except the transformer. Of a list that cannot be
/// read, only itself. Those of the transformer have no folder.
pub(in crate::checkpoint) fn files(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let transformer = transformer_dir(dir);
    let has = |name: &&str| match *name {
        ENCODER => dir.join(name).is_file(),
        _ => transformer.join(name).is_file(),
    };
    let settings = [ENCODER].into_iter().chain(SENTENCE_TRANSFORMER).filter(has);
    let mut files: Vec<String> = settings.map(str::to_owned).collect();
    if dir.join(MODULES).is_file() {
        files.push(MODULES.to_owned());
    }
    let Ok(Some(modules)) = Module::all(dir) else { return Ok(files) };
    let folders = modules.iter().filter(|module| !module.is_transformer());
    let folders: BTreeSet<&str> = folders.filter_map(|module| module.folder.as_deref()).collect();
    for folder in folders {
        files.extend(files_of(dir, folder)?);
    }
    Ok(files)
}

/// The files of a folder, sorted by name; none for an absent folder.
fn files_of(dir: &Path, folder: &str) -> Result<Vec<String>, CheckpointError> {
    let path = dir.join(folder);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(CheckpointError::read(&path))? {
        let entry = entry.map_err(CheckpointError::read(&path))?;
        if names.len() == MAX_FILES {
            return Err(FileError::Json {
                path,
                reason: format!("more than {MAX_FILES} files"),
                expected: "the settings and weights of one module",
            }
            .into());
        }
        let file = entry.path().is_file();
        if let Some(name) = entry.file_name().to_str().filter(|_| file) {
            names.push(format!("{folder}/{name}"));
        }
    }
    names.sort();
    Ok(names)
}
