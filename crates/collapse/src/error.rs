//! Errors in features, labels and settings.

use linwright_files::FileError;
use linwright_nets::NetError;
use linwright_run::memory::NoRoom;
use linwright_run::{StoreError, shown};
use linwright_tensor::linalg::NoConvergence;
use linwright_train::TrainError;
use std::path::PathBuf;

/// Unusable input, settings and files.
#[derive(Debug, thiserror::Error)]
pub enum CollapseError {
    /// Not enough memory.
    #[error(transparent)]
    Memory(#[from] NoRoom),
    /// A feature that is not a finite number.
    #[error("{what}: row {row}, column {column} is {value}; every number has to be finite")]
    NonFinite {
        /// What holds it.
        what: String,
        /// Its row, from zero.
        row: u64,
        /// Its column.
        column: usize,
        /// The number.
        value: f64,
    },
    /// A label that is not a class.
    #[error("label {label} of row {row} is not a class; expected integers from 0 to {last}")]
    Label {
        /// The label in the file.
        label: String,
        /// Its row, from zero.
        row: u64,
        /// The largest class.
        last: usize,
    },
    /// Too few classes with samples.
    #[error(
        "{found} of {classes} classes have samples; collapse compares classes: expected 2 or more"
    )]
    FewClasses {
        /// Classes with samples.
        found: usize,
        /// All classes.
        classes: usize,
    },
    /// A shape that does not match the others.
    #[error("{what} has shape {found:?}, expected {expected}")]
    Shape {
        /// The tensor.
        what: String,
        /// Its shape.
        found: Vec<usize>,
        /// The expected shape.
        expected: String,
    },
    /// A file without a tensor.
    #[error("{}: there is no tensor {name}; found: {found}", path.display(), name = shown(name), found = shown(found))]
    NoTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// The tensors of the file.
        found: String,
    },
    /// A tensor of an unsupported type.
    #[error("{}: tensor {name} holds {found}, expected {expected}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// Its type.
        found: &'static str,
        /// Supported types.
        expected: &'static str,
    },
    /// A file that does not hold sums.
    #[error("{}: {reason}; expected sums written by `linwright collapse measure --save-sums`: create them again", path.display(), reason = shown(reason))]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Sums of different classes or features.
    #[error("sums of {found} cannot be added to sums of {expected}")]
    Mismatch {
        /// Classes, features and scatter of one side.
        found: String,
        /// The same for the other side.
        expected: String,
    },
    /// A number outside its range.
    #[error("{what} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        found: String,
        /// What would do.
        expected: String,
    },
    /// Numbers too large for their squares.
    #[error("{what} is not finite: features are too large to be squared")]
    Overflow {
        /// The quantity.
        what: &'static str,
    },
    /// A decomposition failed.
    #[error("{what}: {source}")]
    Numerics {
        /// The matrix.
        what: &'static str,
        /// Why.
        source: NoConvergence,
    },
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A store of finished work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A network.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Cancelled.
    #[error("interrupted")]
    Interrupted,
}
