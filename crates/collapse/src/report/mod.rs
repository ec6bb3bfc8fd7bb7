//! Reports of collapse.

mod checkpoints;
mod depths;
mod layers;
mod relation;
mod seeds;
mod verdict;

pub use checkpoints::{CheckpointRow, of_checkpoints};
pub use depths::of_depths;
pub use layers::of_layers;
pub use relation::of_relation;
pub use verdict::notes;

use crate::Metrics;
use linwright_report::number::scientific;
use linwright_report::plot::{Axis, Plot, Series};
use linwright_report::{Block, Document, Figure, Scale};

/// Metrics of figures, each with its name for readers.
const DRAWN: [(&str, &str); 3] = [
    ("nc1_quotient", "NC1 quotient"),
    ("cdnv_mean", "CDNV"),
    ("nc2_etf_err_M", "distance from a simplex frame"),
];

/// A report with its title.
#[must_use]
pub fn titled(what: &str, blocks: Vec<Block>) -> Document {
    Document {
        title: format!("Neural collapse: {what}"),
        kicker: "Collapse".into(),
        blocks,
        ..Document::default()
    }
}

fn names(drawn: &[(&str, &str)]) -> Vec<String> {
    drawn.iter().map(|(_, name)| (*name).to_owned()).collect()
}

fn paragraph(told: String) -> Block {
    Block::Text(vec![told])
}

/// A number that may be undefined.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), scientific)
}

/// A metric, if a logarithmic axis has a place for it.
fn above_zero(metrics: &Metrics, name: &str) -> Option<f64> {
    metrics.get(name).filter(|value| *value > 0.0)
}

/// Title, caption and title of the x axis of a figure.
struct Texts {
    title: String,
    note: &'static str,
    x: &'static str,
}

/// A figure of values at 0 to `count` - 1, on a logarithmic axis; none without a value.
fn figure(texts: Texts, count: usize, series: Vec<Series>) -> Option<Block> {
    let values = series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let y = Scale::around(values, true)?;
    let last = count.saturating_sub(1).max(1) as f64;
    Some(one_panel(texts, Scale::linear(0.0, last), y, series))
}

fn one_panel(texts: Texts, x: Scale, y: Scale, series: Vec<Series>) -> Block {
    let plot = Plot {
        title: String::new(),
        x: Axis { title: texts.x.into(), scale: x, ticks: None },
        y: Axis { title: String::new(), scale: y, ticks: None },
        baseline: None,
        series,
    };
    Block::Figure(Figure {
        title: texts.title,
        note: texts.note.into(),
        y_title: "value".into(),
        panels: vec![plot],
    })
}
