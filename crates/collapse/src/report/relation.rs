//! Collapse of inputs against the cost of changed layers.

use super::{number, paragraph, verdict};
use crate::relation::{Correlation, Group, Relation};
use linwright_report::{Block, Document, Table};

/// The report of the relation of a metric and the cost of groups of changes.
#[must_use]
pub fn of_relation(metric: &str, groups: &[Group], relation: &Relation) -> Document {
    let mut blocks = Vec::from_iter(verdict::of_relation(metric, &relation.all).map(paragraph));
    let tables = [correlations(metric, groups, relation), layers(groups)];
    blocks.extend(tables.map(Block::Table));
    super::titled("relate", blocks)
}

/// Correlations of all, of each model and of each group.
fn correlations(metric: &str, groups: &[Group], relation: &Relation) -> Table {
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
    let of_group = groups.iter().zip(&relation.groups).map(|(group, correlation)| {
        let layers = group.layers.len().to_string();
        row([group.model.clone(), group.change.clone(), layers], correlation)
    });
    let of_model = relation.models.iter().map(|(name, correlation)| {
        row([name.clone(), "mean of its changes".into(), String::new()], correlation)
    });
    let all = row(["all".into(), "mean of all".into(), String::new()], &relation.all);
    let rows = std::iter::once(all).chain(of_model).chain(of_group);
    let title = format!("{metric} of the input against cost, rank correlation");
    Table::new(&title, columns).with(rows)
}

fn row(first: [String; 3], correlation: &Correlation) -> Vec<String> {
    let decimals = |value: Option<f64>| {
        let value = value.filter(|value| value.is_finite());
        value.map_or("-".into(), |value| format!("{value:.2}"))
    };
    let range =
        |[low, high]: [f64; 2]| format!("{} to {}", decimals(Some(low)), decimals(Some(high)));
    let rest = [
        decimals(Some(correlation.rho)),
        correlation.interval.map_or("-".into(), range),
        range(correlation.random_order),
        format!("{:.4}", correlation.p),
        decimals(correlation.permuted_classes),
        decimals(Some(correlation.layer_number)),
        decimals(correlation.beyond_layer_number),
    ];
    first.into_iter().chain(rest).collect()
}

/// Metric and cost of each layer of each group.
fn layers(groups: &[Group]) -> Table {
    let columns = [("model", false), ("change", false), ("layer", true)].into_iter();
    let columns = columns.chain(["metric", "permuted classes", "cost"].map(|head| (head, true)));
    let rows = groups.iter().flat_map(|group| {
        group.layers.iter().enumerate().map(move |(at, layer)| {
            let numbers = [&group.metric, &group.permuted, &group.cost];
            let cells = numbers.map(|values| number(values.get(at).copied()));
            let named = [group.model.clone(), group.change.clone(), layer.to_string()];
            named.into_iter().chain(cells).collect()
        })
    });
    Table::new("Layers", columns.collect::<Vec<_>>()).with(rows)
}
