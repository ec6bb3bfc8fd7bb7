//! Energies and forces of structures, and their errors.

use super::outcome::{table, text};
use super::potential::{
    check_structure, is_structures, no_structures, open_potential, potential_of, units_of,
};
use super::{Failure, Job, Outcome, Session, outputs};
use linwright_molecule::{
    ErrorPair, LabelKeys, MoleculeModel, PredictionErrors, Units, Wanted, XyzReader, XyzWriter,
    stress,
};
use linwright_report::number::grouped;
use linwright_run::Monitor;
use linwright_run::atomic::write_atomic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A molecular potential on structures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeEval {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// Structures in extended XYZ.
    #[schemars(extend("x-positional" = true))]
    pub structures: String,
    /// Units of the structures, such as `kcal/mol,A` [default: those of the model].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Name of the energy in the file [default: REF_energy, energy and others, in this order].
    #[schemars(extend("x-value" = "NAME"))]
    pub energy_key: Option<String>,
    /// Name of the forces in the file [default: REF_forces, forces and others, in this order].
    #[schemars(extend("x-value" = "NAME"))]
    pub forces_key: Option<String>,
    /// Compute in double precision, without tables of radial filters.
    pub exact: bool,
    /// Evaluate only the first N structures.
    #[schemars(range(min = 1), extend("x-short" = "L"))]
    pub limit: Option<usize>,
    /// Write the structures with predicted energies, forces and stress to this file.
    #[schemars(extend("x-short" = "o", "x-path" = true))]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Job for MoleculeEval {
    const VERB: &str = "molecule-eval";
    const ABOUT: &str = "Energies and forces of structures by a molecular potential, and their \
        errors.\n\n\
        Errors are measured where the file has reference values: of energies per atom, and of the \
        components of forces. Without --exact, single precision and tables of radial filters are \
        used.";
    const OUTPUT_ENDING: &str = ".xyz";

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential), PathBuf::from(&self.structures)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_structures)?;
        }
        let model = open_potential(&self.potential, session)?;
        let units = units_of(self.units.as_deref(), &model)?;
        let (errors, written) = self.errors(&model, units, session)?;
        session.finish();
        if let Some(path) = &self.output {
            write_atomic(path, &written)?;
            session.note(&format!("wrote {}", path.display()));
        }
        Ok(self.outcome(&errors, units, session))
    }
}

impl MoleculeEval {
    /// The errors, in the units of the structures, and the predictions as a file, if it is wanted.
    fn errors(
        &self,
        model: &MoleculeModel,
        units: Units,
        session: &mut Session<'_>,
    ) -> Result<(PredictionErrors, Vec<u8>), Failure> {
        let mut potential = potential_of(model, self.exact)?;
        let own = model.checkpoint.units;
        let mut reader = XyzReader::open(Path::new(&self.structures), self.keys())?;
        let (mut errors, mut writer) = (PredictionErrors::default(), XyzWriter::new(Vec::new()));
        session.step("evaluating");
        for index in 0..self.limit.unwrap_or(usize::MAX) {
            if session.interrupted() {
                return Err(Failure::interrupted("interrupted; nothing was written".to_owned()));
            }
            let Some(mut structure) = reader.next_frame()? else { break };
            check_structure(model, &structure, units, index)?;
            let mut inner = structure.clone();
            inner.convert(units, own);
            let found = potential.predict(&inner, Wanted { forces: true });
            let mut found = found.map_err(|error| error.of_structure(index))?;
            found.convert(own, units);
            errors.add(&structure, &found);
            if self.output.is_some() {
                structure.labels.energy = Some(found.energy);
                structure.labels.stress = stress(&structure, &found);
                structure.labels.forces = Some(found.forces);
                structure.declare_units(units);
                writer.frame(&structure)?;
            }
            session.progress(index as u64 + 1, self.limit.unwrap_or(0) as u64);
        }
        match errors.counts().0 {
            0 => Err(no_structures(&self.structures)),
            _ => Ok((errors, writer.into_inner())),
        }
    }

    fn keys(&self) -> LabelKeys {
        let mut keys = LabelKeys::default();
        if let Some(name) = &self.energy_key {
            keys = keys.with_energy(name);
        }
        if let Some(name) = &self.forces_key {
            keys = keys.with_forces(name);
        }
        keys
    }

    fn outcome(&self, errors: &PredictionErrors, units: Units, session: &Session<'_>) -> Outcome {
        let (structures, atoms) = errors.counts();
        let (energy, length) = (units.energy.name(), units.length.name());
        let part = |pair: Option<ErrorPair>, of: fn(ErrorPair) -> f64| -> Value {
            pair.map_or(Value::Null, |pair| of(pair).into())
        };
        let (mae, rmse) = (|pair: ErrorPair| pair.mae, |pair: ErrorPair| pair.rmse);
        let [per_atom, whole, force, stress] =
            [errors.energy_per_atom(), errors.energy(), errors.force(), errors.stress()];
        let per = format!("{energy}/{length}");
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
            "units": {
                "energy_mae": format!("{energy}/atom"), "energy_rmse": format!("{energy}/atom"),
                "energy_mae_per_structure": energy, "energy_rmse_per_structure": energy,
                "force_mae": per, "force_rmse": per,
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
        ];
        let rows: Vec<_> = rows.into_iter().flatten().collect();
        let mut blocks =
            vec![text([format!("{} structures, {} atoms", grouped(structures), grouped(atoms))])];
        match rows.is_empty() {
            true => blocks.push(text(["the file has no reference energies or forces"])),
            false => blocks.push(table(&["error", "mean absolute", "root mean square"], rows)),
        }
        Outcome::new(result, blocks)
    }
}
