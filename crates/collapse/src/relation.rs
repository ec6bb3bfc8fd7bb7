//! Rank correlations between the collapse of layers and the cost of changing them.
//!
//! ```text
//! ρ_g   Spearman's correlation of a metric of the input of each layer and the cost of changing it
//! ρ     mean of ρ_g over groups: a model with one kind of change each
//! ```
//!
//! Chance: the layers of each model in random order, the same for all of its groups. Interval: the
//! middle 95 % over layers of each model drawn with replacement. Layers of one model are few and
//! not independent, so the interval shows the influence of single layers, not the variation over
//! models.

use crate::CollapseError;
use crate::bootstrap::quantile;
use linwright_run::undefined::or_nan;
use linwright_tensor::RngKey;
use linwright_tensor::correlation::{pearson, ranks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Smallest number of layers for a rank correlation.
const FEWEST: usize = 3;

/// One kind of change in the layers of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The model.
    pub model: String,
    /// What is changed.
    pub change: String,
    /// The layers.
    pub layers: Vec<usize>,
    /// The metric at the input of each layer.
    pub metric: Vec<f64>,
    /// The same with permuted classes; empty if it was not measured.
    pub permuted: Vec<f64>,
    /// The cost of changing each layer.
    pub cost: Vec<f64>,
}

/// A rank correlation with a comparison to chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Spearman's ρ, over groups its mean.
    #[serde(deserialize_with = "or_nan")]
    pub rho: f64,
    /// The middle 95 % over resampled layers.
    pub interval: Option<[f64; 2]>,
    /// The middle 95 % with layers in random order.
    #[serde(deserialize_with = "or_nan")]
    pub random_order: [f64; 2],
    /// Share of random orders that are at least as far from zero.
    pub p: f64,
    /// ρ of the metric with permuted classes.
    pub permuted_classes: Option<f64>,
    /// ρ of the layer number, which needs no metric.
    #[serde(deserialize_with = "or_nan")]
    pub layer_number: f64,
    /// ρ of the metric, with that of the number of the layer removed (partial correlation of
    /// ranks); none if the metric has the order of the layers.
    pub beyond_layer_number: Option<f64>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// Of all groups.
    pub all: Correlation,
    /// Correlations for the groups of each model.
    pub models: BTreeMap<String, Correlation>,
    /// Of each group.
    pub groups: Vec<Correlation>,
}

/// Correlates metric and cost, with the given numbers of random orders and resamples.
///
/// # Errors
/// [`CollapseError::Setting`] for no groups, and for a group of fewer than three layers.
pub fn relation(groups: &[Group], draws: usize, key: RngKey) -> Result<Relation, CollapseError> {
    let fewest = groups.iter().map(|group| group.layers.len()).min().unwrap_or(0);
    if fewest < FEWEST {
        return Err(CollapseError::Setting {
            what: "the number of layers",
            found: fewest.to_string(),
            expected: format!("{FEWEST} or more"),
        });
    }
    let all: Vec<&Group> = groups.iter().collect();
    let mut models: BTreeMap<String, Vec<&Group>> = BTreeMap::new();
    groups.iter().for_each(|group| models.entry(group.model.clone()).or_default().push(group));
    Ok(Relation {
        all: correlation(&all, draws, key),
        models: models
            .into_iter()
            .map(|(name, own)| (name, correlation(&own, draws, key)))
            .collect(),
        groups: groups.iter().map(|group| correlation(&[group], draws, key)).collect(),
    })
}

