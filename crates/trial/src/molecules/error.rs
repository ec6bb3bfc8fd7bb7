//! Errors of trials of molecular potentials.

use linwright_molecule::MoleculeError;
use std::path::PathBuf;

/// Structures that cannot be used, or a potential that does not suit them. Structures are
/// counted from zero.
#[derive(Debug, thiserror::Error)]
pub enum MoleculeTrialError {
    /// An unusable file, structure or potential.
    #[error("{of}: {source}")]
    Molecule {
        /// Name of the option.
        of: &'static str,
        /// What is wrong.
        source: Box<MoleculeError>,
    },
    /// A structure without reference forces.
    #[error(
        "{of}: structure {index} of {} has no forces to compare with; name them as --keys forces=NAME, or choose others",
        path.display()
    )]
    NoForces {
        /// Name of the option.
        of: &'static str,
        /// The file.
        path: PathBuf,
        /// The structure.
        index: usize,
    },
    /// Indices beyond the file.
    #[error("{of}: there is no structure {last}: the file has {structures}, from zero")]
    Range {
        /// Name of the option.
        of: &'static str,
        /// The largest index.
        last: usize,
        /// Number of structures.
        structures: usize,
    },
    /// Too few structures.
    #[error("{of} has {found} structures, expected at least {least}")]
    TooFew {
        /// Name of the option.
        of: &'static str,
        /// Number of structures.
        found: usize,
        /// How many are needed.
        least: usize,
    },
    /// An element that the potential was not trained on.
    #[error(
        "{of}: structure {index} has {element}, which the model was not trained on; `molecule info` lists its elements"
    )]
    Untrained {
        /// Name of the option.
        of: &'static str,
        /// The structure.
        index: usize,
        /// The element.
        element: String,
    },
    /// Structures that are both fitted to and scored.
    #[error(
        "{calibration} and {eval} share {count} structures of one file, the first is {first}; choose others with `examples`"
    )]
    Common {
        /// Name of the option, of those that fits read.
        calibration: &'static str,
        /// The same of those that are scored.
        eval: &'static str,
        /// The first structure.
        first: usize,
        /// Number of structures.
        count: usize,
    },
}

impl MoleculeTrialError {
    /// The error of an option.
    #[must_use]
    pub fn molecule(of: &'static str, error: MoleculeError) -> Self {
        Self::Molecule { of, source: Box::new(error) }
    }
}
