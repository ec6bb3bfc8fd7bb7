//! Summaries of results in sentences.
//!
//! Features count as collapsed if the variance within classes is at most a twentieth of that
//! between them and the means are at most half as far from a simplex frame as random ones, and as
//! not collapsed if shuffled labels give similar values. There is no agreed threshold, so the
//! numbers are shown as well.

use super::seeds::{GAP, NC1, Value, depths, over_seeds};
use super::{CheckpointRow, number};
use crate::depth::DepthRow;
use crate::relation::Correlation;
use crate::{LayerReport, Metrics};
use linwright_report::number::{percent, scientific};

/// Largest ratio of variance within classes to that between them, for collapsed features.
const COLLAPSED: f64 = 0.05;
/// Largest ratio of the distance of their means from a simplex frame to that of random ones.
const FRAME: f64 = 0.5;
/// Smallest ratio of the variance within classes to that with shuffled labels without collapse.
const CHANCE: f64 = 0.9;

/// The last layer compared with chance, and the layer where classes vary least.
pub(super) fn of_layers(layers: &[LayerReport]) -> Option<String> {
    let last = layers.last()?;
    let metric = |name: &str| last.metrics.get(name);
    let baselines = last.baselines.as_ref();
    let shuffled = baselines.and_then(|baselines| baselines.shuffled_labels.as_ref());
    let shuffled = shuffled.and_then(|metrics| metrics.get("nc1_quotient"));
    let random = baselines.and_then(|baselines| baselines.random_frames.get("nc2_etf_err_M"));
    let within = metric("nc1_quotient")?;
    let frame = metric("nc2_etf_err_M");
    let is_framed = frame.zip(random).is_some_and(|(frame, random)| frame <= FRAME * random);
    let is_chance = shuffled.is_some_and(|shuffled| within >= CHANCE * shuffled);
    let word = match () {
        () if is_chance => "not collapsed",
        () if within <= COLLAPSED && is_framed => "collapsed",
        () => "partly collapsed",
    };
    let mut told = match shuffled.is_some() {
        true => format!("{}: {word}. ", last.name),
        // Without a comparison to chance there is no verdict.
        false => format!("{}: ", last.name),
    };
    told += &format!("variance within classes {} of that between them", scientific(within));
    let beside = |value: Option<f64>, of: &str| {
        value.map_or_else(String::new, |value| format!(" ({} {of})", scientific(value)))
    };
    told += &beside(shuffled, "with shuffled labels");
    if let Some(frame) = frame {
        let random = beside(random, "of random ones");
        told += &format!(", means {} from a simplex frame{random}", scientific(frame));
    }
    if let Some(right) = metric("acc_ncc") {
        told += &format!(", the nearest mean is right for {}", percent(right));
    }
    told += ".";
    let of = |layer: &LayerReport| layer.metrics.get("nc1_quotient").unwrap_or(f64::INFINITY);
    let least = layers.iter().min_by(|a, b| of(a).total_cmp(&of(b)))?;
    if layers.len() > 1 {
        let (count, within) = (layers.len(), within_classes(&least.metrics));
        told += &format!(" Of {count} layers, classes vary least in {}: {within}.", least.name);
    }
    Some(told)
}

fn within_classes(metrics: &Metrics) -> String {
    number(metrics.get("nc1_quotient"))
}

/// From the shallowest to the deepest networks.
pub(super) fn of_depths(rows: &[DepthRow]) -> Option<String> {
    let depths = depths(rows);
    let [first, .., last] = depths[..] else { return None };
    let between = |value: Value| {
        let mean = |depth: usize| Some(over_seeds(rows, depth, value).0).filter(|x| x.is_finite());
        let (from, to) = (mean(first)?, mean(last)?);
        Some(format!("{} to {}", scientific(from), scientific(to)))
    };
    let mut told = format!("From depth {first} to {last}, NC1 goes from {}", between(NC1)?);
    if let Some(gap) = between(GAP) {
        told += &format!(", the gap to the optimum from {gap}");
    }
    Some(told + ".")
}

/// The last layer from the first checkpoint to the last.
pub(super) fn of_checkpoints(rows: &[CheckpointRow]) -> Option<String> {
    let layer = &rows.last()?.layer;
    let mut rows = rows.iter().filter(|row| row.layer == *layer);
    let (first, last) = (rows.next()?, rows.next_back()?);
    Some(format!(
        "{layer}: variance within classes went from {} of that between them in {} to {} in {}.",
        within_classes(&first.metrics),
        first.checkpoint,
        within_classes(&last.metrics),
        last.checkpoint
    ))
}

/// Whether collapse and cost are related.
pub(super) fn of_relation(metric: &str, all: &Correlation) -> Option<String> {
    let (rho, [low, high]) = (Some(all.rho).filter(|rho| rho.is_finite())?, all.interval?);
    let word = match () {
        () if low > 0.0 => "rises with the cost of a change",
        () if high < 0.0 => "falls where a change costs more",
        () => "is not shown to be related to the cost of a change",
    };
    Some(format!("{metric} of the input {word}: ρ {rho:.2}, 95 % {low:.2} to {high:.2}."))
}

