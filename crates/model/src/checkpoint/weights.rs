//! The weight files of a checkpoint as one set of tensors.

use super::error::CheckpointError;
use super::safetensors_file::SafetensorsFile;
use super::source::read_object;
use linwright_tensor::dtype::DType;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Name of a single weight file.
pub(super) const SINGLE: &str = "model.safetensors";
/// Name of the list of shards.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Weight files that are recognised, in order to say what to do with them.
const UNREAD: [(&str, &str); 4] = [
    ("pytorch_model.bin", "pickled files are not read: convert it to safetensors"),
    ("pytorch_model.bin.index.json", "pickled files are not read: convert them to safetensors"),
    ("consolidated.00.pth", "pickled files are not read: convert it to safetensors"),
    ("tf_model.h5", "TensorFlow files are not read: convert it to safetensors"),
];

/// All weight files, and in which of them each tensor lies.
#[derive(Debug)]
pub(super) struct Weights {
    dir: PathBuf,
    files: Vec<SafetensorsFile>,
    place: BTreeMap<String, usize>,
}

impl Weights {
    /// Opens the weight files of a directory; a single file goes before an index.
    pub(super) fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let (single, index) = (dir.join(SINGLE), dir.join(INDEX));
        if single.exists() {
            let file = SafetensorsFile::open(&single)?;
            let place = file.tensors().keys().map(|name| (name.clone(), 0)).collect();
            return Ok(Self { dir: dir.into(), files: vec![file], place });
        }
        if index.exists() {
            return Self::open_shards(dir, &index);
        }
        let known = UNREAD.iter().find(|(name, _)| dir.join(name).exists());
        let found = match known {
            Some((name, advice)) => format!("{name} ({advice})"),
            None => "neither".to_owned(),
        };
        Err(CheckpointError::NoWeights { path: dir.into(), found })
    }

    fn open_shards(dir: &Path, index: &Path) -> Result<Self, CheckpointError> {
        let mut files: Vec<SafetensorsFile> = Vec::new();
        let mut place = BTreeMap::new();
        for (shard, names) in read_index(index)? {
            let path = dir.join(&shard);
            if !path.exists() {
                return Err(CheckpointError::MissingShard {
                    index: index.into(),
                    shard,
                    tensor: names[0].clone(),
                    others: names.len() - 1,
                });
            }
            let file = SafetensorsFile::open(&path)?;
            if let Some(name) = names.iter().find(|name| !file.tensors().contains_key(*name)) {
                return Err(CheckpointError::NotInShard {
                    index: index.into(),
                    shard,
                    tensor: name.clone(),
                });
            }
            place.extend(names.into_iter().map(|name| (name, files.len())));
            // Tensors that the index forgets are seen too, so that they can be spoken of.
            for name in file.tensors().keys() {
                place.entry(name.clone()).or_insert(files.len());
            }
            files.push(file);
        }
        Ok(Self { dir: dir.into(), files, place })
    }

    /// Names of all tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.place.keys().map(String::as_str)
    }

    /// Names of the tensors of a site: those that start with `<site>.`.
    pub(super) fn names_of(&self, site: &str) -> Vec<String> {
        let prefix = format!("{site}.");
        self.place
            .range(prefix.clone()..)
            .take_while(|(name, _)| name.starts_with(&prefix))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The file that holds a tensor. `shape` is only for the message.
    pub(super) fn file_of(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<&SafetensorsFile, CheckpointError> {
        let missing = || CheckpointError::MissingTensor {
            path: match self.files.as_slice() {
                [file] => file.path().into(),
                _ => self.dir.clone(),
            },
            name: name.into(),
            expected: shape.to_vec(),
        };
        self.place.get(name).map(|&file| &self.files[file]).ok_or_else(missing)
    }

    /// The type of most stored numbers; `f32` if there are none.
    pub(super) fn main_dtype(&self) -> DType {
        let mut counts = [(DType::F32, 0), (DType::Bf16, 0), (DType::F16, 0), (DType::F64, 0)];
        let tensors = self.files.iter().flat_map(|file| file.tensors().values());
        for info in tensors {
            if let Some(count) = counts.iter_mut().find(|(d, _)| Some(*d) == info.dtype.float()) {
                count.1 += info.bytes.len() / count.0.size();
            }
        }
        let most = counts.iter().map(|(_, count)| *count).max();
        counts
            .iter()
            .find(|(_, count)| Some(*count) == most)
            .map_or(DType::F32, |(dtype, _)| *dtype)
    }
}

/// The weight files of a path: a file, the files of a model, or else all safetensors files of a
/// directory in the order of their names. No configuration is needed.
///
/// # Errors
/// [`CheckpointError`] saying which file is wrong and how.
pub fn weight_files(path: &Path) -> Result<Vec<SafetensorsFile>, CheckpointError> {
    if !path.metadata().map_err(CheckpointError::read(path))?.is_dir() {
        return Ok(vec![SafetensorsFile::open(path)?]);
    }
    let nothing = match Weights::open(path) {
        Err(error @ CheckpointError::NoWeights { .. }) => error,
        opened => return Ok(opened?.files),
    };
    let mut paths = Vec::new();
    for entry in path.read_dir().map_err(CheckpointError::read(path))? {
        let file = entry.map_err(CheckpointError::read(path))?.path();
        if file.extension().is_some_and(|end| end == "safetensors") {
            paths.push(file);
        }
    }
    if paths.is_empty() {
        return Err(nothing);
    }
    paths.sort();
    paths.iter().map(|path| SafetensorsFile::open(path)).collect()
}

/// The shards of an index with the tensors of each, checked to be plain file names.
fn read_index(index: &Path) -> Result<BTreeMap<String, Vec<String>>, CheckpointError> {
    let object = read_object(index)?;
    let wrong = |reason: String| CheckpointError::Json {
        path: index.into(),
        reason,
        expected: "an object weight_map from tensor names to file names",
    };
    let map = match object.get("weight_map") {
        Some(Value::Object(map)) => map,
        Some(_) => return Err(wrong("weight_map is not an object".into())),
        None => return Err(wrong("weight_map is missing".into())),
    };
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, shard) in map {
        let Value::String(shard) = shard else {
            return Err(wrong(format!("weight_map gives {shard} for tensor {name}")));
        };
        let mut parts = Path::new(shard).components();
        let plain = matches!(parts.next(), Some(Component::Normal(part)) if part == shard.as_str());
        if !plain || parts.next().is_some() || shard.contains(['\\', '\0']) {
            return Err(CheckpointError::ShardPath {
                index: index.into(),
                shard: shard.clone(),
                tensor: name.clone(),
            });
        }
        shards.entry(shard.clone()).or_default().push(name.clone());
    }
    Ok(shards)
}
