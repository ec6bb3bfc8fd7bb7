//! Gradients of every kind of layer against finite differences, and those that probes see.

use crate::{Batch, Net, NetSpec, TensorUse};
use linwright_ops::{
    CrossEntropy, Differentiable, ExampleRows, Network, OutputLoss, Probe, Seen, SeenGradient,
    SiteId, Sites,
};
use linwright_tensor::{Mat, RngKey};
use std::collections::BTreeMap;

const KEY: u64 = 7;

fn loss(net: &Net<f64>, batch: &Batch<f64>, direction: &[f64]) -> f64 {
    let (y, _) = net.pass(batch, Some(RngKey::new(KEY))).unwrap();
    y.data().iter().zip(direction).map(|(y, d)| y * d).sum()
}

#[test]
fn gradients_of_every_layer_are_finite_differences() {
    let table = [
        "linear: {name: a, out: 3}",
        "conv: {name: a, out: 3, kernel: 3, stride: 2, padding: 1}",
        "conv: {name: a, out: 3, kernel: 3, padding: 1}",
        "conv: {name: a, out: 5, kernel: 3, padding: 1}",
        "conv: {name: a, out: 2, kernel: 2, bias: false}",
        "conv: {name: a, out: 3, kernel: 1}",
        "relu",
        "gelu",
        "silu",
        "tanh",
        "flatten",
        "batch_norm: {name: a}",
        "layer_norm: {name: a}",
        "layer_norm: {name: a, affine: false}",
        "residual: {layers: [tanh, {linear: {name: a, out: 4}}]}",
        "max_pool: {size: 2}",
        "mean_pool: {size: 2, stride: 1}",
        "attention: {name: a, heads: 2, causal: true}",
        "attention: {name: a, heads: 1, output: false, bias: false}",
        "dropout: {share: 0.5}",
    ];
    for layer in table {
        let layer = if layer.contains(':') { format!("{{{layer}}}") } else { layer.to_owned() };
        let text = format!("input: {{channels: 4, height: 3, width: 2}}\nlayers: [{layer}]");
        let spec: NetSpec = serde_saphyr::from_str(&text).unwrap();
        let mut stream = RngKey::new(1).stream();
        let source = |_: &str, shape: &[usize]| Ok(stream.normals(shape.iter().product(), 0.5));
        let mut net = Net::<f64>::build(&spec, source).unwrap();
        let rows = Mat::from_vec(12, 4, RngKey::new(2).stream().normals(48, 1.0));
        let mut batch = Batch { rows, examples: 2 };
        let (y, passed) = net.pass(&batch, Some(RngKey::new(KEY))).unwrap();
        let direction: Vec<f64> = RngKey::new(3).stream().normals(y.data().len(), 1.0);
        let dy = Mat::from_vec(y.rows(), y.cols(), direction.clone());
        let (gradients, dx) = net.gradients(passed, dy);
        let step = 1e-5;
        for i in 0..48 {
            let mut at = |by: f64| {
                batch.rows.data_mut()[i] += by;
                loss(&net, &batch, &direction)
            };
            let want = (at(step) - at(-2.0 * step)) / (2.0 * step);
            batch.rows.data_mut()[i] += step;
            assert!((want - dx.data()[i]).abs() < 1e-6, "{layer}: input {i}");
        }
        for (tensor, gradient) in gradients.iter().enumerate() {
            for (i, found) in gradient.iter().enumerate() {
                let mut at = |by: f64| {
                    net.tensors_mut()[tensor].values[i] += by;
                    loss(&net, &batch, &direction)
                };
                let want = (at(step) - at(-2.0 * step)) / (2.0 * step);
                net.tensors_mut()[tensor].values[i] += step;
                assert!((want - found).abs() < 1e-6, "{layer}: tensor {tensor}, number {i}");
            }
        }
    }
}

