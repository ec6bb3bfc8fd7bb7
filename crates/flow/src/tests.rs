//! Laws of whole flows.

use crate::{Extent, Flow, FlowError, FlowExamples, FlowPlan, FlowSpec, FlowTraining, MIX_KINDS};
use crate::{MixSpec, SqueezeOrder, Values, score_flow};
use linwright_data::images::{ImageShape, Images, Pixels};
use linwright_files::NpzArray;
use linwright_ops::Workspace;
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey, Scalar, linalg, parallel};
use linwright_train::{
    Checkpoint, Control, OptimizerSettings, Progress, Rules, Schedule, TrainError, TrainSettings,
    train,
};
use std::f64::consts::{LN_2, PI};
use std::fs;
use std::path::Path;

fn spec(channels: usize, height: usize, width: usize, layer: &str) -> FlowSpec {
    let (input, layer) = (Extent { channels, height, width }, MixSpec::parse(layer).unwrap());
    FlowSpec { steps: 2, hidden: 4, ..FlowSpec::for_data(input, Values::Numbers, layer) }
}

/// A flow whose numbers are all off their start, so that every part matters.
fn flow<T: Scalar>(spec: &FlowSpec) -> Flow<T> {
    let mut flow = Flow::random(spec, RngKey::new(7)).unwrap();
    for tensor in flow.tensors_mut() {
        let mut stream = RngKey::new(9).fold(&tensor.name).stream();
        tensor.values.iter_mut().for_each(|v| *v += T::from_f64(0.1 * stream.normal()));
    }
    flow
}

fn normal(rows: usize, cols: usize) -> Mat<f64> {
    Mat::from_vec(rows, cols, RngKey::new(2).stream().normals(rows * cols, 0.5))
}

fn encode(flow: &Flow<f64>, x: &Mat<f64>) -> crate::Encoded<f64> {
    flow.encode(x.clone(), &mut Workspace::default()).unwrap()
}

fn nll(flow: &Flow<f64>, x: &Mat<f64>) -> Vec<f64> {
    encode(flow, x).nll()
}

/// Kinds that mix any number of channels.
fn kinds() -> impl Iterator<Item = &'static str> {
    let names = MIX_KINDS.iter().map(|kind| kind.name);
    names.map(|name| if name == "cd" { "cd:2" } else { name })
}

#[test]
fn examples_are_decoded_from_their_latents() {
    for layer in kinds().chain(["cd:3:raw", "cd:1"]) {
        for spec in [spec(1, 8, 16, layer), spec(2, 1, 1, layer)] {
            let spec = FlowSpec { shuffle: true, ..spec };
            let flow = flow::<f64>(&spec);
            let x = normal(3 * spec.input.places(), spec.input.channels);
            let (mut ws, encoded) = (Workspace::default(), encode(&flow, &x));
            let back = flow.decode(&encoded.latents, &mut ws).unwrap();
            let standard = flow.encode_standard(x.clone(), &mut ws).unwrap();
            let other = flow.decode_standard(&standard.latents, &mut ws).unwrap();
            for (way, found) in [("as they are", back), ("standard normal", other)] {
                let most = found.data().iter().zip(x.data()).map(|(a, b)| (a - b).abs());
                let most = most.fold(0.0, f64::max);
                assert!(most < 1e-8, "{layer}, {}, latents {way}: {most}", spec.input);
            }
        }
    }
}

/// The determinant is that of the Jacobian of 12 and 16 numbers, by central differences.
#[test]
fn determinants_are_those_of_the_jacobian() {
    for (spec, squeeze) in [
        (spec(3, 2, 2, "cd:2"), SqueezeOrder::PlaceMajor),
        (spec(1, 4, 4, "plu"), SqueezeOrder::ChannelMajor),
        (spec(3, 2, 2, "woodbury:2"), SqueezeOrder::ChannelMajor),
        (spec(12, 1, 1, "cd:3"), SqueezeOrder::ChannelMajor),
    ] {
        let spec = FlowSpec { squeeze, ..spec };
        let (flow, dims) = (flow::<f64>(&spec), spec.input.numbers());
        let x = normal(spec.input.places(), spec.input.channels);
        let latents = |x: &Mat<f64>| -> Vec<f64> {
            encode(&flow, x).latents.iter().flat_map(|z| z.data().to_vec()).collect()
        };
        let step = 1e-5;
        let mut jacobian = Mat::zeros(dims, dims);
        for j in 0..dims {
            let moved = |by: f64| {
                let mut moved = x.clone();
                moved.data_mut()[j] += by;
                latents(&moved)
            };
            let (up, down) = (moved(step), moved(-step));
            for (i, (up, down)) in up.iter().zip(&down).enumerate() {
                *jacobian.at_mut(i, j) = (up - down) / (2.0 * step);
            }
        }
        let (expected, _) = linalg::log_abs_det(jacobian.view());
        let found = encode(&flow, &x).log_det[0];
        assert!((found - expected).abs() < 1e-6, "{}: {found}, {expected}", spec.layer);
    }
}

