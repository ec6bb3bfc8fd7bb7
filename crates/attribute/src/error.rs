//! Errors of attribution.

use linwright_files::FileError;
use linwright_run::atomic::OutputError;
use linwright_run::memory::NoRoom;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Gradients that cannot be compressed, kept or read.
#[derive(Debug, thiserror::Error)]
pub enum AttributeError {
    /// Not enough memory.
    #[error(transparent)]
    Memory(#[from] NoRoom),
    /// A file of maps that could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A description that is not the expected JSON.
    #[error("the description is not valid: {source}")]
    Json {
        /// The reason.
        source: serde_json::Error,
    },
    /// An error in a file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<Self>,
    },
    /// An error about a layer.
    #[error("layer {site}: {source}")]
    OfLayer {
        /// Name of the layer.
        site: String,
        /// The error.
        source: Box<Self>,
    },
    /// A map that does not exist.
    #[error("map {kind}: found {found}, expected {expected}")]
    Map {
        /// Kind of the map, or the tensor of a file.
        kind: String,
        /// What was found.
        found: String,
        /// The allowed values.
        expected: String,
    },
    /// A map that is too large for memory.
    #[error(
        "a map {kind} would have more than {most} numbers; choose a smaller size, or a compressor that needs less, such as factgrass"
    )]
    MapTooLarge {
        /// Kind of the map.
        kind: &'static str,
        /// The largest number.
        most: usize,
    },
    /// A compressor that does not exist or cannot have these options.
    #[error("compressor \"{found}\": {reason}", found = linwright_run::shown(found))]
    Compressor {
        /// What was found.
        found: String,
        /// The reason, and the allowed values.
        reason: String,
    },
    /// A setting that cannot be used.
    #[error("{name}: {found}; expected {expected}", found = linwright_run::shown(found))]
    Setting {
        /// Which one.
        name: &'static str,
        /// What was found.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// Layers that the network does not have.
    #[error("{reason}")]
    Layers {
        /// The reason, and the existing layers.
        reason: String,
    },
    /// An example without a target: an empty text, or one of a single token.
    #[error("example {example} has no target, so it has no loss; leave it out")]
    NoTarget {
        /// Number of the example, from zero.
        example: usize,
    },
    /// An example whose gradient is zero at every chosen layer.
    #[error(
        "example {example}: the gradient is zero at every chosen layer, so it can have no influence; choose other layers, or leave the example out"
    )]
    ZeroGradient {
        /// Number of the example, from zero.
        example: usize,
    },
    /// A query whose compressed gradient is zero, although its gradient is not.
    #[error(
        "example {example}: all {numbers} numbers of its compressed gradient are zero, although its gradient is not: the compressor {compressor} selects none of its nonzero entries, so every score would be zero; cache with a larger size of it, or with another, such as logra"
    )]
    Missed {
        /// Number of the example, from zero.
        example: usize,
        /// Numbers of a compressed gradient.
        numbers: usize,
        /// The compressor.
        compressor: String,
    },
    /// A score that is not finite.
    #[error(
        "the score of example {example} for query {query} is not finite, from {site}; choose a larger damping, or leave the layer out"
    )]
    Score {
        /// Number of the example, from zero.
        example: usize,
        /// Number of the query, from zero.
        query: usize,
        /// The layer whose contribution is not finite, or all of them.
        site: String,
    },
    /// A gradient that is not finite.
    #[error("example {example}: the gradient of {site} is not finite")]
    NotFinite {
        /// Number of the example, from zero.
        example: usize,
        /// Name of the layer.
        site: String,
    },
    /// A Fisher matrix that cannot be inverted.
    #[error("layer {site}: {reason}")]
    Curvature {
        /// Name of the layer.
        site: String,
        /// The reason, and advice.
        reason: String,
    },
    /// A pass of the network that failed.
    #[error("the network cannot compute a loss: {0}")]
    Network(Box<dyn Error + Send + Sync>),
    /// A directory that is not a store.
    #[error("{} is not a store of gradients: {reason}", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A damaged or incomplete file of a store.
    #[error("{}: {reason}; remove the file and cache the gradients again, which computes it alone", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A damaged file of a decomposed Fisher matrix.
    #[error("{}: {reason}; remove the file, and run `linwright attribute fisher` again", path.display())]
    DamagedFisher {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A store with missing shards.
    #[error("{}: {found} of {expected} shards exist; cache the gradients again to compute the others", path.display())]
    Incomplete {
        /// The store.
        path: PathBuf,
        /// Existing shards.
        found: usize,
        /// Expected shards.
        expected: usize,
    },
    /// A store of another network, other examples or another compressor.
    #[error("{}: {field} is {found}, expected {expected}; choose another store", path.display())]
    OtherStore {
        /// The store.
        path: PathBuf,
        /// What differs.
        field: &'static str,
        /// Found in the store.
        found: String,
        /// Requested.
        expected: String,
    },
    /// An error of reading a store.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The caller stopped the work. Finished shards are kept.
    #[error("interrupted; the same command continues")]
    Interrupted,
}

impl AttributeError {
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::InFile { path: path.into(), source: Box::new(self) }
    }

    pub(crate) fn of_layer(self, site: &str) -> Self {
        Self::OfLayer { site: site.into(), source: Box::new(self) }
    }
}
