//! The content of a checkpoint other than weights, kept unchanged so that it can be saved again.

use super::adapter;
use super::error::CheckpointError;
use super::native;
use super::precision::Precision;
use super::sentence::{self, Sentence};
use crate::config::TransformerConfig;
use crate::config::fields::unknown_tokens;
use crate::error::ConfigError;
use crate::generate::SamplingSettings;
use crate::tokenizer::Tokenizer;
use crate::transformer::Transformer;
use linwright_files::json::{JSON_BYTES, Words, from_slice, parse_object, read_bounded};
use linwright_files::{
    COMPANION_BYTES, CONFIG, GENERATION_CONFIG, LICENCES, SENTENCE_TRANSFORMER, TOKENIZER_FILES,
    transformer_folder,
};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The error for the folder of an adapter.
fn adapter_of(dir: &Path) -> Result<CheckpointError, CheckpointError> {
    let (path, config) = adapter::read_fields(dir)?;
    let text = |field: &str| config.get(field).and_then(Value::as_str).map(str::to_owned);
    let base = text("base_model_name_or_path").filter(|base| !base.is_empty());
    let beside = match dir.join(CONFIG).exists() {
        true => "; to use the model beside it without the adapter, move adapter_config.json away",
        false => "",
    };
    // A command for copying must not contain names with a special meaning for the shell.
    let is_plain = |name: &&str| {
        !name.starts_with('-')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
    };
    let advice = match text("peft_type").as_deref() {
        Some("LORA") => format!(
            "merge it with `linwright export {} --adapter {} -o merged`, and give merged{beside}",
            base.as_deref().filter(is_plain).unwrap_or("BASE"),
            quoted(dir)
        ),
        _ => format!(
            "merge it into its base with PEFT (merge_and_unload, save_pretrained), and give the \
             result{beside}"
        ),
    };
    let kind = text("peft_type").unwrap_or_else(|| "PEFT".to_owned());
    let base = base.unwrap_or_else(|| "a base that it does not name".to_owned());
    Ok(CheckpointError::Adapter { path, kind, base, advice })
}

/// A path as a shell word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte)) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Configuration and companion files of a model, byte for byte and with unknown keys.
#[derive(Clone, Debug)]
pub struct Source {
    /// Directory of the checkpoint, or a name for a model built in memory; for messages.
    pub dir: PathBuf,
    /// `config.json` with all its keys.
    pub config: Map<String, Value>,
    /// Name and content of the files that are copied unchanged.
    pub companions: Vec<(String, Vec<u8>)>,
    /// Storage type of most weights.
    pub dtype: DType,
    /// Folder of configuration, weights and tokenizer, of an older sentence encoder that has them
    /// beside its other modules.
    pub folder: Option<String>,
    /// Words of `config.json` for numbers that are not finite.
    pub words: Words,
}

impl Source {
    /// The source of a model built in memory, without a directory.
    #[must_use]
    pub fn of_new_model(config: &TransformerConfig, companions: Vec<(String, Vec<u8>)>) -> Self {
        let config = match config.to_json() {
            Value::Object(config) => config,
            _ => Map::new(),
        };
        let dir = PathBuf::from("new model");
        Self { dir, config, companions, dtype: DType::F32, folder: None, words: Words::default() }
    }

    /// Reads a directory; the storage type is set when the weights are known.
    pub(super) fn read(dir: &Path) -> Result<(Self, Vec<u8>), CheckpointError> {
        if !dir.metadata().map_err(CheckpointError::read(dir))?.is_dir() {
            return Err(CheckpointError::NotADirectory { path: dir.into() });
        }
        if dir.join(adapter::SETTINGS).is_file() {
            return Err(adapter_of(dir)?);
        }
        let folder = transformer_folder(dir);
        let path = dir.join(placed(folder.as_deref(), CONFIG));
        let bytes = read_bounded(&path, JSON_BYTES)?;
        let mut config = parse_object(&path, &bytes)?;
        native::undo(dir, &mut config)?;
        let companions = Self::read_companions(dir)?;
        let (dir, words) = (dir.into(), Words::of(&bytes));
        Ok((Self { dir, config, companions, dtype: DType::F32, folder, words }, bytes))
    }

    /// The directory of configuration, weights and tokenizer.
    #[must_use]
    pub fn transformer_dir(&self) -> PathBuf {
        self.folder.as_ref().map_or_else(|| self.dir.clone(), |folder| self.dir.join(folder))
    }

    /// Where a file of the model is, from its directory.
    pub(super) fn placed(&self, name: &str) -> String {
        placed(self.folder.as_deref(), name)
    }

    /// Where a file beside the configuration is, from the model's directory.
    pub(super) fn beside_config(&self, name: &str) -> String {
        self.folder.as_ref().map_or_else(|| name.to_owned(), |folder| format!("{folder}/{name}"))
    }