#[test]
fn gradients_are_central_differences() {
    for layer in kinds().chain(["cd:3:time", "cd:2:raw"]) {
        let spec = FlowSpec { shuffle: true, ..spec(1, 4, 4, layer) };
        let mut flow = flow::<f64>(&spec);
        let (x, mut ws) = (normal(3 * 16, 1), Workspace::default());
        let mut grads: Vec<Vec<f64>> =
            flow.tensors_mut().iter().map(|tensor| vec![f64::NAN; tensor.values.len()]).collect();
        let loss = flow.loss_and_gradients(x.clone(), &mut grads, &mut ws).unwrap();
        let mean = |flow: &Flow<f64>| nll(flow, &x).iter().sum::<f64>() / (48.0 * LN_2);
        assert!((loss - mean(&flow)).abs() < 1e-12, "{layer}");
        for (k, grads) in grads.iter().enumerate() {
            for i in [0, grads.len() / 2, grads.len().saturating_sub(1)] {
                if i >= grads.len() {
                    continue;
                }
                let mut moved = |by: f64| {
                    flow.tensors_mut()[k].values[i] += by;
                    mean(&flow)
                };
                let step = 1e-5;
                let (up, down) = (moved(step), moved(-2.0 * step));
                moved(step);
                let (expected, name) =
                    ((up - down) / (2.0 * step), flow.tensors_mut()[k].name.clone());
                let off = (grads[i] - expected).abs();
                assert!(off < 1e-7, "{layer}, {name}[{i}]: {}, {expected}", grads[i]);
            }
        }
    }
}

/// The density of a flow of two numbers integrates to one over a grid.
#[test]
fn densities_integrate_to_one() {
    for layer in ["cd:2", "plu", "rotor"] {
        let flow = flow::<f64>(&spec(2, 1, 1, layer));
        let (side, reach) = (400, 12.0);
        let cell = 2.0 * reach / side as f64;
        let at = |k: usize| (k as f64 + 0.5) * cell - reach;
        let x = Mat::from_fn(side * side, 2, |i, c| at(if c == 0 { i / side } else { i % side }));
        let sum: f64 = nll(&flow, &x).iter().map(|nll| (-nll).exp() * cell * cell).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{layer}: {sum}");
    }
}

/// A flow that does nothing but scale: couplings by `sigmoid(2)`, mixes and normalisations as
/// identities. Uniform numbers then have a known mean of their density.
#[test]
fn a_fresh_flow_has_the_bits_of_its_gaussian() {
    let spec = FlowSpec { values: Values::Bytes, ..spec(1, 4, 4, "cd:2") };
    let mut flow: Flow<f64> = Flow::random(&spec, RngKey::new(1)).unwrap();
    for tensor in flow.tensors_mut() {
        if tensor.name.contains(".mix.") {
            tensor.values.fill(0.0);
        }
    }
    // Zero is the sign of positive factors.
    flow.indices_mut().into_iter().for_each(|(_, signs)| signs.fill(0));
    let x = Mat::from_vec(
        64 * 16,
        1,
        (0..64 * 16).map(|k| (f64::from(k) + 0.5) / 1024.0 - 0.5).collect(),
    );
    let found = nll(&flow, &x).iter().sum::<f64>() / 64.0;
    // Both steps scale the same half of the numbers by s; the other half stays.
    assert_eq!((flow.spec().levels, flow.spec().steps), (1, 2));
    let scale = (1.0 / (1.0 + (-2.0_f64).exp())).powi(2);
    let of_number = |f: f64| 0.5 * f * f / 12.0 + 0.5 * (2.0 * PI).ln() - f.ln();
    let expected = 8.0 * (of_number(scale) + of_number(1.0));
    assert!((found - expected).abs() < 0.02, "{found}, {expected}");
}

