//! Files of one operator: safetensors, with kind, options and shape in the metadata.
//!
//! In a model, operators are in the checkpoint (`model::checkpoint`); these files hold a single
//! operator. Numbers are stored in their own precision, `F32` or `F64`, and buffers as `U32`, under
//! the names of [`archive::save`].

use linwright_ops::archive::{self, Header, Tensor, Tensors};
use linwright_ops::{Op, OpError};
use linwright_run::atomic::{self, OutputError, Replace, check_file};
use linwright_run::{input, seal};
use linwright_tensor::Scalar;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Key of the header in the metadata of a file.
const HEADER: &str = "linwright_operator";

/// Largest file: [`linwright_ops::MAX_NUMBERS`] in f64, and room for a header.
const MOST_BYTES: u64 = linwright_ops::MAX_NUMBERS * 8 + (1 << 26);

/// Errors of reading and writing an operator's file.
#[derive(Debug, thiserror::Error)]
pub enum OperatorFileError {
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file with other content, or a damaged one.
    #[error("{name}: {reason}; expected a file written by `save` of an operator")]
    Format {
        /// The file, or `bytes`.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Tensors that do not match the operator, or an operator that cannot be archived.
    #[error("{name}: {source}")]
    Operator {
        /// The file, or `bytes`.
        name: String,
        /// What is wrong.
        source: OpError,
    },
}

/// Name of an operator that is in no file, in messages.
const NO_FILE: &str = "bytes";

/// Writes an operator to a file.
///
/// # Errors
/// [`OperatorFileError::Operator`] for an operator of another crate; [`OperatorFileError::Output`],
/// also if there is a file and `force` is false, or the file is not an operator file; then it is
/// unchanged.
pub fn save<T: Scalar>(op: &Op<T>, path: &Path, force: bool) -> Result<(), OperatorFileError> {
    check_file(path, force, is_operator)?;
    let bytes = encoded(op, &path.display().to_string())?;
    Ok(atomic::write(path, &bytes, Replace::if_forced(force, is_operator))?)
}

/// Reads an operator in either precision; numbers of the other one are converted.
///
/// # Errors
/// [`OperatorFileError`] if the file cannot be read, is not an operator file, or its tensors are
/// not those of its operator.
pub fn load<T: Scalar>(path: &Path) -> Result<Op<T>, OperatorFileError> {
    decoded(&bytes_of_file(path)?, &path.display().to_string())
}

/// Whether the numbers of a file are in f64.
///
/// # Errors
/// As [`load`].
pub fn is_double(path: &Path) -> Result<bool, OperatorFileError> {
    holds_double(&bytes_of_file(path)?, &path.display().to_string())
}

/// An operator as the bytes of a file.
///
/// # Errors
/// [`OperatorFileError::Operator`] for an operator of another crate.
pub fn to_bytes<T: Scalar>(op: &Op<T>) -> Result<Vec<u8>, OperatorFileError> {
    encoded(op, NO_FILE)
}

/// An operator from the bytes of a file, as [`load`].
///
/// # Errors
/// As [`load`].
pub fn from_bytes<T: Scalar>(bytes: &[u8]) -> Result<Op<T>, OperatorFileError> {
    decoded(bytes, NO_FILE)
}

/// As [`is_double`], of the bytes of a file.
///
/// # Errors
/// As [`load`].
pub fn are_double(bytes: &[u8]) -> Result<bool, OperatorFileError> {
    holds_double(bytes, NO_FILE)
}

fn wrong(name: &str, reason: impl ToString) -> OperatorFileError {
    OperatorFileError::Format { name: name.to_owned(), reason: reason.to_string() }
}

fn bytes_of_file(path: &Path) -> Result<Vec<u8>, OperatorFileError> {
    input::read(path, MOST_BYTES)
        .map_err(|source| OperatorFileError::Io { path: path.to_owned(), source })
}

fn encoded<T: Scalar>(op: &Op<T>, name: &str) -> Result<Vec<u8>, OperatorFileError> {
    let (header, tensors) = archive::save(op)
        .map_err(|source| OperatorFileError::Operator { name: name.to_owned(), source })?;
    let header = serde_json::to_string(&header).map_err(|error| wrong(name, error))?;
    let parts: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(tensor, content)| match content {
            Tensor::Values(shape, values) => (tensor, dtype::<T>(), shape, bytes_of(&values)),
            Tensor::Indices(values) => {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (tensor, Dtype::U32, vec![values.len()], bytes)
            }
        })
        .collect();
    let views: Result<Vec<(&str, TensorView<'_>)>, _> = parts
        .iter()
        .map(|(tensor, dtype, shape, bytes)| {
            TensorView::new(*dtype, shape.clone(), bytes).map(|view| (tensor.as_str(), view))
        })
        .collect();
    let views = views.map_err(|error| wrong(name, error))?;
    let blank = (seal::KEY.to_owned(), seal::BLANK.to_owned());
    let metadata = HashMap::from([(HEADER.to_owned(), header), blank]);
    let mut bytes =
        safetensors::serialize(views, Some(metadata)).map_err(|error| wrong(name, error))?;
    let head = seal::head_of(&bytes);
    let (head, rest) = bytes.split_at_mut(head);
    seal::seal(head, |add| add(rest));
    Ok(bytes)
}

fn decoded<T: Scalar>(bytes: &[u8], name: &str) -> Result<Op<T>, OperatorFileError> {
    let header = header_of(bytes, name)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| wrong(name, error))?;
    let mut tensors = Tensors::new();
    for (tensor, view) in file.tensors() {
        let shape = view.shape().to_vec();
        let content = match view.dtype() {
            Dtype::F32 => Tensor::Values(
                shape,
                words(view.data()).map(|b| T::from_f64(f32::from_le_bytes(b).into())).collect(),
            ),
            Dtype::F64 => Tensor::Values(
                shape,
                words(view.data()).map(|b| T::from_f64(f64::from_le_bytes(b))).collect(),
            ),
            Dtype::U32 => Tensor::Indices(words(view.data()).map(u32::from_le_bytes).collect()),
            other => {
                return Err(wrong(
                    name,
                    format!("tensor {tensor} is {other:?}, not F32, F64 or U32"),
                ));
            }
        };
        if let Tensor::Values(_, values) = &content
            && !values.iter().all(|value| value.to_f64().is_finite())
        {
            let reason = format!("tensor {tensor} has a number that is not finite");
            return Err(wrong(name, reason));
        }
        tensors.insert(tensor, content);
    }
    archive::load(&header, tensors)
        .map_err(|source| OperatorFileError::Operator { name: name.to_owned(), source })
}

