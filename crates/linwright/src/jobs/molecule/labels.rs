//! Names of energies and forces in files of structures.

use crate::jobs::kit::{Folded, catalogue};
use linwright_molecule::LabelKeys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of energies and forces in files of structures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LabelOptions {
    /// Name of the energy [default: REF_energy, energy and others, in this order].
    pub energy: Option<String>,
    /// Name of the forces [default: REF_forces, forces and others, in this order].
    pub forces: Option<String>,
}

impl Folded for LabelOptions {
    const NAME: &'static str = "label_keys";
    const OPTION: &'static str = "keys";
    const HELP: &'static str =
        "Names of energies and forces in the files: `energy=energy,forces=REF_forces`.";

    catalogue!(LabelOptions);
}

impl LabelOptions {
    /// The names by which labels are read.
    pub(in crate::jobs) fn keys(&self) -> LabelKeys {
        let mut keys = LabelKeys::default();
        if let Some(name) = &self.energy {
            keys = keys.with_energy(name);
        }
        if let Some(name) = &self.forces {
            keys = keys.with_forces(name);
        }
        keys
    }
}
