//! Gradients of a small network and their scores, end to end.

use super::{Case, cases, pipeline};
use crate::capture::gradients;
use crate::{Curvature, Damping, ExampleBatch, GradientMap, LayerShape, Reduction, shape_of};
use linwright_nets::{Batch, Net, NetError, NetSpec};
use linwright_ops::LinearSlot;
use linwright_tensor::Mat;

/// The network of a case, whose tensors have this prefix: two linear layers and tanh; the second
/// one may have no bias.
pub(super) fn network(case: &Case, places: usize, prefix: &str) -> Net {
    let bias = case.tensors.contains_key(&format!("{prefix}.fc2.bias"));
    let text = format!(
        "{{input: {{channels: 11, height: {places}}}, layers: [{{linear: {{name: fc1, out: 9}}}}, tanh, {{linear: {{name: fc2, out: 4, bias: {bias}}}}}]}}"
    );
    let spec: NetSpec = serde_saphyr::from_str(&text).expect("a description");
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

/// Checks numbers within a tolerance relative to the largest expected one.
#[track_caller]
pub(super) fn check(case: &Case, found: &[f64], name: &str, tolerance: &str) {
    let tolerance = &case.about["tolerance"][tolerance]["rel_to_max"];
    let tolerance = tolerance.as_f64().expect("a tolerance");
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
        for kind in ["identity", "mask", "logra", "factgrass"] {
            let size = case.rows(&format!("{kind}.train_grads")).cols() / 2;
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
            let [found, own] = scores(&case, kind, &map, None);
            check(&case, &found, &format!("{kind}.score_identity"), "score_d0p1_d10");
            check(&case, &own, &format!("{kind}.self_identity"), "score_d0p1_d10");
            for (name, damping) in [("dnone", 1e-5), ("d0p1", 0.1), ("d10", 10.0)] {
                let [found, own] = scores(&case, kind, &map, Some(Damping::Relative(damping)));
                let in_f64 = format!("{kind}.score_efim_{name}_f64");
                check(&case, &found, &in_f64, "score_f64");
                if name != "dnone" {
                    let score = format!("{kind}.score_efim_{name}");
                    check(&case, &found, &score, "score_d0p1_d10");
                    check(&case, &own, &format!("{kind}.self_efim_{name}"), "score_d0p1_d10");
                }
            }
        }
    }
}

#[test]
fn damped_inverses_are_those_of_the_reference() {
    for case in cases("inverse") {
        for (matrix, inverse, damping) in [
            ("full", "full_inv_none", 1e-5),
            ("full", "full_inv_0p1", 0.1),
            ("low", "low_inv_0p1", 0.1),
            ("low", "low_inv_1", 1.0),
        ] {
            let matrix = case.rows(matrix).cast::<f64>();
            let size = matrix.rows();
            let fisher = Curvature::of_sum("layer", matrix, 1).expect("a curvature");
            let mut found = Mat::identity(size);
            fisher.precondition(&mut found, Damping::Relative(damping)).expect("damped");
            case.check(found.cast::<f32>().data(), inverse);
        }
    }
}
