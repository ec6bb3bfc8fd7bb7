//! Gradients of a small network and their scores, end to end.

use super::{Case, cases, least, number, pipeline};
use crate::capture::gradients;
use crate::{Curvature, Damping, ExampleBatch, GradientMap, LayerShape, Reduction, shape_of};
use linwright_nets::{Batch, Net, NetError, NetSpec};
use linwright_ops::LinearSlot;
use linwright_tensor::Mat;
use serde_json::json;

/// Default damping of the reference.
const OWN_DAMPING: f64 = 1e-5;

/// The layers of the network whose tensors have this prefix, in the order of computation.
fn layers_of(case: &Case, prefix: &str) -> Vec<String> {
    let listed = |key: &str| -> Vec<String> {
        let names = case.about[key].as_array().into_iter().flatten();
        names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    };
    let mut order = listed("layer_order");
    // Parameters are weight and bias of one layer after the other.
    let of_parameter = |name: &String| Some(name.strip_suffix(".weight")?.to_owned());
    order.extend(listed("param_order").iter().filter_map(of_parameter));
    if order.is_empty() {
        let weights = case.after(&format!("{prefix}."), 3).into_iter();
        order = weights.filter_map(|name| Some(name.strip_suffix(".weight")?.into())).collect();
    }
    assert!(!order.is_empty(), "{}: no layer of {prefix}", case.name);
    order
}

/// The network of a case, whose tensors have this prefix: linear layers with tanh between them;
/// each may have no bias.
pub(super) fn network(case: &Case, places: usize, prefix: &str) -> Net {
    let names = layers_of(case, prefix);
    let shape = |layer: &str| &case.get(&format!("{prefix}.{layer}.weight")).shape;
    let linear = |layer: &String| {
        let bias = case.tensors.contains_key(&format!("{prefix}.{layer}.bias"));
        json!({"linear": {"name": layer, "out": shape(layer)[0], "bias": bias}})
    };
    let mut layers = Vec::new();
    for name in &names {
        layers.extend((!layers.is_empty()).then(|| json!("tanh")));
        layers.push(linear(name));
    }
    let input = json!({"channels": shape(&names[0])[1], "height": places});
    let spec: NetSpec =
        serde_json::from_value(json!({"input": input, "layers": layers})).expect("a description");
    let tensor = |name: &str, _: &[usize]| -> Result<Vec<f32>, NetError> {
        Ok(case.get(&format!("{prefix}.{name}")).values.iter().map(|value| *value as f32).collect())
    };
    Net::build(&spec, tensor).expect("a network")
}

pub(super) fn batch(case: &Case, of: &str) -> ExampleBatch<Batch> {
    let (rows, shape) = (case.rows(&format!("x_{of}")), &case.get(&format!("x_{of}")).shape);
    let (examples, places) = (shape[0], rows.rows() / shape[0]);
    let spans = (0..examples).map(|i| i * places..(i + 1) * places).collect();
    let targets = case.indices(&format!("y_{of}"));
    ExampleBatch { input: Batch { rows, examples }, targets, spans }
}

/// The tolerance of scores in single precision for this damping, or else the one for all dampings
/// but the default of the reference.
fn tolerance_of(case: &Case, damping: &str) -> f64 {
    let all = case.about["tolerance"].as_object().expect("tolerances");
    let of_scores = || all.iter().filter(|(key, _)| key.starts_with("score_d"));
    let mut named = of_scores().filter(|(key, _)| key.split('_').any(|name| name == damping));
    let mut others = of_scores().filter(|(key, _)| !key.contains("none"));
    let found = named.next().or_else(|| others.next());
    let found = found.and_then(|(_, value)| value["rel_to_max"].as_f64());
    found.unwrap_or_else(|| panic!("{}: no tolerance of {damping}", case.name))
}

/// Checks numbers within a tolerance relative to the largest expected one.
#[track_caller]
pub(super) fn check(case: &Case, found: &[f64], name: &str, tolerance: f64) {
    let expected = &case.get(name).values;
    let most = expected.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        let off = (found - expected).abs();
        assert!(off <= tolerance * most, "{}: {name}: {found}, {expected} of {most}", case.name);
    }
}

fn grads(case: &Case, name: &str, found: &Mat<f32>) {
    let tolerance = &case.about["tolerance"]["grads"];
    let of = |key: &str| tolerance[key].as_f64().expect("a tolerance");
    assert_eq!(found.data().len(), case.get(name).values.len(), "{}: {name}", case.name);
    for (found, expected) in found.data().iter().zip(&case.get(name).values) {
        let off = (f64::from(*found) - expected).abs();
        let allowed = of("atol") + of("rtol") * expected.abs();
        assert!(off <= allowed, "{}: {name}: {found}, {expected}", case.name);
    }
}

