//! Reports of sweeps and compositions.

use crate::cuts::compose::Composed;
use crate::cuts::grid::Weights;
use crate::cuts::sweep::{Cell, Score, Swept, Tested};
use linwright_compress::intervention::{Kept, SiteEdit};
use linwright_evaluate::{Comparison, Metric, NORMAL_95, TaskResult};
use linwright_report::number::{count, metric};
use linwright_report::{Block, Document, HeatMap, Table};

/// Number of cells in a ranking.
const RANKED: usize = 10;

/// Kept part of a weight, in every unit.
fn kept(kept: &Kept) -> [String; 5] {
    [
        kept.rank.map_or_else(String::new, |rank| rank.to_string()),
        format!("{:.2}", kept.rate),
        format!("{:.4}", kept.rho),
        format!("{:.4}", kept.keep),
        kept.energy.map_or_else(String::new, |energy| format!("{energy:.4}")),
    ]
}

/// Kept part of each slot, one row each.
#[must_use]
pub fn edits_table(edits: &[SiteEdit]) -> Table {
    let row = |edit: &SiteEdit| {
        let site = match edit.method.part {
            Some(part) => format!("{} ({})", edit.site, part.name()),
            None => edit.site.to_string(),
        };
        let mut cells = vec![site, format!("{}x{}", edit.shape.out, edit.shape.inp)];
        cells.extend(kept(&edit.report.kept));
        cells.push(format!("{:.4}", edit.report.relative_error));
        cells.push(if edit.report.factored { "factors" } else { "dense" }.to_owned());
        cells.push(count(edit.report.parameters as f64));
        cells
    };
    let columns = [
        ("site", false),
        ("shape", false),
        ("rank", true),
        ("rate", true),
        ("rho", true),
        ("keep", true),
        ("energy", true),
        ("error", true),
        ("stored as", false),
        ("parameters", true),
    ];
    Table::new("Edited weights", columns).with(edits.iter().map(row))
}

/// Metrics of the selected model on test items, beside those of the dense model, and the same in
/// each group of items.
#[must_use]
pub fn test_table(tested: &Tested) -> Table {
    let Tested { dense, best, comparisons, groups } = tested;
    let all = best.metrics.iter().map(|own| {
        test_row(own.name.clone(), own, dense.metric(&own.name), comparisons.as_slice())
    });
    let of_groups = groups.iter().flat_map(|of| {
        let metrics = |result: &TaskResult| -> Vec<Metric> {
            let found = result.groups.iter().find(|found| found.group == of.group);
            found.map_or_else(Vec::new, |found| found.metrics.clone())
        };
        let (own, dense) = (metrics(best), metrics(dense));
        let row = |own: &Metric| {
            let dense = dense.iter().find(|dense| dense.name == own.name);
            test_row(format!("{}, {}", own.name, of.group), own, dense, &of.comparisons)
        };
        own.iter().map(row).collect::<Vec<_>>()
    });
    let columns = [
        ("test", false),
        ("dense", true),
        ("edited", true),
        ("difference, 95 %", false),
        ("McNemar p", true),
    ];
    Table::new("On test items", columns).with(all.chain(of_groups))
}

/// A metric of the selected model beside that of the dense model.
fn test_row(
    name: String,
    own: &Metric,
    dense: Option<&Metric>,
    comparisons: &[Comparison],
) -> Vec<String> {
    let dense = dense.map_or(f64::NAN, |metric| metric.value);
    let found = comparisons.iter().find(|found| found.metric == own.name);
    let interval = found.map_or_else(String::new, |found| found.in_one_cell());
    let p = found.and_then(|found| found.mcnemar_p);
    let p = p.map_or_else(String::new, |p| format!("{p:.3}"));
    vec![name, metric(dense), metric(own.value), interval, p]
}

/// Cells of a sweep by score on validation items, below the dense model.
#[must_use]
pub fn ranking(swept: &Swept) -> Table {
    let objective = &swept.objective;
    let figures = |score: &Score| {
        [objective.metric.as_str(), "log_loss"]
            .map(|name| value(score, name).map_or_else(String::new, metric))
    };
    let row = |name: String, score: &Score| [vec![name], figures(score).to_vec()].concat();
    let mut ranked: Vec<&Cell> = swept.cells.iter().collect();
    ranked.sort_by(|a, b| {
        let better = |x: &Score, y: &Score| objective.is_better(x, y);
        better(&b.score, &a.score).cmp(&better(&a.score, &b.score))
    });
    let best = ranked.iter().take(RANKED).map(|cell| row(cell_name(cell), &cell.score));
    let columns =
        [("validation, best first", false), (&objective.metric, true), ("log_loss", true)];
    let dense = row("dense".to_owned(), &score_of(&swept.dense));
    Table::new("On validation items", columns).with(std::iter::once(dense).chain(best))
}

