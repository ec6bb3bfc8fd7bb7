//! Trials of molecular potentials: structures to fit to, and others to measure errors on.

mod data;
mod error;
#[cfg(test)]
mod tests;

use crate::trial::{ExamplesOf, Trial, TrialError, for_validation};
use linwright_compress::CompressError;
use linwright_data::Indices;
use linwright_evaluate::{Counts, Metric, Sample, TaskResult};
use linwright_molecule::tensornet::TensorNet;
use linwright_molecule::{
    Checkpoint, MoleculeError, MoleculeModel, Prediction, PredictionErrors, Structure,
    StructureBatches, Units, file_sha256, read_xyz, shown_species,
};
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use data::{StructureCalibration, StructureSource};
pub use error::MoleculeTrialError;

/// Name of the task.
const TASK: &str = "molecules";
/// Structures of a batch in evaluations, whose results do not depend on it.
const BATCH: usize = 10;

/// A potential as trials need it: the network in single precision, with what its file says.
#[derive(Clone, Debug)]
pub struct TrialPotential {
    /// The model as its file has it.
    pub model: MoleculeModel,
    /// Its network in single precision, whose slots are edited.
    pub network: TensorNet,
    /// SHA-256 of the file, in hexadecimal.
    pub hash: String,
}

impl TrialPotential {
    /// Opens a `.ckpt` of torchmd-net, a `.safetensors`, or a directory with `model.safetensors`.
    ///
    /// # Errors
    /// As [`MoleculeModel::open`].
    pub fn open(path: &Path) -> Result<Self, MoleculeError> {
        let model = MoleculeModel::open(path)?;
        let network = model.network.cast()?;
        let hash = file_sha256(&Checkpoint::file_of(path))?;
        Ok(Self { model, network, hash })
    }
}

/// Structures in the units of a model, their labels without the model's priors.
#[derive(Clone, Debug)]
pub struct Structures {
    /// The structures.
    pub all: Vec<Structure>,
    /// Their numbers in the file, from zero.
    pub places: Vec<usize>,
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of their file, in hexadecimal.
    pub sha256: String,
    /// Number of structures in the file.
    pub in_file: usize,
}

/// Reads the chosen structures of a file; `of` is its name in messages. What the
/// priors of the model add is taken from the labels, so that the network alone is compared.
///
/// # Errors
/// [`MoleculeTrialError`] for an unusable file, indices without a structure, elements that the
/// model was not trained on, and structures that its priors do not take.
pub fn open_structures(
    of: &'static str,
    source: &StructureSource<'_>,
    model: &MoleculeModel,
) -> Result<Structures, MoleculeTrialError> {
    let wrong = |error| MoleculeTrialError::molecule(of, error);
    let sha256 = file_sha256(source.path).map_err(wrong)?;
    let mut all = read_xyz(source.path, &source.keys).map_err(wrong)?;
    let in_file = all.len();
    let mut places: Vec<usize> = (0..in_file).collect();
    if let Some(chosen) = source.examples {
        if chosen.last() >= in_file {
            let (last, structures) = (chosen.last(), in_file);
            return Err(MoleculeTrialError::Range { of, last, structures });
        }
        places = chosen.iter().collect();
        all = places.iter().map(|place| all[*place].clone()).collect();
    }
    let (own, known) = (model.checkpoint.units, &model.checkpoint.species);
    let is_new = |number: &&u8| {
        let is_trained = known.is_empty() || known.contains(number);
        !is_trained || usize::from(**number) >= model.network.config().species
    };
    for (structure, &index) in all.iter_mut().zip(&places) {
        if let Some(number) = structure.species.iter().find(is_new) {
            let element = shown_species(*number);
            return Err(MoleculeTrialError::Untrained { of, index, element });
        }
        let from = structure.settle_units(source.units, own);
        let from = from.map_err(|error| wrong(error.of_structure(index)))?;
        structure.convert(from, own);
        without_priors(structure, model).map_err(|error| wrong(error.of_structure(index)))?;
    }
    Ok(Structures { all, places, path: source.path.to_owned(), sha256, in_file })
}

/// Names the structure of an error by its number in the file.
fn placed(of: &'static str, places: &[usize]) -> impl FnOnce(MoleculeError) -> MoleculeTrialError {
    move |error| {
        let source = if let MoleculeError::Structure { index, source } = error {
            source.of_structure(places[index])
        } else {
            error
        };
        MoleculeTrialError::molecule(of, source)
    }
}

