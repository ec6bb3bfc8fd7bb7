//! Errors of a potential on structures, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_molecule::{Ensemble, ErrorPair, PredictionErrors, Units};
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Errors of a potential on structures, in the units of the structures; none of quantities without
/// reference values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialErrors {
    /// The potential.
    pub potential: String,
    /// Number of structures.
    pub structures: u64,
    /// Number of their atoms.
    pub atoms: u64,
    /// Mean absolute error of energies per atom.
    pub energy_mae: Option<f64>,
    /// Root mean square error of energies per atom.
    pub energy_rmse: Option<f64>,
    /// Mean absolute error of energies of structures.
    pub energy_mae_per_structure: Option<f64>,
    /// Root mean square error of energies of structures.
    pub energy_rmse_per_structure: Option<f64>,
    /// Mean absolute error of components of forces.
    pub force_mae: Option<f64>,
    /// Root mean square error of components of forces.
    pub force_rmse: Option<f64>,
    /// Mean absolute error of components of stress.
    pub stress_mae: Option<f64>,
    /// Root mean square error of components of stress.
    pub stress_rmse: Option<f64>,
    /// Number of models.
    pub members: usize,
    /// Mean over structures of the standard deviation of several models, of energies per atom.
    pub energy_std: Option<f64>,
    /// Root mean square of the same.
    pub energy_std_rms: Option<f64>,
    /// Mean of the standard deviation of several models, of components of forces.
    pub force_std: Option<f64>,
    /// Root mean square of the same.
    pub force_std_rms: Option<f64>,
    /// What the potential predicts.
    pub property: String,
    /// Mean absolute error of a property other than the energy.
    pub property_mae: Option<f64>,
    /// Root mean square error of the same.
    pub property_rmse: Option<f64>,
    /// Units of the errors.
    pub units: ErrorUnits,
}

/// Units of errors, by the names of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorUnits {
    energy_mae: String,
    energy_rmse: String,
    energy_mae_per_structure: String,
    energy_rmse_per_structure: String,
    force_mae: String,
    force_rmse: String,
    energy_std: String,
    energy_std_rms: String,
    force_std: String,
    force_std_rms: String,
    stress_mae: String,
    stress_rmse: String,
}

impl From<Units> for ErrorUnits {
    fn from(units: Units) -> Self {
        let (energy, length) = (units.energy.name(), units.length.name());
        let per_atom = || format!("{energy}/atom");
        let per_length = || format!("{energy}/{length}");
        let per_volume = || format!("{energy}/{length}^3");
        Self {
            energy_mae: per_atom(),
            energy_rmse: per_atom(),
            energy_mae_per_structure: energy.to_owned(),
            energy_rmse_per_structure: energy.to_owned(),
            force_mae: per_length(),
            force_rmse: per_length(),
            energy_std: per_atom(),
            energy_std_rms: per_atom(),
            force_std: per_length(),
            force_std_rms: per_length(),
            stress_mae: per_volume(),
            stress_rmse: per_volume(),
        }
    }
}

impl PotentialErrors {
    /// The errors of a model, in the units of the structures.
    pub(super) fn new(
        potential: String,
        model: &Ensemble,
        errors: &PredictionErrors,
        units: Units,
    ) -> Self {
        let (structures, atoms) = errors.counts();
        let mae = |pair: Option<ErrorPair>| pair.map(|pair| pair.mae);
        let rmse = |pair: Option<ErrorPair>| pair.map(|pair| pair.rmse);
        let (energy_std, force_std) = (errors.energy_deviation(), errors.force_deviation());
        Self {
            potential,
            structures,
            atoms,
            energy_mae: mae(errors.energy_per_atom()),
            energy_rmse: rmse(errors.energy_per_atom()),
            energy_mae_per_structure: mae(errors.energy()),
            energy_rmse_per_structure: rmse(errors.energy()),
            force_mae: mae(errors.force()),
            force_rmse: rmse(errors.force()),
            stress_mae: mae(errors.stress()),
            stress_rmse: rmse(errors.stress()),
            members: model.members().len(),
            energy_std: mae(energy_std),
            energy_std_rms: rmse(energy_std),
            force_std: mae(force_std),
            force_std_rms: rmse(force_std),
            property: model.head().property().to_owned(),
            property_mae: mae(errors.property()),
            property_rmse: rmse(errors.property()),
            units: units.into(),
        }
    }

    /// Rows of the quantities that have errors.
    fn rows(&self) -> Vec<Vec<String>> {
        let Self { members, units, .. } = self;
        let row = |name: String, mae: Option<f64>, rmse: Option<f64>| {
            let (mae, rmse) = mae.zip(rmse)?;
            Some(vec![name, format!("{mae:.6}"), format!("{rmse:.6}")])
        };
        let deviation = |unit: &str| format!("deviation of {members} models, {unit}");
        let rows = [
            row(format!("energy, {}", units.energy_mae), self.energy_mae, self.energy_rmse),
            row(format!("force, {}", units.force_mae), self.force_mae, self.force_rmse),
            row(format!("stress, {}", units.stress_mae), self.stress_mae, self.stress_rmse),
            row(self.property.replace('_', " "), self.property_mae, self.property_rmse),
            row(deviation(&units.energy_std), self.energy_std, self.energy_std_rms),
            row(deviation(&units.force_std), self.force_std, self.force_std_rms),
        ];
        rows.into_iter().flatten().collect()
    }
}

impl Report for PotentialErrors {
    const KIND: &'static str = "molecule-eval";

    fn document(&self) -> Document {
        let [structures, atoms] = [self.structures, self.atoms].map(grouped);
        let rows = self.rows();
        let errors = match rows.is_empty() {
            true => text(["the file has no reference values"]),
            false => table(&["error", "mean absolute", "root mean square"], rows),
        };
        page(vec![text([format!("{structures} structures, {atoms} atoms")]), errors])
    }
}
