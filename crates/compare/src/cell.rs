//! Results of a comparison, as plain data.

use crate::fits::Fits;
use crate::rows::{Place, line_of};
use linwright_compress::Size;
use linwright_evaluate::{Comparison, Metric, ParameterCounts, Sample, TaskResult};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A comparison of methods on one network, whose multiply-adds are `M` and speeds `S`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared<M, S> {
    /// Shares of the parameters that were asked for.
    pub keeps: Vec<f64>,
    /// The dense model in the same run.
    pub dense: Dense<M, S>,
    /// Every method at every size, in the order of the methods.
    pub cells: Vec<Cell<M, S>>,
    /// Differences of rows from others, item by item, where the report has runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The dense model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense<M, S> {
    /// Parameters of the targeted layers, and of the model.
    pub parameters: [u64; 2],
    /// Multiply-adds.
    pub macs: M,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Counted memory, see [`Figures::memory`].
    pub memory: Option<u64>,
    /// Results of the tasks.
    pub results: Vec<TaskResult>,
    /// Scores of the items of each task.
    pub items: Vec<Vec<ItemScores>>,
    /// Speed; none in a saved result, which has no times.
    #[serde(default = "Measured::default")]
    pub speed: Measured<Option<S>>,
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

/// Two rows on the same layers, item by item, with the means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The row.
    pub method: String,
    /// The other row, or the dense model.
    pub against: String,
    /// Replaced layers.
    pub layers: Vec<usize>,
    /// Differences, in each metric that items have.
    pub differences: Vec<Comparison>,
}

/// One method at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell<M, S> {
    /// Name of the method.
    pub method: String,
    /// Whether it is a control.
    pub is_control: bool,
    /// The share that was asked for; none of a method with one size.
    pub asked: Option<f64>,
    /// The name of the row, if that is not the name of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The size of the row, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Layers and seed, where the report has runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What came of it.
    pub found: Found<M, S>,
}

impl<M, S> Cell<M, S> {
    /// The name of its row.
    #[must_use]
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.method)
    }

    /// The name of its row, at the share if it was asked for one.
    #[must_use]
    pub fn line(&self) -> String {
        line_of(self.name(), self.asked)
    }

    /// The size that was asked for, as reports show it.
    #[must_use]
    pub fn shown_size(&self) -> String {
        let own = || self.size.map_or_else(String::new, |size| size.to_string());
        self.asked.map_or_else(own, |keep| keep.to_string())
    }
}

/// What came of a method at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Found<M, S> {
    /// A model.
    Model(Box<Figures<M, S>>),
    /// None, for this reason.
    None(String),
}

/// A cell with a model, and the figures of that.
pub type Model<'a, M, S> = (&'a Cell<M, S>, &'a Figures<M, S>);

/// Which model is best at a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<'a, M, S> {
    /// The model.
    pub best: Model<'a, M, S>,
    /// Methods whose models cannot be told from it.
    pub level: Vec<&'a str>,
}

/// Figures of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures<M, S> {
    /// The share that was used instead of the one that was asked for, which the method cannot have.
    pub nearest: Option<f64>,
    /// Parameters before and after.
    pub parameters: ParameterCounts,
    /// Multiply-adds.
    pub macs: M,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Memory in bytes, counted by the judge, if it does. Not measured, since one process judges
    /// all models.
    pub memory: Option<u64>,
    /// Results of the tasks.
    pub results: Vec<TaskResult>,
    /// Paired differences from the dense model.
    pub comparisons: Vec<Comparison>,
    /// What else is to be told of the model.
    pub note: Option<String>,
    /// Whether weights are rounded, so that all parameters are kept.
    pub is_rounded: bool,
    /// How slots were fitted, where the report has runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<Fits>,
    /// Speed of the dense model and of this one, which alternate; none of rounded weights, which
    /// are decoded here, and in a saved result, which has no times.
    #[serde(default = "Measured::default")]
    pub speed: Measured<Option<[S; 2]>>,
    /// Time of capture and fits in seconds.
    #[serde(default)]
    pub seconds: Measured<Option<f64>>,
}

impl<M, S> Found<M, S> {
    /// The figures, if there is a model.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures<M, S>> {
        match self {
            Self::Model(figures) => Some(figures),
            Self::None(_) => None,
        }
    }
}

