//! Errors of reading and writing weight files.

use crate::FileFault;
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::io;
use std::path::{Path, PathBuf};

/// Files of weights that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// An I/O error while reading.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// File or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A directory without weights in a known format.
    #[error("{} holds no weights: expected model.safetensors, model.safetensors.index.json or pytorch_model.bin, found {found}", path.display())]
    NoWeights {
        /// The directory.
        path: PathBuf,
        /// Files found instead, and what to do.
        found: String,
    },
    /// An invalid weight file.
    #[error("{}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: FileFault,
    },
    /// Invalid JSON, or JSON of another form.
    #[error("{}: {reason}; expected {expected}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// Expected content of the file.
        expected: &'static str,
    },
    /// A shard of the index that does not exist.
    #[error("{}: shard {shard} is missing, it holds {tensor} and {others} other tensors; copy it here", index.display(), shard = shown(shard), tensor = shown(tensor))]
    MissingShard {
        /// The index.
        index: PathBuf,
        /// Name of the shard.
        shard: String,
        /// A tensor of that shard.
        tensor: String,
        /// Number of other tensors of that shard.
        others: usize,
    },
    /// A tensor in two files without a common index.
    #[error("tensor {tensor} is in {} and in {}; a model has each tensor once: keep the files of one model, or their index", first.display(), second.display(), tensor = shown(tensor))]
    TwoFiles {
        /// The tensor.
        tensor: String,
        /// The first file.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A file whose hash differs from the one in the list beside it.
    #[error("{} is not the file that {list} beside it lists: it was damaged or changed; copy the directory again, or remove {list} if you changed the file yourself", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Name of the list.
        list: &'static str,
    },
    /// A tensor that is not in the shard named by the index.
    #[error("{}: tensor {tensor} should be in shard {shard}, but is not; index and shards belong to different models", index.display(), shard = shown(shard), tensor = shown(tensor))]
    NotInShard {
        /// The index.
        index: PathBuf,
        /// Name of the shard.
        shard: String,
        /// The tensor.
        tensor: String,
    },
    /// A shard name that is a path out of the directory.
    #[error("{}: shard \"{shard}\" of tensor {tensor} is not a plain file name; shards must be in the folder of the index", index.display(), shard = shown(shard), tensor = shown(tensor))]
    ShardPath {
        /// The index.
        index: PathBuf,
        /// Name of the shard.
        shard: String,
        /// A tensor of that shard.
        tensor: String,
    },
    /// A missing tensor of the configuration.
    #[error("{}: tensor {name} is missing; the configuration requires shape {expected:?}", path.display(), name = shown(name))]
    MissingTensor {
        /// The file, or the directory of a sharded checkpoint.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
    },
    /// A tensor whose shape differs from the configuration.
    #[error("{}: tensor {name} has shape {found:?}, the configuration requires {expected:?}", path.display(), name = shown(name))]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Its shape by the configuration.
        expected: Vec<usize>,
        /// Its shape in the file.
        found: Vec<usize>,
    },
    /// A tensor of an unsupported type.
    #[error("{}: tensor {name} holds {found}, expected {expected}; quantised checkpoints must be dequantised first", path.display(), name = shown(name))]
    TensorType {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// The type in the file.
        found: &'static str,
        /// The supported types.
        expected: &'static str,
    },
    /// A non-finite weight.
    #[error("{}: tensor {name} holds {value} at index {index}; expected finite numbers, the checkpoint is damaged", path.display(), name = shown(name))]
    NonFinite {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Index of the first such number in the whole tensor.
        index: usize,
        /// The number.
        value: f32,
    },
    /// A weight that overflows the type it is held in.
    #[error(
        "{}: tensor {name} holds {value} at index {index}, which is too large for {dtype}; load in bf16 or f32",
        path.display(), name = shown(name)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Index of the first such number in the whole tensor.
        index: usize,
        /// The number.
        value: f32,
        /// Name of the type.
        dtype: &'static str,
    },
    /// A weight that is not finite or overflows the storage type.
    #[error(
        "tensor {name} holds {value} at index {index}, which {dtype} cannot store; save in f32, or fit the site again", name = shown(name)
    )]
    Unstorable {
        /// Name of the tensor.
        name: String,
        /// Index of the first such number.
        index: usize,
        /// The number.
        value: f32,
        /// The storage type.
        dtype: &'static str,
    },
    /// A tensor import that failed.
    #[error("{} {reason}", path.display())]
    Dump {
        /// The file or folder.
        path: PathBuf,
        /// What was expected and found.
        reason: String,
    },
    /// An error of writing.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl FileError {
    /// An I/O error while reading `path`.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Read { path, source }
    }
}
