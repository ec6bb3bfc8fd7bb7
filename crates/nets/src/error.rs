//! Errors of networks.

use linwright_files::FileError;
use linwright_ops::OpError;
use linwright_run::memory::NoRoom;
use linwright_run::shown;
use std::path::PathBuf;

/// A network, its file or its input that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A layer that does not fit.
    #[error("layer {}: {}; expected {expected}", shown(layer), shown(found))]
    Layer {
        /// Number of the layer in the description, and its name.
        layer: String,
        /// What was found.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// An operator that a slot cannot hold.
    #[error("slot {}: {source}", shown(slot))]
    Operator {
        /// The slot.
        slot: String,
        /// What is wrong.
        source: OpError,
    },
    /// Not enough memory.
    #[error(transparent)]
    Memory(#[from] NoRoom),
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A description that could not be read.
    #[error("{}: {reason}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what to do.
        reason: String,
    },
    /// A network that differs when read back.
    #[error("{}: tensor {} differs from what was written; check the disk", path.display(), shown(name))]
    NotSame {
        /// The directory.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor that no layer has.
    #[error("{}: tensor {} belongs to no layer; correct the description, or remove it", path.display(), shown(name))]
    UnknownTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// An input of another extent.
    #[error(
        "input has {rows} rows of {channels} numbers for {examples} examples; expected {expected_rows} rows of {expected_channels}"
    )]
    Input {
        /// Rows found.
        rows: usize,
        /// Numbers in a row.
        channels: usize,
        /// Number of examples.
        examples: usize,
        /// Rows for these examples.
        expected_rows: usize,
        /// Channels of the input.
        expected_channels: usize,
    },
    /// An input with numbers that are not finite.
    #[error("the input has numbers that are not finite")]
    InputNotFinite,
    /// Numbers that are not finite.
    #[error("output of layer {} is not finite; check weights and input", shown(layer))]
    NotFinite {
        /// Number and name of the layer.
        layer: String,
    },
    /// A loss that is not finite.
    #[error("the loss is not finite; check outputs and targets")]
    LossNotFinite,
    /// Examples that do not match a network, or each other.
    #[error("{what}: {found}; expected {expected}")]
    Examples {
        /// The part that does not match.
        what: &'static str,
        /// What was found.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The user cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl NetError {
    pub(crate) fn layer(
        layer: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Layer { layer: layer.into(), found: found.into(), expected: expected.into() }
    }
}