/// Takes what the priors of a model add from the labels of a structure.
fn without_priors(structure: &mut Structure, model: &MoleculeModel) -> Result<(), MoleculeError> {
    if model.priors.is_empty() {
        return Ok(());
    }
    let forces = vec![[0.0; 3]; structure.species.len()];
    let mut found = Prediction { forces, ..Prediction::default() };
    for prior in &model.priors {
        prior.add(structure, model.checkpoint.units, &mut found)?;
    }
    structure.labels.energy = structure.labels.energy.map(|energy| energy - found.energy);
    let forces = structure.labels.forces.iter_mut().flatten().flatten();
    forces.zip(found.forces.iter().flatten()).for_each(|(label, own)| *label -= own);
    Ok(())
}

/// Structures with forces, to score networks on; `of` is their name in messages.
///
/// # Errors
/// [`MoleculeTrialError`] for none at all, for one without forces, and for those that are no
/// molecules, such as coincident atoms.
pub fn scored_structures(
    of: &'static str,
    structures: Structures,
    network: &TensorNet,
) -> Result<StructureBatches, MoleculeTrialError> {
    let Structures { all, places, path, .. } = structures;
    if all.is_empty() {
        return Err(MoleculeTrialError::TooFew { of, found: 0, least: 1 });
    }
    if let Some(bare) = all.iter().position(|one| one.labels.forces.is_none()) {
        return Err(MoleculeTrialError::NoForces { of, path, index: places[bare] });
    }
    let count = all.len();
    StructureBatches::new(all, BATCH, count, network.config()).map_err(placed(of, &places))
}

/// A number of structures in the order of a seed, the last ones for validation; `of` is their name
/// in messages.
///
/// # Errors
/// [`MoleculeTrialError`] for fewer than two structures, and those that are no molecules.
pub fn calibration_batches(
    of: &'static str,
    structures: &Structures,
    calibration: &StructureCalibration,
    network: &TensorNet,
    seed: u64,
) -> Result<StructureBatches, MoleculeTrialError> {
    let mut order: Vec<usize> = (0..structures.all.len()).collect();
    RngKey::new(seed).fold("calibration structures").stream().shuffle(&mut order);
    order.truncate(calibration.sample.unwrap_or(order.len()));
    if order.len() < 2 {
        return Err(MoleculeTrialError::TooFew { of, found: order.len(), least: 2 });
    }
    let chosen: Vec<Structure> = order.iter().map(|k| structures.all[*k].clone()).collect();
    let places: Vec<usize> = order.iter().map(|k| structures.places[*k]).collect();
    let training = chosen.len() - for_validation(calibration.validation, chosen.len());
    StructureBatches::new(chosen, calibration.batch, training, network.config())
        .map_err(placed(of, &places))
}

/// Errors of a network as the result of a task, in the units of the model.
#[must_use]
pub fn task_result(errors: &PredictionErrors, units: Units, data_sha256: &str) -> TaskResult {
    let metric = |name, value| Metric::new(name, value, None, false);
    let force = errors.force().map(|pair| [("force_mae", pair.mae), ("force_rmse", pair.rmse)]);
    let per_atom = errors.energy_per_atom();
    let per_atom = per_atom.map(|pair| [("energy_mae", pair.mae), ("energy_rmse", pair.rmse)]);
    let metrics = force.into_iter().chain(per_atom).flatten();
    let (structures, _) = errors.counts();
    let energy = units.energy.name().replace('/', "_per_");
    TaskResult {
        task: TASK.to_owned(),
        protocol: format!("{TASK}_{energy}_{}", units.length.name()),
        version: 1.0,
        data_sha256: data_sha256.to_owned(),
        metrics: metrics.map(|(name, value)| metric(name, value)).collect(),
        counts: Counts { items: structures as usize, ..Counts::default() },
        original: structures as usize,
        ..TaskResult::default()
    }
}

/// What messages call the structures.
#[derive(Clone, Copy, Debug)]
pub struct StructureNames {
    /// Those that fits read.
    pub calibration: &'static str,
    /// Those that are scored.
    pub eval: &'static str,
}