#[test]
fn batches_may_be_split_and_threads_change_nothing() {
    let spec = spec(3, 8, 8, "cd:2");
    let flow = flow::<f32>(&spec);
    let x: Mat<f32> = normal(6 * 64, 3).cast();
    let run = || {
        let mut own = flow.clone();
        let mut grads: Vec<Vec<f32>> =
            own.tensors_mut().iter().map(|tensor| vec![0.0; tensor.values.len()]).collect();
        let loss = own.loss_and_gradients(x.clone(), &mut grads, &mut Workspace::default());
        (loss.unwrap().to_bits(), grads)
    };
    let one = parallel::with_threads(1, run).unwrap();
    assert_eq!(parallel::with_threads(3, run).unwrap(), one);
    let all = flow.encode(x.clone(), &mut Workspace::default()).unwrap().nll();
    for (k, of_all) in all.iter().enumerate() {
        let part = x.view().rows_range(64 * k, 64).to_mat();
        let nll = flow.encode(part, &mut Workspace::default()).unwrap().nll()[0];
        assert!((nll - of_all).abs() < 1e-3 * nll.abs(), "{k}: {nll}, {of_all}");
    }
}

/// The same mix at every place: places may change theirs before or after.
#[test]
fn mixing_does_not_know_places() {
    let op = MixSpec::parse("cd:2").unwrap().build::<f64>(5, RngKey::new(3)).unwrap();
    let mixing = crate::Mixing::new("mix".into(), op).unwrap();
    let x = normal(12, 5);
    let order = RngKey::new(4).stream().permutation(12);
    let turned = Mat::from_fn(12, 5, |i, c| x.at(order[i] as usize, c));
    let mut ws = Workspace::default();
    let (y, of_turned) =
        (mixing.forward(&x, &mut ws).unwrap(), mixing.forward(&turned, &mut ws).unwrap());
    for (i, from) in order.iter().enumerate() {
        for c in 0..5 {
            let off = (of_turned.at(i, c) - y.at(*from as usize, c)).abs();
            assert!(off < 1e-14, "{i}, {c}");
        }
    }
    let norms = mixing.norms().unwrap();
    assert!((norms.condition - 1.0).abs() < 1e-9 && norms.log_det.abs() < 1e-12, "{norms:?}");
}

/// Wide mixes use the operator's own kernels, with the same results.
#[test]
fn mixes_without_a_matrix_agree_with_the_matrix() {
    for layer in ["cd:2", "cd:3:raw", "butterfly", "woodbury:5"] {
        let n = 128;
        let op = MixSpec::parse(layer).unwrap().build::<f64>(n, RngKey::new(3)).unwrap();
        let dense = op.to_dense().unwrap();
        let mixing = crate::Mixing::new("mix".into(), op).unwrap();
        assert!(n > crate::MOST_FORMED);
        let (x, dy, mut ws) = (normal(7, n), normal(7, n), Workspace::default());
        let y = mixing.forward(&x, &mut ws).unwrap();
        let params = mixing.op().map().params();
        let mut grads: Vec<Vec<f64>> = params.iter().map(|p| vec![0.0; p.values.len()]).collect();
        let [back, dx] = mixing.backward(&y, &dy, 0.5, &mut grads, &mut ws).unwrap();
        for i in 0..7 {
            for j in 0..n {
                let image: f64 = (0..n).map(|k| dense.at(j, k) * x.at(i, k)).sum();
                let of_dy: f64 = (0..n).map(|k| dense.at(k, j) * dy.at(i, k)).sum();
                assert!((y.at(i, j) - image).abs() < 1e-10, "{layer}: y");
                assert!((back.at(i, j) - x.at(i, j)).abs() < 1e-8, "{layer}: x");
                assert!((dx.at(i, j) - of_dy).abs() < 1e-10, "{layer}: dx");
            }
        }
        assert!(grads.iter().flatten().any(|g| *g != 0.0), "{layer}");
    }
}