/// The steps of a composition: each place with what was accepted there.
#[must_use]
pub fn steps(composed: &Composed) -> Table {
    let name = &composed.objective.metric;
    let figure = |score: &Score| value(score, name).map_or_else(String::new, metric);
    let dense = vec!["dense".to_owned(), String::new(), figure(&score_of(&composed.dense))];
    let steps = composed.steps.iter().map(|step| {
        let (size, score) = match step.accepted {
            None => ("not cut".to_owned(), String::new()),
            Some(index) => (step.tried[index].size.to_string(), figure(&step.tried[index].score)),
        };
        vec![step.place.name(), size, score]
    });
    Table::new("Steps", [("place", false), ("accepted", false), (name, true)])
        .with(std::iter::once(dense).chain(steps))
}

fn score_of(result: &TaskResult) -> Score {
    Score { metrics: result.metrics.clone(), ..Score::default() }
}

/// Name of a cell.
#[must_use]
pub fn cell_name(cell: &Cell) -> String {
    let ranks: Vec<String> =
        cell.kept.iter().filter_map(|kept| kept.rank).map(|rank| rank.to_string()).collect();
    let ranks =
        if ranks.is_empty() { String::new() } else { format!(" (rank {})", ranks.join(", ")) };
    format!("{} at {}{ranks}", cell.place.name(), cell.size)
}

fn value(score: &Score, metric: &str) -> Option<f64> {
    score.metrics.iter().find(|found| found.name == metric).map(|found| found.value)
}

/// For each selection of weights a heat map of each metric over layers and sizes, as in the paper.
fn heat_maps(swept: &Swept) -> Vec<HeatMap> {
    let metrics = swept.dense.metrics.iter();
    let mut all: Vec<&Weights> = swept.cells.iter().map(|cell| &cell.place.weights).collect();
    all.dedup();
    let of_metric = |metric| all.iter().map(move |weights| heat_map(swept, weights, metric));
    metrics.flat_map(of_metric).collect()
}

fn heat_map(swept: &Swept, weights: &Weights, dense: &Metric) -> HeatMap {
    let (metric, baseline) = (dense.name.as_str(), dense.value);
    let own: Vec<&Cell> =
        swept.cells.iter().filter(|cell| cell.place.weights == *weights).collect();
    let mut layers: Vec<Option<usize>> = own.iter().map(|cell| cell.place.layer).collect();
    layers.dedup();
    let name = |layer: &Option<usize>| layer.map_or("all".to_owned(), |layer| layer.to_string());
    let of = |layer: &Option<usize>| {
        let cells = own.iter().filter(|cell| cell.place.layer == *layer);
        cells.map(|cell| value(&cell.score, metric)).collect()
    };
    HeatMap {
        title: format!(
            "{metric} of {} ({})",
            weights.name(),
            swept.grid.method.intervention.name()
        ),
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

/// The selected cell, and whether it is significantly better than the dense model.
#[must_use]
pub fn verdict(swept: &Swept) -> String {
    let Swept { objective, cells, best, is_better, test, .. } = swept;
    let best = &cells[*best];
    let found = match is_better {
        false => {
            "no cell is significantly better than the dense model; the highest on validation items: "
        }
        true => "best: ",
    };
    let test = test.as_ref().map(|test| (&test.comparisons, "test"));
    let parts = [Some((&best.score.comparisons, "validation")), test].into_iter().flatten();
    let compared = parts.filter_map(|(comparisons, part)| {
        let own = objective.of_metric(comparisons)?;
        Some(format!(", on {part} items {} {}", objective.metric, own.in_one_cell()))
    });
    format!("{found}{}{}", cell_name(best), compared.collect::<String>())
}

/// Report of a sweep.
#[must_use]
pub fn sweep_document(title: &str, model: &str, swept: &Swept) -> Document {
    let test = swept.test.as_ref().map_or_else(
        || "there are no test items".to_owned(),
        |test| format!("{} test items", test.dense.counts.items),
    );
    let TaskResult { task, protocol, counts, .. } = &swept.dense;
    let items = counts.items;
    let notes = vec![
        format!("Model: {model}."),
        format!("Task: {task}, protocol {protocol}; {items} validation items, {test}."),
        verdict(swept),
    ];
    let maps = heat_maps(swept).into_iter().map(Block::HeatMap);
    let blocks = std::iter::once(Block::Text(notes)).chain(maps).collect();
    Document { title: title.to_owned(), blocks, ..Document::default() }
}

/// Report of a composition.
#[must_use]
pub fn compose_document(model: &str, composed: &Composed) -> Document {
    let mut blocks: Vec<Block> =
        composed.test.iter().map(|test| Block::Table(test_table(test))).collect();
    blocks.push(Block::Table(steps(composed)));
    Document { title: format!("Composed cuts of {model}"), blocks, ..Document::default() }
}
