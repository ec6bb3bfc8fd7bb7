//! Molecular potentials and structures, as jobs open them.

use super::{Failure, Session};
use linwright_molecule::{
    Checkpoint, ConvertedPotential, LabelKeys, MoleculeError, MoleculeModel, Potential, Structure,
    Units, XyzReader,
};
use linwright_run::Monitor;
use std::path::Path;

/// Opens a model and tells its notes.
pub(super) fn open_potential(
    path: &str,
    session: &mut Session<'_>,
) -> Result<MoleculeModel, Failure> {
    session.step(&format!("loading {path}"));
    let model = MoleculeModel::open(Path::new(path))?;
    model.checkpoint.notes.iter().for_each(|note| session.note(note));
    Ok(model)
}

/// The potential of a model in its own units, exact or fast.
pub(super) fn potential_of(
    model: &MoleculeModel,
    exact: bool,
) -> Result<Box<dyn Potential>, Failure> {
    model.potential(exact).map_err(|error| exact_hint(error, exact))
}

/// The failure of a model that is no potential, with advice if `--exact` was not given.
pub(super) fn exact_hint(error: MoleculeError, exact: bool) -> Failure {
    let failure = Failure::from(error);
    match exact {
        true => failure,
        false => failure.hint("--exact supports more architectures, if not all"),
    }
}

/// The potential of a model in electron volts and angstroms, in which atoms are moved.
pub(super) fn moving_potential(
    model: &MoleculeModel,
    exact: bool,
) -> Result<ConvertedPotential, Failure> {
    let potential = potential_of(model, exact)?;
    Ok(ConvertedPotential::new(potential, model.checkpoint.units, Units::default()))
}

/// The units of the structures: those of an option, or of the model.
pub(super) fn units_of(option: Option<&str>, model: &MoleculeModel) -> Result<Units, Failure> {
    Ok(option.map(Units::parse).transpose()?.unwrap_or(model.checkpoint.units))
}

/// Refuses a structure that declares other units, or with an element that the model was not trained
/// on.
pub(super) fn check_structure(
    model: &Checkpoint,
    structure: &Structure,
    units: Units,
    index: usize,
) -> Result<(), Failure> {
    structure.check_units(units).map_err(|error| {
        Failure::from(error.of_structure(index)).hint("--units names those of the structures")
    })?;
    model.check_species(structure).map_err(|error| {
        Failure::from(error.of_structure(index)).hint("`molecule info` lists the model's elements")
    })
}

/// A failure of a file of structures that holds none.
pub(super) fn no_structures(path: &str) -> Failure {
    Failure::general(format!("{path}: no structures in the file"))
}

/// Whether a file has structures: the first frame can be read.
pub(super) fn is_structures(path: &Path) -> bool {
    let frame = |mut reader: XyzReader<_>| reader.next_frame().ok().flatten();
    XyzReader::open(path, LabelKeys::default())
        .ok()
        .and_then(frame)
        .is_some_and(|frame| !frame.species.is_empty())
}