#[test]
fn singular_and_badly_conditioned_mixes_are_named() {
    let mut flow = flow::<f32>(&spec(4, 1, 1, "cd:2:raw"));
    let x: Mat<f32> = normal(3, 4).cast();
    let mut set = |index: usize, value: f32| {
        let mut tensors = flow.tensors_mut();
        let name = "l0.s1.mix.diagonals";
        let tensor = tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
        tensor.values[index] = value;
        drop(tensors);
        flow.encode(x.clone(), &mut Workspace::default()).map(|_| ())
    };
    let error = set(2, 0.0).unwrap_err().to_string();
    assert!(error.contains("l0.s1.mix") && error.contains("diagonal 0[2] is 0"), "{error}");
    let error = set(2, 1e-9).unwrap_err();
    assert!(matches!(error, FlowError::IllConditioned { .. }), "{error}");
    assert!(error.to_string().contains("l0.s1.mix has condition"), "{error}");
    set(2, 1.0).unwrap();
}

#[test]
fn samples_depend_on_key_and_number_alone() {
    let flow = flow::<f32>(&spec(1, 4, 4, "cd:2"));
    let sample = |range, temperature, key| {
        flow.samples(range, temperature, RngKey::new(key)).unwrap().rows.into_vec()
    };
    let four = sample(0..4, 1.0, 1);
    assert_eq!(sample(2..4, 1.0, 1), four[32..]);
    assert_ne!(sample(0..4, 1.0, 2), four);
    let cold = sample(0..3, 0.0, 1);
    assert_eq!(cold[..16], cold[16..32]);
    assert_eq!(cold, sample(5..8, 0.0, 9), "at temperature zero there is no noise");
    let error = flow.samples(0..1, -1.0, RngKey::new(1)).unwrap_err().to_string();
    assert!(error.contains("temperature is -1"), "{error}");
}

#[test]
fn samples_that_are_not_finite_are_drawn_again() {
    let mut flow = flow::<f32>(&spec(1, 4, 4, "cd:2"));
    let set = |flow: &mut Flow<f32>, deviation: f32| {
        let mut tensors = flow.tensors_mut();
        let tensor = tensors.iter_mut().find(|tensor| tensor.name == "prior.logstd").unwrap();
        tensor.values[0] = deviation;
    };
    let all = |flow: &Flow<f32>| flow.samples(0..64, 1.0, RngKey::new(1));
    assert_eq!(all(&flow).unwrap().redrawn, 0);
    // From some deviation on a few samples overflow, in a layer or at the end, and then all.
    let some = (0..178).find_map(|half| {
        set(&mut flow, half as f32 / 2.0);
        all(&flow).ok().filter(|found| found.redrawn > 0)
    });
    let found = some.expect("some overflow before all do");
    assert!(found.redrawn < 64, "{}", found.redrawn);
    assert!(found.rows.data().iter().all(|x| x.is_finite()));
    let part = flow.samples(50..60, 1.0, RngKey::new(1)).unwrap();
    // Products of other numbers of rows are added in another order: a few roundings of the largest
    // number of a sample.
    let own = found.rows.data()[50 * 16..60 * 16].chunks(16);
    for (a, b) in part.rows.data().chunks(16).zip(own) {
        let allowed = 4.0 * f32::EPSILON * b.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= allowed), "{a:?} and {b:?}");
    }
    set(&mut flow, f32::MAX);
    let error = flow.samples(3..4, 1.0, RngKey::new(1)).unwrap_err();
    assert!(error.to_string().starts_with("sample 3 is not finite in 16 draws: "), "{error}");
    let error = flow.samples(0..1, 0.0, RngKey::new(1)).unwrap_err().to_string();
    assert!(error.starts_with("sample 0 is not finite in 1 draws"), "{error}");
}

#[test]
fn paths_between_examples_end_at_them() {
    let flow = flow::<f32>(&spec(1, 4, 4, "cd:2"));
    let ends: Mat<f32> = normal(32, 1).cast();
    let path = flow.between(&ends, 5).unwrap();
    assert_eq!(path.rows(), 5 * 16);
    let last = path.view().rows_range(4 * 16, 16).to_mat();
    let first = path.view().rows_range(0, 16).to_mat();
    let both = [first.data(), last.data()].concat();
    for (found, want) in both.iter().zip(ends.data()) {
        assert!((found - want).abs() < 1e-4, "{found}, {want}");
    }
    assert!(flow.between(&normal(16, 1).cast(), 5).is_err());
}