/// Whether a probe sees the patches of a convolution changes nothing but rounding.
#[test]
fn convolutions_agree_where_patches_are_seen() {
    for (out, kernel, stride, padding) in [
        (3, 3, 1, 1),
        (6, 3, 1, 1),
        (2, 2, 1, 0),
        (2, 3, 1, 2),
        (2, 2, 1, 2),
        (3, 3, 2, 1),
        (3, 1, 1, 0),
    ] {
        let text = format!(
            "input: {{channels: 4, height: 5, width: 4}}\nlayers: [{{conv: {{name: a, out: {out}, \
             kernel: {kernel}, stride: {stride}, padding: {padding}}}}}]"
        );
        let spec: NetSpec = serde_saphyr::from_str(&text).unwrap();
        let mut stream = RngKey::new(1).stream();
        let source = |_: &str, shape: &[usize]| Ok(stream.normals(shape.iter().product(), 0.5));
        let net = Net::<f32>::build(&spec, source).unwrap();
        let rows = Mat::from_vec(40, 4, RngKey::new(2).stream().normals(160, 1.0));
        let batch = Batch { rows, examples: 2 };
        let unseen = net.outputs(&batch).unwrap();
        let mut probe = Summing { net: &net, examples: 2, from: 0, sums: BTreeMap::new() };
        let mut state = net.begin(&batch).unwrap();
        net.run_stages(&mut state, &batch, 0..1, &mut probe).unwrap();
        let seen = state.rows;
        assert_eq!((seen.rows(), seen.cols()), (unseen.rows(), unseen.cols()), "{text}");
        let differs = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-5;
        assert!(!seen.data().iter().zip(unseen.data()).any(differs), "{text}");
    }
}

/// Sums `dy xᵀ` over the rows of each example.
struct Summing<'a> {
    net: &'a Net,
    examples: usize,
    from: usize,
    sums: BTreeMap<SiteId, Vec<Mat<f32>>>,
}

impl Probe for Summing<'_> {
    fn wants(&self, _: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _: &SiteId, _: Seen<'_>) {}

    fn wants_gradient(&self, site: &SiteId) -> bool {
        self.net.slot(site).and_then(|slot| slot.layer()) >= Some(self.from)
    }

    fn wants_input_again(&self, _: &SiteId) -> bool {
        true
    }

    fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
        let (x, dy) = (seen.x.expect("was asked for"), seen.dy);
        let mut sums = vec![Mat::zeros(dy.cols(), x.cols()); self.examples];
        for ExampleRows { example, rows } in seen.examples {
            for row in rows.clone() {
                for o in 0..dy.cols() {
                    let sum = sums[*example].row_mut(o).iter_mut().zip(x.row(row));
                    sum.for_each(|(sum, x)| *sum += dy.at(row, o) * x);
                }
            }
        }
        assert!(self.sums.insert(site.clone(), sums).is_none(), "{site} is shown once");
    }
}

const NETS: [&str; 4] = [
    "[{linear: {name: a, out: 6}}, relu, {linear: {name: b, out: 5}}, flatten, {linear: {name: c, out: 3}}]",
    "[{conv: {name: a, out: 3, kernel: 2}}, tanh, {batch_norm: {name: n}}, {mean_pool: {size: 1, stride: 1}}, flatten, {linear: {name: c, out: 3}}]",
    "[{residual: {layers: [{attention: {name: a, heads: 2}}]}}, {layer_norm: {name: n}}, {residual: {layers: [{layer_norm: {name: m}}, {linear: {name: b, out: 4}}, gelu]}}, flatten, {linear: {name: c, out: 3}}]",
    "[{residual: {layers: [{linear: {name: a, out: 4}}, silu, {linear: {name: b, out: 4}}]}}, {layer_norm: {name: n, affine: false}}, {max_pool: {size: 2}}, flatten, {linear: {name: c, out: 3}}]",
];

