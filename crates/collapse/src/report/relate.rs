//! Collapse of inputs against the cost of changed layers.

use super::{number, paragraph, text, verdict};
use linwright_report::{Block, Table};
use serde_json::Value;

/// Blocks of a result of `relate`.
pub(super) fn blocks(value: &Value) -> Vec<Block> {
    let groups = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let heads = [
        "model",
        "change",
        "layers",
        "ρ",
        "95 %",
        "random order",
        "p",
        "permuted classes",
        "layer number",
        "beyond it",
    ];
    let columns =
        heads.map(|head| (head, !matches!(head, "model" | "change" | "95 %" | "random order")));
    let of_group = groups.iter().enumerate().map(|(index, group)| {
        let layers = group["layers"].as_array().map_or(0, Vec::len).to_string();
        row([text(group, "model"), text(group, "change"), layers], &value["groups"][index])
    });
    let of_model = value["models"].as_object().into_iter().flatten().map(|(name, found)| {
        row([name.clone(), "mean of its changes".into(), String::new()], found)
    });
    let all = row(["all".into(), "mean of all".into(), String::new()], &value["all"]);
    let rows = std::iter::once(all).chain(of_model).chain(of_group);
    let title = format!("{} of the input against cost, rank correlation", text(value, "metric"));
    let correlations = Table::new(&title, columns).with(rows);
    let columns = [("model", false), ("change", false), ("layer", true)].into_iter();
    let columns = columns.chain(["metric", "permuted classes", "cost"].map(|head| (head, true)));
    let layers = groups.iter().flat_map(|group| {
        let count = group["layers"].as_array().map_or(0, Vec::len);
        (0..count).map(move |i| {
            let named = [text(group, "model"), text(group, "change")].into_iter();
            let keys = ["layers", "metric", "permuted", "cost"];
            named.chain(keys.map(|key| number(&group[key][i]))).collect()
        })
    });
    let layers = Table::new("Layers", columns.collect::<Vec<_>>()).with(layers);
    let mut blocks = Vec::from_iter(verdict::of_relation(value).map(paragraph));
    blocks.extend([correlations, layers].map(Block::Table));
    blocks
}

fn row(first: [String; 3], found: &Value) -> Vec<String> {
    let decimals = |value: &Value| value.as_f64().map_or("-".into(), |value| format!("{value:.2}"));
    let range = |value: &Value| match value.is_array() {
        true => format!("{} to {}", decimals(&value[0]), decimals(&value[1])),
        false => "-".into(),
    };
    let p = found["p"].as_f64().map_or("-".into(), |p| format!("{p:.4}"));
    let rest = [
        decimals(&found["rho"]),
        range(&found["interval"]),
        range(&found["random_order"]),
        p,
        decimals(&found["permuted_classes"]),
        decimals(&found["layer_number"]),
        decimals(&found["beyond_layer_number"]),
    ];
    first.into_iter().chain(rest).collect()
}
