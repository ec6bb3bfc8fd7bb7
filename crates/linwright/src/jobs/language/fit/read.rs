//! Matrices in files.

use crate::jobs::kit::Failure;
use linwright_files::{NPY_MAGIC, NpzArray, StoredType, TensorFile};
use linwright_run::{input, shown};
use linwright_tensor::linalg::orthonormal_columns;
use linwright_tensor::{Mat, RngKey};
use std::io::Read;
use std::path::Path;

/// Scale of the distances of an exponential kernel.
const SCALE: f64 = 4.0;
/// Largest side of a matrix that is made.
const MOST_SIDE: usize = 2048;

/// The matrix of a name such as `orthogonal:12`, made of a key; none for other names.
///
/// # Errors
/// [`Failure`] for a side that cannot be.
pub(super) fn made(name: &str, key: RngKey) -> Option<Result<Mat<f64>, Failure>> {
    let (kind, side) = name.split_once(':')?;
    if !["normal", "orthogonal", "permutation", "exponential"].contains(&kind) {
        return None;
    }
    let Some(n) = side.parse::<usize>().ok().filter(|n| (1..=MOST_SIDE).contains(n)) else {
        let message = format!("{}: expected a side of 1 to {MOST_SIDE}", shown(name));
        return Some(Err(Failure::usage(message)));
    };
    let key = key.fold(kind);
    let normal = || Mat::from_vec(n, n, key.stream().normals(n * n, 1.0));
    Some(Ok(match kind {
        "normal" => normal(),
        "orthogonal" => match orthonormal_columns(normal().view()) {
            Ok(matrix) => matrix,
            Err(error) => return Some(Err(Failure::general(error.to_string()))),
        },
        "permutation" => {
            let order = key.stream().permutation(n);
            Mat::from_fn(n, n, |i, j| f64::from(u8::from(order[i] as usize == j)))
        }
        _ => Mat::from_fn(n, n, |i, j| (-(i.abs_diff(j) as f64) / SCALE).exp()),
    }))
}

/// Most numbers of a matrix: those of 16,384 x 16,384.
const MOST_NUMBERS: usize = 1 << 28;

/// A matrix in double precision: a numpy array, or a tensor of a file.
///
/// # Errors
/// [`Failure`] for an unreadable file, another number of extents, and numbers that are not finite.
pub(super) fn matrix(path: &Path, tensor: Option<&str>) -> Result<Mat<f64>, Failure> {
    let place = path.display();
    let (shape, numbers) = if is_npy(path) {
        if let Some(name) = tensor {
            let message = format!("{place}: an array has no tensor {}", shown(name));
            return Err(Failure::usage(message).hint("leave out the name of the tensor"));
        }
        let array = NpzArray::open(path)?;
        (array.shape, array.numbers)
    } else {
        named(path, tensor)?
    };
    let [rows, cols] = shape[..] else {
        return Err(Failure::general(format!("{place}: has shape {shape:?}, expected a matrix")));
    };
    if rows == 0 || cols == 0 {
        return Err(Failure::general(format!("{place}: has shape {shape:?}, expected numbers")));
    }
    match numbers.iter().position(|number| !number.is_finite()) {
        None => Ok(Mat::from_vec(rows, cols, numbers)),
        Some(at) => {
            let (row, col, value) = (at / cols, at % cols, numbers[at]);
            Err(Failure::general(format!(
                "{place}: the number at ({row}, {col}) is {value}, expected finite numbers"
            )))
        }
    }
}

fn is_npy(path: &Path) -> bool {
    let mut start = [0; NPY_MAGIC.len()];
    let read = input::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == NPY_MAGIC
}

/// Shape and numbers of a tensor of a file.
fn named(path: &Path, tensor: Option<&str>) -> Result<(Vec<usize>, Vec<f64>), Failure> {
    let file = TensorFile::open(path)?;
    let names: Vec<&str> = file.tensors().keys().map(String::as_str).collect();
    let name = match (tensor, &names[..]) {
        (Some(name), names) if names.contains(&name) => name,
        (None, [name]) => name,
        (found, _) => {
            let place = path.display();
            let message = match found {
                Some(name) => format!("{place}: has no tensor {}", shown(name)),
                None => format!("{place}: has {} tensors", names.len()),
            };
            let shown: Vec<String> = names.iter().take(20).map(|name| shown(name)).collect();
            return Err(Failure::usage(message)
                .hint(format!("name one by --tensor, such as {}", shown.join(", "))));
        }
    };
    let info = &file.tensors()[name];
    let shape = info.shape.clone();
    let count = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
    let Some(count) = count.filter(|count| *count <= MOST_NUMBERS) else {
        let message = format!("{}: {name} of shape {shape:?} is too large", path.display());
        return Err(Failure::general(message));
    };
    if info.dtype == StoredType::F64 {
        let bytes = file.stored(info, 0..count);
        let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        return Ok((shape, numbers.collect()));
    }
    let read = file.read(name, &shape)?;
    Ok((shape, read.values.into_iter().map(f64::from).collect()))
}
