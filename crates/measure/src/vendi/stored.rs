//! A matrix of a checkpoint by its name, without building a model.

use linwright_files::{FileError, TensorFile, weight_files};
use linwright_run::sha256_hex;
use linwright_run::spelling::nearest_names;
use linwright_tensor::Mat;
use std::path::Path;

/// A matrix as it was read.
#[derive(Clone, Debug)]
pub struct StoredMatrix {
    /// The numbers (rows, cols).
    pub values: Mat<f32>,
    /// How they are stored.
    pub dtype: String,
    /// sha256 of the stored bytes, row by row, in lower-case hexadecimal.
    pub sha256: String,
}

/// A matrix that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// A weight file that cannot be read, or a number that is not finite.
    #[error(transparent)]
    File(#[from] FileError),
    /// No tensor of this name.
    #[error("none of {tensors} tensors is called {name:?}; {nearest}")]
    Unknown {
        /// The name.
        name: String,
        /// Tensors there are.
        tensors: usize,
        /// Names like it, in words.
        nearest: String,
    },
    /// A tensor that is no matrix.
    #[error("{name} has the shape {shape:?}; expected two extents above zero")]
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
/// [`StoredError`]; an unknown name is answered with the nearest ones.
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
    // Row by row however it lies in the file.
    let sha256 = sha256_hex(&file.stored(info, 0..rows * cols));
    let values = Mat::from_vec(rows, cols, read.values);
    Ok(StoredMatrix { values, dtype: info.dtype.name().to_lowercase(), sha256 })
}

fn names_of(file: &TensorFile) -> impl Iterator<Item = &str> {
    file.tensors().keys().map(String::as_str)
}
