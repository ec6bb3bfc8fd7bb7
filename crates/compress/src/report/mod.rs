//! Results of a study, as plain data, and as a report.
//!
//! A [`Report`] holds every single result with its provenance; means over seeds and layer sets are
//! computed from it ([`Report::summaries`]), never stored. [`Report::document`] makes blocks of it.

mod document;
mod figures;
mod headline;
mod summary;
mod table;

#[cfg(test)]
mod tests;

pub use summary::Summary;

use linwright_evaluate::{ParameterCounts, TaskResult};
use linwright_ops::{Role, SiteId};
use linwright_report::ReportError;
use linwright_run::Provenance;
use linwright_train::CurvePoint;
use serde::{Deserialize, Serialize};

/// Version of the layout of a saved report.
pub const SCHEMA: u32 = 1;

/// Everything that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Layout of this file, [`SCHEMA`].
    pub schema: u32,
    /// What the run is called.
    pub title: String,
    /// The model before any change.
    pub model: ModelSummary,
    /// The dense model, measured in the same run.
    pub baseline: Vec<TaskResult>,
    /// One entry for each replaced model.
    pub rows: Vec<Row>,
    /// How fits went, for the methods that train.
    pub curves: Vec<Curve>,
    /// How well each site was fitted.
    pub layer_errors: Vec<LayerError>,
    /// Where all of it comes from.
    pub provenance: Provenance,
    /// Whatever a reader should know: fallbacks taken, overlaps of data, rows left out.
    pub notes: Vec<String>,
}

impl Report {
    /// Reads a saved report.
    ///
    /// # Errors
    /// [`ReportError::NotAReport`] or [`ReportError::Schema`].
    pub fn from_json(json: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Header {
            schema: u32,
        }
        let header: Header = serde_json::from_str(json)?;
        if header.schema != SCHEMA {
            return Err(ReportError::Schema { found: header.schema, expected: SCHEMA });
        }
        Ok(serde_json::from_str(json)?)
    }

    /// The report as JSON for saving.
    ///
    /// # Errors
    /// [`ReportError::NotAReport`] if a figure cannot be written.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// The model that was studied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Its name or path as the user gave it.
    pub name: String,
    /// Its family.
    pub family: String,
    /// Parameters in all.
    pub parameters: u64,
    /// Number of layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
}

/// One replaced model: a method, the layers it took, a seed, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Rows that belong in one table carry the same words: `as in the paper`.
    pub comparison: String,
    /// The method as it is to be shown: `rotor`, `LR4-closed`.
    pub method: String,
    /// The layers changed, from zero, in the order they were.
    pub layers: Vec<usize>,
    /// Seed of the fits.
    pub seed: u64,
    /// Parameters before and after.
    pub parameters: ParameterCounts,
    /// What the tasks say.
    pub results: Vec<TaskResult>,
    /// Mean over sites of the relative squared error on held-out activations.
    pub fit_error: Option<f64>,
    /// Time of the fits, in seconds; capture and evaluation are not counted.
    pub seconds: f64,
    /// What the replaced sites compute for a row, before and after; absent in reports of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs: Option<MacCounts>,
    /// How long they take, before and after, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<SiteSpeed>,
}

/// Multiply-adds of the replaced sites for one row, which is one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacCounts {
    /// Now.
    pub targeted: u64,
    /// In the dense model.
    pub targeted_dense: u64,
}

/// How long the replaced sites take for some rows, each by itself, both sides measured in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteSpeed {
    /// The rows.
    pub rows: usize,
    /// Threads that computed.
    pub threads: usize,
    /// Milliseconds now, the median of rounds.
    pub milliseconds: f64,
    /// Milliseconds of the same sites of the dense model.
    pub milliseconds_dense: f64,
}

/// The training of one operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The table as in [`Row::comparison`].
    pub comparison: String,
    /// The method as in [`Row::method`].
    pub method: String,
    /// The site fitted.
    pub site: SiteId,
    /// Seed of the fit.
    pub seed: u64,
    /// Mean squared target, by which losses are divided to make sites comparable.
    pub target_power: f64,
    /// Losses over steps.
    pub points: Vec<CurvePoint>,
}

/// How well one site was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerError {
    /// The table as in [`Row::comparison`].
    pub comparison: String,
    /// The method as in [`Row::method`].
    pub method: String,
    /// The site.
    pub site: SiteId,
    /// What the site does.
    pub role: Role,
    /// Its layer, from zero.
    pub layer: usize,
    /// Seed of the fit.
    pub seed: u64,
    /// E|y − ŷ|² / E|y|² on held-out activations, y without its bias.
    pub relative_error: f64,
}
