//! Descriptions and networks in files.
//!
//! A description is a YAML or JSON file with a [`NetSpec`], and optionally the file of its weights
//! under `weights`, relative to it. A saved network is a directory with `config.json`, whose
//! `model_type` is [`MODEL_TYPE`], and `model.safetensors`.

use crate::step::Step;
use crate::{InputSpec, LayerSpec, Net, NetError, NetSpec};
use linwright_files::writer::{Planned, header_bytes, write_values};
use linwright_files::{CONFIG, DirWriter, FileError, SINGLE, SavedFile, Weights};
use linwright_ops::archive::{Tensor, save};
use linwright_ops::{Network, OpSpec, Sites};
use linwright_run::atomic::AtomicDir;
use linwright_run::{input, shown_reason};
use linwright_tensor::dtype::{DType, index_bytes};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The `model_type` of a saved network.
pub const MODEL_TYPE: &str = "linwright_net";

/// Version of the format of `config.json`.
const VERSION: u32 = 1;

/// Size limit of a description in bytes.
const MAX_BYTES: u64 = 1 << 22;

/// A network that was read.
#[derive(Clone, Debug)]
pub struct OpenedNet {
    /// The network.
    pub net: Net,
    /// SHA-256 of its description and weights, hexadecimal.
    pub hash: String,
}

/// A network that was saved, read back and found equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedNet {
    /// The directory.
    pub dir: PathBuf,
    /// Its files, without `SHA256SUMS`, which lists them.
    pub files: Vec<SavedFile>,
    /// Number of its parameters.
    pub parameters: u64,
    /// SHA-256 of its description and weights, hexadecimal.
    pub hash: String,
}

/// A file with a description.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    weights: Option<PathBuf>,
    input: InputSpec,
    layers: Vec<LayerSpec>,
    #[serde(default)]
    operators: BTreeMap<String, OpSpec>,
}

/// `config.json` of a saved network.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    model_type: String,
    version: u32,
    input: InputSpec,
    layers: Vec<LayerSpec>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    operators: BTreeMap<String, OpSpec>,
}

impl NetSpec {
    /// Reads a description, and the path of its weights if it names one.
    ///
    /// # Errors
    /// [`NetError::Description`] naming file and place, [`NetError::Layer`] for layers that do not
    /// fit.
    pub fn read(path: &Path) -> Result<(Self, Option<PathBuf>), NetError> {
        Self::parse(path, &read_text(path)?)
    }

    /// [`Self::read`] for a text; `path` is its name in messages, and its location.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(path: &Path, text: &str) -> Result<(Self, Option<PathBuf>), NetError> {
        let described: Described = serde_saphyr::from_str(text)
            .map_err(|error| description_error(path, &error.to_string()))?;
        let Described { weights, input, layers, operators } = described;
        let spec = Self { input, layers, operators };
        spec.check()?;
        let beside = |weights| path.parent().unwrap_or(Path::new("")).join(weights);
        Ok((spec, weights.map(beside)))
    }

    /// Reads `config.json` of a saved network.
    fn of_directory(dir: &Path) -> Result<Self, NetError> {
        let path = dir.join(CONFIG);
        let wrong = |reason: &str| description_error(&path, reason);
        let text = read_text(&path)?;
        if !is_net_config(&text) {
            return Err(wrong(&format!(
                "model_type is not {MODEL_TYPE}: this is not a small network"
            )));
        }
        let config: Config =
            serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        if config.version != VERSION {
            let found = config.version;
            let reason =
                format!("version is {found}, this program reads {VERSION}; use a newer one");
            return Err(wrong(&reason));
        }
        let Config { input, layers, operators, .. } = config;
        let spec = Self { input, layers, operators };
        spec.check()?;
        Ok(spec)
    }
}

fn read_text(path: &Path) -> Result<String, NetError> {
    Ok(input::read_text(path, MAX_BYTES).map_err(FileError::read(path))?)
}

fn description_error(path: &Path, reason: &str) -> NetError {
    NetError::Description { path: path.into(), reason: shown_reason(reason) }
}

fn is_net_config(text: &str) -> bool {
    let config: Option<serde_json::Value> = serde_json::from_str(text).ok();
    config.is_some_and(|config| config["model_type"] == MODEL_TYPE)
}

impl Net {
    /// Whether a path is a saved network: a directory with a `config.json` of this kind.
    #[must_use]
    pub fn is_saved_at(dir: &Path) -> bool {
        read_text(&dir.join(CONFIG)).is_ok_and(|text| is_net_config(&text))
    }

    /// Reads a saved network, or a description with its weights.
    ///
    /// # Errors
    /// [`NetError`] with the file and the reason.
    pub fn open(path: &Path) -> Result<OpenedNet, NetError> {
        let (spec, weights) = if path.is_dir() {
            (NetSpec::of_directory(path)?, path.to_owned())
        } else {
            let (spec, weights) = NetSpec::read(path)?;
            let missing = || description_error(path, "it names no weights; add `weights: FILE`");
            (spec, weights.ok_or_else(missing)?)
        };
        let (net, hash) = Self::load_hashed(&spec, &weights)?;
        if path.is_dir() {
            Weights::open(path)?.check_listed()?;
        }
        Ok(OpenedNet { net, hash })
    }

