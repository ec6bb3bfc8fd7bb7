//! Reports of collapse, from the results that commands save.

mod relate;
mod verdict;
mod watch;

use crate::METRICS;
use linwright_report::number::{scientific, significant};
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Document, Figure, ReportError, Scale, Table};
use serde_json::Value;

/// Key of results that names the command.
pub const KEY: &str = "collapse";

/// Metrics in the table of all layers.
const SUMMARY: [&str; 8] = [
    "nc1_quotient",
    "nc1_pinv",
    "cdnv_mean",
    "nc2_etf_err_M",
    "nc2_norm_cv_M",
    "nc3_dual_err",
    "nc4_agree",
    "acc_ncc",
];
/// Metrics of the figure, each with its name for readers.
const DRAWN: [(&str, &str); 3] = [
    ("nc1_quotient", "NC1 quotient"),
    ("cdnv_mean", "CDNV"),
    ("nc2_etf_err_M", "distance from a simplex frame"),
];

/// Columns of the table of depths.
const DEPTH_COLUMNS: [(&str, &str); 9] = [
    ("depth", "depth"),
    ("seed", "seed"),
    ("nc1_quotient", "NC1"),
    ("nc2_head", "NC2 of the head"),
    ("nc3_sample", "NC3"),
    ("accuracy", "accuracy"),
    ("objective", "objective"),
    ("gap", "gap to the optimum"),
    ("hidden_penalty", "penalty of blocks"),
];
/// Series of the figure over depth.
const DEPTH_DRAWN: [(&str, &str); 4] = [
    ("nc1_quotient", "NC1"),
    ("nc2_head", "NC2 of the head"),
    ("nc3_sample", "NC3"),
    ("gap", "gap to the optimum"),
];

/// The report of a saved result; none for other kinds.
#[must_use]
pub fn saved(value: &Value) -> Option<Result<Document, ReportError>> {
    let kind = value.get(KEY)?.as_str()?;
    let document = Document {
        title: format!("Neural collapse: {kind}"),
        kicker: "Collapse".into(),
        ..document(value)
    };
    Some(Ok(document))
}

/// Notes on the layers of a result, each once with the layers concerned.
#[must_use]
pub fn notes(value: &Value) -> Vec<String> {
    verdict::notes(value["layers"].as_array().map(Vec::as_slice).unwrap_or_default())
}

/// The report of a result, without a title.
#[must_use]
pub fn document(value: &Value) -> Document {
    let (blocks, series) = match value[KEY].as_str() {
        Some("depth") => (depth_blocks(value), names(&DEPTH_DRAWN)),
        Some("watch") => watch::blocks_and_series(value),
        Some("relate") => (relate::blocks(value), Vec::new()),
        _ => (blocks(value), names(&DRAWN)),
    };
    Document { blocks, series, ..Document::default() }
}

fn names(drawn: &[(&str, &str)]) -> Vec<String> {
    drawn.iter().map(|(_, name)| (*name).to_owned()).collect()
}

