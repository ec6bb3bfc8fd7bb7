//! The weight files of a checkpoint as one set of tensors.

use super::header::TensorInfo;
use super::tensor_file::{HalfTensor, PlacedTensor, Tensor, TensorFile};
use crate::FileError;
use crate::GGUF_MAGIC;
use crate::json::read_object;
use crate::modules::transformer_dir;
use linwright_run::{input, shown};
use linwright_tensor::HalfType;
use linwright_tensor::dtype::DType;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Name of a single weight file.
pub const SINGLE: &str = "model.safetensors";
/// File name of the shard index.
pub const INDEX: &str = "model.safetensors.index.json";
/// Names of single weight files, the first that exists is taken; each with its shard index.
const KNOWN: [(&str, &str); 2] =
    [(SINGLE, INDEX), ("pytorch_model.bin", "pytorch_model.bin.index.json")];
/// First and second file of a tensor-parallel checkpoint, whose parts hold slices of every tensor.
const PARTS: [&str; 2] = ["consolidated.00.pth", "consolidated.01.pth"];
/// Weight files that are recognised only for an error message.
const UNREAD: [(&str, &str); 1] =
    [("tf_model.h5", "TensorFlow files are not read: convert it to safetensors")];

/// All weight files of a model, with the file of each tensor.
#[derive(Debug)]
pub struct Weights {
    dir: PathBuf,
    files: Vec<TensorFile>,
    place: BTreeMap<String, usize>,
}