/// Errors of single structures; a root mean square is not a mean over structures, so it has none.
fn samples(each: &[PredictionErrors]) -> Vec<Sample> {
    let sample = |errors: &PredictionErrors| {
        let force = errors.force().map(|pair| ("force_mae".to_owned(), pair.mae));
        let energy = errors.energy_per_atom().map(|pair| ("energy_mae".to_owned(), pair.mae));
        let numbers: BTreeMap<String, f64> = force.into_iter().chain(energy).collect();
        Sample { filter: "none".to_owned(), numbers, ..Sample::default() }
    };
    each.iter().map(sample).collect()
}

/// A potential, structures to fit its slots to, and others to score it on.
#[derive(Debug)]
pub struct MoleculeTrial<'a> {
    potential: &'a TrialPotential,
    drawn: &'a StructureCalibration,
    names: StructureNames,
    calibration: Structures,
    scored: StructureBatches,
    scored_sha256: String,
    notes: Vec<String>,
}

impl<'a> MoleculeTrial<'a> {
    /// Reads structures to fit to, and others to score on.
    ///
    /// # Errors
    /// [`MoleculeTrialError`] for unusable structures, scored ones without forces, and structures
    /// of one file that are both fitted to and scored.
    pub fn new(
        potential: &'a TrialPotential,
        [fitted, scored]: [&StructureSource<'_>; 2],
        drawn: &'a StructureCalibration,
        names: StructureNames,
    ) -> Result<Self, MoleculeTrialError> {
        let choices = [fitted.examples, scored.examples];
        let calibration = open_structures(names.calibration, fitted, &potential.model)?;
        let scored = open_structures(names.eval, scored, &potential.model)?;
        if calibration.sha256 == scored.sha256
            && let Some([first, count]) = Indices::common(choices, scored.in_file)
        {
            let StructureNames { calibration, eval } = names;
            return Err(MoleculeTrialError::Common { calibration, eval, first, count });
        }
        let units = potential.model.checkpoint.units;
        let (energy, length) = (units.energy.name(), units.length.name());
        let told = format!("errors of forces in {energy}/{length}, of energies in {energy}/atom");
        let common = common_note(&calibration.all, &scored.all);
        let scored_sha256 = scored.sha256.clone();
        let scored = scored_structures(names.eval, scored, &potential.network)?;
        Ok(Self {
            potential,
            drawn,
            names,
            calibration,
            scored,
            scored_sha256,
            notes: std::iter::once(told).chain(common).collect(),
        })
    }
}

/// A note on structures that are scored although fits read equal ones.
#[must_use]
pub fn common_note(calibration: &[Structure], scored: &[Structure]) -> Option<String> {
    let content = |one: &Structure| -> Vec<u64> {
        let positions = one.positions.iter().flatten().map(|x| x.to_bits());
        one.species.iter().map(|z| u64::from(*z)).chain(positions).collect()
    };
    let known: BTreeSet<Vec<u64>> = calibration.iter().map(content).collect();
    let all = scored.len();
    match scored.iter().filter(|one| known.contains(&content(one))).count() {
        0 => None,
        common => Some(format!(
            "{common} of {all} scored structures are also among those of the calibration, which \
             flatters the figures"
        )),
    }
}

impl Trial for MoleculeTrial<'_> {
    type Network = TensorNet;

    fn network(&self) -> &TensorNet {
        &self.potential.network
    }

    fn hash(&self) -> &str {
        &self.potential.hash
    }

    fn calibration_sha256(&self) -> &str {
        &self.calibration.sha256
    }

    fn scored_sha256(&self) -> &str {
        &self.scored_sha256
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn examples(&self, seed: u64) -> Result<Box<ExamplesOf<Self>>, TrialError> {
        let (all, network) = (&self.calibration, &self.potential.network);
        Ok(Box::new(calibration_batches(self.names.calibration, all, self.drawn, network, seed)?))
    }

    fn scores(
        &self,
        network: &TensorNet,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, TrialError> {
        let errors = self.scored.errors_of_each(network, monitor).map_err(|error| {
            if matches!(error, MoleculeError::Interrupted { .. }) {
                TrialError::from(CompressError::Interrupted)
            } else {
                MoleculeTrialError::molecule(self.names.eval, error).into()
            }
        })?;
        let units = self.potential.model.checkpoint.units;
        let result = task_result(&errors.all, units, &self.scored_sha256);
        Ok(vec![TaskResult { samples: samples(&errors.each), ..result }])
    }
}
