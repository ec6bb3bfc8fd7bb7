//! Results of a comparison, as plain data.

use super::speed::Speed;
use crate::search::counts::Counts;
use linwright_evaluate::{Comparison, Metric, ParameterCounts, Sample, TaskResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A comparison of methods on one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// Shares of the parameters that were asked for.
    pub keeps: Vec<f64>,
    /// The dense model in the same run.
    pub dense: Dense,
    /// Every method at every size, in the order of the methods.
    pub cells: Vec<Cell>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The dense model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// Parameters of the targeted layers, and of the model.
    pub parameters: [u64; 2],
    /// Multiply-adds on a text.
    pub macs: Counts,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Counted memory, see [`Figures::memory`].
    pub memory: u64,
    /// Results of the tasks.
    pub results: Vec<TaskResult>,
    /// Scores of the items of each task.
    pub items: Vec<Vec<ItemScores>>,
    /// Speed; none in a saved result, which has no times.
    #[serde(default)]
    pub speed: Option<Speed>,
}

/// Scores of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemScores {
    /// Name of the filter.
    pub filter: String,
    /// The scores by metric.
    pub numbers: BTreeMap<String, f64>,
}

/// One method at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Name of the method.
    pub method: String,
    /// Whether it is a control.
    pub is_control: bool,
    /// The share that was asked for; none of a method with one size.
    pub asked: Option<f64>,
    /// What came of it.
    pub found: Found,
}

/// What came of a method at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Found {
    /// A model.
    Model(Box<Figures>),
    /// None, for this reason.
    None(String),
}

/// Figures of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The share that was used instead of the one that was asked for, which the method cannot have.
    pub nearest: Option<f64>,
    /// Parameters before and after.
    pub parameters: ParameterCounts,
    /// Multiply-adds on a text.
    pub macs: Counts,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Memory in bytes, counted: the weights as stored, and activations and cached keys and values
    /// of a batch of the evaluation in f32. Not measured, since one process judges all models.
    pub memory: u64,
    /// Results of the tasks.
    pub results: Vec<TaskResult>,
    /// Paired differences from the dense model.
    pub comparisons: Vec<Comparison>,
    /// What else is to be told of the model.
    pub note: Option<String>,
    /// Whether weights are rounded, so that all parameters are kept.
    pub is_rounded: bool,
    /// Speed of the dense model and of this one, which alternate; none of rounded weights, which
    /// are decoded here, and in a saved result, which has no times.
    #[serde(default)]
    pub speed: Option<[Speed; 2]>,
    /// Time of capture and fits in seconds.
    #[serde(default)]
    pub seconds: Option<f64>,
}

impl Found {
    /// The figures, if there is a model.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Model(figures) => Some(figures),
            Self::None(_) => None,
        }
    }
}

impl Compared {
    /// The metric that ranks: the first of the first task.
    #[must_use]
    pub fn metric(&self) -> Option<&Metric> {
        self.dense.results.first()?.metrics.first()
    }

    /// Its value for a model; higher is better.
    #[must_use]
    pub fn quality(&self, figures: &Figures) -> Option<f64> {
        let metric = self.metric()?;
        let own = figures.results.first()?.metric(&metric.name)?.value;
        let sign = if metric.higher_is_better { 1.0 } else { -1.0 };
        (!own.is_nan()).then_some(sign * own)
    }

    /// The best model for a share, controls aside; of equal ones the first.
    #[must_use]
    pub fn best(&self, keep: f64) -> Option<(&Cell, &Figures)> {
        let own = self.cells.iter().filter(|cell| !cell.is_control && cell.asked == Some(keep));
        let within = |figures: &&Figures| {
            figures.nearest.is_none() && figures.parameters.keep() <= keep + super::TOLERANCE
        };
        let models = own.filter_map(|cell| Some((cell, cell.found.figures().filter(within)?)));
        let mut best: Option<(&Cell, &Figures, f64)> = None;
        for (cell, figures) in models {
            let Some(quality) = self.quality(figures) else { continue };
            if best.is_none_or(|(_, _, other)| quality > other) {
                best = Some((cell, figures, quality));
            }
        }
        best.map(|(cell, figures, _)| (cell, figures))
    }
}

/// Scores of the items of a result.
pub(super) fn items_of(result: &TaskResult) -> Vec<ItemScores> {
    let item = |sample: &Sample| ItemScores {
        filter: sample.filter.clone(),
        numbers: sample.numbers.clone(),
    };
    result.samples.iter().map(item).collect()
}

/// A result with the scores of its items.
pub(super) fn with_items(result: &TaskResult, items: &[ItemScores]) -> TaskResult {
    let sample = |item: &ItemScores| Sample {
        filter: item.filter.clone(),
        numbers: item.numbers.clone(),
        ..Sample::default()
    };
    TaskResult { samples: items.iter().map(sample).collect(), ..result.clone() }
}