    /// Reads the companion files of a directory.
    pub(super) fn read_companions(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, CheckpointError> {
        let mut companions = Vec::new();
        let folder = transformer_folder(dir);
        let path = |name: &str| dir.join(placed(folder.as_deref(), name));
        for name in [GENERATION_CONFIG].into_iter().chain(TOKENIZER_FILES).chain(LICENCES) {
            let path = path(name);
            // A dangling link is an I/O error, not an absent file.
            if path.is_file() || path.is_symlink() {
                companions.push((name.to_owned(), read_bounded(&path, COMPANION_BYTES)?));
            }
        }
        for name in sentence::files(dir)? {
            let bytes = read_bounded(&path(&name), COMPANION_BYTES)?;
            companions.push((name, bytes));
        }
        Ok(companions)
    }

    /// The tokenizer, checked against the model's vocabulary, if there is one; see
    /// [`Tokenizer::from_files`].
    ///
    /// # Errors
    /// [`CheckpointError::Tokenizer`].
    pub fn tokenizer(
        &self,
        config: &TransformerConfig,
    ) -> Result<Option<Tokenizer>, CheckpointError> {
        let model_type = self.config.get("model_type").and_then(Value::as_str);
        let tokenizer =
            Tokenizer::from_files(&self.transformer_dir(), &self.companions, model_type)?;
        let eos = config.eos_tokens.first().copied();
        let fits = tokenizer.map(|t| t.for_model(config.vocab, config.bos_token, eos));
        Ok(fits.transpose()?)
    }

    /// Pooling of a text into one vector, or why it is not supported.
    pub(super) fn sentence(
        &self,
        config: &TransformerConfig,
        tokenizer: Option<&Tokenizer>,
        precision: Precision,
    ) -> Result<Sentence, String> {
        let settings = self.companion("tokenizer_config.json");
        let settings: Option<Value> = settings.and_then(|bytes| from_slice(bytes).ok());
        Sentence::read(&self.dir, config, tokenizer, settings.as_ref(), precision.rounding())
    }

    /// Sampling settings of the checkpoint, without the fields that the caller sets; greedy if
    /// there are none. The second part is a note on ignored content: an unreadable file or field,
    /// and special tokens that the model does not have.
    ///
    /// # Errors
    /// [`CheckpointError::Config`].
    pub fn generation_settings(
        &self,
        vocab: usize,
        set: &[&str],
    ) -> Result<(SamplingSettings, Option<String>), CheckpointError> {
        let path = self.transformer_dir().join(GENERATION_CONFIG);
        let (mut object, mut notes) = (Map::new(), Vec::new());
        if let Some(bytes) = self.companion(GENERATION_CONFIG) {
            match parse_object(&path, bytes) {
                Ok(read) => object = read,
                Err(error) => notes.push(format!("{error}: it is ignored")),
            }
        }
        notes.extend(unknown_tokens(&object, vocab, GENERATION_CONFIG));
        object.retain(|field, _| !set.contains(&field.as_str()));
        let settings = loop {
            match SamplingSettings::from_json(&Value::Object(object.clone()), vocab) {
                Ok(settings) => break settings,
                Err(ConfigError::Invalid { field, found, expected })
                    if object.remove(field).is_some() =>
                {
                    notes.push(format!(
                        "{GENERATION_CONFIG}: {field} is {found}, expected {expected}: it is ignored"
                    ));
                }
                Err(source) => return Err(CheckpointError::Config { path, source }),
            }
        };
        Ok((settings, (!notes.is_empty()).then(|| notes.join("; "))))
    }

    /// A note on special tokens of `config.json` that the model does not have and that are ignored.
    pub(super) fn unknown_tokens(&self, config: &TransformerConfig) -> Option<String> {
        unknown_tokens(&self.config, config.vocab, CONFIG)
    }

    /// Names and contents of the licence files.
    pub(super) fn licences(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.companions.iter().filter(|(name, _)| LICENCES.contains(&name.as_str()))
    }

    /// The content of a companion file.
    #[must_use]
    pub fn companion(&self, name: &str) -> Option<&[u8]> {
        self.companions.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The model that the configuration describes, with the head and pooler of `model`: whether an
    /// encoder has them depends on its tensors.
    pub(super) fn config_of(
        &self,
        model: &Transformer,
    ) -> Result<TransformerConfig, CheckpointError> {
        let TransformerConfig { masked_head, pooler, .. } = *model.config();
        Ok(TransformerConfig { masked_head, pooler, ..self.decoder_config()? })
    }

    /// The model that the configuration describes.
    pub(super) fn decoder_config(&self) -> Result<TransformerConfig, CheckpointError> {
        TransformerConfig::from_json(&Value::Object(self.config.clone())).map_err(|source| {
            CheckpointError::Config { path: self.dir.join(self.placed(CONFIG)), source }
        })
    }
}

/// Where a file of a model is, from its directory: those of the transformer may have a folder.
fn placed(folder: Option<&str>, name: &str) -> String {
    let mut own = [CONFIG, GENERATION_CONFIG].into_iter();
    let is_own = own.any(|own| own == name)
        || TOKENIZER_FILES.contains(&name)
        || SENTENCE_TRANSFORMER.contains(&name);
    match folder.filter(|_| is_own) {
        Some(folder) => format!("{folder}/{name}"),
        None => name.to_owned(),
    }
}
