//! Tables of a study.

use super::quality::Quality;
use super::summary::{first_appearances, metric_of};
use super::{ParameterCounts, Report, Row, Summary};
use linwright_evaluate::{Metric, TaskResult};
use linwright_report::number::{Style, count, percent, scientific, seconds, significant, spread};
use linwright_report::{Mark, Row as Line, Spread, Table, iso_date};

/// A metric with a column: task, name and title.
struct Figure<'a> {
    task: &'a str,
    metric: &'a str,
    title: String,
    style: Style,
}

/// Title of a column, and its cell for a summary.
type CostColumn = (String, fn(&Summary<'_>) -> Option<String>);

impl Report {
    /// Means of all methods, one table per comparison, the dense model first.
    pub(super) fn result_tables(&self) -> Vec<Table> {
        let summaries = self.summaries();
        let figures = self.figures();
        let main = self.main_columns();
        let mut columns = vec![("Method", false), ("Layers", true), ("Parameters", true)];
        columns.extend(main.iter().map(|figure| (figure.title.as_str(), true)));
        let costs = self.cost_columns();
        columns.extend(costs.iter().map(|(title, _)| (title.as_str(), true)));
        columns.push(("Kept", true));
        columns.extend(figures.iter().map(|figure| (figure.title.as_str(), true)));
        columns.extend([("Fit error", true), ("Whole model", true)]);
        columns.extend(self.has_times().then_some(("Time", true)));
        columns.push(("Runs", true));
        self.comparisons()
            .into_iter()
            .map(|comparison| {
                let mut rows = vec![self.dense_row(&main, costs.len(), &figures)];
                let mut layers = 0;
                for summary in summaries.iter().filter(|s| s.comparison == comparison) {
                    let mut row = self.summary_row(summary, &main, &costs, &figures);
                    row.mark = self.mark(summary.method);
                    row.starts_block = summary.layer_count != layers;
                    layers = summary.layer_count;
                    rows.push(row);
                }
                Table { rows, ..Table::new(comparison, columns.iter().copied()) }
            })
            .collect()
    }

    /// Whether times are known: the file of results alone has none.
    fn has_times(&self) -> bool {
        self.rows.iter().any(|row| row.seconds.is_some())
    }

    fn summary_row(
        &self,
        summary: &Summary<'_>,
        main: &[Figure<'_>],
        costs: &[CostColumn],
        figures: &[Figure<'_>],
    ) -> Line {
        let cell = |value: Option<Spread>, style: Style| {
            value.map_or_else(dash, |value| spread(value, style))
        };
        let mut cells = vec![
            summary.method.to_owned(),
            summary.layer_count.to_string(),
            count(summary.parameters(|p| p.targeted as f64)),
        ];
        for figure in main {
            cells.push(cell(summary.metric(figure.task, figure.metric), figure.style));
        }
        cells.extend(costs.iter().map(|(_, cost)| cost(summary).unwrap_or_else(dash)));
        cells.push(percent(summary.parameters(ParameterCounts::keep)));
        for figure in figures {
            cells.push(cell(summary.metric(figure.task, figure.metric), figure.style));
        }
        let fit_error = summary.spread(|row| row.fit_error);
        let time = self.has_times().then(|| summary.spread(|row| *row.seconds));
        cells.extend([
            fit_error.map_or_else(dash, |value| scientific(value.mean)),
            count(summary.parameters(|p| p.model as f64)),
        ]);
        cells.extend(time.map(|time| time.map_or_else(dash, |value| seconds(value.mean))));
        cells.push(summary.rows.len().to_string());
        Line { cells, ..Line::default() }
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
    /// or else, of tasks without the main figure, the first.
    fn figures(&self) -> Vec<Figure<'_>> {
        let mut figures: Vec<Figure<'_>> = Vec::new();
        let first = self.quality().map(|quality| quality.task);
        for result in self.all_results() {
            let better: Vec<&Metric> =
                result.metrics.iter().filter(|metric| metric.higher_is_better).collect();
            let style = if better.is_empty() { Style::Significant(4) } else { Style::Percent };
            let is_main = first == Some(&result.task);
            let shown = match better.is_empty() {
                true => result.metrics.iter().take(usize::from(!is_main)).collect(),
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

    /// Cost of the replaced sites, with that of the dense model in parentheses; only columns with
    /// data.
    fn cost_columns(&self) -> Vec<CostColumn> {
        let mut columns: Vec<CostColumn> = Vec::new();
        if self.rows.iter().any(|row| row.macs.is_some()) {
            columns.push(("Multiply-adds (dense)".to_owned(), |summary| {
                let now = summary.spread(|row| Some(row.macs?.targeted as f64))?;
                let dense = summary.spread(|row| Some(row.macs?.targeted_dense as f64))?;
                Some(format!("{} ({})", count(now.mean), count(dense.mean)))
            }));
        }
        if let Some(speed) = self.rows.iter().find_map(|row| *row.speed) {
            let title = format!("ms for {} rows (dense)", count(speed.rows as f64));
            columns.push((title, |summary| {
                let now = summary.spread(|row| Some((*row.speed)?.milliseconds))?;
                let dense = summary.spread(|row| Some((*row.speed)?.milliseconds_dense))?;
                Some(format!("{} ({})", significant(now.mean, 2), significant(dense.mean, 2)))
            }));
        }
        columns
    }

    fn dense_row(&self, main: &[Figure<'_>], costs: usize, figures: &[Figure<'_>]) -> Line {
        let mut cells = vec!["dense".to_owned(), "0".to_owned(), dash()];
        cells.extend(main.iter().map(|figure| self.dense_cell(figure)));
        cells.extend(std::iter::repeat_with(dash).take(costs));
        cells.push(percent(1.0));
        cells.extend(figures.iter().map(|figure| self.dense_cell(figure)));
        cells.extend([dash(), count(self.model.parameters as f64)]);
        cells.extend(self.has_times().then(dash));
        cells.push("1".to_owned());
        Line { cells, mark: Mark::Baseline, starts_block: false }
    }

    /// A figure of the dense model.
    fn dense_cell(&self, figure: &Figure<'_>) -> String {
        let value = metric_of(&self.baseline, figure.task, figure.metric);
        value.map_or_else(dash, |value| match figure.style {
            Style::Percent => percent(value),
            Style::Significant(digits) => significant(value, digits),
            Style::Fixed(digits) => format!("{value:.digits$}"),
        })
    }

    /// Accuracy by group of questions, one table per comparison; none if no task has groups.
    pub(super) fn group_tables(&self) -> Vec<Table> {
        let mut groups: Vec<(&str, &str)> = Vec::new();
        for result in self.all_results() {
            for group in &result.groups {
                let pair = (result.task.as_str(), group.group.as_str());
                if !groups.contains(&pair) {
                    groups.push(pair);
                }
            }
        }
        if groups.is_empty() {
            return Vec::new();
        }
        let several = first_appearances(groups.iter().map(|(task, _)| *task)).len() > 1;
        let heads = groups.iter().map(|(task, group)| {
            let task = task.replace('_', " ");
            if several { format!("{task}, {group}") } else { (*group).to_owned() }
        });
        let heads: Vec<String> = heads.collect();
        let columns = [("Method", false), ("Layers", true)];
        let columns = || columns.into_iter().chain(heads.iter().map(|head| (head.as_str(), true)));
        let summaries = self.summaries();
        let table = |comparison: &str| Table {
            rows: self.group_rows(&groups, &summaries, comparison),
            ..Table::new(&format!("Accuracy by group of questions: {comparison}"), columns())
        };
        self.comparisons().into_iter().map(table).collect()
    }

    fn group_rows(
        &self,
        groups: &[(&str, &str)],
        summaries: &[Summary<'_>],
        comparison: &str,
    ) -> Vec<Line> {
        let dense = groups.iter().map(|(task, group)| {
            group_value(&self.baseline, task, group).map_or_else(dash, percent)
        });
        let mut rows = vec![Line {
            cells: ["dense".to_owned(), "0".to_owned()].into_iter().chain(dense).collect(),
            mark: Mark::Baseline,
            starts_block: false,
        }];
        let mut layers = 0;
        for summary in summaries.iter().filter(|summary| summary.comparison == comparison) {
            let values = groups.iter().map(|(task, group)| {
                let value = summary.spread(|row| group_value(&row.results, task, group));
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
            ("Comparison", false),
            ("Layers", false),
            ("Seed", true),
            ("Parameters", true),
            ("Kept", true),
            (quality.map_or("Perplexity", Quality::title), true),
            ("Fit error", true),
        ];
        let has_times = self.has_times();
        let titles = titles.into_iter().chain(has_times.then_some(("Time", true)));
        let row = |row: &Row| {
            let layers: Vec<String> = row.layers.iter().map(usize::to_string).collect();
            let value = quality.and_then(|quality| quality.of(&row.results));
            let time = has_times.then(|| row.seconds.map_or_else(dash, seconds));
            Line {
                cells: [
                    row.method.clone(),
                    row.comparison.clone(),
                    layers.join(" "),
                    row.seed.to_string(),
                    count(row.parameters.targeted as f64),
                    percent(row.parameters.keep()),
                    value.map_or_else(dash, |value| significant(value, 5)),
                    row.fit_error.map_or_else(dash, scientific),
                ]
                .into_iter()
                .chain(time)
                .collect(),
                mark: self.mark(&row.method),
                starts_block: false,
            }
        };
        Table { rows: self.rows.iter().map(row).collect(), ..Table::new("All runs", titles) }
    }

    /// Provenance, as pairs of name and value.
    pub(super) fn provenance_table(&self) -> Table {
        let p = &self.provenance;
        let model = &self.model;
        let width = model.hidden.map_or_else(String::new, |width| format!("width {width}, "));
        let mut pairs = vec![
            ("Model".to_owned(), model.name.clone()),
            (
                "Shape".to_owned(),
                format!(
                    "{}, {} layers, {width}{} parameters",
                    model.family,
                    model.layers,
                    count(model.parameters as f64)
                ),
            ),
            ("Model sha256".to_owned(), p.model_sha256.clone()),
            ("Recipe".to_owned(), p.recipe.clone()),
            ("Recipe sha256".to_owned(), p.recipe_sha256.clone()),
            ("Seeds".to_owned(), seeds(&p.seeds)),
            ("Protocols".to_owned(), p.protocols.join(", ")),
            (
                "Linwright".to_owned(),
                match &*p.commit {
                    Some(commit) => format!("{} ({commit})", p.version),
                    None => p.version.clone(),
                },
            ),
        ];
        pairs.extend(match p.is_measured() {
            true => vec![
                ("Device".to_owned(), format!("{}, {}, {} threads", p.device, p.dtype, p.threads)),
                ("Date".to_owned(), iso_date(*p.date_unix_seconds)),
            ],
            false => vec![("Data type".to_owned(), p.dtype.clone())],
        });
        for source in &p.data {
            pairs.push((
                format!("Data for {}", source.purpose),
                format!("{} (sha256 {})", source.path, source.sha256),
            ));
        }
        Table::of_pairs("Provenance", pairs.into_iter().filter(|(_, value)| !value.is_empty()))
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

fn dash() -> String {
    "–".to_owned()
}

fn seeds(seeds: &[u64]) -> String {
    seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
