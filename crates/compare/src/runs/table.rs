//! Tables of runs.

use super::quality::Quality;
use super::summary::{first_appearances, metric_of};
use super::{ParameterCounts, Run, Runs, Summary};
use linwright_evaluate::{Metric, TaskResult};
use linwright_report::number::{Style, count, percent, scientific, seconds, significant, spread};
use linwright_report::{Mark, Row as Line, Spread, Table};

/// A metric with a column: task, name and title.
struct Figure<'a> {
    task: &'a str,
    metric: &'a str,
    title: String,
    style: Style,
}

impl Runs<'_> {
    /// Means of all rows, the dense network first.
    pub(crate) fn result_table(&self) -> Table {
        let figures = self.figures();
        let main = self.main_columns();
        let mut columns = vec![("Method", false), ("Layers", true), ("Parameters", true)];
        columns.extend(main.iter().map(|figure| (figure.title.as_str(), true)));
        columns.extend([("Multiply-adds (dense)", true), ("Kept", true)]);
        columns.extend(figures.iter().map(|figure| (figure.title.as_str(), true)));
        columns.extend([("Fit error", true), ("Whole model", true), ("Runs", true)]);
        let mut rows = vec![self.dense_row(&main, &figures)];
        let mut layers = 0;
        for summary in self.summaries() {
            rows.push(Line {
                cells: summary_cells(&summary, &main, &figures),
                mark: self.mark(summary.method),
                starts_block: summary.layer_count != layers,
            });
            layers = summary.layer_count;
        }
        Table { rows, ..Table::new("Means", columns) }
    }

    /// Means of measured times: those of the replaced slots, and of the fits.
    pub(crate) fn speed_table(&self) -> Table {
        let rows = self.rows.iter().find_map(|row| row.speed).map_or(0, |speed| speed.rows);
        let of_slots = format!("ms for {} rows (dense)", count(rows as f64));
        let columns = [
            ("Method", false),
            ("Layers", true),
            (of_slots.as_str(), true),
            ("Capture and fits", true),
        ];
        let line = |summary: &Summary<'_>| {
            let now = summary.spread(|row| Some(row.speed?.milliseconds));
            let dense = summary.spread(|row| Some(row.speed?.milliseconds_dense));
            let slots = now.zip(dense).map(|(now, dense)| {
                format!("{} ({})", significant(now.mean, 2), significant(dense.mean, 2))
            });
            let time = summary.spread(|row| row.seconds).map(|time| seconds(time.mean));
            vec![
                summary.method.to_owned(),
                summary.layer_count.to_string(),
                slots.unwrap_or_else(dash),
                time.unwrap_or_else(dash),
            ]
        };
        Table::new("Times", columns).with(self.summaries().iter().map(line))
    }

    /// Marker of a method.
    fn mark(&self, method: &str) -> Mark {
        let place = self.methods().iter().position(|known| *known == method);
        place.map_or(Mark::Plain, Mark::Series)
    }

    /// Columns of the main figure.
    fn main_columns(&self) -> Vec<Figure<'_>> {
        let Some(quality) = self.quality() else { return Vec::new() };
        let columns = quality.columns().iter();
        let figure = |&(metric, title, style): &(&'static str, &str, Style)| Figure {
            task: quality.task,
            metric,
            title: title.to_owned(),
            style,
        };
        columns.map(figure).collect()
    }

    /// Further metrics, in the order of the dense model's results: those of which more is better,
    /// or else, of tasks without the main figure, the first; and those that compare a network with
    /// the dense one.
    fn figures(&self) -> Vec<Figure<'_>> {
        let mut figures: Vec<Figure<'_>> = Vec::new();
        let first = self.quality().map(|quality| quality.task);
        for result in self.all_results() {
            let own = || result.metrics.iter().filter(|metric| self.is_shown(result, metric));
            let better: Vec<&Metric> = own().filter(|metric| metric.higher_is_better).collect();
            let style = if better.is_empty() { Style::Significant(4) } else { Style::Percent };
            let is_main = first == Some(&result.task);
            let shown = match better.is_empty() {
                true => own().take(usize::from(!is_main)).collect(),
                false => better,
            };
            for metric in shown {
                let (task, metric) = (result.task.as_str(), metric.name.as_str());
                if !figures.iter().any(|f| (f.task, f.metric) == (task, metric)) {
                    figures.push(Figure { task, metric, title: title(metric), style });
                }
            }
        }
        let titles: Vec<String> = figures.iter().map(|figure| figure.title.clone()).collect();
        for figure in &mut figures {
            // Of several tasks with one metric, each is named.
            if titles.iter().filter(|title| **title == figure.title).count() > 1 {
                figure.title = format!("{}, {}", figure.title, figure.task.replace('_', " "));
            }
        }
        figures
    }

    /// Whether a metric has a column: networks have more of them where they are compared with the
    /// dense one, of which some are shown.
    fn is_shown(&self, result: &TaskResult, metric: &Metric) -> bool {
        let mut own = self.baseline.iter().filter(|dense| dense.task == result.task);
        own.next().is_none_or(|dense| dense.metric(&metric.name).is_some())
            || self.from_dense.contains(&metric.name.as_str())
    }

    fn dense_row(&self, main: &[Figure<'_>], figures: &[Figure<'_>]) -> Line {
        let mut cells = vec!["dense".to_owned(), "0".to_owned(), dash()];
        cells.extend(main.iter().map(|figure| self.dense_cell(figure)));
        cells.extend([dash(), percent(1.0)]);
        cells.extend(figures.iter().map(|figure| self.dense_cell(figure)));
        cells.extend([dash(), count(self.parameters as f64), "1".to_owned()]);
        Line { cells, mark: Mark::Baseline, starts_block: false }
    }

    /// A figure of the dense model.
    fn dense_cell(&self, figure: &Figure<'_>) -> String {
        let value = metric_of(self.baseline, figure.task, figure.metric);
        value.map_or_else(dash, |value| match figure.style {
            Style::Percent => percent(value),
            Style::Significant(digits) => significant(value, digits),
            Style::Fixed(digits) => format!("{value:.digits$}"),
        })
    }

    /// Accuracy by group of questions; none if no task has groups.
    pub(super) fn group_table(&self) -> Option<Table> {
        let mut groups: Vec<(&str, &str)> = Vec::new();
        for result in self.all_results() {
            for group in &result.groups {
                let pair = (result.task.as_str(), group.group.as_str());
                if !groups.contains(&pair) {
                    groups.push(pair);
                }
            }
        }
        let several = first_appearances(groups.iter().map(|(task, _)| *task)).len() > 1;
        let heads = groups.iter().map(|(task, group)| {
            let task = task.replace('_', " ");
            if several { format!("{task}, {group}") } else { (*group).to_owned() }
        });
        let heads: Vec<String> = heads.collect();
        let columns = [("Method", false), ("Layers", true)];
        let columns = columns.into_iter().chain(heads.iter().map(|head| (head.as_str(), true)));
        let rows = self.group_rows(&groups);
        let table = || Table { rows, ..Table::new("Accuracy by group of questions", columns) };
        (!groups.is_empty()).then(table)
    }

    fn group_rows(&self, groups: &[(&str, &str)]) -> Vec<Line> {
        let dense = groups.iter().map(|(task, group)| {
            group_value(self.baseline, task, group).map_or_else(dash, percent)
        });
        let mut rows = vec![Line {
            cells: ["dense".to_owned(), "0".to_owned()].into_iter().chain(dense).collect(),
            mark: Mark::Baseline,
            starts_block: false,
        }];
        let mut layers = 0;
        for summary in &self.summaries() {
            let values = groups.iter().map(|(task, group)| {
                let value = summary.spread(|row| group_value(row.results, task, group));
                value.map_or_else(dash, |value| spread(value, Style::Percent))
            });
            let cells = [summary.method.to_owned(), summary.layer_count.to_string()];
            rows.push(Line {
                cells: cells.into_iter().chain(values).collect(),
                mark: self.mark(summary.method),
                starts_block: summary.layer_count != layers,
            });
            layers = summary.layer_count;
        }
        rows
    }

    /// Table of all runs.
    pub(super) fn run_table(&self) -> Table {
        let quality = self.quality();
        let titles = [
            ("Method", false),
            ("Layers", false),
            ("Seed", true),
            ("Parameters", true),
            ("Kept", true),
            (quality.map_or("Perplexity", Quality::title), true),
            ("Fit error", true),
        ];
        let row = |row: &Run<'_>| {
            let layers: Vec<String> = row.layers.iter().map(usize::to_string).collect();
            let value = quality.and_then(|quality| quality.of(row.results));
            Line {
                cells: [
                    row.method.clone(),
                    layers.join(" "),
                    row.seed.to_string(),
                    count(row.parameters.targeted as f64),
                    percent(row.parameters.keep()),
                    value.map_or_else(dash, |value| significant(value, 5)),
                    row.fit_error.map_or_else(dash, scientific),
                ]
                .into(),
                mark: self.mark(&row.method),
                starts_block: false,
            }
        };
        Table { rows: self.rows.iter().map(row).collect(), ..Table::new("All runs", titles) }
    }
}

