//! Collapse over checkpoints.

use super::{DRAWN, Texts, above_zero, figure, number, paragraph, verdict};
use crate::{LayerReport, Metrics};
use linwright_report::plot::{Series, Style};
use linwright_report::{Block, Document, Table};
use serde::{Deserialize, Serialize};

/// Metrics in the table.
const COLUMNS: [&str; 6] =
    ["nc1_quotient", "cdnv_mean", "nc2_etf_err_M", "nc3_dual_err", "nc4_agree", "acc_ncc"];

/// A layer of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRow {
    /// Name of the checkpoint.
    pub checkpoint: String,
    /// Name of the layer.
    pub layer: String,
    /// Its features.
    pub features: usize,
    /// Its metrics.
    pub metrics: Metrics,
}

impl CheckpointRow {
    /// A layer of the checkpoint with this name.
    #[must_use]
    pub fn of(checkpoint: &str, layer: LayerReport) -> Self {
        let LayerReport { name, features, metrics, .. } = layer;
        Self { checkpoint: checkpoint.to_owned(), layer: name, features, metrics }
    }
}

/// The report of checkpoints; its series are metrics, then checkpoints.
#[must_use]
pub fn of_checkpoints(rows: &[CheckpointRow]) -> Document {
    let (mut checkpoints, mut layers): (Vec<&str>, Vec<&str>) = Default::default();
    for row in rows {
        for (names, name) in [(&mut checkpoints, &row.checkpoint), (&mut layers, &row.layer)] {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    let mut blocks = Vec::from_iter(verdict::of_checkpoints(rows).map(paragraph));
    blocks.push(Block::Table(table(rows)));
    let at = |checkpoint: &str, layer: &str, metric: &str| {
        let row = rows.iter().find(|row| row.checkpoint == checkpoint && row.layer == layer)?;
        above_zero(&row.metrics, metric)
    };
    if let Some(last) = layers.last() {
        let series = DRAWN.iter().enumerate().map(|(index, (metric, _))| {
            let points = checkpoints.iter().enumerate();
            let points =
                points.filter_map(|(x, name)| Some((x as f64, at(name, last, metric)?, None)));
            Series { index, points: points.collect(), style: Style::Marked }
        });
        let texts = texts(format!("{last} over checkpoints"), "checkpoint");
        blocks.extend(figure(texts, checkpoints.len(), series.collect()));
    }
    if layers.len() > 1 {
        let (metric, shown) = DRAWN[0];
        let series = checkpoints.iter().enumerate().map(|(index, name)| {
            let points = layers.iter().enumerate();
            let points =
                points.filter_map(|(x, layer)| Some((x as f64, at(name, layer, metric)?, None)));
            Series { index: DRAWN.len() + index, points: points.collect(), style: Style::Marked }
        });
        let texts = texts(format!("{shown} over layers"), "layer");
        blocks.extend(figure(texts, layers.len(), series.collect()));
    }
    let mut series = super::names(&DRAWN);
    series.extend(checkpoints.into_iter().map(str::to_owned));
    Document { series, ..super::titled("watch", blocks) }
}

fn table(rows: &[CheckpointRow]) -> Table {
    let columns = ["checkpoint", "layer"].map(|head| (head, false)).into_iter();
    let columns = columns.chain(COLUMNS.map(|head| (head, true)));
    let cells = |row: &CheckpointRow| {
        let values = COLUMNS.iter().map(|name| number(row.metrics.get(name)));
        [row.checkpoint.clone(), row.layer.clone()].into_iter().chain(values).collect()
    };
    Table::new("Checkpoints", columns.collect::<Vec<_>>()).with(rows.iter().map(cells))
}

fn texts(title: String, x: &'static str) -> Texts {
    Texts { title, note: "In the order of the command.", x }
}