    /// Writes the network and further files to a directory, and reads it back.
    ///
    /// # Errors
    /// [`NetError::Operator`] for an operator that cannot be stored, [`NetError::NotSame`] if the
    /// network differs when read back; [`FileError`]. The directory is then unchanged.
    pub fn save(
        &self,
        out: &Path,
        force: bool,
        files: &[(String, Vec<u8>)],
    ) -> Result<SavedNet, NetError> {
        let target = AtomicDir::create(out, force).map_err(FileError::from)?;
        let mut writer = DirWriter::new(target);
        let NetSpec { input, layers, operators } = self.current_spec();
        let model_type = MODEL_TYPE.to_owned();
        let config = Config { model_type, version: VERSION, input, layers, operators };
        let config = serde_json::to_string_pretty(&config)
            .map_err(|error| description_error(out, &error.to_string()))?;
        writer.text(CONFIG, format!("{config}\n").as_bytes())?;
        for (name, bytes) in files {
            writer.text(name, bytes)?;
        }
        let tensors = self.stored()?;
        writer.stream::<NetError>(SINGLE, |out| {
            let planned: Vec<Planned> = tensors.iter().map(StoredTensor::planned).collect();
            out.write_all(&header_bytes(&planned))?;
            for StoredTensor { name, content, .. } in &tensors {
                match content {
                    Content::Values(values) => write_values(out, name, DType::F32, values)?,
                    Content::Indices(values) => out.write_all(index_bytes(values))?,
                }
            }
            Ok(())
        })?;
        writer.checksums()?;
        let OpenedNet { net, hash } = Self::open(writer.target.path())?;
        let back = net.stored()?;
        if let Some((written, _)) = tensors.iter().zip(&back).find(|(a, b)| a != b) {
            return Err(NetError::NotSame { path: out.into(), name: written.name.clone() });
        }
        writer.target.commit().map_err(FileError::from)?;
        let parameters = self.parameters();
        Ok(SavedNet { dir: out.into(), files: writer.files, parameters, hash })
    }

    /// The description with the current operators of the slots.
    #[must_use]
    pub fn current_spec(&self) -> NetSpec {
        let mut spec = self.spec().clone();
        spec.operators.clear();
        for slot in self.slots() {
            let operator = slot.op().map().spec();
            if !matches!(operator, OpSpec::Dense(_)) {
                spec.operators.insert(slot.id().0.clone(), operator);
            }
        }
        spec
    }

    /// All tensors in file order.
    fn stored(&self) -> Result<Vec<StoredTensor<'_>>, NetError> {
        let mut tensors = Vec::new();
        for stage in &self.stages {
            of_slots(stage.step.as_ref(), &mut tensors)?;
            tensors.extend(stage.step.vectors().into_iter().map(|(name, values)| StoredTensor {
                name,
                shape: vec![values.len()],
                content: Content::Values(Cow::Borrowed(values)),
            }));
        }
        Ok(tensors)
    }
}

/// Adds the tensors of the slots of a step.
fn of_slots<'a>(step: &'a dyn Step<f32>, all: &mut Vec<StoredTensor<'a>>) -> Result<(), NetError> {
    for slot in step.slots() {
        let id = slot.id();
        let (header, tensors) =
            save(slot.op()).map_err(|source| NetError::Operator { slot: id.0.clone(), source })?;
        let dense = matches!(header.spec, OpSpec::Dense(_));
        for (name, tensor) in tensors {
            let (shape, content) = match tensor {
                Tensor::Values(shape, values) => (shape, Content::Values(Cow::Owned(values))),
                Tensor::Indices(values) => (vec![values.len()], Content::Indices(values)),
            };
            let shape = step.weight_shape().filter(|_| dense).unwrap_or(shape);
            all.push(StoredTensor { name: format!("{id}.{name}"), shape, content });
        }
        all.extend(slot.bias().map(|bias| StoredTensor {
            name: format!("{id}.bias"),
            shape: vec![bias.len()],
            content: Content::Values(Cow::Borrowed(bias)),
        }));
    }
    Ok(())
}

/// A tensor in a file.
#[derive(PartialEq)]
struct StoredTensor<'a> {
    name: String,
    shape: Vec<usize>,
    content: Content<'a>,
}

#[derive(PartialEq)]
enum Content<'a> {
    Values(Cow<'a, [f32]>),
    Indices(Vec<u32>),
}

impl StoredTensor<'_> {
    fn planned(&self) -> Planned {
        match &self.content {
            Content::Values(_) => {
                Planned::values(self.name.clone(), DType::F32, self.shape.clone())
            }
            Content::Indices(values) => Planned::indices(self.name.clone(), values.len()),
        }
    }
}