/// The blocks of a result with `layers`.
fn blocks(value: &Value) -> Vec<Block> {
    let layers = value["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut blocks = Vec::from_iter(verdict::of_layers(layers).map(paragraph));
    let notes = notes(value);
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    if layers.len() > 1 {
        blocks.push(Block::Table(summary(layers)));
        blocks.extend(figure(layers));
    }
    for layer in layers {
        let table = of_layer(layer);
        blocks.push(match layers.len() {
            1 => Block::Table(table),
            _ => {
                Block::Details { summary: format!("All metrics of {}", text(layer, "name")), table }
            }
        });
    }
    blocks
}

fn paragraph(told: String) -> Block {
    Block::Text(vec![told])
}

/// The blocks of a result of `depth`.
fn depth_blocks(value: &Value) -> Vec<Block> {
    let rows = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut blocks = Vec::from_iter(verdict::of_depths(rows).map(paragraph));
    blocks.push(Block::Table(by_depth(rows)));
    let columns = DEPTH_COLUMNS.map(|(_, head)| (head, true));
    let row = |row: &Value| DEPTH_COLUMNS.iter().map(|(name, _)| number(&row[*name])).collect();
    let table = Table::new("Networks", columns).with(rows.iter().map(row));
    blocks.push(Block::Details { summary: "Each network".into(), table });
    blocks.extend(depth_figure(rows));
    blocks.extend(through_the_deepest(rows));
    blocks
}

/// NC1 after blocks 1, 2, 4, 8, ... and the last of the deepest networks.
fn through_the_deepest(rows: &[Value]) -> Option<Block> {
    let deepest = depths(rows).last().copied()?;
    let own = rows.iter().filter(|row| row["depth"].as_u64() == Some(deepest));
    let own: Vec<&[Value]> =
        own.filter_map(|row| row["nc1_of_layers"].as_array().map(Vec::as_slice)).collect();
    let last = own.first()?.len();
    let mut after: Vec<usize> = (0..).map(|i| 1 << i).take_while(|block| *block < last).collect();
    after.push(last);
    if last < 2 {
        return None;
    }
    let cell = |block: usize| {
        let values = own.iter().filter_map(|layers| layers.get(block - 1)?.as_f64());
        with_deviation(mean_and_deviation(&values.collect::<Vec<f64>>()))
    };
    let columns = std::iter::once(("depth".to_owned(), true));
    let columns = columns.chain(after.iter().map(|block| (format!("block {block}"), true)));
    let columns: Vec<(String, bool)> = columns.collect();
    let columns: Vec<(&str, bool)> =
        columns.iter().map(|(head, is)| (head.as_str(), *is)).collect();
    let row = std::iter::once(deepest.to_string()).chain(after.iter().map(|block| cell(*block)));
    Some(Block::Table(
        Table::new("NC1 through the deepest networks", columns).with([row.collect()]),
    ))
}

/// The depths of rows, ascending.
fn depths(rows: &[Value]) -> Vec<u64> {
    let mut depths: Vec<u64> = rows.iter().filter_map(|row| row["depth"].as_u64()).collect();
    depths.sort_unstable();
    depths.dedup();
    depths
}

/// Mean and deviation over the seeds of a depth.
fn over_seeds(rows: &[Value], depth: u64, name: &str) -> (f64, Option<f64>) {
    let own = rows.iter().filter(|row| row["depth"].as_u64() == Some(depth));
    mean_and_deviation(&own.filter_map(|row| row[name].as_f64()).collect::<Vec<f64>>())
}

fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()))
}

fn with_deviation(of: (f64, Option<f64>)) -> String {
    match of {
        (mean, _) if !mean.is_finite() => "-".to_owned(),
        (mean, None) => scientific(mean),
        (mean, Some(deviation)) => format!("{} ± {}", scientific(mean), significant(deviation, 2)),
    }
}

/// A row for each depth.
fn by_depth(rows: &[Value]) -> Table {
    let measured = DEPTH_COLUMNS.iter().filter(|(name, _)| !matches!(*name, "depth" | "seed"));
    let columns: Vec<_> = measured.clone().map(|(_, head)| (*head, true)).collect();
    let columns = std::iter::once(("depth", true)).chain(columns);
    let cell = |depth: u64, name: &str| with_deviation(over_seeds(rows, depth, name));
    let row = |depth: u64| {
        let cells = measured.clone().map(|(name, _)| cell(depth, name));
        std::iter::once(depth.to_string()).chain(cells).collect()
    };
    let columns: Vec<_> = columns.collect();
    Table::new("Depths", columns).with(depths(rows).into_iter().map(row))
}

