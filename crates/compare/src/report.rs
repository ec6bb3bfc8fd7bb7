//! Report of a comparison: one table, one plot, and what was not possible.

use crate::cell::{Cell, Compared, Figures, Found, Model, Verdict};
use crate::judge::{Costs, Speeds};
use crate::rows::Place;
use crate::runs::Runs;
use linwright_evaluate::{Comparison, Metric, TaskResult};
use linwright_report::number::{bytes, grouped, significant};
use linwright_report::plot::{Axis, Baseline, Plot, Series, Style};
use linwright_report::{Block, Document, Figure, Mark, Row, Scale, Table, iso_date};
use linwright_run::Provenance;

/// Digits of figures.
const DIGITS: i32 = 4;
/// Differences between the share that was asked for and the one that was reached that are told.
const FAR: f64 = 0.02;

/// The table of a comparison: means over runs if it has some, else every method at every size.
#[must_use]
pub fn table<M: Costs, S>(compared: &Compared<M, S>) -> Table {
    match compared.has_runs() {
        true => Runs::of(compared).result_table(),
        false => table_of_shares(compared),
    }
}

/// Scores and costs of every method at every size, below the dense model.
fn table_of_shares<M: Costs, S>(compared: &Compared<M, S>) -> Table {
    let dense = &compared.dense;
    let mut columns: Vec<(String, bool)> =
        ["method", "asked", "kept"].map(|head| (head.to_owned(), head != "method")).into();
    for result in &dense.results {
        for metric in shown::<M>(result) {
            let head = match dense.results.len() {
                1 => metric.name.clone(),
                _ => format!("{}: {}", result.task, metric.name),
            };
            columns.push((head, true));
            columns.push(("from dense, 95 %".to_owned(), false));
        }
        for name in from_dense(compared, result) {
            let head = match dense.results.len() {
                1 => name.to_owned(),
                _ => format!("{}: {name}", result.task),
            };
            columns.push((head, true));
        }
    }
    let memory = dense.memory.map(|_| "memory");
    let costs = ["parameters"].iter().chain(M::HEADS).chain(&["bytes"]).chain(&memory);
    columns.extend(costs.map(|head| ((*head).to_owned(), true)));
    let series = series(compared);
    let mut rows =
        vec![Row { cells: dense_cells(compared), mark: Mark::Baseline, starts_block: false }];
    let mut last = "";
    for cell in &compared.cells {
        let Some(figures) = cell.found.figures() else { continue };
        let place = series.iter().position(|name| *name == cell.name());
        rows.push(Row {
            cells: cells(cell, figures, compared),
            mark: place.map_or(Mark::Plain, Mark::Series),
            starts_block: cell.name() != last,
        });
        last = cell.name();
    }
    let heads = columns.iter().map(|(head, numeric)| (head.as_str(), *numeric));
    let mut table = Table::new("Methods", heads.collect::<Vec<_>>());
    table.rows = rows;
    table
}

/// The metrics of a task in the table.
fn shown<M: Costs>(result: &TaskResult) -> impl Iterator<Item = &Metric> {
    result.metrics.iter().take(M::METRICS)
}

/// The metrics of a task that compare a model with the dense one, and so has none of them itself.
fn from_dense<M: Costs, S>(compared: &Compared<M, S>, result: &TaskResult) -> Vec<&'static str> {
    let has = |name: &str| {
        let models = compared.cells.iter().filter_map(|cell| cell.found.figures());
        let mut own = models.flat_map(|figures| &figures.results);
        own.any(|own| own.task == result.task && own.metric(name).is_some())
    };
    M::FROM_DENSE.iter().copied().filter(|name| has(name)).collect()
}

fn dense_cells<M: Costs, S>(compared: &Compared<M, S>) -> Vec<String> {
    let dense = &compared.dense;
    let mut cells = vec!["dense".to_owned(), String::new(), "1".to_owned()];
    for result in &dense.results {
        for metric in shown::<M>(result) {
            cells.extend([significant(metric.value, DIGITS), String::new()]);
        }
        cells.extend(from_dense(compared, result).iter().map(|_| String::new()));
    }
    cells.push(grouped(dense.parameters[1]));
    cells.extend(dense.macs.counts().into_iter().map(grouped));
    cells.push(bytes(dense.bytes));
    cells.extend(dense.memory.map(bytes));
    cells
}