/// The first metric of a group of a task.
fn group_value(results: &[TaskResult], task: &str, group: &str) -> Option<f64> {
    let result = results.iter().find(|result| result.task == task)?;
    let group = result.groups.iter().find(|entry| entry.group == group)?;
    Some(group.metrics.first()?.value)
}

/// Title of the column of a metric.
fn title(metric: &str) -> String {
    match metric {
        "acc" => "Accuracy".to_owned(),
        "acc_norm" => "Accuracy, per character".to_owned(),
        "exact_match" => "Exact completion".to_owned(),
        other => other.replace('_', " "),
    }
}

/// Cells of a line of means.
fn summary_cells(
    summary: &Summary<'_>,
    main: &[Figure<'_>],
    figures: &[Figure<'_>],
) -> Vec<String> {
    let cell =
        |value: Option<Spread>, style: Style| value.map_or_else(dash, |value| spread(value, style));
    let of = |figure: &Figure<'_>| cell(summary.metric(figure.task, figure.metric), figure.style);
    let mut cells = vec![
        summary.method.to_owned(),
        summary.layer_count.to_string(),
        count(summary.parameters(|p| p.targeted as f64)),
    ];
    cells.extend(main.iter().map(of));
    let macs = summary.spread(|row| Some(row.macs?.targeted as f64));
    let dense = summary.spread(|row| Some(row.macs?.targeted_dense as f64));
    let macs = macs.zip(dense).map(|(now, dense)| (count(now.mean), count(dense.mean)));
    cells.push(macs.map_or_else(dash, |(now, dense)| format!("{now} ({dense})")));
    cells.push(percent(summary.parameters(ParameterCounts::keep)));
    cells.extend(figures.iter().map(of));
    let fit_error = summary.spread(|row| row.fit_error);
    cells.push(fit_error.map_or_else(dash, |value| scientific(value.mean)));
    cells.push(count(summary.parameters(|p| p.model as f64)));
    cells.push(summary.rows.len().to_string());
    cells
}

fn dash() -> String {
    "–".to_owned()
}
