//! State from which a simulation is continued, and its description.

use crate::error::MoleculeError;
use serde::{Deserialize, Serialize};

/// Positions and velocities after a step. As JSON its numbers are read back exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdState {
    /// Completed steps.
    pub step: u64,
    /// Positions in angstroms.
    pub positions: Vec<[f64; 3]>,
    /// Velocities in angstroms per femtosecond.
    pub velocities: Vec<[f64; 3]>,
}

/// Energies, temperature and pressure after a step, whose names in JSON have units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermo {
    /// Completed steps.
    pub step: u64,
    /// Time in femtoseconds.
    #[serde(rename = "time_fs")]
    pub time: f64,
    /// Potential energy in electron volts.
    #[serde(rename = "potential_energy_ev")]
    pub potential_energy: f64,
    /// Kinetic energy in electron volts.
    #[serde(rename = "kinetic_energy_ev")]
    pub kinetic_energy: f64,
    /// Their sum.
    #[serde(rename = "total_energy_ev")]
    pub total_energy: f64,
    /// Temperature in kelvins, from three degrees of freedom per atom, minus the fixed coordinates,
    /// as in ASE.
    #[serde(rename = "temperature_k")]
    pub temperature: f64,
    /// Pressure in gigapascals, including the kinetic part; none without a cell that repeats along
    /// all its vectors.
    #[serde(rename = "pressure_gpa")]
    pub pressure: Option<f64>,
}

impl MdState {
    /// Rejects a state for other atoms or with numbers that are not finite.
    pub(super) fn check(&self, atoms: usize) -> Result<(), MoleculeError> {
        for (name, rows) in [("positions", &self.positions), ("velocities", &self.velocities)] {
            if rows.len() != atoms {
                return Err(MoleculeError::Setting {
                    name,
                    found: format!("{} atoms in the saved state", rows.len()),
                    expected: format!("{atoms}, as in the structure"),
                });
            }
            if let Some(atom) = rows.iter().position(|row| !row.iter().all(|x| x.is_finite())) {
                return Err(MoleculeError::Setting {
                    name,
                    found: format!("{:?} of atom {atom} in the saved state", rows[atom]),
                    expected: "finite numbers".to_owned(),
                });
            }
        }
        Ok(())
    }
}
