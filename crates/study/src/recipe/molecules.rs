//! Recipes of molecular potentials.

use super::check::{Kind, Wrong, wrong};
use super::{Healing, Recipe};
use linwright_data::Indices;
use linwright_molecule::{LabelKeys, MoleculeError, Units};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A complete run of a molecular potential, judged by the errors of its forces.
pub type MoleculeRecipe = Recipe<StructureCalibration, StructureEvaluation>;

/// Structures that fits read. Their energies and forces are not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StructureCalibration {
    /// A file in extended XYZ.
    pub structures: PathBuf,
    /// Which of them are used; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Indices>,
    /// How many of these a seed draws; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<usize>,
    /// Units of the file, such as `kcal/mol,A`; those of the model by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    /// Structures of a batch.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Share of the structures for validation: the last ones in the order of a seed.
    #[serde(default = "default_validation")]
    pub validation: f64,
}

/// Structures with forces on which potentials are scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StructureEvaluation {
    /// A file in extended XYZ.
    pub structures: PathBuf,
    /// Which of them are used; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Indices>,
    /// Units of the file, such as `kcal/mol,A`; those of the model by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    /// Name of the energy in the file; the usual ones are tried by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_key: Option<String>,
    /// Name of the forces in the file; the usual ones are tried by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forces_key: Option<String>,
}

/// Structures of a file.
#[derive(Clone, Debug)]
pub struct StructureSource<'a> {
    /// The file.
    pub path: &'a Path,
    /// Which of them; all if there is no list.
    pub examples: Option<&'a Indices>,
    /// Units, if they are not those of the model.
    pub units: Option<Units>,
    /// Names of energies and forces.
    pub keys: LabelKeys,
}

fn default_batch() -> usize {
    10
}

fn default_validation() -> f64 {
    0.1
}

/// Reads units, if any are named.
fn parsed(units: Option<&str>) -> Result<Option<Units>, MoleculeError> {
    units.map(Units::parse).transpose()
}

impl StructureCalibration {
    /// All structures of a file, in the units of the model.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            structures: path.to_owned(),
            examples: None,
            sample: None,
            units: None,
            batch: default_batch(),
            validation: default_validation(),
        }
    }

    /// The file and what is read of it.
    ///
    /// # Errors
    /// [`MoleculeError::Units`].
    pub fn source(&self) -> Result<StructureSource<'_>, MoleculeError> {
        Ok(StructureSource {
            path: &self.structures,
            examples: self.examples.as_ref(),
            units: parsed(self.units.as_deref())?,
            keys: LabelKeys::default(),
        })
    }

    /// Structures for validation of a number of them: at least one, and at least one is left.
    #[must_use]
    pub fn validation_of(&self, structures: usize) -> usize {
        let share = (structures as f64 * self.validation).round() as usize;
        share.clamp(1, structures.saturating_sub(1).max(1))
    }
}

impl StructureEvaluation {
    /// The file and what is read of it.
    ///
    /// # Errors
    /// [`MoleculeError::Units`].
    pub fn source(&self) -> Result<StructureSource<'_>, MoleculeError> {
        let mut keys = LabelKeys::default();
        if let Some(name) = &self.energy_key {
            keys = keys.with_energy(name);
        }
        if let Some(name) = &self.forces_key {
            keys = keys.with_forces(name);
        }
        Ok(StructureSource {
            path: &self.structures,
            examples: self.examples.as_ref(),
            units: parsed(self.units.as_deref())?,
            keys,
        })
    }
}

impl Kind for StructureCalibration {
    type Evaluation = StructureEvaluation;

    /// Every slot.
    fn targets() -> Option<Vec<String>> {
        None
    }

    fn heal() -> Vec<Healing> {
        Vec::new()
    }

    fn is_one_role(one: &str, other: &str) -> bool {
        one == other
    }

    fn check(&self, eval: &StructureEvaluation) -> Result<(), Wrong> {
        if self.batch == 0 {
            return wrong("calibration.batch", "is 0, expected at least 1");
        }
        if self.sample.is_some_and(|sample| sample < 2) {
            return wrong("calibration.sample", "is below 2: one to fit to, one to validate on");
        }
        let share = self.validation;
        if !(share > 0.0 && share < 1.0) {
            return wrong(
                "calibration.validation",
                format!("is {share}, expected a share between 0 and 1"),
            );
        }
        for (key, units) in [("calibration.units", &self.units), ("eval.units", &eval.units)] {
            if let Err(error) = parsed(units.as_deref()) {
                return wrong(key, format!("is wrong: {error}"));
            }
        }
        Ok(())
    }
}
