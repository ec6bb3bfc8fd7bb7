//! The list of modules of a sentence encoder, and the files that it names.

use crate::checkpoint::error::CheckpointError;
use linwright_files::json::read_bounded;
use linwright_files::{FileError, SENTENCE_TRANSFORMER};
pub(super) use linwright_files::{SENTENCE_ENCODER as ENCODER, SENTENCE_MODULES as MODULES};
use linwright_run::shown;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

/// Largest file that is read, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 20;
/// Largest number of modules, and of files of one: ten times those of any known encoder.
const MAX_MODULES: usize = 32;
/// The package of modules that are known.
const PACKAGE: &str = "sentence_transformers.";

/// A module of the list.
pub(super) struct Module {
    /// Its class, without the package.
    pub(super) kind: String,
    /// Whether its class is one of sentence-transformers.
    pub(super) is_known: bool,
    /// Its folder; none if it is the encoder's folder.
    pub(super) folder: Option<String>,
}

/// The folder of the transformer, if the list says that it is not that of the list.
pub(in crate::checkpoint) fn transformer_folder(dir: &Path) -> Option<String> {
    let modules = Module::all(dir).ok().flatten()?;
    modules.into_iter().find(Module::is_transformer)?.folder
}

impl Module {
    /// The modules of a folder, if it lists any. Errors are the reason only.
    pub(super) fn all(dir: &Path) -> Result<Option<Vec<Self>>, String> {
        let path = dir.join(MODULES);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = read_bounded(&path, MAX_BYTES).map_err(|error| error.to_string())?;
        let wrong = |reason: String| {
            format!("{}: {reason}; expected a list of modules with type and path", path.display())
        };
        let modules: Vec<Value> = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("not a list in JSON ({error})")))?;
        if modules.len() > MAX_MODULES {
            return Err(wrong(format!("{} modules, at most {MAX_MODULES}", modules.len())));
        }
        let read = |module: &Value| {
            let text = |field: &str| module.get(field).and_then(Value::as_str);
            let (Some(class), Some(folder)) = (text("type"), text("path")) else {
                return Err(wrong(format!("a module is {}", shown(&module.to_string()))));
            };
            let is_known = class.starts_with(PACKAGE);
            let kind = match class.rsplit('.').next() {
                Some(kind) if is_known => kind.to_owned(),
                _ => class.to_owned(),
            };
            // A folder may be written with a slash at its end.
            let folder = folder.strip_suffix('/').unwrap_or(folder);
            if matches!(folder, "" | ".") {
                return Ok(Self { kind, is_known, folder: None });
            }
            if !is_plain(folder) {
                let folder = shown(folder);
                let reason = format!("the path {folder:?} is not the name of a folder beside it");
                return Err(wrong(reason));
            }
            Ok(Self { kind, is_known, folder: Some(folder.to_owned()) })
        };
        modules.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn is_transformer(&self) -> bool {
        self.is_known && self.kind == "Transformer"
    }

    /// A file of the module, named from the encoder's folder.
    pub(super) fn file(&self, name: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// Whether this is a single path component on every system.
fn is_plain(folder: &str) -> bool {
    let mut parts = Path::new(folder).components();
    let one = matches!(parts.next(), Some(Component::Normal(part)) if part == folder);
    one && parts.next().is_none() && !folder.contains(['\\', ':', '\0'])
}

/// Names of the files of a sentence encoder that are copied unchanged: the list of modules, the
/// configurations, and the files of every module except the transformer. Of a list that cannot be
/// read, only itself.
pub(in crate::checkpoint) fn files(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let settings =
        [ENCODER].into_iter().chain(SENTENCE_TRANSFORMER).filter(|name| dir.join(name).is_file());
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
        if names.len() == MAX_MODULES {
            return Err(FileError::Json {
                path,
                reason: format!("more than {MAX_MODULES} files"),
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
