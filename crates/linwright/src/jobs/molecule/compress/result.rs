//! A compressed potential, as it is saved and reported.

use super::recovery::Recovery;
use crate::jobs::kit::outcome::{page, table, text};
use crate::jobs::language::compress::site_tables::site_table;
use crate::jobs::language::compress::summary::estimate_blocks;
use linwright_compress::pipeline::SiteOutcome;
use linwright_compress::{Estimate, Plan};
use linwright_evaluate::{ParameterCounts, TaskResult};
use linwright_molecule::Units;
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use serde::{Deserialize, Serialize};

/// A plan with its estimated cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompressionPlanned {
    /// The edits.
    pub plan: Plan,
    /// Parameters, memory and time.
    pub estimate: Estimate,
}

impl Report for CompressionPlanned {
    const KIND: &'static str = "molecule-compress-dry-run";

    fn document(&self) -> Document {
        page(estimate_blocks(&self.estimate))
    }
}

/// A potential with smaller layers, and its errors before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialCompressed {
    /// The original potential.
    pub potential: String,
    /// SHA-256 of its weights.
    pub potential_sha256: String,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The edits.
    pub plan: Plan,
    /// Parameters before and after.
    pub parameters: ParameterCounts,
    /// The replaced layers, in order.
    pub sites: Vec<SiteOutcome>,
    /// Errors of the original potential, if there are structures to judge on.
    pub dense: Option<JudgedErrors>,
    /// Errors after the replacement.
    pub replaced: Option<JudgedErrors>,
    /// The training that followed, if there was one.
    pub recovery: Option<Recovery>,
    /// Errors of what is saved.
    pub results: Option<JudgedErrors>,
    /// Units of the errors.
    pub units: JudgedUnits,
    /// Structures that were fitted to.
    pub calibration: StructuresUsed,
    /// Structures that were judged on.
    pub eval: StructuresUsed,
    /// What is to be known of the structures.
    pub notes: Vec<String>,
}

/// Structures that were used; none if there were none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StructuresUsed {
    /// Their number.
    pub structures: Option<usize>,
    /// SHA-256 of their file.
    pub sha256: Option<String>,
}

/// Errors of a potential; none of quantities without reference values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgedErrors {
    /// Mean absolute error of components of forces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    force_mae: Option<f64>,
    /// Root mean square error of components of forces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    force_rmse: Option<f64>,
    /// Mean absolute error of energies per atom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_mae: Option<f64>,
    /// Root mean square error of energies per atom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_rmse: Option<f64>,
}

impl From<&TaskResult> for JudgedErrors {
    fn from(result: &TaskResult) -> Self {
        let of = |name| result.metric(name).map(|metric| metric.value);
        Self {
            force_mae: of("force_mae"),
            force_rmse: of("force_rmse"),
            energy_mae: of("energy_mae"),
            energy_rmse: of("energy_rmse"),
        }
    }
}

impl JudgedErrors {
    fn values(&self) -> [Option<f64>; 4] {
        [self.force_mae, self.force_rmse, self.energy_mae, self.energy_rmse]
    }
}

/// Units of errors, by the names of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgedUnits {
    energy_mae: String,
    energy_rmse: String,
    force_mae: String,
    force_rmse: String,
}

impl From<Units> for JudgedUnits {
    fn from(units: Units) -> Self {
        let (energy, length) = (units.energy.name(), units.length.name());
        Self {
            energy_mae: format!("{energy}/atom"),
            energy_rmse: format!("{energy}/atom"),
            force_mae: format!("{energy}/{length}"),
            force_rmse: format!("{energy}/{length}"),
        }
    }
}

impl PotentialCompressed {
    /// Errors before and after, and between both if the potential was trained.
    fn errors(&self) -> Option<Block> {
        let units = &self.units;
        let names = [
            format!("force, mean absolute, {}", units.force_mae),
            format!("force, root mean square, {}", units.force_rmse),
            format!("energy, mean absolute, {}", units.energy_mae),
            format!("energy, root mean square, {}", units.energy_rmse),
        ];
        let (dense, results) = (self.dense.as_ref()?, self.results.as_ref()?);
        let (heads, all) = match (&self.recovery, &self.replaced) {
            (Some(_), Some(replaced)) => {
                (vec!["error", "before", "replaced", "trained"], vec![dense, replaced, results])
            }
            _ => (vec!["error", "before", "after"], vec![dense, results]),
        };
        let row = |(index, name): (usize, String)| {
            let values = all.iter().map(|errors| errors.values()[index]);
            let values: Vec<f64> = values.collect::<Option<_>>()?;
            let values = values.into_iter().map(|value| format!("{value:.6}"));
            Some(std::iter::once(name).chain(values).collect())
        };
        let rows = names.into_iter().enumerate().filter_map(row).collect();
        Some(table(&heads, rows))
    }
}

impl Report for PotentialCompressed {
    const KIND: &'static str = "molecule-compress";

    fn document(&self) -> Document {
        let ParameterCounts { targeted, targeted_dense, model, model_dense } = self.parameters;
        let mut blocks = vec![text([
            format!(
                "replaced layers: {} -> {} parameters (keep {:.4})",
                grouped(targeted_dense),
                grouped(targeted),
                self.parameters.keep(),
            ),
            format!("potential: {} -> {} parameters", grouped(model_dense), grouped(model)),
        ])];
        blocks.extend(self.recovery.iter().map(|recovery| text([recovery.line()])));
        blocks.extend(self.errors());
        blocks.extend(self.output.as_ref().map(|output| text([format!("wrote {output}")])));
        blocks.extend(site_table(&self.sites));
        page(blocks)
    }
}
