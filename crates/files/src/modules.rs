//! The list of modules of a sentence encoder, and the folder of its transformer.

use crate::companions::{CONFIG, SENTENCE_MODULES};
use crate::json::read_bounded;
use linwright_run::shown;
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// Largest list in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Largest number of modules: ten times those of any known encoder.
const MAX_MODULES: usize = 32;
/// The package of modules that are known.
const PACKAGE: &str = "sentence_transformers.";

/// A module of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentenceModule {
    /// Its class, without the package.
    pub kind: String,
    /// Whether its class is one of sentence-transformers.
    pub is_known: bool,
    /// Its folder; none if it is the encoder's folder.
    pub folder: Option<String>,
}

/// The folder of the transformer of a sentence encoder, if it is not the encoder's own: older
/// encoders have it in `0_Transformer`. What the list says does not count where the configuration
/// of a model is in the encoder's folder and none in that one.
#[must_use]
pub fn transformer_folder(dir: &Path) -> Option<String> {
    let modules = SentenceModule::all(dir).ok().flatten()?;
    let folder = modules.into_iter().find(SentenceModule::is_transformer)?.folder?;
    let has = |dir: &Path| dir.join(CONFIG).exists();
    (has(&dir.join(&folder)) || !has(dir)).then_some(folder)
}

/// The folder of configuration, weights and tokenizer of a model: its own, or that of
/// [`transformer_folder`].
#[must_use]
pub fn transformer_dir(dir: &Path) -> PathBuf {
    transformer_folder(dir).map_or_else(|| dir.to_owned(), |folder| dir.join(folder))
}

impl SentenceModule {
    /// The modules of a folder, if it lists any.
    ///
    /// # Errors
    /// The reason only, with the path of the list.
    pub fn all(dir: &Path) -> Result<Option<Vec<Self>>, String> {
        let path = dir.join(SENTENCE_MODULES);
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

    /// Whether it is the transformer.
    #[must_use]
    pub fn is_transformer(&self) -> bool {
        self.is_known && self.kind == "Transformer"
    }

    /// A file of the module, named from the encoder's folder.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
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