fn close(a: &[f32], b: &[f32], what: &str) {
    let scale = b.iter().fold(1e-2f32, |most, v| most.max(v.abs()));
    assert_eq!(a.len(), b.len(), "{what}");
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-5 * scale), "{what}: {a:?}, {b:?}");
}

#[test]
fn sums_of_slots_are_gradients_of_weights_and_those_of_each_example_alone() {
    for layers in NETS {
        let text = format!("input: {{channels: 4, height: 3, width: 2}}\nlayers: {layers}");
        let spec: NetSpec = serde_saphyr::from_str(&text).unwrap();
        let mut stream = RngKey::new(1).stream();
        let source = |name: &str, shape: &[usize]| {
            let values: Vec<f32> = stream.normals(shape.iter().product(), 0.5);
            let positive = name.ends_with("running_var");
            Ok(values.into_iter().map(|v| if positive { 1.0 + v.abs() } else { v }).collect())
        };
        let mut net = Net::build(&spec, source).unwrap();
        let rows = Mat::from_vec(12, 4, RngKey::new(2).stream().normals(48, 1.0));
        let batch = Batch { rows, examples: 2 };
        let targets = [2, 0];
        let summed = |net: &Net, batch: &Batch, targets: &[u32], from: usize| {
            let examples = batch.examples;
            let mut probe = Summing { net, examples, from, sums: BTreeMap::new() };
            net.loss_to_slots(batch, &mut CrossEntropy::sum(targets), &mut probe).unwrap();
            probe.sums
        };
        let all = summed(&net, &batch, &targets, 0);
        assert_eq!(all.len(), net.slots().len(), "{layers}");
        for example in 0..2 {
            let rows = batch.rows.view().rows_range(6 * example, 6).to_mat();
            let alone = Batch { rows, examples: 1 };
            for (site, sums) in summed(&net, &alone, &targets[example..=example], 0) {
                close(all[&site][example].data(), sums[0].data(), &format!("{layers}: {site}"));
            }
        }
        let last = summed(&net, &batch, &targets, 1);
        assert!(last.len() < all.len() && last.iter().all(|(site, sums)| sums == &all[site]));
        let (mut y, passed) = net.pass(&batch, None).unwrap();
        CrossEntropy::sum(&targets).of_rows(0, y.view_mut());
        let (gradients, _) = net.gradients(passed, y);
        let mut compared = 0;
        for (tensor, gradient) in net.tensors_mut().into_iter().zip(gradients) {
            let site = SiteId(tensor.name.trim_end_matches(".weight").into());
            if let (TensorUse::Weight, Some(sums)) = (tensor.purpose, all.get(&site)) {
                let total: Vec<f32> =
                    sums[0].data().iter().zip(sums[1].data()).map(|(a, b)| a + b).collect();
                close(&total, &gradient, &tensor.name);
                compared += 1;
            }
        }
        assert_eq!(compared, all.len(), "{layers}");
    }
}

#[test]
fn random_networks_keep_the_size_of_activations_and_differ_by_key() {
    let text = "{input: {channels: 400}, layers: [{linear: {name: a, out: 400}}, relu, {linear: {name: b, out: 400}}, {batch_norm: {name: n}}]}";
    let spec: NetSpec = serde_saphyr::from_str(text).unwrap();
    let rows = Mat::from_vec(50, 400, RngKey::new(2).stream().normals(20_000, 1.0));
    let batch = Batch::<f32> { rows, examples: 50 };
    let output = |seed| {
        let net = Net::random(&spec, RngKey::new(seed)).unwrap();
        net.pass(&batch, None).unwrap().0
    };
    let y = output(1);
    let power = y.data().iter().map(|y| f64::from(*y).powi(2)).sum::<f64>() / 20_000.0;
    // Each linear layer doubles the power, and the activation halves it.
    assert!((1.5..2.7).contains(&power), "{power}");
    assert_eq!(y, output(1));
    assert_ne!(y, output(2));
}
