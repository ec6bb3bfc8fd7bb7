//! Time of energies and forces by a molecular potential.

mod result;

use self::result::{PotentialTimes, StructureTime};
use crate::jobs::kit::{Failure, Job, Outcome, Session, bounds};
use crate::jobs::molecule::potential::{told_units, units_failure};
use linwright_measure::timing::MedianRange;
use linwright_molecule::{
    FastOptions, FastTensorNet, KernelRates, LabelKeys, MoleculeError, MoleculeModel, Neighbours,
    Potential, Structure, Wanted, XyzReader,
};
use linwright_report::ReportKind;
use linwright_run::{Measured, Monitor};
use linwright_tensor::parallel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Time step for which days of dynamics are reported, in femtoseconds.
const TIME_STEP: f64 = 0.5;
/// Evaluations that are not timed: they reserve memory.
const WARM_UP: usize = 2;

/// Time of energies and forces of structures by a molecular potential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeBench {
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
    /// Compute in double precision, without tables of radial filters.
    pub exact: bool,
    /// Time only the first N structures.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-short" = "L"))]
    pub limit: usize,
    /// Timed evaluations of each structure, after two untimed ones.
    #[schemars(range(min = 1, max = bounds::REPEATS))]
    pub repeats: usize,
}

impl Default for MoleculeBench {
    fn default() -> Self {
        Self {
            potential: String::new(),
            structures: String::new(),
            units: None,
            exact: false,
            limit: 8,
            repeats: 9,
        }
    }
}

impl Job for MoleculeBench {
    const VERB: &str = "molecule-bench";
    const ABOUT: &str = "Time of energies and forces of structures by a molecular potential.\n\n\
        Each structure is evaluated again and again, neighbour list included. The least time is \
        that of a cost model: products and sums over neighbours at the rates of their kernels, \
        measured in the same run, and nothing else.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<PotentialTimes>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential), PathBuf::from(&self.structures)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        session.step(&format!("loading {}", self.potential));
        let model = MoleculeModel::open(Path::new(&self.potential))?;
        model.checkpoint.notes.iter().for_each(|note| session.note(note));
        let structures = self.read(&model)?;
        let mut potential = model.potential(self.exact)?;
        let mut fast = match self.exact {
            true => None,
            false => Some(FastTensorNet::new(&model.network, FastOptions::default())?),
        };
        session.step("measuring the kernels");
        let rates = fast.is_some().then(|| KernelRates::measured(model.network.config().channels));
        session.step("timing");
        let mut times = Vec::new();
        for (index, structure) in structures.iter().enumerate() {
            let milliseconds = self.time(potential.as_mut(), (index, structure), session)?;
            let one = time_of(&model, fast.as_mut().zip(rates), structure, &milliseconds);
            times.push(one.map_err(|error| error.of_structure(index))?);
            session.progress(index as u64 + 1, structures.len() as u64);
        }
        session.finish();
        Ok(Outcome::of(PotentialTimes {
            potential: session.portable(&self.potential),
            threads: Measured(parallel::threads()),
            instructions: Measured(parallel::instruction_set().to_owned()),
            exact: self.exact,
            repeats: self.repeats,
            time_step_fs: TIME_STEP,
            rates: Measured(rates),
            structures: times,
        }))
    }
}

/// The time of a structure in milliseconds, with what the fast path knows of it.
fn time_of(
    model: &MoleculeModel,
    fast: Option<(&mut FastTensorNet, KernelRates)>,
    structure: &Structure,
    milliseconds: &[f64],
) -> Result<StructureTime, MoleculeError> {
    let config = model.network.config();
    let neighbours = Neighbours::within(structure, config.cutoff())?;
    let (atoms, edges) = (structure.species.len(), 2 * neighbours.pairs.len());
    let (mut least, mut bytes) = (None, None);
    if let Some((fast, rates)) = fast {
        fast.predict_within(structure, &neighbours, Wanted { forces: true })?;
        let seconds = rates.least_seconds(config, atoms, edges);
        least = Some(1e3 * seconds / parallel::threads() as f64);
        bytes = Some(fast.working_bytes());
    }
    let milliseconds = MedianRange::of(milliseconds);
    let seconds = 1e-3 * milliseconds.median;
    Ok(StructureTime {
        atoms,
        edges,
        milliseconds: Measured(milliseconds),
        least_milliseconds: Measured(least),
        atoms_per_second: Measured(atoms as f64 / seconds),
        nanoseconds_per_day: Measured(0.0864 * TIME_STEP / seconds),
        working_bytes: Measured(bytes),
    })
}

impl MoleculeBench {
    /// Milliseconds of each repeat.
    fn time(
        &self,
        potential: &mut dyn Potential,
        (index, structure): (usize, &Structure),
        session: &Session<'_>,
    ) -> Result<Vec<f64>, Failure> {
        let mut milliseconds = Vec::new();
        for repeat in 0..self.repeats + WARM_UP {
            if session.interrupted() {
                return Err(Failure::interrupted("interrupted; nothing was kept".to_owned()));
            }
            let began = Instant::now();
            let found = potential.predict(structure, Wanted { forces: true });
            found.map_err(|error| error.of_structure(index))?;
            if repeat >= WARM_UP {
                milliseconds.push(1e3 * began.elapsed().as_secs_f64());
            }
        }
        Ok(milliseconds)
    }

    /// The structures, in units of the model.
    fn read(&self, model: &MoleculeModel) -> Result<Vec<Structure>, Failure> {
        let own = model.checkpoint.units;
        let told = told_units(self.units.as_deref())?;
        let units = told.unwrap_or(own);
        let mut reader = XyzReader::open(Path::new(&self.structures), LabelKeys::default())?;
        let mut found = Vec::new();
        while found.len() < self.limit {
            let Some(mut structure) = reader.next_frame()? else { break };
            let index = found.len();
            structure.expect_units(told, own).map_err(|error| units_failure(error, index))?;
            structure.convert(units, own);
            found.push(structure);
        }
        match found.is_empty() {
            true => Err(Failure::general(format!("{}: no structures in it", self.structures))),
            false => Ok(found),
        }
    }
}
