//! Reads one matrix of a checkpoint by name, without building a model.

use linwright_files::{FileError, TensorFile, weight_files};
use linwright_run::sha256_hex;
use linwright_run::spelling::nearest_names;
use linwright_tensor::Mat;
use std::path::Path;

/// A matrix from a file.
#[derive(Clone, Debug)]
pub struct StoredMatrix {
    /// The numbers (rows, cols).
    pub values: Mat<f32>,
    /// Storage type.
    pub dtype: String,
    /// SHA-256 of the stored bytes in row-major order, in lower-case hexadecimal.
    pub sha256: String,
}

/// An error in reading a matrix.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// An unreadable weight file, or a non-finite number.
    #[error(transparent)]
    File(#[from] FileError),
    /// No tensor of this name.
    #[error("none of {tensors} tensors is called {name:?}; {nearest}")]
    Unknown {
        /// The name.
        name: String,
        /// Number of tensors.
        tensors: usize,
        /// Suggestion of similar names.
        nearest: String,
    },
    /// A tensor that is not a matrix.
    #[error("{name} has the shape {shape:?}; expected a non-empty matrix")]
    NotAMatrix {
        /// Its name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
}

/// Reads a matrix from a weight file or a directory of them.
///
/// # Errors
/// [`StoredError`]; for an unknown name it suggests the nearest ones.
pub fn stored_matrix(path: &Path, name: &str) -> Result<StoredMatrix, StoredError> {
    let files = weight_files(path)?;
    let Some((file, info)) = files.iter().find_map(|file| Some((file, file.tensors().get(name)?)))
    else {
        let names: Vec<&str> = files.iter().flat_map(names_of).collect();
        return Err(StoredError::Unknown {
            name: name.to_owned(),
            tensors: names.len(),
            nearest: nearest_names(name, &names),
        });
    };
    let shape = info.shape.clone();
    let [rows, cols] = shape[..] else {
        return Err(StoredError::NotAMatrix { name: name.to_owned(), shape });
    };
    if rows == 0 || cols == 0 {
        return Err(StoredError::NotAMatrix { name: name.to_owned(), shape });
    }
    let read = file.read(name, &shape)?;
    // In row-major order, regardless of the order in the file.
    let sha256 = sha256_hex(&file.stored(info, 0..rows * cols));
    let values = Mat::from_vec(rows, cols, read.values);
    Ok(StoredMatrix { values, dtype: info.dtype.name().to_lowercase(), sha256 })
}

fn names_of(file: &TensorFile) -> impl Iterator<Item = &str> {
    file.tensors().keys().map(String::as_str)
}