impl Weights {
    /// Opens one weight file, or those of a directory: `model.safetensors`, shards with
    /// `model.safetensors.index.json`, `pytorch_model.bin`, shards with
    /// `pytorch_model.bin.index.json` or `consolidated.00.pth`, the first that exists, or else all
    /// safetensors files.
    ///
    /// # Errors
    /// [`FileError`] if there are none, or one of them is invalid.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        if path.metadata().map_err(FileError::read(path))?.is_file() {
            return Self::open_single(path, path);
        }
        match Found::in_directory(path)? {
            Found::Index(index) => Self::open_shards(path, &index),
            Found::Files(files) => Self::open_files(path, &files),
        }
    }

    /// Files without an index: each tensor is in exactly one of them.
    fn open_files(dir: &Path, paths: &[PathBuf]) -> Result<Self, FileError> {
        let (mut files, mut place) = (Vec::new(), BTreeMap::new());
        for path in paths {
            let file = TensorFile::open(path)?;
            for name in file.tensors().keys() {
                if let Some(other) = place.insert(name.clone(), files.len()) {
                    let first: &TensorFile = &files[other];
                    return Err(FileError::TwoFiles {
                        tensor: shown(name),
                        first: first.path().into(),
                        second: path.clone(),
                    });
                }
            }
            files.push(file);
        }
        Ok(Self { dir: dir.into(), files, place })
    }

    fn open_single(dir: &Path, path: &Path) -> Result<Self, FileError> {
        let file = TensorFile::open(path)?;
        let place = file.tensors().keys().map(|name| (name.clone(), 0)).collect();
        Ok(Self { dir: dir.into(), files: vec![file], place })
    }

    fn open_shards(dir: &Path, index: &Path) -> Result<Self, FileError> {
        let mut files: Vec<TensorFile> = Vec::new();
        let mut place = BTreeMap::new();
        for (shard, names) in read_index(index)? {
            let path = index.with_file_name(&shard);
            if !path.exists() {
                return Err(FileError::MissingShard {
                    index: index.into(),
                    shard,
                    tensor: shown(&names[0]),
                    others: names.len() - 1,
                });
            }
            let file = TensorFile::open(&path)?;
            if let Some(name) = names.iter().find(|name| !file.tensors().contains_key(*name)) {
                return Err(FileError::NotInShard {
                    index: index.into(),
                    shard,
                    tensor: shown(name),
                });
            }
            place.extend(names.into_iter().map(|name| (name, files.len())));
            // Tensors missing in the index are found too, so that they can be reported.
            for name in file.tensors().keys() {
                place.entry(name.clone()).or_insert(files.len());
            }
            files.push(file);
        }
        Ok(Self { dir: dir.into(), files, place })
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.place.contains_key(name)
    }

    /// Whether both tensors exist and hold the same floating-point numbers in the same type and
    /// shape.
    pub fn same(&self, a: &str, b: &str) -> bool {
        /// Numbers per block of the comparison.
        const BLOCK: usize = 1 << 18;
        let find = |name: &str| {
            let file = &self.files[*self.place.get(name)?];
            Some((file, file.tensors().get(name)?))
        };
        let Some(((file_a, a), (file_b, b))) = find(a).zip(find(b)) else {
            return false;
        };
        let numbers: usize = a.shape.iter().product();
        a.dtype.float().is_some()
            && (a.dtype, &a.shape) == (b.dtype, &b.shape)
            && (0..numbers).step_by(BLOCK).all(|start| {
                let block = start..numbers.min(start + BLOCK);
                let same = file_a.stored(a, block.clone()) == file_b.stored(b, block.clone());
                file_a.release(a, block.clone());
                file_b.release(b, block);
                same
            })
    }

    /// Compares all files with the lists of hashes next to them, as
    /// [`check_listed`](crate::check_listed).
    ///
    /// # Errors
    /// [`FileError::Changed`].
    pub fn check_listed(&self) -> Result<(), FileError> {
        self.files.iter().try_for_each(|file| crate::check_listed(file.path()))
    }

    /// Notes for the reader on how the files were read.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let of_file = |file: &TensorFile| {
            let name = file.path().file_name().unwrap_or_default().display().to_string();
            file.notes().iter().map(|note| format!("{name}: {note}")).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of_file)
    }

    /// Type, shape and location of a tensor.
    #[must_use]
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.place.get(name).and_then(|&file| self.files[file].tensors().get(name))
    }

    /// Reads a tensor of floating-point numbers.
    ///
    /// # Errors
    /// As [`TensorFile::read`].
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<Tensor, FileError> {
        self.file_of(name, shape)?.read(name, shape)
    }

    /// Reads a tensor of floating-point numbers into 16 bits.
    ///
    /// # Errors
    /// As [`TensorFile::read_half`].
    pub fn read_half(
        &self,
        name: &str,
        shape: &[usize],
        of: HalfType,
    ) -> Result<HalfTensor, FileError> {
        self.file_of(name, shape)?.read_half(name, shape, of)
    }

    /// A tensor of floating-point numbers that stays in its file.
    ///
    /// # Errors
    /// As [`TensorFile::placed`].
    pub fn placed(&self, name: &str, shape: &[usize]) -> Result<Option<PlacedTensor>, FileError> {
        self.file_of(name, shape)?.placed(name, shape)
    }

    /// Names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.place.keys().map(String::as_str)
    }

    /// Names of the tensors of a site: those that start with `<site>.`.
    pub fn names_of(&self, site: &str) -> Vec<String> {
        let prefix = format!("{site}.");
        self.place
            .range(prefix.clone()..)
            .take_while(|(name, _)| name.starts_with(&prefix))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The file that holds a tensor. `shape` is only for the message.
    pub fn file_of(&self, name: &str, shape: &[usize]) -> Result<&TensorFile, FileError> {
        let missing = || FileError::MissingTensor {
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
    #[must_use]
    pub fn main_dtype(&self) -> DType {
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

/// The weight files of a path: a file, or those of a directory as in [`Weights::open`]. No
/// configuration is needed, and a tensor may be in several files.
///
/// # Errors
/// [`FileError`] saying which file is wrong and how.
pub fn weight_files(path: &Path) -> Result<Vec<TensorFile>, FileError> {
    if !path.metadata().map_err(FileError::read(path))?.is_dir() {
        return Ok(vec![TensorFile::open(path)?]);
    }
    match Found::in_directory(path)? {
        Found::Index(index) => Ok(Weights::open_shards(path, &index)?.files),
        Found::Files(files) => files.iter().map(|path| TensorFile::open(path)).collect(),
    }
}

/// The weights of a directory.
enum Found {
    /// A shard index.
    Index(PathBuf),
    /// Files with tensors.
    Files(Vec<PathBuf>),
}

impl Found {
    /// Decides which files of a directory, or of that of its transformer, are its weights: the
    /// first of [`KNOWN`] and [`PARTS`] that exists, else all safetensors files sorted by name.
    fn in_directory(dir: &Path) -> Result<Self, FileError> {
        let dir = &transformer_dir(dir);
        for (single, index) in KNOWN {
            let (single, index) = (dir.join(single), dir.join(index));
            if single.exists() {
                return Ok(Self::Files(vec![single]));
            }
            if index.exists() {
                return Ok(Self::Index(index));
            }
        }
        let nothing = |found| FileError::NoWeights { path: dir.into(), found };
        let [first, second] = PARTS.map(|part| dir.join(part));
        if second.exists() {
            let found = format!(
                "{} and further parts (a model split for several devices: merge it)",
                PARTS[0]
            );
            return Err(nothing(found));
        }
        if first.exists() {
            return Ok(Self::Files(vec![first]));
        }
        let others = files_with(dir, "safetensors")?;
        if !others.is_empty() {
            return Ok(Self::Files(others));
        }
        let unread = UNREAD.iter().find(|(name, _)| dir.join(name).exists());
        let mut ggufs = files_with(dir, "gguf")?;
        // An export leaves one such file; the caller's error message says how to use it.
        if let (None, [_]) = (unread, &ggufs[..]) {
            return Ok(Self::Files(std::mem::take(&mut ggufs)));
        }
        if let (None, Some(first)) = (unread, gguf_among(&ggufs)) {
            return Ok(Self::Files(vec![first.into()]));
        }
        Err(nothing(match (unread, &ggufs[..]) {
            (Some((name, advice)), _) => format!("{name} ({advice})"),
            (None, [_, ..]) => {
                let names = ggufs.iter().filter_map(|path| path.file_name());
                let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
                format!("{} (GGUF files are whole models: give one itself)", names.join(", "))
            }
            (None, []) => "neither".to_owned(),
        }))
    }
}

/// The GGUF file that represents a model, if the files are one file or the parts of one model.
#[must_use]
pub fn gguf_among(files: &[PathBuf]) -> Option<&Path> {
    match files {
        [one] => Some(one),
        #[cfg(feature = "gguf")]
        several => crate::gguf::one_split_model(several),
        #[cfg(not(feature = "gguf"))]
        _ => None,
    }
}

/// The GGUF file of a path: itself, or that of a directory which has no weights of another kind.
///
/// # Errors
/// As [`Weights::open`].
pub fn gguf_at(path: &Path) -> Result<Option<PathBuf>, FileError> {
    if path.metadata().map_err(FileError::read(path))?.is_file() {
        let mut magic = [0; GGUF_MAGIC.len()];
        let read = input::open(path).and_then(|mut file| file.read_exact(&mut magic));
        return Ok((read.is_ok() && magic == GGUF_MAGIC).then(|| path.into()));
    }
    match Found::in_directory(path)? {
        Found::Files(mut files) if files.len() == 1 => match files.pop() {
            Some(file) if file.extension().is_some_and(|end| end == "gguf") => Ok(Some(file)),
            _ => Ok(None),
        },
        Found::Files(_) | Found::Index(_) => Ok(None),
    }
}

/// The files of a directory with this suffix, sorted by name.
pub fn files_with(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, FileError> {
    let mut paths = Vec::new();
    for entry in dir.read_dir().map_err(FileError::read(dir))? {
        let file = entry.map_err(FileError::read(dir))?.path();
        if file.extension().is_some_and(|end| end == extension) {
            paths.push(file);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The file with the weights, or the shard index, that [`Weights::open`] would take; `has` says
/// whether a file exists.
pub fn weights_among(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let known = KNOWN.iter().flat_map(|(single, index)| [*single, *index]);
    let parts = (!has(PARTS[1])).then_some(PARTS[0]);
    known.chain(parts).find(|name| has(name))
}

/// Shard names of an index, sorted.
///
/// # Errors
/// [`FileError`] if it is not an index, or a name leads out of the folder.
pub fn shards_of(index: &Path) -> Result<Vec<String>, FileError> {
    Ok(read_index(index)?.into_keys().collect())
}

/// The first weight file missing in a directory; none if all exist.
///
/// # Errors
/// [`FileError`] if an index is damaged.
pub fn lacking_weights(dir: &Path) -> Result<Option<String>, FileError> {
    let dir = &transformer_dir(dir);
    for (single, index) in KNOWN {
        let index = dir.join(index);
        if dir.join(single).exists() {
            return Ok(None);
        }
        if index.exists() {
            let shards = read_index(&index)?;
            return Ok(shards.into_keys().find(|shard| !dir.join(shard).exists()));
        }
    }
    Ok((!dir.join(PARTS[0]).exists()).then(|| "its weights".into()))
}

/// The shards of an index with the tensors of each, checked to be plain file names.
fn read_index(index: &Path) -> Result<BTreeMap<String, Vec<String>>, FileError> {
    let object = read_object(index)?;
    let wrong = |reason: String| FileError::Json {
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
            let (shard, name) = (shard.to_string(), shown(name));
            let shard = shown(&shard);
            return Err(wrong(format!("weight_map gives {shard} for tensor {name}")));
        };
        let mut parts = Path::new(shard).components();
        let plain = matches!(parts.next(), Some(Component::Normal(part)) if part == shard.as_str());
        if !plain || parts.next().is_some() || shard.contains(['\\', '\0']) {
            return Err(FileError::ShardPath {
                index: index.into(),
                shard: shown(shard),
                tensor: shown(name),
            });
        }
        shards.entry(shard.clone()).or_default().push(name.clone());
    }
    Ok(shards)
}
