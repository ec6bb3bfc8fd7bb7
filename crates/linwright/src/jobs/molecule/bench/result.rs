//! Times of a potential, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_measure::timing::MedianRange;
use linwright_molecule::KernelRates;
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// Times of energies and forces of structures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialTimes {
    /// The potential.
    pub potential: String,
    /// Number of threads.
    #[serde(default)]
    pub threads: Measured<usize>,
    /// Instruction set of the kernels.
    #[serde(default)]
    pub instructions: Measured<String>,
    /// Whether energies are computed in double precision, without tables.
    pub exact: bool,
    /// Timed evaluations of each structure.
    pub repeats: usize,
    /// Time step for which days of dynamics are reported, in femtoseconds.
    pub time_step_fs: f64,
    /// Rates of the kernels on one thread; unknown in double precision.
    #[serde(default)]
    pub rates: Measured<Option<KernelRates>>,
    /// The structures, in order.
    pub structures: Vec<StructureTime>,
}

/// Time of energies and forces of one structure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StructureTime {
    /// Its atoms.
    pub atoms: usize,
    /// Its directed pairs of neighbours.
    pub edges: usize,
    /// Milliseconds of an evaluation.
    #[serde(default)]
    pub milliseconds: Measured<MedianRange>,
    /// Least milliseconds on the same number of threads, by the cost model; unknown in double
    /// precision.
    #[serde(default)]
    pub least_milliseconds: Measured<Option<f64>>,
    /// Atoms in a second.
    #[serde(default)]
    pub atoms_per_second: Measured<f64>,
    /// Nanoseconds of dynamics in a day.
    #[serde(default)]
    pub nanoseconds_per_day: Measured<f64>,
    /// Bytes of working memory; unknown in double precision.
    #[serde(default)]
    pub working_bytes: Measured<Option<usize>>,
}

impl StructureTime {
    fn row(&self) -> Vec<String> {
        let optional = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
        let MedianRange { median, min, .. } = self.milliseconds.0;
        let of_atom = |bytes: usize| grouped((bytes / self.atoms.max(1)) as u64);
        vec![
            grouped(self.atoms as u64),
            grouped(self.edges as u64),
            format!("{median:.3}"),
            format!("{min:.3}"),
            optional(self.least_milliseconds.0.map(|least| format!("{:.2}", median / least))),
            format!("{:.2}", self.nanoseconds_per_day.0),
            optional(self.working_bytes.0.map(of_atom)),
        ]
    }
}

impl Report for PotentialTimes {
    const KIND: &'static str = "molecule-bench";

    fn document(&self) -> Document {
        page(vec![text([format!(
            "energies and forces, median and least of {}; days of dynamics at {} fs a step",
            self.repeats, self.time_step_fs
        )])])
    }

    fn times(&self) -> Vec<Block> {
        let mut lines = vec![format!("{} threads ({})", self.threads.0, self.instructions.0)];
        lines.extend(self.rates.0.map(|rates| {
            format!(
                "kernels on one thread: products {:.1}, sums over neighbours {:.1} thousand \
                 million operations a second",
                1e-9 * rates.products,
                1e-9 * rates.sums
            )
        }));
        let heads = ["atoms", "edges", "ms", "least ms", "times the limit", "ns/day", "bytes/atom"];
        let rows = self.structures.iter().map(StructureTime::row).collect();
        vec![text(lines), table(&heads, rows)]
    }
}