/// Means over seeds at each depth, both axes logarithmic.
fn depth_figure(rows: &[Value]) -> Option<Block> {
    let depths = depths(rows);
    let point = |depth: u64, name: &str| {
        let (mean, deviation) = over_seeds(rows, depth, name);
        (mean > 0.0).then_some((depth as f64, mean, deviation))
    };
    let series: Vec<Series> = DEPTH_DRAWN
        .iter()
        .enumerate()
        .map(|(index, (name, _))| {
            let points = depths.iter().filter_map(|depth| point(*depth, name)).collect();
            Series { index, points, style: Style::Marked }
        })
        .collect();
    let values = series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let y = Scale::around(values, true)?;
    let x = Scale::around(depths.iter().map(|depth| *depth as f64), true)?;
    Some(Block::Figure(Figure {
        title: "Collapse over depth".into(),
        note: "Means over seeds, with their deviation.".into(),
        y_title: "value".into(),
        panels: vec![Plot {
            title: String::new(),
            x: Axis { title: "depth".into(), scale: x, ticks: None },
            y: Axis { title: String::new(), scale: y, ticks: None },
            baseline: None,
            series,
        }],
    }))
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> String {
    if let Some(count) = value.as_u64() {
        return count.to_string();
    }
    value.as_f64().map_or_else(|| "-".to_owned(), scientific)
}

fn summary(layers: &[Value]) -> Table {
    let known: Vec<&str> = SUMMARY
        .into_iter()
        .filter(|name| layers.iter().any(|layer| layer["metrics"][*name].is_number()))
        .collect();
    let columns = [("layer", false), ("d", true)].into_iter();
    let columns = columns.chain(known.iter().map(|name| (*name, true)));
    let row = |layer: &Value| {
        let values = known.iter().map(|name| number(&layer["metrics"][*name]));
        [text(layer, "name"), layer["features"].to_string()].into_iter().chain(values).collect()
    };
    Table::new("Layers", columns.collect::<Vec<_>>()).with(layers.iter().map(row))
}

fn of_layer(layer: &Value) -> Table {
    let heads = ["metric", "value", "95 % interval", "random", "shuffled", "definition"];
    let columns = heads.map(|head| (head, matches!(head, "value" | "random" | "shuffled")));
    let intervals = layer["intervals"].as_array().cloned().unwrap_or_default();
    let rows = METRICS.iter().filter(|metric| layer["metrics"].get(metric.name).is_some());
    let row = |metric: &crate::MetricName| {
        let interval = intervals.iter().find(|one| one["name"] == metric.name);
        let interval = interval.map_or_else(String::new, |one| {
            format!("{} to {}", number(&one["low"]), number(&one["high"]))
        });
        let baselines = &layer["baselines"];
        let baseline = |kind: &str| match baselines[kind].get(metric.name) {
            Some(value) => number(value),
            None => String::new(),
        };
        vec![
            metric.name.to_owned(),
            number(&layer["metrics"][metric.name]),
            interval,
            baseline("random_frames"),
            baseline("shuffled_labels"),
            metric.about.to_owned(),
        ]
    };
    let caption = format!(
        "{} rows, {} features, {} of {} classes, {} with one sample",
        layer["rows"],
        layer["features"],
        layer["classes_present"],
        layer["classes"],
        layer["singletons"]
    );
    Table::new(&caption, columns).with(rows.map(row))
}

/// Metrics over the layers, on a logarithmic axis.
fn figure(layers: &[Value]) -> Option<Block> {
    let at = |layer: &Value, name: &str| layer["metrics"][name].as_f64().filter(|x| *x > 0.0);
    let values =
        DRAWN.iter().flat_map(|(name, _)| layers.iter().filter_map(|layer| at(layer, name)));
    let y = Scale::around(values, true)?;
    let series = DRAWN.iter().enumerate().map(|(index, (name, _))| {
        let points = layers.iter().enumerate();
        let points = points.filter_map(|(x, layer)| Some((x as f64, at(layer, name)?, None)));
        Series { index, points: points.collect(), style: Style::Marked }
    });
    let last = (layers.len() - 1).max(1) as f64;
    Some(Block::Figure(Figure {
        title: "Collapse through the layers".into(),
        note: "Variability within classes falls through a trained network.".into(),
        y_title: "value".into(),
        panels: vec![Plot {
            title: String::new(),
            x: Axis { title: "layer".into(), scale: Scale::linear(0.0, last), ticks: None },
            y: Axis { title: String::new(), scale: y, ticks: None },
            baseline: None,
            series: series.collect(),
        }],
    }))
}