fn holds_double(bytes: &[u8], name: &str) -> Result<bool, OperatorFileError> {
    header_of(bytes, name)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| wrong(name, error))?;
    Ok(file.tensors().iter().any(|(_, view)| view.dtype() == Dtype::F64))
}

fn header_of(bytes: &[u8], name: &str) -> Result<Header, OperatorFileError> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| wrong(name, error))?;
    let header = metadata.metadata().as_ref().and_then(|metadata| metadata.get(HEADER));
    let header = header.ok_or_else(|| wrong(name, "its metadata do not describe an operator"))?;
    // Files of other programs have none.
    if metadata.metadata().as_ref().is_some_and(|metadata| metadata.contains_key(seal::KEY)) {
        let (head, rest) = bytes.split_at(seal::head_of(bytes));
        let advice = "; write the operator again";
        seal::check(head, rest).map_err(|reason| wrong(name, reason + advice))?;
    }
    serde_json::from_str(header)
        .map_err(|error| wrong(name, format!("{HEADER} in its metadata: {error}")))
}

/// Whether there is an operator in a file, which `force` may then replace.
fn is_operator(path: &Path) -> bool {
    bytes_of_file(path).is_ok_and(|bytes| header_of(&bytes, NO_FILE).is_ok())
}

fn dtype<T: Scalar>() -> Dtype {
    if T::NAME == f64::NAME { Dtype::F64 } else { Dtype::F32 }
}

