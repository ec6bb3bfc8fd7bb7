//! Pooling of a sentence encoder: the folder layout of sentence-transformers.
//!
//! `modules.json` lists the modules after the transformer: a pooling with its own `config.json`,
//! and optionally a normalisation. Source: Reimers and Gurevych 2019, arXiv:1908.10084.

use super::error::CheckpointError;
use crate::batch::Batch;
use crate::transformer::{Pooling, normalise_rows};
use linwright_files::FileError;
use linwright_files::json::{parse_object, read_bounded};
use linwright_tensor::{Mat, MatRef};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

/// File name of the list of modules.
const MODULES: &str = "modules.json";
/// Configuration files beside the list: of the encoder and of its transformer.
const SETTINGS: [&str; 2] = ["config_sentence_transformers.json", "sentence_bert_config.json"];
/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Largest number of modules, and of files of one: ten times those of any known encoder.
const MAX_MODULES: usize = 32;

/// A module of the list.
struct Module {
    /// Its class, without the package.
    kind: String,
    /// Its folder; none if it is the encoder's folder.
    folder: Option<String>,
}

impl Module {
    /// The modules of a folder, if it lists any.
    fn all(dir: &Path) -> Result<Option<Vec<Self>>, CheckpointError> {
        let path = dir.join(MODULES);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = read_bounded(&path, MAX_BYTES)?;
        let wrong = |reason: String| {
            FileError::Json {
                path: path.clone(),
                reason,
                expected: "a list of modules with type and path",
            }
            .into()
        };
        let modules: Vec<Value> = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("not a list in JSON ({error})")))?;
        if modules.len() > MAX_MODULES {
            return Err(wrong(format!("{} modules, at most {MAX_MODULES}", modules.len())));
        }
        let read = |module: &Value| {
            let text = |field: &str| module.get(field).and_then(Value::as_str);
            let (Some(kind), Some(folder)) = (text("type"), text("path")) else {
                return Err(wrong(format!("a module is {module}")));
            };
            let kind = kind.rsplit('.').next().unwrap_or(kind).to_owned();
            if matches!(folder, "" | ".") {
                return Ok(Self { kind, folder: None });
            }
            if !is_plain(folder) {
                let reason = format!("the path {folder:?} is not the name of a folder beside it");
                return Err(wrong(reason));
            }
            Ok(Self { kind, folder: Some(folder.to_owned()) })
        };
        modules.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    fn is_transformer(&self) -> bool {
        self.kind == "Transformer"
    }
}

/// Whether this is a single path component on every system.
fn is_plain(folder: &str) -> bool {
    let mut parts = Path::new(folder).components();
    let one = matches!(parts.next(), Some(Component::Normal(part)) if part == folder);
    one && parts.next().is_none() && !folder.contains(['\\', ':', '\0'])
}

/// Names of the files of a sentence encoder that are copied unchanged: the list of modules, the
/// configurations, and the files of every module except the transformer.
pub(super) fn files(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let settings = SETTINGS.into_iter().filter(|name| dir.join(name).is_file());
    let mut files: Vec<String> = settings.map(str::to_owned).collect();
    let Some(modules) = Module::all(dir)? else {
        return Ok(files);
    };
    files.push(MODULES.to_owned());
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

/// Pooling from the vectors of all tokens to one embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Which vector represents the text.
    pub pooling: Pooling,
    /// Whether the embedding is scaled to length one.
    pub normalise: bool,
}

impl Sentence {
    /// Mean pooling, the default for encoders without modules.
    pub const MEAN: Self = Self { pooling: Pooling::Mean, normalise: false };

