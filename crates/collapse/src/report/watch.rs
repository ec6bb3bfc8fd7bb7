//! Collapse over checkpoints.

use super::{DRAWN, number, paragraph, text, verdict};
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Figure, Scale, Table};
use serde_json::Value;

/// Metrics in the table.
const COLUMNS: [&str; 6] =
    ["nc1_quotient", "cdnv_mean", "nc2_etf_err_M", "nc3_dual_err", "nc4_agree", "acc_ncc"];

/// Blocks of a result of `watch`, and the names of its series: metrics, then checkpoints.
pub(super) fn blocks_and_series(value: &Value) -> (Vec<Block>, Vec<String>) {
    let rows = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut checkpoints: Vec<String> = Vec::new();
    let mut layers: Vec<String> = Vec::new();
    for row in rows {
        for (all, key) in [(&mut checkpoints, "checkpoint"), (&mut layers, "layer")] {
            let name = text(row, key);
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    let of = |checkpoint: &str, layer: &str, metric: &str| {
        let row =
            rows.iter().find(|row| row["checkpoint"] == *checkpoint && row["layer"] == *layer)?;
        row["metrics"][metric].as_f64().filter(|value| *value > 0.0)
    };
    let columns = ["checkpoint", "layer"].map(|head| (head, false)).into_iter();
    let columns = columns.chain(COLUMNS.map(|head| (head, true)));
    let cells = |row: &Value| {
        let values = COLUMNS.iter().map(|name| number(&row["metrics"][*name]));
        [text(row, "checkpoint"), text(row, "layer")].into_iter().chain(values).collect()
    };
    let table = Table::new("Checkpoints", columns.collect::<Vec<_>>()).with(rows.iter().map(cells));
    let mut blocks = Vec::from_iter(verdict::of_checkpoints(rows).map(paragraph));
    blocks.push(Block::Table(table));
    if let Some(last) = layers.last() {
        let series = DRAWN.iter().enumerate().map(|(index, (metric, _))| {
            let points = checkpoints.iter().enumerate();
            let points =
                points.filter_map(|(x, name)| Some((x as f64, of(name, last, metric)?, None)));
            Series { index, points: points.collect(), style: Style::Marked }
        });
        let title = format!("{last} over checkpoints");
        blocks.extend(figure(title, "checkpoint", checkpoints.len(), series.collect()));
    }
    if layers.len() > 1 {
        let series = checkpoints.iter().enumerate().map(|(index, name)| {
            let points = layers.iter().enumerate();
            let points = points
                .filter_map(|(x, layer)| Some((x as f64, of(name, layer, DRAWN[0].0)?, None)));
            Series { index: DRAWN.len() + index, points: points.collect(), style: Style::Marked }
        });
        let title = format!("{} over layers", DRAWN[0].1);
        blocks.extend(figure(title, "layer", layers.len(), series.collect()));
    }
    let mut names = super::names(&DRAWN);
    names.extend(checkpoints);
    (blocks, names)
}

fn figure(title: String, x: &str, count: usize, series: Vec<Series>) -> Option<Block> {
    let values = series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let y = Scale::around(values, true)?;
    let last = count.saturating_sub(1).max(1) as f64;
    Some(Block::Figure(Figure {
        title,
        note: "In the order of the command.".into(),
        y_title: "value".into(),
        panels: vec![Plot {
            title: String::new(),
            x: Axis { title: x.into(), scale: Scale::linear(0.0, last), ticks: None },
            y: Axis { title: String::new(), scale: y, ticks: None },
            baseline: None,
            series,
        }],
    }))
}