fn cells<M: Costs, S>(
    cell: &Cell<M, S>,
    figures: &Figures<M, S>,
    compared: &Compared<M, S>,
) -> Vec<String> {
    let dense = &compared.dense;
    let kept = format!("{:.4}", figures.parameters.keep());
    let mut cells = vec![cell.name().to_owned(), cell.shown_size(), kept];
    for result in &dense.results {
        let own = figures.results.iter().find(|own| own.task == result.task);
        for metric in shown::<M>(result) {
            let value = own.and_then(|own| own.metric(&metric.name)).map(|metric| metric.value);
            cells.push(value.map_or_else(String::new, |value| significant(value, DIGITS)));
            let pair = figures.comparisons.iter().find(|c| is_of(c, result, metric));
            cells.push(pair.map_or_else(String::new, Comparison::in_one_cell));
        }
        let value = |name: &str| own.and_then(|own| own.metric(name)).map(|metric| metric.value);
        let values = from_dense(compared, result).into_iter().map(value);
        cells.extend(
            values.map(|value| value.map_or_else(String::new, |value| significant(value, DIGITS))),
        );
    }
    cells.push(grouped(figures.parameters.model));
    cells.extend(figures.macs.counts().into_iter().map(grouped));
    cells.push(bytes(figures.bytes));
    cells.extend(figures.memory.filter(|_| dense.memory.is_some()).map(bytes));
    cells
}

fn is_of(pair: &Comparison, result: &TaskResult, metric: &Metric) -> bool {
    pair.task == result.task && pair.metric == metric.name && pair.filter == metric.filter
}

/// Speed of every model relative to the dense one next to it, and the time of its fits.
#[must_use]
pub fn speed_table<M: Costs, S: Speeds>(compared: &Compared<M, S>) -> Table {
    if compared.has_runs() {
        return Runs::of(compared).speed_table();
    }
    let rate = |value: f64| significant(value, 3);
    let of = |dense: f64, own: f64| format!("{} ({:.2} x)", rate(own), own / dense);
    let none = || vec![String::new(); S::HEADS.len()];
    let mut dense = vec!["dense".to_owned(), String::new()];
    dense.extend(compared.dense.speed.as_ref().map_or_else(none, |own| {
        own.rates().into_iter().map(|value| value.map_or_else(String::new, rate)).collect()
    }));
    dense.push(String::new());
    let row = |cell: &Cell<M, S>| {
        let figures = cell.found.figures()?;
        let mut cells = vec![cell.name().to_owned(), cell.shown_size()];
        cells.extend(figures.speed.as_ref().map_or_else(none, |[dense, own]| {
            let pairs = dense.rates().into_iter().zip(own.rates());
            pairs.map(|(a, b)| a.zip(b).map_or_else(String::new, |(a, b)| of(a, b))).collect()
        }));
        cells.push(figures.seconds.map_or_else(String::new, |seconds| format!("{seconds:.2}")));
        Some(cells)
    };
    let rates = S::HEADS.iter().map(|head| (*head, true));
    let columns: Vec<(&str, bool)> = [("method", false), ("asked", true)]
        .into_iter()
        .chain(rates)
        .chain([("fit, s", true)])
        .collect();
    Table::new("Speed", columns)
        .with(std::iter::once(dense).chain(compared.cells.iter().filter_map(row)))
}

/// Names of the methods with models, in order.
fn series<M, S>(compared: &Compared<M, S>) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in compared.cells.iter().filter(|cell| cell.found.figures().is_some()) {
        if !names.contains(&cell.name()) {
            names.push(cell.name());
        }
    }
    names
}

