//! Errors of networks.

use linwright_files::FileError;
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
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
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
    /// Numbers that are not finite.
    #[error("output of layer {layer} is not finite; check weights and input")]
    NotFinite {
        /// Name or number of the step.
        layer: String,
    },
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