struct Quiet {
    /// Interrupts after this many steps.
    most: u64,
    steps: u64,
}

impl Control for Quiet {
    fn progress(&mut self, _progress: &Progress<'_>) {
        self.steps += 1;
    }

    fn interrupted(&self) -> bool {
        self.steps >= self.most
    }
}

fn settings(steps: u64) -> TrainSettings {
    TrainSettings {
        name: "flow".into(),
        steps,
        schedule: Schedule { peak: 1e-2, warmup: 5, floor: 1e-4 },
        optimizer: OptimizerSettings { clip_norm: Some(100.0), ..OptimizerSettings::default() },
        validate_every: steps.div_ceil(3),
        keep_best: true,
        divergence_factor: f64::INFINITY,
        rules: Rules { average: Some(0.9), ..Rules::default() },
    }
}

fn trained(
    name: &str,
    steps: u64,
    checkpoint: Option<&Checkpoint>,
    most: u64,
) -> Result<(Flow, f64, f64), TrainError> {
    let examples = FlowExamples::open(name, None).unwrap();
    let layer = MixSpec::parse("cd:2").unwrap();
    let spec = FlowSpec {
        steps: 4,
        hidden: 16,
        ..FlowSpec::for_data(examples.extent(), examples.values(), layer)
    };
    let mut flow = Flow::random(&spec, RngKey::new(3)).unwrap();
    let plan =
        FlowPlan { training: Vec::new(), held_out: Vec::new(), batch: 64, key: RngKey::new(4) };
    let mut problem = FlowTraining::new(&mut flow, &examples, plan).unwrap();
    let mut control = Quiet { most, steps: 0 };
    let outcome = train(&mut problem, &settings(steps), checkpoint, &mut control)?;
    Ok((flow, outcome.curve[0].validation, outcome.best_loss))
}

#[test]
fn training_learns_points_in_the_plane() {
    for name in ["moons", "circles", "checkerboard"] {
        let (flow, first, best) = trained(name, 120, None, u64::MAX).unwrap();
        assert!(best < first - 0.02, "{name}: {first} to {best} bits per dimension");
        let examples = FlowExamples::open(name, None).unwrap();
        let all: Vec<u32> = (0..500).collect();
        let scores = score_flow(&flow, &examples, &all, (3, RngKey::new(8)), &mut Silent).unwrap();
        assert!((scores.bits_per_dim - best).abs() < 0.2, "{name}: {scores:?}, {best}");
        assert!(scores.stderr > 0.0 && scores.draws == 1, "{scores:?}");
        assert!((scores.nll / (2.0 * LN_2) - scores.bits_per_dim).abs() < 1e-12);
        if let Some(entropy) = examples.entropy() {
            assert!(scores.bits_per_dim > entropy - 3.0 * scores.stderr, "{scores:?}");
        }
    }
}

#[test]
fn an_interrupted_training_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("training");
    let checkpoint = Checkpoint { path, every: 7, fingerprint: "f".into() };
    let (mut whole, ..) = trained("moons", 30, None, u64::MAX).unwrap();
    let stopped = trained("moons", 30, Some(&checkpoint), 17);
    assert!(matches!(stopped, Err(TrainError::Interrupted { step: 17, .. })), "{stopped:?}");
    let (mut resumed, ..) = trained("moons", 30, Some(&checkpoint), u64::MAX).unwrap();
    for (whole, resumed) in whole.tensors_mut().iter().zip(resumed.tensors_mut()) {
        assert_eq!(whole.values, resumed.values, "{}", whole.name);
    }
}

fn images(count: usize, [height, width]: [usize; 2]) -> Images {
    let shape = ImageShape { height, width, channels: 1 };
    let mut stream = RngKey::new(6).stream();
    let pixels = (0..count * shape.numbers())
        .map(|k| (k % width * 8 + stream.below(32)).min(255) as u8)
        .collect();
    Images::new(shape, Pixels::Bytes(pixels), None)
}