/// Quality against parameters kept, and against bytes.
fn figure<M, S>(compared: &Compared<M, S>) -> Option<Figure> {
    let metric = compared.metric()?;
    let value = |results: &[TaskResult]| {
        let own = results.first()?.metric(&metric.name)?.value;
        own.is_finite().then_some(own)
    };
    let names = series(compared);
    // Perplexities differ by orders of magnitude.
    let log = !metric.higher_is_better;
    let models: Vec<_> = compared
        .cells
        .iter()
        .filter_map(|cell| {
            let figures = cell.found.figures()?;
            Some((cell, figures, value(&figures.results)?))
        })
        .collect();
    let values = models.iter().map(|(_, _, y)| *y).chain(value(&compared.dense.results));
    let y = Scale::around(values, log)?;
    let panel = |title: &str, x_title: &str, of: &dyn Fn(&Figures<M, S>) -> Option<f64>| {
        let x = Scale::around(models.iter().filter_map(|(_, f, _)| of(f)).chain([1.0]), false)?;
        let series = names.iter().enumerate().map(|(index, name)| {
            let own = models.iter().filter(|(cell, ..)| cell.name() == *name);
            let mut points: Vec<(f64, f64, Option<f64>)> =
                own.filter_map(|(_, figures, y)| Some((of(figures)?, *y, None))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series { index, points, style: Style::Marked }
        });
        Some(Plot {
            title: title.to_owned(),
            x: Axis { title: x_title.to_owned(), scale: x, ticks: None },
            y: Axis { title: String::new(), scale: y.clone(), ticks: None },
            series: series.filter(|series| !series.points.is_empty()).collect(),
            baseline: value(&compared.dense.results)
                .map(|value| Baseline { value, name: "dense".to_owned() }),
        })
    };
    let dense = compared.dense.bytes.max(1) as f64;
    let kept = |figures: &Figures<M, S>| {
        // Rounded weights keep all parameters, in fewer bytes.
        (!figures.is_rounded).then(|| figures.parameters.keep())
    };
    let panels = [
        panel("Parameters", "share of the parameters kept", &kept),
        panel("Bytes", "share of the bytes", &|figures| Some(figures.bytes as f64 / dense)),
    ];
    let better = if metric.higher_is_better { "Higher" } else { "Lower" };
    Some(Figure {
        title: "Quality against size".to_owned(),
        note: format!(
            "{better} and further left is better; the dashed line is the dense model. Rounded \
             weights keep all parameters, so they are in the plot of bytes alone."
        ),
        y_title: metric.name.clone(),
        panels: panels.into_iter().flatten().collect(),
    })
}

/// What a comparison found: of runs the closest row, else which model is best at each share, and
/// which cannot be told from it.
#[must_use]
pub fn headline<M: Costs, S>(compared: &Compared<M, S>) -> String {
    if compared.has_runs() {
        return Runs::of(compared).headline();
    }
    let Some(metric) = compared.metric() else {
        return "no task was given, so there is no best method".to_owned();
    };
    let told = |(cell, figures): Model<'_, M, S>| {
        let own = figures.results.first().and_then(|own| own.metric(&metric.name));
        let value = own.map_or_else(String::new, |own| significant(own.value, DIGITS));
        (cell.name().to_owned(), value, bytes(figures.bytes))
    };
    let best = compared.keeps.iter().map(|keep| {
        let Some(Verdict { best, level }) = compared.verdict(*keep) else {
            return format!("none at {keep}");
        };
        let (name, value, size) = told(best);
        let line = match (best.0.is_control, compared.best(*keep).map(told)) {
            (false, _) => format!("{name} at {keep} ({value})"),
            (true, None) => format!("{name} at {keep} ({value} in {size})"),
            (true, Some((method, of_method, size_of_method))) => format!(
                "{name} at {keep} ({value} in {size}; of the methods {method}, {of_method} in \
                 {size_of_method})"
            ),
        };
        match level.is_empty() {
            true => line,
            false => format!("{line}, not told from {}", level.join(" and ")),
        }
    });
    let best: Vec<String> = best.collect();
    let dense = significant(metric.value, DIGITS);
    format!("best by {}: {}; dense {dense}", metric.name, best.join(", "))
}

