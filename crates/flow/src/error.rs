//! Errors of flows.

use linwright_data::images::ImageError;
use linwright_files::FileError;
use linwright_nets::NetError;
use linwright_ops::OpError;
use linwright_run::memory::NoRoom;
use linwright_run::shown;
use std::path::PathBuf;

/// A flow, its file or its data that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// Not enough memory.
    #[error(transparent)]
    Memory(#[from] NoRoom),
    /// An invalid option.
    #[error("{option} is {found}; expected {expected}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        found: String,
        /// What can be.
        expected: String,
    },
    /// A layer that is or became singular.
    #[error("{layer}: {source}; start again with another seed or a smaller rate")]
    Operator {
        /// The layer.
        layer: String,
        /// What is singular.
        source: OpError,
    },
    /// A layer whose inverse would have no accurate digits.
    #[error(
        "{layer} has condition {condition:.1e}, too much for an inverse in {precision}; start again with a smaller rate"
    )]
    IllConditioned {
        /// The layer.
        layer: String,
        /// Frobenius norm of the matrix times that of its inverse.
        condition: f64,
        /// The type of numbers.
        precision: &'static str,
    },
    /// A network inside a coupling.
    #[error("{layer}: {source}")]
    Net {
        /// The layer.
        layer: String,
        /// What is wrong.
        source: Box<NetError>,
    },
    /// Numbers of another extent.
    #[error("{what} has {found}; expected {expected}")]
    Extent {
        /// What was given.
        what: &'static str,
        /// Its extent.
        found: String,
        /// The extent of the flow.
        expected: String,
    },
    /// Numbers that are not finite.
    #[error("{what}: number {index} is {value}; expected finite numbers")]
    NotFinite {
        /// What holds it.
        what: String,
        /// Its place, from zero.
        index: usize,
        /// The number.
        value: f64,
    },
    /// A sample that is not finite in any draw.
    #[error("sample {number} is not finite in {draws} draws: {source}")]
    Sample {
        /// Its number, from zero.
        number: u64,
        /// How often it was drawn.
        draws: u64,
        /// The error of the last draw.
        source: Box<Self>,
    },
    /// Data that cannot be modelled.
    #[error("{}: {reason}", path.display())]
    Examples {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Images that cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A description that cannot be used.
    #[error("{}: {reason}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A tensor that no layer has.
    #[error("{}: tensor {} belongs to no layer of config.json", path.display(), shown(name))]
    UnknownTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A flow that differs when read back.
    #[error("{}: tensor {} differs from what was written; check the disk", path.display(), shown(name))]
    NotSame {
        /// The directory.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// Stopped by the monitor.
    #[error("interrupted")]
    Interrupted,
    /// A picture that cannot be made.
    #[error("a picture of {found}; expected {expected}")]
    Picture {
        /// What was given.
        found: String,
        /// The supported examples.
        expected: String,
    },
}

impl FlowError {
    /// Whether numbers overflowed, in a layer or at the end.
    pub(crate) fn is_not_finite(&self) -> bool {
        if let Self::Net { source, .. } = self {
            return matches!(**source, NetError::InputNotFinite | NetError::NotFinite { .. });
        }
        matches!(self, Self::NotFinite { .. })
    }
}

/// Checks that numbers are finite.
pub(crate) fn check_finite<T: linwright_tensor::Scalar>(
    what: &str,
    numbers: &[T],
) -> Result<(), FlowError> {
    match numbers.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            let value = numbers[index].to_f64();
            Err(FlowError::NotFinite { what: what.to_owned(), index, value })
        }
    }
}
