//! Pairs of a measurement and a sweep, as groups of layers.

use super::CollapseRelate;
use super::result::CollapseRelated;
use crate::jobs::collapse::lm::result::CollapseOfModel;
use crate::jobs::collapse::options::{check_result, read_json};
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use linwright_collapse::relation::{Group, relation};
use linwright_collapse::{LayerReport, METRICS};
use linwright_lm::cuts::sweep::{Cell, Swept};
use linwright_report::{Report, read_saved};
use linwright_run::{Monitor, shown, shown_reason};
use linwright_tensor::RngKey;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(super) fn run(job: &CollapseRelate, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let inputs = outputs::inputs_of(job, session);
    check_result(job.output.as_deref(), job.force, &inputs, session)?;
    if job.measured.len() != job.sweeps.len() || job.measured.is_empty() {
        let (measured, sweeps) = (job.measured.len(), job.sweeps.len());
        return Err(Failure::usage(format!("{measured} measurements and {sweeps} sweeps"))
            .hint("give a sweep for each measurement, in the same order"));
    }
    if !METRICS.iter().any(|metric| metric.name == job.metric) {
        return Err(Failure::usage(format!("--metric {}: no such metric", shown(&job.metric)))
            .hint("give one of the names in a result, such as nc1_quotient or cdnv_mean"));
    }
    let mut groups = Vec::new();
    for (measured, sweep) in job.measured.iter().zip(&job.sweeps) {
        groups.extend(groups_of(measured, &result_of(sweep), &job.metric)?);
    }
    session.step("correlating");
    let relation = relation(&groups, job.draws, RngKey::new(job.seed).fold("relation"))?;
    session.finish();
    let (metric, draws) = (job.metric.clone(), job.draws);
    let result = CollapseRelated { metric, draws, rows: groups, relation };
    if let Some(path) = &job.output {
        outputs::write_report(path, &result, job.force)?;
        session.note(&format!("wrote {}", path.display()));
    }
    Ok(Outcome::of(result))
}

/// The result of a sweep, of which its directory may be given.
pub(super) fn result_of(sweep: &Path) -> PathBuf {
    match sweep.is_dir() {
        true => sweep.join("result.json"),
        false => sweep.to_owned(),
    }
}

/// The groups of a model: every name and size of its sweep.
fn groups_of(measured: &Path, sweep: &Path, metric: &str) -> Result<Vec<Group>, Failure> {
    let saved = read_json(measured, "`collapse lm`")?;
    if saved.get("kind").and_then(Value::as_str) != Some(CollapseOfModel::KIND) {
        let message = format!("{}: not a result of `collapse lm`", measured.display());
        return Err(Failure::general(message).hint("give what `collapse lm MODEL -o FILE` wrote"));
    }
    let layers = read_saved::<CollapseOfModel>(saved)?.layers;
    let mut found = read_json(sweep, "a sweep")?;
    let model = found.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let swept = found.get_mut("sweep").map(Value::take).unwrap_or_default();
    let swept: Swept = serde_json::from_value(swept).map_err(|error| {
        let reason = shown_reason(&error.to_string());
        Failure::general(format!("{}: not a result of a sweep: {reason}", sweep.display()))
            .hint("give the result.json that `linwright sweep MODEL -o DIR` wrote")
    })?;
    let mut groups: Vec<Group> = Vec::new();
    for cell in &swept.cells {
        let Some(layer) = cell.place.layer else {
            let message = format!("{}: all layers were changed at once", sweep.display());
            return Err(Failure::general(message).hint("sweep without --layers all"));
        };
        let change = format!("{} {}", cell.place.weights.name(), cell.size);
        let known = groups.iter().position(|group| group.change == change);
        let index = known.unwrap_or_else(|| {
            groups.push(empty(&model, change));
            groups.len() - 1
        });
        let of_input = |permuted| value_of(&layers, layer, metric, permuted);
        let value = of_input(false).ok_or_else(|| missing(measured, layer, metric))?;
        let group = &mut groups[index];
        group.layers.push(layer);
        group.metric.push(value);
        group.permuted.extend(of_input(true));
        group.cost.push(cost(&swept, cell).ok_or_else(|| {
            Failure::general(format!("{}: a cell without its metric", sweep.display()))
        })?);
    }
    for group in &mut groups {
        // With some alone nothing can be said.
        if group.permuted.len() < group.layers.len() {
            group.permuted.clear();
        }
    }
    Ok(groups)
}

fn empty(model: &str, change: String) -> Group {
    Group {
        model: model.to_owned(),
        change,
        layers: Vec::new(),
        metric: Vec::new(),
        permuted: Vec::new(),
        cost: Vec::new(),
    }
}

fn missing(measured: &Path, layer: usize, metric: &str) -> Failure {
    let message = format!("{}: no {metric} of the input of layer {layer}", measured.display());
    Failure::general(message).hint("measure all layers, without --layers; nc1_pinv needs --scatter")
}

/// The metric of the input of a layer: the output of the one before it.
fn value_of(layers: &[LayerReport], layer: usize, metric: &str, permuted: bool) -> Option<f64> {
    let name = match layer {
        0 => "embedding".to_owned(),
        _ => format!("layer {}", layer - 1),
    };
    let layer = layers.iter().find(|layer| layer.name == name)?;
    match permuted {
        true => layer.baselines.as_ref()?.shuffled_labels.as_ref()?.get(metric),
        false => layer.metrics.get(metric),
    }
}

/// How much worse a cell is than the dense model, in its metric.
fn cost(swept: &Swept, cell: &Cell) -> Option<f64> {
    let name = &swept.objective.metric;
    let value = |metrics: &[linwright_evaluate::Metric]| {
        metrics.iter().find(|metric| metric.name == *name).map(|metric| metric.value)
    };
    let (dense, changed) = (value(&swept.dense.metrics)?, value(&cell.score.metrics)?);
    Some(if swept.objective.higher_is_better { dense - changed } else { changed - dense })
}