    /// Name of the pooling, for protocols.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.pooling {
            Pooling::First => "first",
            Pooling::Mean => "mean",
            Pooling::Max => "max",
            Pooling::Last => "last",
        }
    }

    /// Reads the modules of a folder, if it lists any. The second part is the reason if the pooling
    /// is not supported.
    pub(super) fn read(dir: &Path) -> Result<(Option<Self>, Option<String>), CheckpointError> {
        let Some(modules) = Module::all(dir)? else {
            return Ok((None, None));
        };
        let (mut pooling, mut normalise) = (None, false);
        for module in &modules {
            match module.kind.as_str() {
                "Transformer" => {}
                "Normalize" => normalise = true,
                "Pooling" => {
                    let folder = dir.join(module.folder.as_deref().unwrap_or_default());
                    match read_pooling(&folder.join("config.json"))? {
                        Ok(found) => pooling = Some(found),
                        Err(note) => return Ok((None, Some(note))),
                    }
                }
                kind => {
                    let note = format!("{MODULES} lists {kind}, which is not supported");
                    return Ok((None, Some(note)));
                }
            }
        }
        Ok((pooling.map(|pooling| Self { pooling, normalise }), None))
    }

    /// Embeddings (sequences, hidden) of the sequences of a batch, from the output (rows, hidden)
    /// of the last layer.
    ///
    /// # Panics
    /// If there is not one row for each token.
    #[must_use]
    pub fn vectors(self, hidden: MatRef<'_, f32>, batch: &Batch) -> Mat<f32> {
        let mut vectors = self.pooling.pool(hidden, batch);
        if self.normalise {
            normalise_rows(&mut vectors);
        }
        vectors
    }
}

/// The pooling of a configuration, or why it is not supported.
fn read_pooling(path: &Path) -> Result<Result<Pooling, String>, CheckpointError> {
    const MODES: [(&str, Pooling); 4] = [
        ("pooling_mode_cls_token", Pooling::First),
        ("pooling_mode_mean_tokens", Pooling::Mean),
        ("pooling_mode_max_tokens", Pooling::Max),
        ("pooling_mode_lasttoken", Pooling::Last),
    ];
    let config = parse_object(path, &read_bounded(path, MAX_BYTES)?)?;
    let on = config
        .iter()
        .filter(|(name, value)| name.starts_with("pooling_mode_") && value.as_bool() == Some(true));
    let names: Vec<&str> = on.map(|(name, _)| name.as_str()).collect();
    Ok(match names.as_slice() {
        [one] => match MODES.iter().find(|(name, _)| name == one) {
            Some((_, pooling)) => Ok(*pooling),
            None => Err(format!("{} asks for {one}, which is not supported", path.display())),
        },
        others => {
            Err(format!("{} asks for {} poolings; one is supported", path.display(), others.len()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(modules: &str, pooling: &str) -> Result<(Option<Sentence>, Option<String>), String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(MODULES), modules).unwrap();
        fs::create_dir(dir.path().join("1_Pooling")).unwrap();
        fs::write(dir.path().join("1_Pooling/config.json"), pooling).unwrap();
        Sentence::read(dir.path()).map_err(|error| error.to_string())
    }

    const MINILM: &str = r#"[
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    ]"#;

    #[test]
    fn modules_say_how_a_vector_is_made() {
        let mean = r#"{"word_embedding_dimension": 4, "pooling_mode_mean_tokens": true,
            "pooling_mode_cls_token": false}"#;
        let sentence = Sentence { pooling: Pooling::Mean, normalise: true };
        assert_eq!(read(MINILM, mean), Ok((Some(sentence), None)));
        let (none, note) = read(MINILM, "{}").unwrap();
        assert!(none.is_none() && note.is_some_and(|note| note.contains("0 poolings")));
        let dense = MINILM.replace("Normalize", "Dense");
        let (none, note) = read(&dense, mean).unwrap();
        assert!(none.is_none() && note.is_some_and(|note| note.contains("Dense")));
        let outside = MINILM.replace("1_Pooling", "../x");
        assert!(
            read(&outside, mean).is_err_and(|error| error.contains("not the name of a folder"))
        );
        assert!(read("{}", mean).is_err_and(|error| error.contains("not a list")));
    }
}