/// What was not possible, sizes that were not met, and formats of rounded weights.
#[must_use]
pub fn notes<M, S>(compared: &Compared<M, S>) -> Vec<String> {
    let mut notes = compared.notes.clone();
    for cell in &compared.cells {
        let line = line_of_cell(cell);
        match &cell.found {
            Found::None(reason) => notes.push(format!("{line}: no model, {reason}")),
            Found::Model(figures) => notes.extend(told(cell, figures, &line)),
        }
    }
    notes
}

/// A row at a share, with its place if there are several.
fn line_of_cell<M, S>(cell: &Cell<M, S>) -> String {
    let place = cell.place.as_ref().map_or_else(String::new, |Place { layers, seed }| {
        format!(" on layers {layers:?}, seed {seed}")
    });
    cell.line() + &place
}

fn told<M, S>(cell: &Cell<M, S>, figures: &Figures<M, S>, line: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let kept = figures.parameters.keep();
    if let Some(nearest) = figures.nearest {
        notes.push(format!("{line}: no such size; {nearest:.4} is the nearest that was found"));
    } else if !figures.is_rounded && cell.asked.is_some_and(|asked| (kept - asked).abs() > FAR) {
        notes.push(format!("{line}: its nearest size keeps {kept:.4}"));
    }
    notes.extend(figures.note.iter().map(|note| format!("{line}: {note}")));
    notes
}

/// Report of a comparison.
#[must_use]
pub fn document<M: Costs, S>(title: &str, model: &str, compared: &Compared<M, S>) -> Document {
    let runs = compared.has_runs().then(|| Runs::of(compared));
    let tasks: Vec<String> = compared
        .dense
        .results
        .iter()
        .map(|result| {
            let TaskResult { task, protocol, counts, .. } = result;
            format!("{task} ({protocol}, {} items)", counts.items)
        })
        .collect();
    let mut facts = vec![
        ("Model".to_owned(), model.to_owned()),
        ("Tasks".to_owned(), tasks.join(", ")),
        ("Targeted parameters".to_owned(), grouped(compared.dense.parameters[0])),
        ("Multiply-adds".to_owned(), M::counted_on()),
    ];
    facts.extend(M::MEMORY.map(|memory| ("Memory".to_owned(), memory.to_owned())));
    let mut blocks = match &runs {
        Some(runs) => {
            facts.truncate(2);
            facts.extend(runs.facts());
            runs.blocks()
        }
        None => {
            let table = Block::Table(table_of_shares(compared));
            std::iter::once(table).chain(figure(compared).map(Block::Figure)).collect()
        }
    };
    let notes = notes(compared);
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    Document {
        title: title.to_owned(),
        kicker: "Comparison of methods".to_owned(),
        headline: Some(match &runs {
            Some(runs) => runs.headline(),
            None => headline(compared) + ".",
        }),
        facts,
        series: match &runs {
            Some(runs) => runs.methods().into_iter().map(str::to_owned).collect(),
            None => series(compared).into_iter().map(str::to_owned).collect(),
        },
        blocks,
        ..Document::default()
    }
}

