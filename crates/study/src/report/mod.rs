//! Results of a study, as plain data and as a report.
//!
//! A [`Report`] has all single results with their provenance; means over seeds and layer sets are
//! computed from it ([`Report::summaries`]), never stored. [`Report::document`] builds its blocks.

mod document;
mod figures;
mod headline;
mod pairs;
mod quality;
mod summary;
mod table;

#[cfg(test)]
mod tests;

pub use summary::Summary;

use linwright_evaluate::{Comparison, ParameterCounts, TaskResult};
use linwright_ops::SiteId;
use linwright_report::ReportError;
use linwright_run::{Measured, Provenance};
use linwright_train::CurvePoint;
use serde::{Deserialize, Serialize};

/// Version of the schema of a saved report.
pub const SCHEMA: u32 = 1;

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the schema, [`SCHEMA`].
    pub schema: u32,
    /// Title of the run.
    pub title: String,
    /// The model before any change.
    pub model: ModelSummary,
    /// Results of the dense model in the same run.
    pub baseline: Vec<TaskResult>,
    /// One entry per edited model.
    pub rows: Vec<Row>,
    /// Training curves of trained fits.
    pub curves: Vec<Curve>,
    /// Fit error of each site.
    pub layer_errors: Vec<LayerError>,
    /// Differences of methods, item by item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Provenance.
    pub provenance: Provenance,
    /// Notes for the reader: fallbacks taken, overlaps of data, rows left out.
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
    /// [`ReportError::NotAReport`] if the results cannot be serialised.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// The original model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Its name or path, as given.
    pub name: String,
    /// Its family.
    pub family: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Number of layers; of a small network, of those with slots.
    pub layers: usize,
    /// Width of the residual stream, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<usize>,
}

/// Results of one edited model: method, layers, seed and scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the table: `as in the paper`.
    pub comparison: String,
    /// Label of the method: `rotor`, `LR4-closed`.
    pub method: String,
    /// Edited layers, from zero, in the order of editing.
    pub layers: Vec<usize>,
    /// Seed of the fits.
    pub seed: u64,
    /// Parameters before and after.
    pub parameters: ParameterCounts,
    /// Results of the tasks.
    pub results: Vec<TaskResult>,
    /// Mean over sites of the relative squared error on held-out activations.
    pub fit_error: Option<f64>,
    /// Total time of the fits in seconds, without capture and evaluation; `None` if unknown.
    #[serde(default)]
    pub seconds: Measured<Option<f64>>,
    /// Multiply-adds of the replaced sites, before and after; absent in older reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs: Option<MacCounts>,
    /// Times of the replaced sites, before and after, if measured.
    #[serde(default)]
    pub speed: Measured<Option<SiteSpeed>>,
}

/// Multiply-adds of the replaced sites per row, which is one token, or one place of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacCounts {
    /// In the edited model.
    pub targeted: u64,
    /// In the dense model.
    pub targeted_dense: u64,
}

/// Times of the replaced sites for a number of rows; both models alternate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteSpeed {
    /// Number of rows.
    pub rows: usize,
    /// Number of threads.
    pub threads: usize,
    /// Milliseconds of the edited model's sites, median of rounds.
    pub milliseconds: f64,
    /// Milliseconds of the dense model's sites.
    pub milliseconds_dense: f64,
}

/// Training curve of one operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Table, as in [`Row::comparison`].
    pub comparison: String,
    /// Method, as in [`Row::method`].
    pub method: String,
    /// The site fitted.
    pub site: SiteId,
    /// Seed of the fit.
    pub seed: u64,
    /// Mean squared target, by which losses are normalised to compare sites.
    pub target_power: f64,
    /// Losses by step.
    pub points: Vec<CurvePoint>,
}

/// Two methods on the same layers, item by item, with the means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Table, as in [`Row::comparison`].
    pub comparison: String,
    /// Method, as in [`Row::method`].
    pub method: String,
    /// The other method.
    pub against: String,
    /// Edited layers.
    pub layers: Vec<usize>,
    /// Differences, in each metric that items have.
    pub differences: Vec<Comparison>,
}

/// Fit error of one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerError {
    /// Table, as in [`Row::comparison`].
    pub comparison: String,
    /// Method, as in [`Row::method`].
    pub method: String,
    /// The site.
    pub site: SiteId,
    /// Role of the site.
    pub role: String,
    /// Its layer, from zero.
    pub layer: usize,
    /// Seed of the fit.
    pub seed: u64,
    /// E|y − ŷ|² / E|y|² on held-out activations, where y excludes the bias.
    pub relative_error: f64,
}
