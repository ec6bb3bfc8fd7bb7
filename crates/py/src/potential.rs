//! A molecular potential for programs that do their own dynamics.

use crate::failure::exception;
use linwright::jobs::Failure;
use linwright::molecule::{
    Cell, ConvertedPotential, MoleculeError, MoleculeModel, Potential, Prediction, Structure,
    Units, Wanted,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Mutex;

/// A potential in electron volts and angstroms.
#[pyclass(frozen, module = "linwright._linwright")]
pub(crate) struct RawPotential {
    potential: Mutex<ConvertedPotential>,
    model: MoleculeModel,
}

/// Atoms as passed from Python.
#[derive(FromPyObject)]
pub(crate) struct Atoms {
    #[pyo3(item)]
    numbers: Vec<u8>,
    #[pyo3(item)]
    positions: Vec<[f64; 3]>,
    #[pyo3(item)]
    cell: Option<[[f64; 3]; 3]>,
    #[pyo3(item)]
    periodic: [bool; 3],
    #[pyo3(item)]
    charge: f64,
}

impl From<Atoms> for Structure {
    fn from(atoms: Atoms) -> Self {
        let Atoms { numbers, positions, cell, periodic, charge } = atoms;
        let cell = cell.map(|rows| Cell { rows, periodic });
        Self { species: numbers, positions, cell, charge, ..Self::default() }
    }
}

fn failed(py: Python<'_>, error: MoleculeError) -> PyErr {
    exception(py, &Failure::from(error))
}

/// Energy, energies by atom, forces, and the virial.
type Predicted = (f64, Vec<f64>, Vec<[f64; 3]>, [[f64; 3]; 3]);

#[pymethods]
impl RawPotential {
    /// Opens a checkpoint; with `exact` computes in f64 and for every architecture.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, exact: bool) -> PyResult<Self> {
        let opened = py.detach(|| {
            let model = MoleculeModel::open(&path)?;
            let potential = model.potential(exact)?;
            let units = model.checkpoint.units;
            let potential = ConvertedPotential::new(potential, units, Units::default());
            Ok((potential, model))
        });
        let (potential, model) = opened.map_err(|error| failed(py, error))?;
        Ok(Self { potential: Mutex::new(potential), model })
    }

    /// Distance in angstroms beyond which atoms do not interact.
    fn cutoff(&self) -> f64 {
        self.held().cutoff()
    }

    /// Keeps pairs of atoms until one has moved by half of this distance.
    fn keep_pairs(&self, py: Python<'_>, skin: f64) -> PyResult<()> {
        self.held().keep_pairs(skin).map_err(|error| failed(py, error))
    }

    /// Energy, energies by atom, forces and virial, in electron volts and angstroms.
    fn predict(&self, py: Python<'_>, atoms: Atoms) -> PyResult<Predicted> {
        let structure = Structure::from(atoms);
        let predicted = py.detach(|| {
            structure.check()?;
            self.model.checkpoint.check_species(&structure)?;
            self.held().predict(&structure, Wanted { forces: true })
        });
        let Prediction { energy, atom_energies, forces, virial, .. } =
            predicted.map_err(|error| failed(py, error))?;
        Ok((energy, atom_energies, forces, virial))
    }
}

impl RawPotential {
    /// The potential; a panic in another thread does not leave it in an inconsistent state.
    fn held(&self) -> std::sync::MutexGuard<'_, ConvertedPotential> {
        self.potential.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
