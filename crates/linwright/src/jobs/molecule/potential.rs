//! Molecular potentials and structures, as jobs open them.

use crate::jobs::kit::{Failure, Session};
use linwright_molecule::{
    ConvertedPotential, Ensemble, LabelKeys, MoleculeError, Potential, PriorChoices, Structure,
    Units, XyzReader,
};
use linwright_run::Monitor;
use std::path::Path;

/// Opens a model, or several of one quantity, and reports their notes.
pub(in crate::jobs) fn open_ensemble<P: AsRef<Path>>(
    paths: &[P],
    choices: PriorChoices,
    session: &mut Session<'_>,
) -> Result<Ensemble, Failure> {
    let first = paths.first().map(|path| path.as_ref().display().to_string());
    session.step(&format!("loading {}", first.unwrap_or_default()));
    let model = Ensemble::open(paths, choices)?;
    let notes = model.members().iter().flat_map(|member| &member.checkpoint.notes);
    notes.for_each(|note| session.note(note));
    Ok(model)
}

/// The potential of a model in its own units, exact or fast; of several models, their mean.
pub(in crate::jobs) fn potential_of(
    model: &Ensemble,
    exact: bool,
) -> Result<Box<dyn Potential>, Failure> {
    model.potential(exact).map_err(|error| {
        let failure = Failure::from(error);
        match exact {
            true => failure,
            false => failure.hint("--exact supports more architectures, if not all"),
        }
    })
}

/// The potential of a model in electron volts and angstroms, in which atoms are moved.
pub(in crate::jobs) fn moving_potential(
    model: &Ensemble,
    exact: bool,
) -> Result<ConvertedPotential, Failure> {
    let potential = potential_of(model, exact)?;
    Ok(ConvertedPotential::new(potential, model.units(), Units::default()))
}

/// The units of an option.
pub(in crate::jobs) fn told_units(option: Option<&str>) -> Result<Option<Units>, Failure> {
    Ok(option.map(Units::parse).transpose()?)
}

/// Rejects a structure that declares other units than the given ones, or than those of the model if
/// none were given, or with an element that the model was not trained on.
pub(in crate::jobs) fn check_structure(
    model: &Ensemble,
    structure: &mut Structure,
    told: Option<Units>,
    index: usize,
) -> Result<(), Failure> {
    structure.expect_units(told, model.units()).map_err(|error| units_failure(error, index))?;
    model.members()[0].checkpoint.check_species(structure).map_err(|error| {
        Failure::from(error.of_structure(index)).hint("`molecule info` lists the model's elements")
    })
}

/// A failure of units that a structure declares.
pub(in crate::jobs) fn units_failure(error: MoleculeError, index: usize) -> Failure {
    let hint = match error {
        MoleculeError::UnitsDisagree { .. } => "--units cannot say which of them holds",
        _ => "--units names those of the structures",
    };
    Failure::from(error.of_structure(index)).hint(hint)
}

/// A failure of a file of structures that holds none.
pub(in crate::jobs) fn no_structures(path: &str) -> Failure {
    Failure::general(format!("{path}: no structures in the file"))
}

/// Whether a file has structures: the first frame can be read.
pub(in crate::jobs) fn is_structures(path: &Path) -> bool {
    let frame = |mut reader: XyzReader<_>| reader.next_frame().ok().flatten();
    XyzReader::open(path, LabelKeys::default())
        .ok()
        .and_then(frame)
        .is_some_and(|frame| !frame.species.is_empty())
}