/// Scores (examples, queries) and self-scores of the stored gradients, summed over layers.
fn scores(case: &Case, kind: &str, map: &GradientMap, damping: Option<Damping>) -> [Vec<f64>; 2] {
    let of = |name: &str| case.rows(&format!("{kind}.{name}_grads")).cast::<f64>();
    let (train, test) = (of("train"), of("test"));
    let mut sums = Mat::zeros(train.rows(), test.rows());
    let mut own = vec![0.0; train.rows()];
    for layer in map.layers() {
        let part =
            |all: &Mat<f64>| all.view().columns(layer.columns.start, layer.columns.len()).to_mat();
        let (rows, mut queries, mut conditioned) = (part(&train), part(&test), part(&train));
        if let Some(damping) = damping {
            let fisher = Curvature::of_rows(&layer.site.0, rows.clone()).expect("a curvature");
            fisher.precondition(&mut queries, damping).expect("damped");
            fisher.precondition(&mut conditioned, damping).expect("damped");
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (i, own) in own.iter_mut().enumerate() {
            for q in 0..queries.rows() {
                *sums.at_mut(i, q) += dot(rows.row(i), queries.row(q));
            }
            *own += dot(rows.row(i), conditioned.row(i));
        }
    }
    [sums.into_vec(), own]
}

#[test]
fn gradients_and_scores_are_those_of_the_reference() {
    for case in cases("attr_mlp").into_iter().chain(cases("attr_seq")) {
        let train = batch(&case, "train");
        let net = network(&case, train.spans[0].len(), "w");
        for kind in case.before(".train_grads", 4) {
            let layers = layers_of(&case, "w").len();
            let size = case.rows(&format!("{kind}.train_grads")).cols() / layers;
            let build = |slot: &LinearSlot| {
                let shape: LayerShape = shape_of(slot);
                Ok(pipeline(&case, kind, &slot.id().0, shape, size))
            };
            let map = GradientMap::of(&net, &|_| true, &build).expect("maps");
            for of in ["train", "test"] {
                let batch = batch(&case, of);
                let found = gradients(&net, &map, &batch, Reduction::Mean, 0).expect("gradients");
                grads(&case, &format!("{kind}.{of}_grads"), &found.rows);
            }
            scores_are_those_of_the_reference(&case, kind, &map);
        }
    }
}

fn scores_are_those_of_the_reference(case: &Case, kind: &str, map: &GradientMap) {
    let [found, own] = scores(case, kind, map, None);
    let tolerance = tolerance_of(case, "none");
    check(case, &found, &format!("{kind}.score_identity"), tolerance);
    check(case, &own, &format!("{kind}.self_identity"), tolerance);
    let start = format!("{kind}.score_efim_");
    let in_f64 = case.about["tolerance"]["score_f64"]["rel_to_max"].as_f64().expect("a tolerance");
    for name in case.after(&start, 6).into_iter().filter(|name| !name.ends_with("_f64")) {
        let damping = number(name.strip_prefix('d').expect("a damping"));
        let relative = Damping::Relative(damping.unwrap_or(OWN_DAMPING));
        let [found, own] = scores(case, kind, map, Some(relative));
        check(case, &found, &format!("{start}{name}_f64"), in_f64);
        // Single precision is no reference for a nearly singular matrix.
        if damping.is_some() {
            let tolerance = tolerance_of(case, name);
            check(case, &found, &format!("{start}{name}"), tolerance);
            check(case, &own, &format!("{kind}.self_efim_{name}"), tolerance);
        }
    }
}

#[test]
fn damped_inverses_are_those_of_the_reference() {
    for case in cases("inverse") {
        let inverses = case.tensors.keys().filter_map(|name| name.split_once("_inv_"));
        assert!(inverses.clone().count() >= least(4, 1), "{}: too few inverses", case.name);
        for (name, text) in inverses {
            let damping = number(text).unwrap_or(OWN_DAMPING);
            let (matrix, inverse) = (case.rows(name).cast::<f64>(), format!("{name}_inv_{text}"));
            let size = matrix.rows();
            let fisher = Curvature::of_sum("layer", matrix, 1).expect("a curvature");
            let mut found = Mat::identity(size);
            fisher.precondition(&mut found, Damping::Relative(damping)).expect("damped");
            case.check(found.cast::<f32>().data(), &inverse);
        }
    }
}
