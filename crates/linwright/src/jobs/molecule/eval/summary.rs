//! Summary of the evaluation of a potential, as data and for readers.

use super::MoleculeEval;
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Outcome, Session};
use linwright_molecule::{Ensemble, ErrorPair, PredictionErrors, Units};
use linwright_report::number::grouped;
use serde_json::{Value, json};

impl MoleculeEval {
    /// The errors, in the units of the structures.
    pub(super) fn summary(
        &self,
        model: &Ensemble,
        errors: &PredictionErrors,
        units: Units,
        session: &Session<'_>,
    ) -> Outcome {
        let (structures, atoms) = errors.counts();
        let (energy, length) = (units.energy.name(), units.length.name());
        let part = |pair: Option<ErrorPair>, of: fn(ErrorPair) -> f64| -> Value {
            pair.map_or(Value::Null, |pair| of(pair).into())
        };
        let (mae, rmse) = (|pair: ErrorPair| pair.mae, |pair: ErrorPair| pair.rmse);
        let [per_atom, whole, force, stress] =
            [errors.energy_per_atom(), errors.energy(), errors.force(), errors.stress()];
        let per = format!("{energy}/{length}");
        let [energy_std, force_std] = [errors.energy_deviation(), errors.force_deviation()];
        let (members, property) = (model.members().len(), model.head().property());
        let result = json!({
            "schema": 1,
            "linwright": session.build().version,
            "potential": session.portable(&self.potential),
            "structures": structures,
            "atoms": atoms,
            "energy_mae": part(per_atom, mae),
            "energy_rmse": part(per_atom, rmse),
            "energy_mae_per_structure": part(whole, mae),
            "energy_rmse_per_structure": part(whole, rmse),
            "force_mae": part(force, mae),
            "force_rmse": part(force, rmse),
            "stress_mae": part(stress, mae),
            "stress_rmse": part(stress, rmse),
            "members": members,
            "energy_std": part(energy_std, mae),
            "force_std": part(force_std, mae),
            "property": property,
            "property_mae": part(errors.property(), mae),
            "property_rmse": part(errors.property(), rmse),
            "units": {
                "energy_mae": format!("{energy}/atom"), "energy_rmse": format!("{energy}/atom"),
                "energy_mae_per_structure": energy, "energy_rmse_per_structure": energy,
                "force_mae": per, "force_rmse": per,
                "energy_std": format!("{energy}/atom"), "force_std": per,
                "stress_mae": format!("{energy}/{length}^3"),
                "stress_rmse": format!("{energy}/{length}^3"),
            },
        });
        let row = |name: String, pair: Option<ErrorPair>| {
            pair.map(|pair| vec![name, format!("{:.6}", pair.mae), format!("{:.6}", pair.rmse)])
        };
        let rows = [
            row(format!("energy, {energy}/atom"), per_atom),
            row(format!("force, {per}"), force),
            row(format!("stress, {energy}/{length}^3"), stress),
            row(property.replace('_', " "), errors.property()),
            row(format!("deviation of {members} models, {energy}/atom"), energy_std),
            row(format!("deviation of {members} models, {per}"), force_std),
        ];
        let rows: Vec<_> = rows.into_iter().flatten().collect();
        let mut blocks =
            vec![text([format!("{} structures, {} atoms", grouped(structures), grouped(atoms))])];
        match rows.is_empty() {
            true => blocks.push(text(["the file has no reference values"])),
            false => blocks.push(table(&["error", "mean absolute", "root mean square"], rows)),
        }
        Outcome::new(result, blocks)
    }
}
