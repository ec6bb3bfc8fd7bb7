//! Collapse of reference networks over depth.

use super::seeds::{GAP, NC1, Value, depths, mean_and_deviation, over_seeds};
use super::{Texts, number, one_panel, paragraph, verdict};
use crate::depth::{DepthResult, DepthRow, Slope};
use linwright_report::number::{scientific, significant};
use linwright_report::plot::{Series, Style};
use linwright_report::{Block, Document, Scale, Table};

/// Columns of the table of depths.
const COLUMNS: [(&str, Value); 7] = [
    ("NC1", NC1),
    ("NC2 of the head", |row| row.nc2_head),
    ("NC3", |row| row.nc3_sample),
    ("accuracy", |row| Some(row.accuracy)),
    ("objective", |row| Some(row.objective)),
    ("gap to the optimum", GAP),
    ("penalty of blocks", |row| Some(row.hidden_penalty)),
];
/// Columns of the figure over depth.
const DRAWN: [usize; 4] = [0, 1, 2, 5];

/// The report of trained networks.
#[must_use]
pub fn of_depths(result: &DepthResult) -> Document {
    let rows = result.rows.as_slice();
    let mut blocks = Vec::new();
    let slopes = slopes(result);
    if !slopes.is_empty() {
        blocks.push(Block::Text(slopes));
    }
    blocks.extend(verdict::of_depths(rows).map(paragraph));
    blocks.push(Block::Table(by_depth(rows)));
    blocks.push(Block::Details { summary: "Each network".into(), table: networks(rows) });
    blocks.extend(figure(rows));
    blocks.extend(through_the_deepest(rows));
    let series = DRAWN.map(|column| COLUMNS[column].0.to_owned()).to_vec();
    Document { series, ..super::titled("depth", blocks) }
}

/// Power laws in depth.
fn slopes(result: &DepthResult) -> Vec<String> {
    let all = [
        ("NC1", result.nc1_slope),
        ("the gap to the optimum", result.gap_slope),
        ("the penalty of blocks", result.hidden_penalty_slope),
    ];
    let line = |(name, slope): (&str, Option<Slope>)| {
        slope.map(|slope| match slope.interval {
            Some([low, high]) => {
                format!("{name}: depth^{:.2} (95 %: {low:.2} to {high:.2})", slope.slope)
            }
            None => format!("{name}: depth^{:.2}", slope.slope),
        })
    };
    all.into_iter().filter_map(line).collect()
}

fn with_deviation(of: (f64, Option<f64>)) -> String {
    match of {
        (mean, _) if !mean.is_finite() => "-".to_owned(),
        (mean, None) => scientific(mean),
        (mean, Some(deviation)) => format!("{} ± {}", scientific(mean), significant(deviation, 2)),
    }
}

/// A row for each depth.
fn by_depth(rows: &[DepthRow]) -> Table {
    let columns = COLUMNS.map(|(head, _)| (head, true));
    let columns: Vec<_> = std::iter::once(("depth", true)).chain(columns).collect();
    let row = |depth: usize| {
        let cells = COLUMNS.map(|(_, value)| with_deviation(over_seeds(rows, depth, value)));
        std::iter::once(depth.to_string()).chain(cells).collect()
    };
    Table::new("Depths", columns).with(depths(rows).into_iter().map(row))
}

/// A row for each network.
fn networks(rows: &[DepthRow]) -> Table {
    let columns = ["depth", "seed"].into_iter().chain(COLUMNS.map(|(head, _)| head));
    let columns: Vec<_> = columns.map(|head| (head, true)).collect();
    let row = |row: &DepthRow| {
        let cells = COLUMNS.map(|(_, value)| number(value(row)));
        [row.depth.to_string(), row.seed.to_string()].into_iter().chain(cells).collect()
    };
    Table::new("Networks", columns).with(rows.iter().map(row))
}

/// Means over seeds at each depth, both axes logarithmic.
fn figure(rows: &[DepthRow]) -> Option<Block> {
    let depths = depths(rows);
    let point = |depth: usize, value: Value| {
        let (mean, deviation) = over_seeds(rows, depth, value);
        (mean > 0.0).then_some((depth as f64, mean, deviation))
    };
    let series: Vec<Series> = DRAWN
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let value = COLUMNS[*column].1;
            let points = depths.iter().filter_map(|depth| point(*depth, value)).collect();
            Series { index, points, style: Style::Marked }
        })
        .collect();
    let values = series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let y = Scale::around(values, true)?;
    let x = Scale::around(depths.iter().map(|depth| *depth as f64), true)?;
    let texts = Texts {
        title: "Collapse over depth".into(),
        note: "Means over seeds, with their deviation.",
        x: "depth",
    };
    Some(one_panel(texts, x, y, series))
}

/// NC1 after blocks 1, 2, 4, 8, ... and the last of the deepest networks.
fn through_the_deepest(rows: &[DepthRow]) -> Option<Block> {
    let deepest = depths(rows).last().copied()?;
    let rows = rows.iter().filter(|row| row.depth == deepest);
    let layers: Vec<&[Option<f64>]> = rows.map(|row| row.nc1_of_layers.as_slice()).collect();
    let last = layers.first()?.len();
    let mut after: Vec<usize> = (0..).map(|i| 1 << i).take_while(|block| *block < last).collect();
    after.push(last);
    if last < 2 {
        return None;
    }
    let cell = |block: usize| {
        let values = layers.iter().filter_map(|layers| *layers.get(block - 1)?);
        with_deviation(mean_and_deviation(&values.collect::<Vec<f64>>()))
    };
    let heads: Vec<String> = after.iter().map(|block| format!("block {block}")).collect();
    let columns = std::iter::once("depth").chain(heads.iter().map(String::as_str));
    let columns: Vec<_> = columns.map(|head| (head, true)).collect();
    let row = std::iter::once(deepest.to_string()).chain(after.iter().map(|block| cell(*block)));
    Some(Block::Table(
        Table::new("NC1 through the deepest networks", columns).with([row.collect()]),
    ))
}