impl<M, S> Compared<M, S> {
    /// Whether the report has means over runs.
    #[must_use]
    pub fn has_runs(&self) -> bool {
        self.cells.iter().any(|cell| cell.place.is_some())
    }

    /// The metric that ranks: the first of the first task.
    #[must_use]
    pub fn metric(&self) -> Option<&Metric> {
        self.dense.results.first()?.metrics.first()
    }

    /// Its value for a model; higher is better.
    #[must_use]
    pub fn quality(&self, figures: &Figures<M, S>) -> Option<f64> {
        let metric = self.metric()?;
        let own = figures.results.first()?.metric(&metric.name)?.value;
        let sign = if metric.higher_is_better { 1.0 } else { -1.0 };
        (!own.is_nan()).then_some(sign * own)
    }

    /// The best model for a share, controls aside; of equal ones the first.
    #[must_use]
    pub fn best(&self, keep: f64) -> Option<Model<'_, M, S>> {
        self.first(self.within(keep).filter(|(cell, _)| !cell.is_control))
    }

    /// What a share comes to, controls included: the best of the models within it and of those with
    /// rounded weights in no more bytes, and those that cannot be told from it, since the intervals
    /// of their differences from the dense model overlap.
    #[must_use]
    pub fn verdict(&self, keep: f64) -> Option<Verdict<'_, M, S>> {
        let of_best = self.best(keep).map_or(0, |(_, figures)| figures.bytes);
        let most = of_best.max(self.bytes_at(keep));
        let rounded = self.cells.iter().filter_map(|cell| {
            let is_asked = cell.asked.is_none_or(|asked| asked == keep);
            let figures = cell.found.figures()?;
            (figures.is_rounded && is_asked && figures.bytes <= most).then_some((cell, figures))
        });
        let all: Vec<Model<'_, M, S>> = self.within(keep).chain(rounded).collect();
        let best = self.first(all.iter().copied())?;
        let is_level = |figures: &Figures<M, S>| {
            let both = self.interval(figures).zip(self.interval(best.1));
            both.is_some_and(|([a, b], [c, d])| a <= d && c <= b)
        };
        let others = all.iter().filter(|(cell, _)| cell.name() != best.0.name());
        let level = others.filter(|(_, figures)| is_level(figures));
        Some(Verdict { best, level: level.map(|(cell, _)| cell.name()).collect() })
    }

    /// Bytes of the weights where this share of the targeted parameters is kept.
    fn bytes_at(&self, keep: f64) -> u64 {
        let [targeted, model] = self.dense.parameters;
        let share = 1.0 - (1.0 - keep) * targeted as f64 / model.max(1) as f64;
        (share * self.dense.bytes as f64).round() as u64
    }

    /// Interval of the difference from the dense model in the metric that ranks.
    fn interval(&self, figures: &Figures<M, S>) -> Option<[f64; 2]> {
        let (task, metric) = (&self.dense.results.first()?.task, self.metric()?);
        let is_of = |pair: &&Comparison| {
            pair.task == *task && pair.metric == metric.name && pair.filter == metric.filter
        };
        figures.comparisons.iter().find(is_of).map(|pair| pair.interval)
    }

    /// Models that keep no more parameters than a share.
    fn within(&self, keep: f64) -> impl Iterator<Item = Model<'_, M, S>> {
        let own = self.cells.iter().filter(move |cell| cell.asked == Some(keep));
        own.filter_map(move |cell| {
            let figures = cell.found.figures()?;
            let kept = figures.parameters.keep();
            let is_within = figures.nearest.is_none() && kept <= keep + crate::TOLERANCE;
            is_within.then_some((cell, figures))
        })
    }

    /// The one of the highest quality; of equal ones the first.
    fn first<'a>(&self, models: impl Iterator<Item = Model<'a, M, S>>) -> Option<Model<'a, M, S>> {
        let mut best: Option<(Model<'a, M, S>, f64)> = None;
        for model in models {
            let Some(quality) = self.quality(model.1) else { continue };
            if best.as_ref().is_none_or(|(_, other)| quality > *other) {
                best = Some((model, quality));
            }
        }
        best.map(|(model, _)| model)
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
