//! Energies and forces of structures, and their errors.

mod result;

use self::result::PotentialErrors;
use crate::jobs::kit::{Failure, Folding, Job, Outcome, OutputPath, Session, bounds, outputs};
use crate::jobs::molecule::labels::LabelOptions;
use crate::jobs::molecule::potential::{
    check_structure, is_structures, no_structures, open_ensemble, potential_of, told_units,
};
use linwright_molecule::tensornet::Property;
use linwright_molecule::{
    Ensemble, LabelKeys, Potential, Prediction, PredictionErrors, PriorChoices, Structure, Units,
    Wanted, XyzColumn, XyzReader, XyzWriter, parse_numbers, stress, xyz_numbers,
};
use linwright_report::ReportKind;
use linwright_run::{Monitor, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A molecular potential on structures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeEval {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`; or an ensemble: a directory of several, or a `.zip` of torchmd-net.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// Structures in extended XYZ.
    #[schemars(extend("x-positional" = true))]
    pub structures: String,
    /// Units of the structures, such as `kcal/mol,A` [default: those of the model].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Names of energies and forces.
    #[serde(flatten, with = "Folding::<LabelOptions>")]
    pub labels: LabelOptions,
    /// Compute in double precision, without tables of radial filters.
    pub exact: bool,
    /// Further models of an ensemble: its mean and standard deviation are predicted.
    #[schemars(extend("x-value" = "POTENTIAL", "x-whole" = true, "x-many" = true))]
    #[schemars(extend("x-path" = true))]
    pub members: Vec<PathBuf>,
    /// Add energies of isolated atoms that the model stores but leaves out
    /// (`remove_ref_energy=False` of torchmd-net).
    pub reference_energies: bool,
    /// Compute the prior `Coulomb` as torchmd-net does, ten times too large with angstroms.
    pub compat: bool,
    /// Evaluate only the first N structures.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-short" = "L"))]
    pub limit: Option<usize>,
    /// Write the structures with predicted energies, forces and stress, or other properties, to
    /// this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
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
        used.\n\n\
        Several models predict their mean; how much they differ is the unbiased standard \
        deviation. A model of a dipole moment, a spatial extent, a vector or a symmetric tensor \
        predicts that instead, and its errors are measured where the file has a value of this name.";
    const OUTPUT_ENDING: &str = ".xyz";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<PotentialErrors>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = [PathBuf::from(&self.potential), PathBuf::from(&self.structures)];
        own.into_iter().chain(self.members.iter().cloned()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_structures)?;
        }
        let Self { reference_energies, compat, .. } = *self;
        let mut paths = vec![PathBuf::from(&self.potential)];
        paths.extend(self.members.iter().cloned());
        let choices = PriorChoices { reference_energies, compat };
        let model = open_ensemble(&paths, choices, session)?;
        let told = told_units(self.units.as_deref())?;
        let units = told.unwrap_or(model.units());
        let (errors, written) = self.errors(&model, told, session)?;
        session.finish();
        if let Some(path) = &self.output {
            outputs::write(path, &written, self.force, is_structures)?;
            session.note(&format!("wrote {}", path.display()));
        }
        let potential = session.portable(&self.potential);
        Ok(Outcome::of(PotentialErrors::new(potential, &model, &errors, units)))
    }
}

impl MoleculeEval {
    /// The errors, in the units of the structures, and the predictions as a file, if it is wanted.
    fn errors(
        &self,
        model: &Ensemble,
        told: Option<Units>,
        session: &mut Session<'_>,
    ) -> Result<(PredictionErrors, Vec<u8>), Failure> {
        let units = told.unwrap_or(model.units());
        let mut predictor = self.predictor(model)?;
        let mut reader = XyzReader::open(Path::new(&self.structures), self.labels.keys())?;
        let (mut errors, mut writer) = (PredictionErrors::default(), XyzWriter::new(Vec::new()));
        let mut without_volume = 0;
        session.step("evaluating");
        for index in 0..self.limit.unwrap_or(usize::MAX) {
            if session.interrupted() {
                return Err(Failure::interrupted("interrupted; nothing was written".to_owned()));
            }
            let Some(mut structure) = reader.next_frame()? else { break };
            check_structure(model, &mut structure, told, index)?;
            let mut inner = structure.clone();
            inner.convert(units, model.units());
            let mut predicted = match &mut predictor {
                Predictor::Energy(potential) => {
                    let found = potential.predict(&inner, Wanted { forces: true });
                    let mut found = found.map_err(|error| error.of_structure(index))?;
                    found.convert(model.units(), units);
                    errors.add(&structure, &found);
                    let is_open = structure.cell.and_then(|cell| cell.bulk_volume()).is_none();
                    let has_stress = structure.labels.stress.is_some() || has_stress(&structure);
                    without_volume += usize::from(is_open && has_stress);
                    with_energy(structure, found)
                }
                Predictor::Property(model) => {
                    let (structure, found) = (structure, model.property(&inner));
                    let found = found.map_err(|error| error.of_structure(index))?;
                    let name = model.head().property();
                    let reference = reference(&structure, name, found.0.total.len(), index)?;
                    errors.add_property(&structure, &found.0.total, reference.as_deref());
                    with_property(structure, name, found)
                }
            };
            if self.output.is_some() {
                predicted.structure.declare_units(units, model.units());
                predicted.write(&mut writer)?;
            }
            session.progress(index as u64 + 1, self.limit.unwrap_or(0) as u64);
        }
        if without_volume > 0 {
            session.note(&format!(
                "note: {without_volume} structures have a stress or virial, but no cell that \
                 repeats along all its vectors; it is kept, and not compared"
            ));
        }
        match errors.counts().0 {
            0 => Err(no_structures(&self.structures)),
            _ => Ok((errors, writer.into_inner())),
        }
    }

    fn predictor<'a>(&self, model: &'a Ensemble) -> Result<Predictor<'a>, Failure> {
        if !model.head().is_energy() {
            return Ok(Predictor::Property(model));
        }
        Ok(Predictor::Energy(potential_of(model, self.exact)?))
    }
}

/// The predictor: a potential, or heads for other quantities than energy.
enum Predictor<'a> {
    Energy(Box<dyn Potential>),
    Property(&'a Ensemble),
}

/// A column of the file that is not a label.
struct Column {
    name: String,
    width: usize,
    values: Vec<f64>,
}

impl Column {
    fn borrowed(&self) -> XyzColumn<'_> {
        XyzColumn { name: &self.name, width: self.width, values: &self.values }
    }
}

/// A structure with its predictions and further columns.
struct Predicted {
    structure: Structure,
    columns: Vec<Column>,
}

impl Predicted {
    fn write(&self, writer: &mut XyzWriter<Vec<u8>>) -> Result<(), Failure> {
        let columns: Vec<XyzColumn<'_>> = self.columns.iter().map(Column::borrowed).collect();
        Ok(writer.frame_with(&self.structure, &columns)?)
    }
}

fn with_energy(mut structure: Structure, found: Prediction) -> Predicted {
    let stress = stress(&structure, &found);
    structure.replace_labels(found.energy, found.forces, stress);
    let mut columns = Vec::new();
    if let Some(deviation) = found.deviation {
        structure.info.insert("energy_std".into(), xyz_numbers(&[deviation.energy]));
        let values = deviation.forces.into_flattened();
        columns.push(Column { name: "forces_std".into(), width: 3, values });
    }
    Predicted { structure, columns }
}

/// Whether a frame has a stress or a virial among its pairs.
fn has_stress(structure: &Structure) -> bool {
    let LabelKeys { stress, virial, .. } = LabelKeys::default();
    stress.iter().chain(&virial).any(|name| structure.info.contains_key(name))
}

fn with_property(
    mut structure: Structure,
    name: &str,
    (mean, deviation): (Property, Option<Property>),
) -> Predicted {
    let mut columns = Vec::new();
    for (found, ending) in [(Some(mean), ""), (deviation, "_std")] {
        if let Some(found) = found {
            let value = structure.info.insert(format!("{name}{ending}"), xyz_numbers(&found.total));
            if let Some(value) = value.filter(|_| ending.is_empty()) {
                structure.info.entry(format!("input_{name}")).or_insert(value);
            }
            columns.push(Column {
                name: format!("atom_{name}{ending}"),
                width: found.total.len(),
                values: found.atoms,
            });
        }
    }
    Predicted { structure, columns }
}

/// The reference value of a property: `REF_` and its name, or its name, among the pairs of a frame.
fn reference(
    structure: &Structure,
    name: &str,
    width: usize,
    index: usize,
) -> Result<Option<Vec<f64>>, Failure> {
    let keys = [format!("REF_{name}"), name.to_owned()];
    let Some((key, text)) = keys.iter().find_map(|key| structure.info.get_key_value(key)) else {
        return Ok(None);
    };
    match parse_numbers(text).filter(|numbers| numbers.len() == width) {
        Some(numbers) => Ok(Some(numbers)),
        None => Err(Failure::general(format!(
            "structure {index} has {key}=\"{}\", expected {width} finite numbers",
            shown(text)
        ))),
    }
}
