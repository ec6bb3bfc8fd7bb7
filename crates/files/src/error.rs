//! What can be wrong with files of weights, coming in or going out.

use crate::FileFault;
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::io;
use std::path::{Path, PathBuf};

/// Files of weights that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused to read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// File or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory without weights that we read.
    #[error("{} holds no weights: expected model.safetensors, model.safetensors.index.json or pytorch_model.bin, found {found}", path.display())]
    NoWeights {
        /// The directory.
        path: PathBuf,
        /// What there is instead, and what to do.
        found: String,
    },
    /// A weight file that is not what it says.
    #[error("{}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: FileFault,
    },
    /// A file of JSON that is none, or of another form.
    #[error("{}: {reason}; expected {expected}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What the file should hold.
        expected: &'static str,
    },
    /// A shard named by the index that is not there.
    #[error("{}: shard {shard} is missing, it holds {tensor} and {others} other tensors; copy it here", index.display(), shard = shown(shard), tensor = shown(tensor))]
    MissingShard {
        /// The index.
        index: PathBuf,
        /// Name of the shard.
        shard: String,
        /// A tensor that it should hold.
        tensor: String,
        /// How many others it should hold.
        others: usize,
    },
    /// A tensor in two files that no index binds together.
    #[error("tensor {tensor} lies in {} and in {}; a model has each tensor once: keep the files of one model, or their index", first.display(), second.display(), tensor = shown(tensor))]
    TwoFiles {
        /// The tensor.
        tensor: String,
        /// The first file.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A tensor that the index places in a shard which does not have it.
    #[error("{}: tensor {tensor} should lie in shard {shard}, but does not; index and shards belong to different models", index.display(), shard = shown(shard), tensor = shown(tensor))]
    NotInShard {
        /// The index.
        index: PathBuf,
        /// Name of the shard.
        shard: String,
        /// The tensor.
        tensor: String,
    },
    /// A shard name that leads out of the directory.
    #[error("{}: shard \"{shard}\" of tensor {tensor} is not a plain file name; shards lie beside the index", index.display(), shard = shown(shard), tensor = shown(tensor))]
    ShardPath {
        /// The index.
        index: PathBuf,
        /// Name of the shard.
        shard: String,
        /// The tensor that it should hold.
        tensor: String,
    },
    /// A tensor that the configuration asks for.
    #[error("{}: tensor {name} is missing; the configuration asks for shape {expected:?}", path.display(), name = shown(name))]
    MissingTensor {
        /// The file, or the directory where there are shards.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
    },
    /// A tensor of another shape than the configuration asks for.
    #[error("{}: tensor {name} has shape {found:?}, the configuration asks for {expected:?}", path.display(), name = shown(name))]
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
    /// A tensor whose numbers are of a type that is not read.
    #[error("{}: tensor {name} holds {found}, expected {expected}; quantised checkpoints must be dequantised first", path.display(), name = shown(name))]
    TensorType {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// The type in the file.
        found: &'static str,
        /// The types that would do.
        expected: &'static str,
    },
    /// An infinity or NaN among the weights.
    #[error("{}: tensor {name} holds {value} at index {index}; expected finite numbers, the checkpoint is damaged", path.display(), name = shown(name))]
    NonFinite {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Place of the first such number, counted over the whole tensor.
        index: usize,
        /// The number.
        value: f32,
    },
    /// A number that the type in which it shall be held cannot hold.
    #[error(
        "{}: tensor {name} holds {value} at index {index}, which is too large for {dtype}; load in bf16 or f32",
        path.display(), name = shown(name)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Place of the first such number, counted over the whole tensor.
        index: usize,
        /// The number.
        value: f32,
        /// Name of the type.
        dtype: &'static str,
    },
    /// A number to be saved that is no number, or too large for the storage type.
    #[error(
        "tensor {name} holds {value} at index {index}, which {dtype} cannot store; save in f32, or fit the site again", name = shown(name)
    )]
    Unstorable {
        /// Name of the tensor.
        name: String,
        /// Place of the first such number.
        index: usize,
        /// The number.
        value: f32,
        /// The storage type.
        dtype: &'static str,
    },
    /// Tensors without a model that cannot be imported.
    #[error("{} {reason}", path.display())]
    Dump {
        /// The file or folder.
        path: PathBuf,
        /// What was expected and found.
        reason: String,
    },
    /// The result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl FileError {
    /// A failure to read `path`.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Read { path, source }
    }
}