fn bytes_of<T: Scalar>(values: &[T]) -> Vec<u8> {
    let values = values.iter().map(|value| value.to_f64());
    match dtype::<T>() {
        Dtype::F64 => values.flat_map(f64::to_le_bytes).collect(),
        _ => values.flat_map(|value| (value as f32).to_le_bytes()).collect(),
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{OpSpec, Shape};
    use linwright_tensor::RngKey;

    #[test]
    fn every_kind_comes_back_with_the_same_bits() {
        let dir = tempfile::tempdir().unwrap();
        for (index, (spec, shape)) in OpSpec::examples().into_iter().enumerate() {
            let path = dir.path().join(format!("{index}.safetensors"));
            let double: Op<f64> = spec.random(shape, RngKey::new(7)).unwrap();
            save(&double, &path, false).unwrap();
            assert!(is_double(&path).unwrap() || double.parameters() == 0, "{spec:?}");
            assert_eq!(archive::save(&load::<f64>(&path).unwrap()), archive::save(&double));
            let single: Op<f32> = spec.random(shape, RngKey::new(7)).unwrap();
            save(&single, &path, true).unwrap();
            assert!(!is_double(&path).unwrap(), "{spec:?}");
            assert_eq!(archive::save(&load::<f32>(&path).unwrap()), archive::save(&single));
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("op.safetensors");
        let spec: OpSpec = serde_json::from_str(r#"{"kind":"monarch","blocks":2}"#).unwrap();
        let op: Op<f32> = spec.random(Shape { out: 4, inp: 4 }, RngKey::new(7)).unwrap();
        save(&op, &path, false).unwrap();
        let (bytes, mut harmless) = (std::fs::read(&path).unwrap(), 0);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            std::fs::write(&path, &changed).unwrap();
            match load::<f32>(&path) {
                Err(error) => assert!(error.to_string().contains("op.safetensors"), "{error}"),
                // Without its name the digest is not one; all numbers are there.
                Ok(found) => {
                    assert_eq!(archive::save(&found), archive::save(&op), "byte {at}");
                    harmless += 1;
                }
            }
        }
        assert!(harmless <= seal::KEY.len(), "{harmless}");
    }

    #[test]
    fn other_files_are_refused_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        std::fs::write(&path, "my notes").unwrap();
        let op: Op<f32> = OpSpec::default_of("dense")
            .unwrap()
            .random(Shape { out: 2, inp: 3 }, RngKey::new(0))
            .unwrap();
        assert!(matches!(save(&op, &path, true), Err(OperatorFileError::Output(_))));
        assert!(matches!(load::<f32>(&path), Err(OperatorFileError::Format { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes");
        let gone = load::<f32>(&dir.path().join("gone")).unwrap_err().to_string();
        assert!(gone.starts_with("cannot read ") && gone.contains("gone"), "{gone}");
    }

    #[test]
    fn damaged_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("op.safetensors");
        let op: Op<f64> = OpSpec::default_of("dense")
            .unwrap()
            .random(Shape { out: 2, inp: 3 }, RngKey::new(0))
            .unwrap();
        save(&op, &path, false).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for end in [0, 4, 20, whole.len() - 1] {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert!(load::<f64>(&path).is_err(), "{end} bytes");
        }
        let mut infinite = whole.clone();
        let at = whole.len() - 8;
        infinite[at..].copy_from_slice(&f64::NAN.to_le_bytes());
        let head = seal::head_of(&infinite);
        let (head, rest) = infinite.split_at_mut(head);
        seal::seal(head, |add| add(rest));
        std::fs::write(&path, &infinite).unwrap();
        let error = load::<f64>(&path).unwrap_err().to_string();
        assert!(error.contains("tensor weight has a number that is not finite"), "{error}");
    }
}
