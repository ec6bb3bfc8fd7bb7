//! Names of reference values in files.

use serde::{Deserialize, Serialize};

/// Names of reference values, each in order of preference: the first one that a frame has is read.
/// A name given by the user comes first, to select one of several sets of labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelKeys {
    /// For energies, in the line of pairs.
    pub energy: Vec<String>,
    /// For forces, among the columns.
    pub forces: Vec<String>,
    /// For stresses, in the line of pairs.
    pub stress: Vec<String>,
    /// For virials, in the line of pairs; read if there is no stress.
    pub virial: Vec<String>,
    /// For total charges, in the line of pairs.
    pub charge: Vec<String>,
    /// For partial charges, among the columns.
    pub charges: Vec<String>,
}

impl Default for LabelKeys {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            energy: names(&[
                "REF_energy",
                "energy",
                "free_energy",
                "Energy",
                "dft_energy",
                "DFT_energy",
            ]),
            forces: names(&["REF_forces", "forces", "force", "Forces", "dft_forces", "DFT_forces"]),
            stress: names(&["REF_stress", "stress", "Stress", "dft_stress", "DFT_stress"]),
            virial: names(&[
                "REF_virial",
                "REF_virials",
                "virial",
                "virials",
                "Virial",
                "dft_virial",
                "DFT_virial",
            ]),
            charge: names(&["charge", "total_charge"]),
            charges: names(&["charges", "charge", "partial_charges", "initial_charges"]),
        }
    }
}

impl LabelKeys {
    /// These names, with only this one for energies.
    #[must_use]
    pub fn with_energy(mut self, name: &str) -> Self {
        self.energy = vec![name.to_owned()];
        self
    }

    /// These names, with only this one for forces.
    #[must_use]
    pub fn with_forces(mut self, name: &str) -> Self {
        self.forces = vec![name.to_owned()];
        self
    }
}
