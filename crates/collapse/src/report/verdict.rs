//! Summaries of results in sentences.
//!
//! Features count as collapsed if the variance within classes is at most a twentieth of that
//! between them and the means are at most half as far from a simplex frame as random ones, and as
//! not collapsed if shuffled labels give similar values. There is no agreed threshold, so the
//! numbers are shown as well.

use super::{depths, over_seeds, text};
use linwright_report::number::{percent, scientific};
use serde_json::Value;

/// Largest ratio of variance within classes to that between them, for collapsed features.
const COLLAPSED: f64 = 0.05;
/// Largest ratio of the distance of their means from a simplex frame to that of random ones.
const FRAME: f64 = 0.5;
/// Smallest ratio of the variance within classes to that with shuffled labels without collapse.
const CHANCE: f64 = 0.9;

/// The last layer compared with chance, and the layer where classes vary least.
pub(super) fn of_layers(layers: &[Value]) -> Option<String> {
    let last = layers.last()?;
    let metric = |name: &str| last["metrics"][name].as_f64();
    let chance = |kind: &str, name: &str| last["baselines"][kind][name].as_f64();
    let within = metric("nc1_quotient")?;
    let shuffled = chance("shuffled_labels", "nc1_quotient");
    let frame = metric("nc2_etf_err_M");
    let random = chance("random_frames", "nc2_etf_err_M");
    let is_framed = frame.zip(random).is_some_and(|(frame, random)| frame <= FRAME * random);
    let is_chance = shuffled.is_some_and(|shuffled| within >= CHANCE * shuffled);
    let word = match () {
        () if is_chance => "not collapsed",
        () if within <= COLLAPSED && is_framed => "collapsed",
        () => "partly collapsed",
    };
    let mut told = match shuffled.is_some() {
        true => format!("{}: {word}. ", text(last, "name")),
        // Without a comparison to chance there is no verdict.
        false => format!("{}: ", text(last, "name")),
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
    let of = |layer: &Value| layer["metrics"]["nc1_quotient"].as_f64().unwrap_or(f64::INFINITY);
    let least = layers.iter().min_by(|a, b| of(a).total_cmp(&of(b)))?;
    if layers.len() > 1 {
        let (name, count) = (text(least, "name"), layers.len());
        told += &format!(" Of {count} layers, classes vary least in {name}: {}.", number(least));
    }
    Some(told)
}

fn number(layer: &Value) -> String {
    layer["metrics"]["nc1_quotient"].as_f64().map_or_else(|| "-".to_owned(), scientific)
}

/// From the shallowest to the deepest networks.
pub(super) fn of_depths(rows: &[Value]) -> Option<String> {
    let depths = depths(rows);
    let [first, .., last] = depths[..] else { return None };
    let mean =
        |depth: u64, name: &str| Some(over_seeds(rows, depth, name).0).filter(|x| x.is_finite());
    let between = |name: &str| {
        let (from, to) = (mean(first, name)?, mean(last, name)?);
        Some(format!("{} to {}", scientific(from), scientific(to)))
    };
    let mut told =
        format!("From depth {first} to {last}, NC1 goes from {}", between("nc1_quotient")?);
    if let Some(gap) = between("gap") {
        told += &format!(", the gap to the optimum from {gap}");
    }
    Some(told + ".")
}

/// The last layer from the first checkpoint to the last.
pub(super) fn of_checkpoints(rows: &[Value]) -> Option<String> {
    let layer = text(rows.last()?, "layer");
    let mut own = rows.iter().filter(|row| row["layer"] == *layer);
    let (first, last) = (own.next()?, own.next_back()?);
    Some(format!(
        "{layer}: variance within classes went from {} of that between them in {} to {} in {}.",
        number(first),
        text(first, "checkpoint"),
        number(last),
        text(last, "checkpoint")
    ))
}

/// Whether collapse and cost are related.
pub(super) fn of_relation(value: &Value) -> Option<String> {
    let all = &value["all"];
    let [rho, low, high] = [&all["rho"], &all["interval"][0], &all["interval"][1]];
    let (rho, low, high) = (rho.as_f64()?, low.as_f64()?, high.as_f64()?);
    let word = match () {
        () if low > 0.0 => "rises with the cost of a change",
        () if high < 0.0 => "falls where a change costs more",
        () => "is not shown to be related to the cost of a change",
    };
    let metric = text(value, "metric");
    Some(format!("{metric} of the input {word}: ρ {rho:.2}, 95 % {low:.2} to {high:.2}."))
}

/// Notes on layers, each once with the layers concerned.
pub(super) fn notes(layers: &[Value]) -> Vec<String> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for layer in layers {
        for note in layer["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            match found.iter_mut().find(|(known, _)| *known == note) {
                Some((_, names)) => names.push(text(layer, "name")),
                None => found.push((note, vec![text(layer, "name")])),
            }
        }
    }
    let told = |(note, names): (&str, Vec<String>)| match (names.len(), layers.len()) {
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
    use serde_json::json;

    fn layer(name: &str, within: f64, notes: &[&str]) -> Value {
        json!({
            "name": name,
            "metrics": {"nc1_quotient": within, "nc2_etf_err_M": 0.1, "acc_ncc": 0.975},
            "baselines": {
                "random_frames": {"nc2_etf_err_M": 0.8},
                "shuffled_labels": {"nc1_quotient": 40.0},
            },
            "notes": notes,
        })
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
        let mut far = layer("head", 0.01, &[]);
        far["metrics"]["nc2_etf_err_M"] = json!(0.7);
        assert!(of_layers(&[far]).unwrap().contains("partly"));
        let mut alone = layer("head", 0.01, &[]);
        alone["baselines"] = Value::Null;
        let told = of_layers(&[layer("embedding", 0.001, &[]), alone]).unwrap();
        assert!(told.starts_with("head: variance") && !told.contains("collapsed"), "{told}");
        assert!(told.ends_with("Of 2 layers, classes vary least in embedding: 0.00100."), "{told}");
        assert_eq!(of_layers(&[]), None);
    }

    #[test]
    fn a_note_of_many_layers_is_told_once() {
        let names: Vec<String> = (0..31).map(|k| format!("layer {k}")).collect();
        let mut layers: Vec<Value> = names.iter().map(|n| layer(n, 1.0, &["no frame"])).collect();
        assert_eq!(notes(&layers), ["all 31 layers: no frame"]);
        layers[30]["notes"] = json!(["no head"]);
        assert_eq!(
            notes(&layers),
            ["30 of 31 layers, from layer 0: no frame", "layer 30: no head"]
        );
        assert_eq!(notes(&layers[30..]), ["no head"]);
    }

    #[test]
    fn depths_checkpoints_and_relations_are_told_from_end_to_end() {
        let row =
            |depth: u64, value: f64| json!({"depth": depth, "nc1_quotient": value, "gap": value});
        let told = of_depths(&[row(2, 0.5), row(8, 0.25), row(8, 0.75), row(32, 0.125)]).unwrap();
        assert!(told.starts_with("From depth 2 to 32, NC1 goes from 0.500 to 0.125"), "{told}");
        assert_eq!(of_depths(&[row(2, 0.5)]), None);
        let row = |checkpoint: &str, layer: &str, value: f64| json!({"checkpoint": checkpoint, "layer": layer, "metrics": {"nc1_quotient": value}});
        let rows = [row("a", "0", 9.0), row("a", "1", 2.0), row("b", "0", 8.0), row("b", "1", 0.5)];
        let told = of_checkpoints(&rows).unwrap();
        assert!(told.starts_with("1: variance") && told.contains("2.00"), "{told}");
        assert!(told.ends_with("to 0.500 in b."), "{told}");
        let relation = |low: f64, high: f64| {
            let value =
                json!({"metric": "cdnv_mean", "all": {"rho": 0.5, "interval": [low, high]}});
            of_relation(&value).unwrap()
        };
        assert!(relation(0.1, 0.8).starts_with("cdnv_mean of the input rises with"));
        assert!(relation(-0.1, 0.8).contains("is not shown"));
    }
}
