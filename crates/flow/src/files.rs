//! Flows in files: a directory with `config.json`, whose `model_type` is [`MODEL_TYPE`], and
//! `model.safetensors`.

use crate::{Flow, FlowError, FlowSpec};
use linwright_files::writer::{Planned, header_bytes, write_values};
use linwright_files::{CONFIG, DirWriter, FileError, SINGLE, SavedFile, Weights, hex};
use linwright_run::atomic::AtomicDir;
use linwright_run::{input, shown_reason};
use linwright_tensor::RngKey;
use linwright_tensor::dtype::{DType, index_bytes};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::Path;

/// The `model_type` of a saved flow.
pub const MODEL_TYPE: &str = "linwright_flow";

/// Version of the format of `config.json`.
const VERSION: u32 = 1;
/// Size limit of `config.json` in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// `config.json` of a saved flow.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    model_type: String,
    version: u32,
    flow: FlowSpec,
}

/// A flow that was read.
#[derive(Clone, Debug)]
pub struct OpenedFlow {
    /// The flow.
    pub flow: Flow,
    /// SHA-256 of its description and tensors, hexadecimal.
    pub hash: String,
}

/// A flow that was saved, read back and found equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFlow {
    /// Its files, without `SHA256SUMS`, which lists them.
    pub files: Vec<SavedFile>,
    /// SHA-256 of its description and tensors, hexadecimal.
    pub hash: String,
}

/// Tensors of a flow.
struct Stored {
    values: Vec<(String, Vec<usize>, Vec<f32>)>,
    indices: Vec<(String, Vec<u32>)>,
}

fn wrong(path: &Path, reason: &str) -> FlowError {
    FlowError::Description { path: path.to_owned(), reason: shown_reason(reason) }
}

impl FlowSpec {
    /// Parses the text of `config.json` of a saved flow; `path` is its name in messages.
    ///
    /// # Errors
    /// [`FlowError::Description`] with what is wrong.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FlowError> {
        let refuse = |reason: &str| wrong(path, reason);
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| refuse(&error.to_string()))?;
        if value["model_type"] != MODEL_TYPE {
            return Err(refuse(&format!("model_type is not {MODEL_TYPE}: this is not a flow")));
        }
        if value["version"] != VERSION {
            let found = shown_reason(&value["version"].to_string());
            return Err(refuse(&format!(
                "version is {found}, this program reads {VERSION}; use a newer one"
            )));
        }
        let config: Config =
            serde_json::from_value(value).map_err(|error| refuse(&error.to_string()))?;
        config.flow.check().map_err(|error| refuse(&error.to_string()))?;
        Ok(config.flow)
    }
}

fn read_spec(dir: &Path) -> Result<FlowSpec, FlowError> {
    let path = dir.join(CONFIG);
    let text = input::read_text(&path, MAX_BYTES).map_err(FileError::read(&path))?;
    FlowSpec::parse(&path, &text)
}

impl Flow {
    /// Whether a path is a saved flow: a directory with a `config.json` of this kind.
    #[must_use]
    pub fn is_saved_at(dir: &Path) -> bool {
        let text = input::read_text(&dir.join(CONFIG), MAX_BYTES);
        let config: Option<serde_json::Value> =
            text.ok().and_then(|text| serde_json::from_str(&text).ok());
        config.is_some_and(|config| config["model_type"] == MODEL_TYPE)
    }

