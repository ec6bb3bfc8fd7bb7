//! The main figure of a report, by which methods are compared: lower is better.
//!
//! It is the perplexity of the first task that has one; otherwise the cross-entropy of the first
//! task that has one, which is what the logarithm of a perplexity is for tokens; otherwise the mean
//! absolute error of forces.

use super::summary::metric_of;
use super::{Run, Runs, Summary};
use linwright_evaluate::TaskResult;
use linwright_report::Spread;
use linwright_report::number::Style;

/// How a kind of figure is named and shown.
#[derive(Debug)]
struct Kind {
    /// The metric.
    metric: &'static str,
    /// Its name, and several of it, in a sentence.
    names: [&'static str; 2],
    /// Title of a column and of a fact.
    title: &'static str,
    /// How plots and differences of two methods see it: in nats, or in units of force.
    nats: &'static str,
    /// Title of the axis of plots.
    axis: &'static str,
    /// Columns of tables: metric, title and style.
    columns: &'static [Column],
}

/// A column of a table: metric, title and style.
pub(super) type Column = (&'static str, &'static str, Style);

const PERPLEXITY: Kind = Kind {
    metric: "token_perplexity",
    names: ["perplexity", "perplexities"],
    title: "Perplexity",
    nats: "nll_nats_per_token",
    axis: "log-perplexity, nats per token",
    columns: &[
        ("token_perplexity", "Perplexity", Style::Significant(4)),
        ("nll_nats_per_token", "Log-perplexity", Style::Fixed(3)),
    ],
};

const CROSS_ENTROPY: Kind = Kind {
    metric: "cross_entropy",
    names: ["cross-entropy", "cross-entropies"],
    title: "Cross-entropy",
    nats: "cross_entropy",
    axis: "cross-entropy, nats per example",
    columns: &[("cross_entropy", "Cross-entropy", Style::Significant(4))],
};

const FORCE_ERROR: Kind = Kind {
    metric: "force_mae",
    names: ["force error", "force errors"],
    title: "Force MAE",
    nats: "force_mae",
    axis: "mean absolute error of forces",
    columns: &[
        ("force_mae", "Force MAE", Style::Significant(4)),
        ("energy_mae", "Energy MAE per atom", Style::Significant(4)),
    ],
};

/// The main figure of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality<'a> {
    /// The task that has it.
    pub(super) task: &'a str,
    kind: &'static Kind,
}

impl Quality<'_> {
    /// Its name in a sentence.
    pub(super) fn name(self) -> &'static str {
        self.kind.names[0]
    }

    /// Several of it in a sentence.
    pub(super) fn plural(self) -> &'static str {
        self.kind.names[1]
    }

    /// Title of its column.
    pub(super) fn title(self) -> &'static str {
        self.kind.title
    }

    /// Title of the axis of plots.
    pub(super) fn axis(self) -> &'static str {
        self.kind.axis
    }

    /// Columns of tables.
    pub(super) fn columns(self) -> &'static [Column] {
        self.kind.columns
    }

    /// Its value in some results.
    pub(super) fn of(self, results: &[TaskResult]) -> Option<f64> {
        metric_of(results, self.task, self.kind.metric)
    }

    /// Its mean over runs.
    pub(super) fn mean(self, summary: &Summary<'_>) -> Option<Spread> {
        summary.metric(self.task, self.kind.metric)
    }

    /// Its value in nats, as plots show it.
    pub(super) fn nats(self, results: &[TaskResult]) -> Option<f64> {
        metric_of(results, self.task, self.kind.nats)
    }

    /// Its mean in nats over runs.
    pub(super) fn mean_nats(self, summary: &Summary<'_>) -> Option<Spread> {
        summary.metric(self.task, self.kind.nats)
    }

    /// What differences of two methods are taken of: nats, in which they add up.
    pub(super) fn loss(self, row: &Run<'_>) -> Option<f64> {
        let value = self.of(row.results)?;
        Some(if self.kind.metric == self.kind.nats { value } else { value.ln() })
    }
}

impl Runs<'_> {
    /// The main figure, if a task has one.
    pub(super) fn quality(&self) -> Option<Quality<'_>> {
        [&PERPLEXITY, &CROSS_ENTROPY, &FORCE_ERROR].into_iter().find_map(|kind| {
            let mut all = self.all_results();
            let result = all.find(|result| result.metric(kind.metric).is_some())?;
            Some(Quality { task: &result.task, kind })
        })
    }

    /// Results of the dense model and of all edited ones.
    pub(super) fn all_results(&self) -> impl Iterator<Item = &TaskResult> {
        self.baseline.iter().chain(self.rows.iter().flat_map(|row| row.results))
    }
}