fn correlation(groups: &[&Group], draws: usize, key: RngKey) -> Correlation {
    let mean = |of: &dyn Fn(&Group) -> f64| {
        let values: Vec<f64> =
            groups.iter().map(|group| of(group)).filter(|value| value.is_finite()).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let rho = mean(&|group| spearman(&group.metric, &group.cost));
    let has_permuted = groups.iter().all(|group| !group.permuted.is_empty());
    // The same draw for all groups of a model, since its layers depend on each other.
    let stream = |name: &str, draw: usize, group: &Group| {
        key.fold(name).fold(&group.model).fold_index(draw as u64).stream()
    };
    let in_random_order = |draw: usize| {
        mean(&|group| {
            let order = stream("order", draw, group).permutation(group.layers.len());
            let moved: Vec<f64> = order.iter().map(|i| group.metric[*i as usize]).collect();
            spearman(&moved, &group.cost)
        })
    };
    let resampled = |draw: usize| {
        mean(&|group| {
            let mut stream = stream("layers", draw, group);
            let count = group.layers.len();
            let drawn: Vec<usize> = (0..count).map(|_| stream.below(count)).collect();
            let of = |values: &[f64]| drawn.iter().map(|i| values[*i]).collect::<Vec<f64>>();
            spearman(&of(&group.metric), &of(&group.cost))
        })
    };
    let orders: Vec<f64> = (0..draws).map(in_random_order).collect();
    // Rounding must not make an order less extreme than itself.
    let extreme = orders.iter().filter(|other| other.abs() >= rho.abs() - 1e-9).count();
    Correlation {
        rho,
        interval: middle((0..draws).map(resampled).collect()),
        random_order: middle(orders).unwrap_or([f64::NAN; 2]),
        p: (extreme + 1) as f64 / (draws + 1) as f64,
        permuted_classes: has_permuted
            .then(|| mean(&|group| spearman(&group.permuted, &group.cost))),
        layer_number: mean(&|group| spearman(&numbers(group), &group.cost)),
        beyond_layer_number: Some(mean(&partial)).filter(|rho| rho.is_finite()),
    }
}

fn numbers(group: &Group) -> Vec<f64> {
    group.layers.iter().map(|layer| *layer as f64).collect()
}

/// `(ρ_mc - ρ_ml ρ_cl) / √((1 - ρ_ml²)(1 - ρ_cl²))` of metric, cost and number of the layer.
fn partial(group: &Group) -> f64 {
    let layers = numbers(group);
    let of_metric = spearman(&group.metric, &layers);
    let of_cost = spearman(&group.cost, &layers);
    let rest = (1.0 - of_metric * of_metric) * (1.0 - of_cost * of_cost);
    match rest > 1e-9 {
        true => (spearman(&group.metric, &group.cost) - of_metric * of_cost) / rest.sqrt(),
        false => f64::NAN,
    }
}

/// The middle 95 % of the defined values.
fn middle(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| [quantile(&values, 0.025), quantile(&values, 0.975)])
}

/// Spearman's correlation; not a number if one side is constant.
fn spearman(a: &[f64], b: &[f64]) -> f64 {
    pearson(&ranks(a), &ranks(b)).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(model: &str, metric: Vec<f64>, cost: Vec<f64>) -> Group {
        let layers = (0..metric.len()).collect();
        let permuted = metric.iter().map(|value| (value * 7.3).sin()).collect();
        Group { model: model.into(), change: "all".into(), layers, metric, permuted, cost }
    }

    #[test]
    fn a_planted_order_is_found_and_noise_is_within_chance() {
        let rising: Vec<f64> = (0..12).map(|i| f64::from(i * i)).collect();
        let cost: Vec<f64> = rising.iter().map(|x| x.sqrt() + 1.0).collect();
        let noise = RngKey::new(3).stream().normals(12, 1.0);
        let found = relation(
            &[group("a", rising.clone(), cost.clone()), group("b", noise, cost)],
            500,
            RngKey::new(1),
        )
        .expect("a relation");
        let (planted, chance) = (&found.models["a"], &found.models["b"]);
        assert!((planted.rho - 1.0).abs() < 1e-12 && planted.p < 0.01, "{planted:?}");
        assert!(planted.random_order[1] < 0.8 && planted.random_order[0] > -0.8);
        assert!(planted.interval.expect("an interval")[0] > 0.9, "{planted:?}");
        let [low, high] = chance.random_order;
        assert!(low < chance.rho && chance.rho < high && chance.p > 0.05, "{chance:?}");
        // The planted metric has the order of the layers, and so says nothing beyond it.
        assert!((planted.layer_number - 1.0).abs() < 1e-12);
        assert_eq!(planted.beyond_layer_number, None);
        let both = (planted.rho + chance.rho) / 2.0;
        assert!((found.all.rho - both).abs() < 1e-12, "{found:?}");
        assert!(found.all.permuted_classes.is_some_and(|rho| rho.abs() < 0.9));
    }

    #[test]
    fn what_a_metric_says_beyond_the_number_of_the_layer_is_told() {
        // Cost follows the metric, and only so far the depth.
        let metric = vec![1.0, 4.0, 2.0, 6.0, 3.0, 5.0, 8.0, 7.0];
        let cost: Vec<f64> = metric.iter().map(|x: &f64| x.exp()).collect();
        let found = relation(&[group("a", metric, cost)], 50, RngKey::new(1)).expect("layers");
        assert!(found.all.layer_number > 0.5 && found.all.layer_number < 0.95, "{found:?}");
        assert!(found.all.beyond_layer_number.expect("a rest") > 0.99, "{found:?}");
    }

    #[test]
    fn few_layers_have_no_correlation() {
        let few = group("a", vec![1.0, 2.0], vec![1.0, 2.0]);
        assert!(relation(&[few], 10, RngKey::new(1)).is_err());
        assert!(relation(&[], 10, RngKey::new(1)).is_err());
    }
}