/// Notes on layers, each once with the layers concerned.
#[must_use]
pub fn notes(layers: &[LayerReport]) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for layer in layers {
        for note in &layer.notes {
            match found.iter_mut().find(|(known, _)| *known == note.as_str()) {
                Some((_, names)) => names.push(&layer.name),
                None => found.push((note, vec![&layer.name])),
            }
        }
    }
    let told = |(note, names): (&str, Vec<&str>)| match (names.len(), layers.len()) {
        (_, 1) => note.to_owned(),
        (count, all) if count == all => format!("all {count} layers: {note}"),
        (1..=3, _) => format!("{}: {note}", names.join(", ")),
        (count, all) => format!("{count} of {all} layers, from {}: {note}", names[0]),
    };
    found.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Baselines;
    use crate::baselines::Floors;

    fn metrics<const N: usize>(values: [(&'static str, f64); N]) -> Metrics {
        let mut metrics = Metrics::default();
        values.into_iter().for_each(|(name, value)| metrics.put(name, value));
        metrics
    }

    fn layer(name: &str, within: f64, notes: &[&str]) -> LayerReport {
        LayerReport {
            name: name.to_owned(),
            rows: 40,
            features: 8,
            classes: 4,
            classes_present: 4,
            classes_missing: 0,
            singletons: 0,
            class_sizes: [10, 10],
            metrics: metrics([
                ("nc1_quotient", within),
                ("nc2_etf_err_M", 0.1),
                ("acc_ncc", 0.975),
            ]),
            floors: Floors::of(4, 8),
            baselines: Some(Baselines {
                random_frames: metrics([("nc2_etf_err_M", 0.8)]),
                shuffled_labels: Some(metrics([("nc1_quotient", 40.0)])),
            }),
            intervals: Vec::new(),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }

    #[test]
    fn the_last_layer_is_judged_against_chance() {
        let told = |within: f64| of_layers(&[layer("head", within, &[])]).unwrap();
        assert_eq!(
            told(0.01),
            "head: collapsed. variance within classes 0.0100 of that between them (40.0 with \
             shuffled labels), means 0.100 from a simplex frame (0.800 of random ones), the \
             nearest mean is right for 97.5 %."
        );
        assert!(told(3.0).starts_with("head: partly collapsed."));
        assert!(told(39.0).starts_with("head: not collapsed."));
        let far = metrics([("nc1_quotient", 0.01), ("nc2_etf_err_M", 0.7)]);
        let far = LayerReport { metrics: far, ..layer("head", 0.01, &[]) };
        assert!(of_layers(&[far]).unwrap().contains("partly"));
        let alone = LayerReport { baselines: None, ..layer("head", 0.01, &[]) };
        let told = of_layers(&[layer("embedding", 0.001, &[]), alone]).unwrap();
        assert!(told.starts_with("head: variance") && !told.contains("collapsed"), "{told}");
        assert!(told.ends_with("Of 2 layers, classes vary least in embedding: 0.00100."), "{told}");
        assert_eq!(of_layers(&[]), None);
    }

    #[test]
    fn a_note_of_many_layers_is_told_once() {
        let names: Vec<String> = (0..31).map(|k| format!("layer {k}")).collect();
        let layers = names.iter().map(|name| layer(name, 1.0, &["no frame"]));
        let mut layers: Vec<LayerReport> = layers.collect();
        assert_eq!(notes(&layers), ["all 31 layers: no frame"]);
        layers[30].notes = vec!["no head".to_owned()];
        assert_eq!(
            notes(&layers),
            ["30 of 31 layers, from layer 0: no frame", "layer 30: no head"]
        );
        assert_eq!(notes(&layers[30..]), ["no head"]);
    }

    #[test]
    fn depths_checkpoints_and_relations_are_told_from_end_to_end() {
        let row = |depth: usize, value: f64| DepthRow {
            depth,
            seed: 0,
            strength: 0.1,
            nc1_quotient: Some(value),
            nc1_pinv: None,
            nc2_head: None,
            nc3_sample: None,
            accuracy: 1.0,
            objective: 1.0,
            fit: 1.0,
            hidden_penalty: 0.0,
            gap: Some(value),
            gradient_norm: 0.0,
            nc1_of_layers: Vec::new(),
        };
        let told = of_depths(&[row(2, 0.5), row(8, 0.25), row(8, 0.75), row(32, 0.125)]).unwrap();
        assert!(told.starts_with("From depth 2 to 32, NC1 goes from 0.500 to 0.125"), "{told}");
        assert_eq!(of_depths(&[row(2, 0.5)]), None);
        let row = |checkpoint: &str, name: &str, value: f64| {
            CheckpointRow::of(checkpoint, layer(name, value, &[]))
        };
        let rows = [row("a", "0", 9.0), row("a", "1", 2.0), row("b", "0", 8.0), row("b", "1", 0.5)];
        let told = of_checkpoints(&rows).unwrap();
        assert!(told.starts_with("1: variance") && told.contains("2.00"), "{told}");
        assert!(told.ends_with("to 0.500 in b."), "{told}");
        let relation = |low: f64, high: f64| {
            let all = Correlation {
                rho: 0.5,
                interval: Some([low, high]),
                random_order: [-0.5, 0.5],
                p: 0.1,
                permuted_classes: None,
                layer_number: 0.0,
                beyond_layer_number: None,
            };
            of_relation("cdnv_mean", &all).unwrap()
        };
        assert!(relation(0.1, 0.8).starts_with("cdnv_mean of the input rises with"));
        assert!(relation(-0.1, 0.8).contains("is not shown"));
    }
}
