//! Errors of molecules and their potentials.

use crate::species::shown_species;
use crate::units::{Energy, Length, Units};
use linwright_files::FileError;
use linwright_ops::OpError;
use linwright_run::shown;
use std::path::PathBuf;

/// A structure, a model or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MoleculeError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Hyper-parameters that are missing, of another type or not known.
    #[error(
        "hyper-parameters of a TensorNet: {source}; expected the names and values of torchmd-net"
    )]
    Hyperparameters {
        /// The reason.
        source: serde_json::Error,
    },
    /// A hyper-parameter out of range.
    #[error("hyper-parameter {option} is {found}, expected {expected}")]
    Architecture {
        /// Its name.
        option: &'static str,
        /// What was found.
        found: String,
        /// The allowed values.
        expected: String,
    },
    /// A tensor of a model that is missing or has another shape.
    #[error(
        "tensor {name}: found {found}, expected {expected}; was the model saved with these hyper-parameters?"
    )]
    Tensor {
        /// Its name.
        name: String,
        /// What was found.
        found: String,
        /// What the architecture needs.
        expected: String,
    },
    /// An operator that a slot cannot have.
    #[error("slot {site}: {source}")]
    Operator {
        /// Name of the slot.
        site: String,
        /// The reason.
        source: OpError,
    },
    /// An operator that is not linear: components of vectors and tensors would no longer rotate
    /// with the structure, and slopes of filters are only implemented for linear maps.
    #[error(
        "slot {site} holds a {kind}, expected a linear operator: with others, energies would depend on the orientation"
    )]
    NotLinear {
        /// Name of the slot.
        site: String,
        /// Kind of the operator.
        kind: String,
    },
    /// A setting that cannot be used.
    #[error("{name}: {found}; expected {expected}")]
    Setting {
        /// Which one.
        name: &'static str,
        /// What was found.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// A simulation or relaxation whose numbers are no longer finite.
    #[error(
        "step {step}: positions or velocities are not finite; use a smaller time step, or relax the structure first"
    )]
    Diverged {
        /// Number of the step.
        step: u64,
    },
    /// The user stopped it.
    #[error("interrupted after step {step}")]
    Interrupted {
        /// Completed steps.
        step: u64,
    },
    /// Two atoms at the same position.
    #[error(
        "atoms {first} and {second}{} are {distance} apart, expected at least {least}; remove one of them, or correct its position", of_image(*image)
    )]
    Coincident {
        /// The atom with the smaller number, from zero.
        first: usize,
        /// The other.
        second: usize,
        /// Lattice translations of the other.
        image: [i32; 3],
        /// Their distance.
        distance: f64,
        /// Smallest distance that is accepted.
        least: f64,
    },
    /// A coordinate that is not finite, or too large for the cell.
    #[error("coordinate {} of atom {atom} is {value:?}, expected {expected}", ["x", "y", "z"][*axis])]
    Position {
        /// The atom, from zero.
        atom: usize,
        /// The axis, from zero.
        axis: usize,
        /// The coordinate.
        value: f64,
        /// What was expected.
        expected: &'static str,
    },
    /// A cell that does not span space, or whose vectors cannot be used.
    #[error(
        "the cell {rows:?} {what}; give lattice vectors as rows, or no cell for an open molecule"
    )]
    Cell {
        /// The lattice vectors.
        rows: [[f64; 3]; 3],
        /// What is wrong.
        what: &'static str,
    },
    /// Per-atom values that disagree about the number of atoms.
    #[error("the structure has {atoms} species, but {found} {what}; expected as many")]
    Atoms {
        /// Number of species.
        atoms: usize,
        /// The other values.
        what: &'static str,
        /// Their number.
        found: usize,
    },
    /// Far more pairs than any real material has.
    #[error(
        "{atoms} atoms have more than {limit} pairs within {cutoff}, more than any real material; the positions or the cell are in other units than the cutoff, or damaged"
    )]
    Crowded {
        /// Number of atoms.
        atoms: usize,
        /// The limit.
        limit: usize,
        /// The cutoff.
        cutoff: f64,
    },
    /// An atom with far more neighbours than in any real material.
    #[error(
        "atom {atom} has more than {limit} others within {distance}, more than any real material; the positions or the cell are in other units than the cutoff, or damaged"
    )]
    Dense {
        /// The atom, from zero.
        atom: usize,
        /// The limit.
        limit: usize,
        /// The distance.
        distance: f64,
    },
    /// A cutoff that is not a distance.
    #[error("the cutoff goes from {lower} to {upper}; expected 0 <= lower < upper, both finite")]
    Cutoff {
        /// Lower end.
        lower: f64,
        /// Upper end.
        upper: f64,
    },
    /// Units of an unknown name.
    #[error(
        "units {}, expected an energy of {} and a length of {}, such as eV,A", shown(found), names(Energy::ALL, |unit| unit.name()), names(Length::ALL, |unit| unit.name())
    )]
    Units {
        /// The names.
        found: String,
    },
    /// A frame that declares units other than the expected ones.
    #[error(
        "the frame declares {found}, expected {expected}; name the units of the whole file, or convert it"
    )]
    MixedUnits {
        /// The units declared by the frame.
        found: String,
        /// The expected units.
        expected: Units,
    },
    /// A frame with two declarations of one unit.
    #[error(
        "the frame declares {} and {}, which disagree; remove the wrong one",
        shown(first),
        shown(second)
    )]
    UnitsDisagree {
        /// One pair.
        first: String,
        /// The other.
        second: String,
    },
    /// A frame that declares some units but not a required one.
    #[error(
        "the frame declares {found}, but no unit for its {}; name the units of the whole file, or add {what}_unit",
        of_what(what)
    )]
    PartialUnits {
        /// The units declared by the frame.
        found: String,
        /// The other part: `energy` or `length`.
        what: &'static str,
    },
    /// A line of a text file that cannot be parsed.
    #[error("{}, line {line}, column {column}: found {found}, expected {expected}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Number of the line, from one.
        line: u64,
        /// Number of the first character, from one.
        column: usize,
        /// The text found, shortened.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A file without a valid model.
    #[error("{} {what}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The reason, and what was expected.
        what: String,
    },
    /// A tensor that is missing, or has another shape.
    #[error(
        "tensor {} has shape {expected:?} by the hyper-parameters, found {found}; the checkpoint is damaged or of another architecture",
        shown(name)
    )]
    Weight {
        /// The tensor.
        name: String,
        /// Its shape by the hyper-parameters.
        expected: Vec<usize>,
        /// What is there.
        found: String,
    },
    /// A prior that cannot be used.
    #[error("the prior {what}")]
    Prior {
        /// The reason, what was expected, and advice.
        what: String,
    },
    /// Models that do not form an ensemble.
    #[error("the ensemble {what}")]
    Ensemble {
        /// The reason, what was expected, and advice.
        what: String,
    },
    /// A number that is not an element.
    #[error("atom {atom} has the atomic number {number}, expected 1 to 118")]
    Element {
        /// The atom, from zero.
        atom: usize,
        /// Its number.
        number: u8,
    },
    /// An element that a model was not trained on.
    #[error(
        "atom {atom} is {}, which the model was not trained on; expected only {}", shown_species(*number), known.iter().map(|number| shown_species(*number)).collect::<Vec<_>>().join(", ")
    )]
    Untrained {
        /// The atom, from zero.
        atom: usize,
        /// Its atomic number.
        number: u8,
        /// Atomic numbers that the model was trained on.
        known: Vec<u8>,
    },
    /// A value that cannot be stored in a file.
    #[error("a {what} is not finite, expected a number; the model or the data are damaged")]
    NotFinite {
        /// The value.
        what: &'static str,
    },
    /// A file of a simulation that cannot be continued.
    #[error(
        "{}: {reason}; the simulation cannot be continued from it; remove its directory and start over", path.display()
    )]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A stream that cannot be written to.
    #[error("cannot write structures: {source}")]
    Output {
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// An error in one structure of several.
    #[error("structure {index}: {source}")]
    Structure {
        /// Number of the structure, from zero.
        index: usize,
        /// The error.
        source: Box<Self>,
    },
}

impl MoleculeError {
    /// The error with the number of the structure.
    #[must_use]
    pub fn of_structure(self, index: usize) -> Self {
        Self::Structure { index, source: Box::new(self) }
    }

    /// The error of a batch of one structure, without a number.
    #[must_use]
    pub(crate) fn of_only_structure(self) -> Self {
        if let Self::Structure { source, .. } = self { *source } else { self }
    }
}

/// Names the image of an atom, if it is not the atom itself.
fn of_image(image: [i32; 3]) -> String {
    if image == [0; 3] { String::new() } else { format!(" (translated by {image:?})") }
}

/// Plural of energy or length.
fn of_what(what: &str) -> String {
    if what == "energy" { "energies".into() } else { format!("{what}s") }
}

fn names<U: Copy>(units: &[U], name: fn(U) -> &'static str) -> String {
    let names: Vec<&str> = units.iter().map(|unit| name(*unit)).collect();
    names.join(", ")
}