/// The page of a comparison, with the provenance of its results.
///
/// Device, threads and date are told where they are known.
#[must_use]
pub fn with_provenance(mut document: Document, provenance: &Provenance) -> Document {
    let of = provenance;
    let seeds: Vec<String> = of.seeds.iter().map(u64::to_string).collect();
    let program = match &*of.commit {
        Some(commit) => format!("{} ({commit})", of.version),
        None => of.version.clone(),
    };
    let mut pairs = vec![
        ("Linwright".to_owned(), program),
        ("Model, SHA-256".to_owned(), of.model_sha256.clone()),
        ("Data type".to_owned(), of.dtype.clone()),
        ("Seeds".to_owned(), seeds.join(", ")),
        ("Protocols".to_owned(), of.protocols.join(", ")),
    ];
    if of.is_measured() {
        pairs.push(("Device".to_owned(), format!("{}, {} threads", of.device, of.threads)));
        pairs.push(("Date".to_owned(), iso_date(*of.date_unix_seconds)));
    }
    let data = of.data.iter();
    pairs.extend(data.map(|one| (format!("{}: {}", one.purpose, one.path), one.sha256.clone())));
    document.blocks.push(Block::Provenance(Table::of_pairs("Provenance", pairs)));
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Dense;
    use linwright_evaluate::ParameterCounts;
    use linwright_report::conformance::check_page;
    use linwright_report::html;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    type Figures = crate::Figures<Counts, Speed>;
    type Cell = crate::Cell<Counts, Speed>;
    type Compared = crate::Compared<Counts, Speed>;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Counts {
        linear: u64,
    }

    impl Costs for Counts {
        const HEADS: &'static [&'static str] = &["multiply-adds"];
        const METRICS: usize = 1;
        const FROM_DENSE: &'static [&'static str] = &["kl_mean"];
        const MEMORY: Option<&'static str> = Some("counted");

        fn counted_on() -> String {
            "on a text".to_owned()
        }

        fn counts(&self) -> Vec<u64> {
            vec![self.linear]
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    struct Speed {
        prompt: f64,
        decode: Option<f64>,
    }

    impl Speeds for Speed {
        const HEADS: &'static [&'static str] = &["prompt tokens/s", "decoded tokens/s"];

        fn rates(&self) -> Vec<Option<f64>> {
            vec![Some(self.prompt), self.decode]
        }
    }

    fn result(perplexity: f64) -> TaskResult {
        let metric = Metric::new("token_perplexity", perplexity, None, false);
        TaskResult { task: "text".into(), metrics: vec![metric], ..TaskResult::default() }
    }

    fn counts(linear: u64) -> Counts {
        Counts { linear }
    }

    /// A cell that keeps so many of 100 parameters.
    fn cell(method: &str, asked: f64, kept: u64, perplexity: f64) -> Cell {
        let speed = Speed { prompt: 100.0, decode: Some(10.0) };
        let parameters = ParameterCounts {
            targeted: kept,
            targeted_dense: 100,
            model: kept + 50,
            model_dense: 150,
        };
        let figures = Figures {
            nearest: None,
            parameters,
            macs: counts(kept),
            bytes: 2 * (kept + 50),
            memory: Some(3 * (kept + 50)),
            results: vec![result(perplexity)],
            comparisons: Vec::new(),
            note: None,
            is_rounded: method == "q8_0",
            fits: None,
            speed: Some([speed, Speed { prompt: 150.0, decode: None }]).into(),
            seconds: Some(0.5).into(),
        };
        let found = Found::Model(Box::new(figures));
        let is_control = method == "q8_0";
        Cell { found, ..bare(method, is_control, asked) }
    }

    fn bare(method: &str, is_control: bool, asked: f64) -> Cell {
        Cell {
            method: method.to_owned(),
            is_control,
            asked: Some(asked),
            label: None,
            size: None,
            place: None,
            found: Found::None("a reason".into()),
        }
    }

    fn compared() -> Compared {
        let none = |asked| bare("asvd", false, asked);
        Compared {
            keeps: vec![0.8, 0.6],
            dense: Dense {
                parameters: [100, 150],
                macs: counts(100),
                bytes: 300,
                memory: Some(450),
                results: vec![result(2.0)],
                items: vec![Vec::new()],
                speed: None.into(),
            },
            cells: vec![
                cell("low_rank", 0.8, 80, 2.5),
                cell("low_rank", 0.6, 60, 3.5),
                cell("svd", 0.8, 80, 3.0),
                cell("svd", 0.6, 60, 3.0),
                cell("monarch", 0.6, 70, 2.1),
                none(0.6),
                cell("q8_0", 0.6, 100, 2.0),
            ],
            pairs: Vec::new(),
            notes: vec!["calibration: a text".into()],
        }
    }

    #[test]
    fn what_models_have_beside_the_dense_one_is_a_column_where_one_has_it() {
        let mut compared = compared();
        let heads = |compared: &Compared| {
            let table = table(compared);
            table.columns.iter().position(|column| column.head == "kl_mean")
        };
        assert_eq!(heads(&compared), None);
        let Found::Model(figures) = &mut compared.cells[2].found else { panic!("a model") };
        figures.results[0].metrics.push(Metric::new("kl_mean", 0.125, Some(0.01), false));
        let place = heads(&compared).expect("a column");
        let cells = |row: usize| table(&compared).rows[row].cells[place].clone();
        assert_eq!([cells(0), cells(1), cells(3)], ["", "", "0.1250"]);
    }

    #[test]
    fn the_best_is_within_the_share_and_no_control() {
        let compared = compared();
        let best = |keep| compared.best(keep).map(|(cell, _)| cell.method.as_str());
        // At 0.6 monarch keeps more than was asked for.
        assert_eq!((best(0.8), best(0.6), best(0.5)), (Some("low_rank"), Some("svd"), None));
        let told = headline(&compared);
        assert!(
            told.contains("low_rank at 0.8 (2.500), svd at 0.6 (3.000); dense 2.000"),
            "{told}"
        );
    }

    #[test]
    fn rounded_weights_of_no_more_bytes_count_and_overlapping_intervals_are_level() {
        let mut compared = compared();
        let figures =
            |compared: &mut Compared, method: &str, keep: f64, edit: &dyn Fn(&mut Figures)| {
                let is_it = |cell: &&mut Cell| cell.method == method && cell.asked == Some(keep);
                let cell = compared.cells.iter_mut().find(is_it).expect("is there");
                let Found::Model(figures) = &mut cell.found else { panic!("a model") };
                edit(figures);
            };
        // As many bytes as 60 of 100 parameters, and one more.
        figures(&mut compared, "q8_0", 0.6, &|own| own.bytes = 221);
        assert!(headline(&compared).contains("svd at 0.6 (3.000); dense"));
        figures(&mut compared, "q8_0", 0.6, &|own| own.bytes = 220);
        let told = headline(&compared);
        let expected = "q8_0 at 0.6 (2.000 in 220 B; of the methods svd, 3.000 in 220 B); dense";
        assert!(told.contains(expected), "{told}");
        assert_eq!(compared.best(0.6).map(|(cell, _)| cell.method.as_str()), Some("svd"));
        let pair = |interval: [f64; 2]| Comparison {
            task: "text".into(),
            metric: "token_perplexity".into(),
            filter: "none".into(),
            items: 9,
            difference: f64::midpoint(interval[0], interval[1]),
            interval,
            only_one: None,
            mcnemar_p: None,
        };
        let filter = compared.metric().expect("ranks").filter.clone();
        let with = |interval: [f64; 2]| {
            let pair = Comparison { filter: filter.clone(), ..pair(interval) };
            move |own: &mut Figures| own.comparisons = vec![pair.clone()]
        };
        figures(&mut compared, "low_rank", 0.8, &with([0.4, 0.6]));
        figures(&mut compared, "svd", 0.8, &with([0.7, 1.3]));
        assert!(headline(&compared).contains("low_rank at 0.8 (2.500), q8_0"));
        figures(&mut compared, "svd", 0.8, &with([0.5, 1.5]));
        let told = headline(&compared);
        assert!(told.contains("low_rank at 0.8 (2.500), not told from svd, q8_0"), "{told}");
    }

    #[test]
    fn a_page_has_the_plot_and_says_what_was_not_possible() {
        let compared = compared();
        let document = document("Smaller", "m", &compared);
        check_page(&html::render(&document).expect("renders"));
        let notes = notes(&compared).join("\n");
        for said in
            ["asvd at 0.6: no model, a reason", "monarch at 0.6: its nearest size keeps 0.7"]
        {
            assert!(notes.contains(said), "{notes}");
        }
        let speeds = speed_table(&compared);
        assert_eq!(speeds.rows[1].cells[2], "150 (1.50 x)");
        let read: Compared = serde_json::from_value(json!(compared)).expect("is valid");
        assert_eq!(super::document("Smaller", "m", &read), document);
    }
}