    /// Reads a saved flow.
    ///
    /// # Errors
    /// [`FlowError::Description`] and [`FlowError::File`] with the file and the reason,
    /// [`FlowError::UnknownTensor`]; non-finite numbers, singular layers; a file that differs from
    /// the list of hashes.
    pub fn open(dir: &Path) -> Result<OpenedFlow, FlowError> {
        let spec = read_spec(dir)?;
        let weights = Weights::open(dir)?;
        // A description may declare more numbers than fit in memory: the file must contain them.
        let held: u64 = weights
            .names()
            .filter_map(|name| weights.info(name))
            .map(|info| info.shape.iter().fold(1, |n: u64, e| n.saturating_mul(*e as u64)))
            .fold(0, u64::saturating_add);
        let needed = spec.least_numbers();
        if held < needed {
            let reason = format!(
                "the flow has {needed} numbers or more, model.safetensors holds {held}; copy both \
                 files of one flow"
            );
            return Err(wrong(&dir.join(CONFIG), &reason));
        }
        let mut flow = Self::random(&spec, RngKey::new(0))?;
        let mut used = BTreeSet::new();
        for tensor in flow.tensors_mut() {
            let read = weights.read(&tensor.name, &tensor.shape)?;
            tensor.values.copy_from_slice(&read.values);
            used.insert(tensor.name);
        }
        for (name, to) in flow.indices_mut() {
            let (read, _) = weights.file_of(&name, &[to.len()])?.read_indices(&name)?;
            if read.len() != to.len() {
                let (found, expected) = (read.len(), to.len());
                return Err(wrong(
                    &dir.join(SINGLE),
                    &format!("{name} has {found} indices, expected {expected}"),
                ));
            }
            to.copy_from_slice(&read);
            used.insert(name);
        }
        if let Some(name) = weights.names().find(|name| !used.contains(*name)) {
            return Err(FlowError::UnknownTensor { path: dir.to_owned(), name: name.to_owned() });
        }
        flow.check()?;
        weights.check_listed()?;
        let hash = flow.stored().hash(&spec);
        Ok(OpenedFlow { flow, hash })
    }

    fn stored(&self) -> Stored {
        let mut own = self.clone();
        let tensors = own.tensors_mut().into_iter();
        let values = tensors.map(|tensor| (tensor.name, tensor.shape, tensor.values.to_vec()));
        Stored { values: values.collect(), indices: self.indices() }
    }

    /// Writes the flow and further files to a directory, and reads it back.
    ///
    /// # Errors
    /// [`FlowError::NotSame`] if the flow differs when read back; [`FlowError::File`]. The
    /// directory is then unchanged.
    pub fn save(
        &self,
        out: &Path,
        force: bool,
        files: &[(String, Vec<u8>)],
    ) -> Result<SavedFlow, FlowError> {
        let target = AtomicDir::create(out, force).map_err(FileError::from)?;
        let mut writer = DirWriter::new(target);
        let (model_type, flow) = (MODEL_TYPE.to_owned(), self.spec().clone());
        let config = Config { model_type, version: VERSION, flow };
        let config = serde_json::to_string_pretty(&config)
            .map_err(|error| wrong(out, &error.to_string()))?;
        writer.text(CONFIG, format!("{config}\n").as_bytes())?;
        for (name, bytes) in files {
            writer.text(name, bytes)?;
        }
        let stored = self.stored();
        writer.stream::<FlowError>(SINGLE, |out| {
            out.write_all(&header_bytes(&stored.planned()))?;
            for (name, _, values) in &stored.values {
                write_values(out, name, DType::F32, values)?;
            }
            for (_, values) in &stored.indices {
                out.write_all(index_bytes(values))?;
            }
            Ok(())
        })?;
        writer.checksums()?;
        let back = Self::open(writer.target.path())?;
        if let Some(name) = stored.difference(&back.flow.stored()) {
            return Err(FlowError::NotSame { path: out.to_owned(), name });
        }
        let (files, hash) = (writer.files.clone(), back.hash);
        writer.commit()?;
        Ok(SavedFlow { files, hash })
    }
}

impl Stored {
    fn planned(&self) -> Vec<Planned> {
        let values = self
            .values
            .iter()
            .map(|(name, shape, _)| Planned::values(name.clone(), DType::F32, shape.clone()));
        let indices = self.indices.iter();
        let indices = indices.map(|(name, values)| Planned::indices(name.clone(), values.len()));
        values.chain(indices).collect()
    }

    /// The first tensor that differs.
    fn difference(&self, other: &Self) -> Option<String> {
        let values = self.values.iter().zip(&other.values).find(|(a, b)| a != b);
        let indices = self.indices.iter().zip(&other.indices).find(|(a, b)| a != b);
        let value = values.map(|(own, _)| own.0.clone());
        value.or_else(|| indices.map(|(own, _)| own.0.clone()))
    }

    fn hash(&self, spec: &FlowSpec) -> String {
        let description = serde_json::to_vec(spec).unwrap_or_default();
        let mut hash = Sha256::new_with_prefix(&description);
        for (name, shape, values) in &self.values {
            hash.update(format!("\0{name}{shape:?}"));
            values.iter().for_each(|value| hash.update(value.to_le_bytes()));
        }
        for (name, values) in &self.indices {
            hash.update(format!("\0{name}"));
            values.iter().for_each(|value| hash.update(value.to_le_bytes()));
        }
        hex(&hash.finalize())
    }
}
