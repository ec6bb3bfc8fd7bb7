//! What was found, as text and as files.

use crate::commands::paired::in_one_cell;
use crate::commands::run::write_pages;
use crate::commands::{grouped, table};
use crate::failure::Failure;
use linwright::compress::intervention::sweep::{Cell, Score, Swept, Tested};
use linwright::compress::intervention::{Kept, Lname, SiteEdit};
use linwright::evaluate::{Metric, NORMAL_95};
use linwright::report::{Block, Document, HeatMap};
use linwright::run::atomic::write_atomic;
use serde_json::Value;
use std::path::Path;

/// What stays of a weight, in every unit.
fn kept(kept: &Kept) -> [String; 5] {
    [
        kept.rank.map_or_else(String::new, |rank| rank.to_string()),
        format!("{:.2}", kept.rate),
        format!("{:.4}", kept.rho),
        format!("{:.4}", kept.keep),
        kept.energy.map_or_else(String::new, |energy| format!("{energy:.4}")),
    ]
}

/// One line for each slot.
pub(in crate::commands) fn edits_table(edits: &[SiteEdit]) -> String {
    let row = |edit: &SiteEdit| {
        let mut cells =
            vec![edit.site.to_string(), format!("{}x{}", edit.shape.out, edit.shape.inp)];
        cells.extend(kept(&edit.report.kept));
        cells.push(format!("{:.4}", edit.report.relative_error));
        cells.push(if edit.report.factored { "factors" } else { "dense" }.to_owned());
        cells.push(grouped(edit.report.parameters as u64));
        cells
    };
    let header = [
        "site",
        "shape",
        "rank",
        "rate",
        "rho",
        "keep",
        "energy",
        "error",
        "kept as",
        "parameters",
    ];
    table(&header, &edits.iter().map(row).collect::<Vec<_>>())
}

/// The figures of a chosen model on test items, beside those of the model as it is.
pub(in crate::commands) fn tested_lines(tested: &Tested) -> String {
    let row = |metric: &linwright::evaluate::Metric| {
        let dense = tested.dense.metric(&metric.name).map_or(f64::NAN, |metric| metric.value);
        let found = tested.comparisons.iter().find(|c| c.metric == metric.name);
        let interval = found.map_or_else(String::new, in_one_cell);
        let p = found.and_then(|c| c.mcnemar_p).map_or_else(String::new, |p| format!("{p:.3}"));
        vec![
            metric.name.clone(),
            format!("{dense:.4}"),
            format!("{:.4}", metric.value),
            interval,
            p,
        ]
    };
    let rows: Vec<Vec<String>> = tested.best.metrics.iter().map(row).collect();
    table(&["test", "dense", "edited", "difference, 95 %", "McNemar p"], &rows)
}

/// A sweep, and what a reader must know of it.
pub(in crate::commands) struct Findings<'a> {
    /// Heading.
    pub(in crate::commands) title: &'a str,
    /// The sweep.
    pub(in crate::commands) swept: &'a Swept,
    /// Model, task, protocol and the like.
    pub(in crate::commands) notes: Vec<String>,
    /// All of it.
    pub(in crate::commands) json: Value,
}

/// The name of a cell.
pub(in crate::commands) fn cell_name(cell: &Cell) -> String {
    let layer = cell.place.layer.map_or("all layers".to_owned(), |layer| format!("layer {layer}"));
    let ranks: Vec<String> =
        cell.kept.iter().filter_map(|kept| kept.rank).map(|rank| rank.to_string()).collect();
    let ranks =
        if ranks.is_empty() { String::new() } else { format!(" (rank {})", ranks.join(", ")) };
    format!("{} of {layer} at {}{ranks}", cell.place.lname.name(), cell.size)
}

fn value(score: &Score, metric: &str) -> Option<f64> {
    score.metrics.iter().find(|found| found.name == metric).map(|found| found.value)
}

