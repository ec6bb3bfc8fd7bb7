//! Collapse of the layers of a network.

use super::{DRAWN, Texts, above_zero, figure, names, number, paragraph, verdict};
use crate::{LayerReport, METRICS};
use linwright_report::plot::{Series, Style};
use linwright_report::{Block, Document, Table};

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

/// The report of a result of layers, by the command that made it.
#[must_use]
pub fn of_layers(command: &str, layers: &[LayerReport]) -> Document {
    let mut blocks = Vec::from_iter(verdict::of_layers(layers).map(paragraph));
    let notes = verdict::notes(layers);
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    if layers.len() > 1 {
        blocks.push(Block::Table(summary(layers)));
        blocks.extend(through(layers));
    }
    for layer in layers {
        let table = all_metrics(layer);
        blocks.push(match layers.len() {
            1 => Block::Table(table),
            _ => Block::Details { summary: format!("All metrics of {}", layer.name), table },
        });
    }
    Document { series: names(&DRAWN), ..super::titled(command, blocks) }
}

fn summary(layers: &[LayerReport]) -> Table {
    let is_known = |name: &&str| layers.iter().any(|layer| layer.metrics.get(name).is_some());
    let known: Vec<&str> = SUMMARY.into_iter().filter(is_known).collect();
    let columns = [("layer", false), ("d", true)].into_iter();
    let columns = columns.chain(known.iter().map(|name| (*name, true)));
    let row = |layer: &LayerReport| {
        let values = known.iter().map(|name| number(layer.metrics.get(name)));
        [layer.name.clone(), layer.features.to_string()].into_iter().chain(values).collect()
    };
    Table::new("Layers", columns.collect::<Vec<_>>()).with(layers.iter().map(row))
}

fn all_metrics(layer: &LayerReport) -> Table {
    let heads = ["metric", "value", "95 % interval", "random", "shuffled", "definition"];
    let columns = heads.map(|head| (head, matches!(head, "value" | "random" | "shuffled")));
    let rows = METRICS.iter().filter(|metric| layer.metrics.has(metric.name));
    let row = |metric: &crate::MetricName| {
        let interval = layer.intervals.iter().find(|interval| interval.name == metric.name);
        let interval = interval.map_or_else(String::new, |interval| {
            format!("{} to {}", number(Some(interval.low)), number(Some(interval.high)))
        });
        let baselines = layer.baselines.as_ref();
        let random = baselines.map(|baselines| &baselines.random_frames);
        let shuffled = baselines.and_then(|baselines| baselines.shuffled_labels.as_ref());
        let of = |metrics: Option<&crate::Metrics>| {
            let metrics = metrics.filter(|metrics| metrics.has(metric.name));
            metrics.map_or_else(String::new, |metrics| number(metrics.get(metric.name)))
        };
        vec![
            metric.name.to_owned(),
            number(layer.metrics.get(metric.name)),
            interval,
            of(random),
            of(shuffled),
            metric.about.to_owned(),
        ]
    };
    let caption = format!(
        "{} rows, {} features, {} of {} classes, {} with one sample",
        layer.rows, layer.features, layer.classes_present, layer.classes, layer.singletons
    );
    Table::new(&caption, columns).with(rows.map(row))
}

/// Metrics over the layers, on a logarithmic axis.
fn through(layers: &[LayerReport]) -> Option<Block> {
    let series = DRAWN.iter().enumerate().map(|(index, (name, _))| {
        let points = layers
            .iter()
            .enumerate()
            .filter_map(|(x, layer)| Some((x as f64, above_zero(&layer.metrics, name)?, None)));
        Series { index, points: points.collect(), style: Style::Marked }
    });
    let texts = Texts {
        title: "Collapse through the layers".into(),
        note: "Variability within classes falls through a trained network.",
        x: "layer",
    };
    figure(texts, layers.len(), series.collect())
}