#[test]
fn images_are_resized_to_sides_that_halve_and_dequantised() {
    let cases = [([28, 28], [16, 16]), ([8, 8], [8, 8]), ([40, 9], [32, 8]), ([16, 24], [16, 24])];
    for (from, to) in cases {
        let examples = FlowExamples::images(images(3, from), Path::new("a"), None).unwrap();
        let Extent { height, width, .. } = examples.extent();
        assert_eq!([height, width], to);
        let told = examples.notes().concat();
        assert_eq!(told.contains("resized by area"), from != to, "{told}");
        assert_eq!(examples.count(), Some(3));
    }
    let examples = FlowExamples::images(images(2, [8, 8]), Path::new("a"), None).unwrap();
    let bytes = images(2, [8, 8]);
    let Pixels::Bytes(bytes) = bytes.pixels() else { panic!("bytes") };
    let (x, again) =
        (examples.batch(&[1, 0], RngKey::new(1)), examples.batch(&[0], RngKey::new(1)));
    assert_eq!(again.data(), &x.data()[64..], "noise belongs to the example");
    assert_ne!(examples.batch(&[0], RngKey::new(2)), again);
    for (x, byte) in again.data().iter().zip(bytes) {
        let level = (f64::from(*x) + 0.5) * 256.0;
        assert!((f64::from(*byte)..=f64::from(*byte) + 1.0).contains(&level), "{level}, {byte}");
    }
}

#[test]
fn a_flow_of_images_learns_and_is_scored_with_the_error_of_its_noise() {
    let examples = FlowExamples::images(images(40, [8, 8]), Path::new("a"), None).unwrap();
    let layer = MixSpec::parse("cd:2").unwrap();
    let spec = FlowSpec {
        steps: 2,
        hidden: 8,
        ..FlowSpec::for_data(examples.extent(), examples.values(), layer)
    };
    let mut flow = Flow::random(&spec, RngKey::new(3)).unwrap();
    let plan = FlowPlan {
        training: (0..32).collect(),
        held_out: (32..40).collect(),
        batch: 16,
        key: RngKey::new(4),
    };
    let mut problem = FlowTraining::new(&mut flow, &examples, plan).unwrap();
    let mut control = Quiet { most: u64::MAX, steps: 0 };
    let outcome = train(&mut problem, &settings(40), None, &mut control).unwrap();
    let (first, best) = (outcome.curve[0].validation, outcome.best_loss);
    assert!(best < first - 0.1 && best > 3.0 && best < 8.0, "{first} to {best}");
    let all: Vec<u32> = (32..40).collect();
    let scores = score_flow(&flow, &examples, &all, (4, RngKey::new(8)), &mut Silent).unwrap();
    assert!((scores.bits_per_dim - best).abs() < 0.1, "{scores:?}, {best}");
    assert!(scores.stderr > 0.0 && scores.stderr < scores.stderr_examples, "{scores:?}");
    let other = FlowExamples::open("moons", None).unwrap();
    let error = score_flow(&flow, &other, &all, (1, RngKey::new(8)), &mut Silent).unwrap_err();
    let said = "examples of 1 x 1 x 2 numbers in any units; expected examples of 8 x 8 x 1";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn flows_are_saved_and_read_back_whatever_mixes_them() {
    for layer in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flow");
        let spec = FlowSpec { shuffle: true, ..spec(1, 4, 4, layer) };
        let flow = flow::<f32>(&spec);
        let saved = flow.save(&path, false, &[("notes.txt".into(), b"x".to_vec())]).unwrap();
        let back = Flow::open(&path).unwrap();
        assert_eq!((back.flow.spec(), &back.hash), (&spec, &saved.hash), "{layer}");
        let x: Mat<f32> = normal(32, 1).cast();
        let of = |flow: &Flow| flow.encode(x.clone(), &mut Workspace::default()).unwrap().nll();
        assert_eq!(of(&flow), of(&back.flow), "{layer}");
        assert!(Flow::is_saved_at(&path) && !Flow::is_saved_at(dir.path()));
        assert!(flow.save(&path, false, &[]).is_err(), "{layer}: nothing is overwritten");
    }
}

