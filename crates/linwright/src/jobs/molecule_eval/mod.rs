//! Energies and forces of structures, and their errors.

use super::outcome::{table, text};
use super::{Failure, Job, Outcome, Session, outputs};
use linwright_molecule::{
    ErrorPair, LabelKeys, MoleculeModel, Prediction, PredictionErrors, Structure, Units, Wanted,
    XyzReader, XyzWriter, shown_species, stress,
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
        session.step(&format!("loading {}", self.potential));
        let model = MoleculeModel::open(Path::new(&self.potential))?;
        model.checkpoint.notes.iter().for_each(|note| session.note(note));
        let own = model.checkpoint.units;
        let units = self.units.as_deref().map(Units::parse).transpose()?.unwrap_or(own);
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
        let mut potential = model.potential(self.exact).map_err(|error| {
            let failure = Failure::from(error);
            match self.exact {
                true => failure,
                false => failure.hint("--exact supports more architectures, if not all"),
            }
        })?;
        let own = model.checkpoint.units;
        let mut reader = XyzReader::open(Path::new(&self.structures), self.keys())?;
        let (mut errors, mut writer) = (PredictionErrors::default(), XyzWriter::new(Vec::new()));
        session.step("evaluating");
        for index in 0..self.limit.unwrap_or(usize::MAX) {
            if session.interrupted() {
                return Err(Failure::interrupted("interrupted; nothing was written".to_owned()));
            }
            let Some(mut structure) = reader.next_frame()? else { break };
            let known = &model.checkpoint.species;
            let is_new = |number: &&u8| !known.is_empty() && !known.contains(number);
            if let Some(number) = structure.species.iter().find(is_new) {
                let told = format!(
                    "structure {index} has {}, which the model was not trained on",
                    shown_species(*number)
                );
                return Err(Failure::general(told).hint("`molecule info` lists its elements"));
            }
            let mut inner = structure.clone();
            inner.convert(units, own);
            let found = potential.predict(&inner, Wanted { forces: true });
            let found = converted(found.map_err(|error| error.of_structure(index))?, own, units);
            errors.add(&structure, &found);
            if self.output.is_some() {
                structure.labels.energy = Some(found.energy);
                structure.labels.stress = stress(&structure, &found);
                structure.labels.forces = Some(found.forces);
                writer.frame(&structure)?;
            }
            session.progress(index as u64 + 1, self.limit.unwrap_or(0) as u64);
        }
        match errors.counts().0 {
            0 => Err(Failure::general(format!("{}: no structures in the file", self.structures))),
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

/// A prediction in other units.
fn converted(mut found: Prediction, from: Units, to: Units) -> Prediction {
    let (energy, force) = (from.energy_to(to), from.force_to(to));
    found.energy *= energy;
    found.atom_energies.iter_mut().for_each(|own| *own *= energy);
    found.forces.iter_mut().flatten().for_each(|own| *own *= force);
    found.virial.iter_mut().flatten().for_each(|own| *own *= energy);
    found
}

/// Whether a file has structures: the first frame can be read.
fn is_structures(path: &Path) -> bool {
    let frame = |mut reader: XyzReader<_>| reader.next_frame().ok().flatten();
    XyzReader::open(path, LabelKeys::default())
        .ok()
        .and_then(frame)
        .is_some_and(|frame: Structure| !frame.species.is_empty())
}