impl Findings<'_> {
    /// For each name a map of each figure over layers and sizes: the pictures of the paper.
    fn maps(&self) -> Vec<HeatMap> {
        let swept = self.swept;
        let metrics = swept.dense.metrics.iter();
        let mut maps = Vec::new();
        for metric in metrics {
            for &lname in &swept.grid.lnames {
                maps.push(self.map(lname, metric));
            }
        }
        maps
    }

    fn map(&self, lname: Lname, dense: &Metric) -> HeatMap {
        let swept = self.swept;
        let (metric, baseline) = (dense.name.as_str(), dense.value);
        let own: Vec<&Cell> = swept.cells.iter().filter(|cell| cell.place.lname == lname).collect();
        let mut layers: Vec<Option<usize>> = own.iter().map(|cell| cell.place.layer).collect();
        layers.dedup();
        let name =
            |layer: &Option<usize>| layer.map_or("all".to_owned(), |layer| layer.to_string());
        let of = |layer: &Option<usize>| {
            let cells = own.iter().filter(|cell| cell.place.layer == *layer);
            cells.map(|cell| value(&cell.score, metric)).collect()
        };
        HeatMap {
            title: format!("{metric} of {} ({})", lname.name(), swept.grid.cut.intervention.name()),
            axis: "layer".into(),
            rows: layers.iter().map(name).collect(),
            columns: swept.grid.sizes.iter().map(ToString::to_string).collect(),
            values: layers.iter().map(of).collect(),
            baseline,
            baseline_name: "Without a cut".into(),
            higher_is_better: dense.higher_is_better,
            chance: dense.stderr.map(|error| NORMAL_95 * error),
        }
    }

    /// What was chosen, and whether it is better than the model as it is.
    fn verdict(&self) -> String {
        let Swept { objective, cells, best, is_better, test, .. } = self.swept;
        let best = &cells[*best];
        let found = match is_better {
            false => {
                "no cell is shown to be better than the model as it is; the highest on validation items: "
            }
            true => "best: ",
        };
        let test = test.as_ref().map(|test| (&test.comparisons, "test"));
        let parts = [Some((&best.score.comparisons, "validation")), test].into_iter().flatten();
        let compared = parts.filter_map(|(comparisons, part)| {
            let own = objective.of_metric(comparisons)?;
            Some(format!(", on {part} items {} {}", objective.metric, in_one_cell(own)))
        });
        format!("{found}{}{}", cell_name(best), compared.collect::<String>())
    }

    /// What the terminal shows.
    pub(in crate::commands) fn terminal(&self) -> String {
        let (swept, objective) = (self.swept, &self.swept.objective);
        let dense = Score { metrics: swept.dense.metrics.clone(), ..Score::default() };
        let show = |score: &Score| {
            let figure =
                value(score, &objective.metric).map_or_else(String::new, |v| format!("{v:.4}"));
            let loss = value(score, "log_loss").map_or_else(String::new, |v| format!("{v:.4}"));
            [figure, loss]
        };
        let mut ranked: Vec<&Cell> = swept.cells.iter().collect();
        ranked.sort_by(|a, b| {
            let better = |x: &Score, y: &Score| objective.is_better(x, y);
            better(&b.score, &a.score).cmp(&better(&a.score, &b.score))
        });
        let mut rows = vec![[vec!["as it is".to_owned()], show(&dense).to_vec()].concat()];
        rows.extend(
            ranked
                .iter()
                .take(10)
                .map(|cell| [vec![cell_name(cell)], show(&cell.score).to_vec()].concat()),
        );
        let best = table(&["validation, best first", &objective.metric, "log_loss"], &rows);
        let test = swept
            .test
            .as_ref()
            .map_or_else(String::new, |test| format!("\n\n{}", tested_lines(test)));
        format!("{best}\n\n{}{test}", self.verdict())
    }

    /// The sweep as a report.
    fn document(&self) -> Document {
        let notes = [self.notes.clone(), vec![self.verdict()]].concat();
        let maps = self.maps().into_iter().map(Block::HeatMap);
        let blocks = std::iter::once(Block::Text(notes)).chain(maps).collect();
        Document { title: self.title.to_owned(), blocks, ..Document::default() }
    }

    /// Writes `result.json`, `cells.jsonl`, `report.md` and `report.html`.
    pub(in crate::commands) fn write(&self, directory: &Path) -> Result<(), Failure> {
        let text = |path: &str, text: String| write_atomic(&directory.join(path), text.as_bytes());
        let mut lines = String::new();
        for cell in &self.swept.cells {
            let line = serde_json::to_string(cell).map_err(|error| {
                Failure::general(format!("cannot write a cell as JSON: {error}"))
            })?;
            lines += &(line + "\n");
        }
        text("cells.jsonl", lines)?;
        write_pages(&self.document(), directory)?;
        // Last, so that it is there when all is.
        Ok(text("result.json", format!("{:#}\n", self.json))?)
    }
}