/// Memory for a flow is claimed after the file was found to hold its numbers.
#[test]
fn no_flow_has_fewer_numbers_than_its_description_says() {
    for layer in kinds().chain(["householder:1", "woodbury:1"]) {
        for spec in [spec(1, 8, 8, layer), FlowSpec { hidden: 0, ..spec(8, 1, 1, layer) }] {
            let flow = flow::<f32>(&spec);
            let indices: usize = flow.indices().iter().map(|(_, indices)| indices.len()).sum();
            let (held, least) = (flow.parameters() + indices as u64, spec.least_numbers());
            assert!(least > 0 && least <= held, "{layer}: {least} of {held}");
        }
    }
    let error = MixSpec::parse("dense").unwrap().build::<f32>(2000, RngKey::new(1)).unwrap_err();
    assert!(error.to_string().contains("mixes at most 1024"), "{error}");
}

/// Every damaged file of a flow is an error that names what is wrong.
#[test]
fn damaged_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flow");
    flow::<f32>(&spec(1, 4, 4, "plu")).save(&path, false, &[]).unwrap();
    let (config, model) = (path.join("config.json"), path.join("model.safetensors"));
    let text = fs::read_to_string(&config).unwrap();
    let bytes = fs::read(&model).unwrap();
    let open = |said: &str| {
        let error = Flow::open(&path).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    };
    for (old, new, said) in [
        ("linwright_flow", "linwright_net", "this is not a flow"),
        ("\"version\": 1", "\"version\": 2", "version is 2"),
        ("\"plu\"", "\"plu:3\"", "one option too many"),
        ("\"plu\"", "\"wavelet\"", "no kind"),
        ("\"plu\"", "\"dense\"", "l0.s0.mix.weight"),
        ("\"steps\": 2", "\"steps\": 1", "belongs to no layer"),
        ("\"steps\": 2", "\"steps\": 0", "steps is 0"),
        ("\"hidden\": 4", "\"hidden\": 16384", "holds"),
        ("\"height\": 4", "\"height\": 5", "multiples of"),
        ("\"levels\"", "\"level\"", "level"),
    ] {
        assert!(text.contains(old), "{old}: {text}");
        fs::write(&config, text.replacen(old, new, 1)).unwrap();
        open(said);
    }
    fs::write(&config, &text).unwrap();
    fs::write(&model, &bytes[..bytes.len() / 2]).unwrap();
    open("model.safetensors");
    let mut poisoned = bytes.clone();
    let at = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    poisoned[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&model, &poisoned).unwrap();
    let error = Flow::open(&path).unwrap_err().to_string();
    assert!(error.contains("finite") || error.contains("NaN"), "{error}");
    fs::write(&model, &bytes).unwrap();
    Flow::open(&path).unwrap();
}

#[test]
fn bad_data_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("points.npy");
    let name = file.to_str().unwrap().to_owned();
    let open = |shape: &[usize], numbers: &[f32]| {
        fs::write(&file, NpzArray::file_of(shape, numbers)).unwrap();
        FlowExamples::open(&name, None)
    };
    let good = open(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert_eq!((good.count(), good.extent().channels), (Some(2), 3));
    for (shape, numbers, said) in [
        (vec![4], vec![0.0; 4], "has shape [4]"),
        (vec![4, 1], vec![0.0; 4], "2 to 4096 numbers"),
        (vec![0, 2], vec![], "one or more points"),
        (vec![1, 2], vec![1.0, f32::NAN], "number 1 is NaN"),
    ] {
        let error = open(&shape, &numbers).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("points.npy"), "{error}");
    }
    let whole = NpzArray::file_of(&[2, 2], &[0.0; 4]);
    fs::write(&file, &whole[..whole.len() - 3]).unwrap();
    let error = FlowExamples::open(&name, None).unwrap_err().to_string();
    assert!(error.contains("13 bytes of numbers"), "{error}");
    assert!(FlowExamples::open("/nowhere/images", None).is_err());
    let flow = flow::<f32>(&spec(3, 1, 1, "cd:2"));
    let error = flow.encode(Mat::zeros(4, 2), &mut Workspace::default()).unwrap_err();
    assert!(error.to_string().contains("4 rows of 2 channels"), "{error}");
}
