//! Time of energies and forces by a molecular potential.

use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Failure, Job, Outcome, Session, bounds};
use crate::jobs::molecule::potential::{told_units, units_failure};
use linwright_measure::timing::MedianRange;
use linwright_molecule::{
    FastOptions, FastTensorNet, KernelRates, LabelKeys, MoleculeError, MoleculeModel, Neighbours,
    Potential, Structure, Wanted, XyzReader,
};
use linwright_report::number::grouped;
use linwright_run::Monitor;
use linwright_tensor::parallel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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

/// Measurements on one structure.
struct Timed {
    atoms: usize,
    edges: usize,
    milliseconds: MedianRange,
    /// Least milliseconds on the same number of threads, by the cost model; unknown in double
    /// precision.
    least: Option<f64>,
    /// Bytes of working memory; unknown in double precision.
    bytes: Option<usize>,
}

impl Job for MoleculeBench {
    const VERB: &str = "molecule-bench";
    const ABOUT: &str = "Time of energies and forces of structures by a molecular potential.\n\n\
        Each structure is evaluated again and again, neighbour list included. The least time is \
        that of a cost model: products and sums over neighbours at the rates of their kernels, \
        measured in the same run, and nothing else.";

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
        let mut timed = Vec::new();
        for (index, structure) in structures.iter().enumerate() {
            let milliseconds = self.time(potential.as_mut(), (index, structure), session)?;
            let one = Timed::new(&model, fast.as_mut().zip(rates), structure, &milliseconds);
            timed.push(one.map_err(|error| error.of_structure(index))?);
            session.progress(index as u64 + 1, structures.len() as u64);
        }
        session.finish();
        Ok(self.outcome(&timed, rates, session))
    }
}

impl Timed {
    fn new(
        model: &MoleculeModel,
        fast: Option<(&mut FastTensorNet, KernelRates)>,
        structure: &Structure,
        milliseconds: &[f64],
    ) -> Result<Self, MoleculeError> {
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
        Ok(Self { atoms, edges, milliseconds: MedianRange::of(milliseconds), least, bytes })
    }
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

    fn outcome(&self, all: &[Timed], rates: Option<KernelRates>, session: &Session<'_>) -> Outcome {
        let days = |one: &Timed| 0.0864 * TIME_STEP / (1e-3 * one.milliseconds.median);
        let result = |one: &Timed| -> Value {
            json!({
                "atoms": one.atoms,
                "edges": one.edges,
                "milliseconds": one.milliseconds,
                "least_milliseconds": one.least,
                "atoms_per_second": one.atoms as f64 / (1e-3 * one.milliseconds.median),
                "nanoseconds_per_day": days(one),
                "working_bytes": one.bytes,
            })
        };
        let row = |one: &Timed| {
            let optional = |found: Option<String>| found.unwrap_or_else(|| "-".into());
            vec![
                grouped(one.atoms as u64),
                grouped(one.edges as u64),
                format!("{:.3}", one.milliseconds.median),
                format!("{:.3}", one.milliseconds.min),
                optional(one.least.map(|least| format!("{:.2}", one.milliseconds.median / least))),
                format!("{:.2}", days(one)),
                optional(one.bytes.map(|bytes| grouped((bytes / one.atoms.max(1)) as u64))),
            ]
        };
        let value = json!({
            "schema": 1,
            "linwright": session.build().version,
            "potential": session.portable(&self.potential),
            "threads": parallel::threads(),
            "instructions": parallel::instruction_set(),
            "exact": self.exact,
            "repeats": self.repeats,
            "time_step_fs": TIME_STEP,
            "rates": rates.map(|rates| json!({ "products": rates.products, "sums": rates.sums })),
            "structures": all.iter().map(result).collect::<Vec<_>>(),
        });
        let heads = ["atoms", "edges", "ms", "least ms", "times the limit", "ns/day", "bytes/atom"];
        let mut told = vec![format!(
            "energies and forces on {} threads ({}), median and least of {}; days of dynamics at \
             {TIME_STEP} fs a step",
            parallel::threads(),
            parallel::instruction_set(),
            self.repeats
        )];
        told.extend(rates.map(|rates| {
            format!(
                "kernels on one thread: products {:.1}, sums over neighbours {:.1} thousand \
                 million operations a second",
                1e-9 * rates.products,
                1e-9 * rates.sums
            )
        }));
        Outcome::new(value, vec![text(told), table(&heads, all.iter().map(row).collect())])
    }
}
