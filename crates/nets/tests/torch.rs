//! Small networks against PyTorch, in `testdata/parity/nets`: outputs, gradients, statistics and
//! trainings. `tools/parity/nets.py` makes them and says what their tensors are.

#[path = "../../ops/tests/golden.rs"]
mod sets;

use linwright_nets::{Batch, Net, NetSpec, Passed, TensorUse};
use linwright_ops::{CrossEntropy, OutputLoss, SquaredError};
use linwright_tensor::{Mat, RngKey, Scalar};
use linwright_train::{Optimizer, OptimizerKind, OptimizerSettings, Slice};
use sets::{Case, Set, sets_in};
use std::path::Path;

/// Largest difference in single precision, relative to the largest number.
const SINGLE: f64 = 1e-5;

/// The same after a training, where differences of gradients add up.
const TRAINED: f64 = 1e-4;

/// Part of the largest gradient of a pass to which gradients are compared at least: some are zero
/// but for rounding, such as that of a bias of keys, which adds the same to all scores of a query.
const LEAST: f64 = 1e-2;

/// Gradients of one tensor.
struct Gradient<T> {
    name: String,
    purpose: TensorUse,
    values: Vec<T>,
}

fn build<T: Scalar>(case: &Case<'_>) -> Net<T> {
    let net = case.what["net"].clone();
    let spec: NetSpec =
        serde_json::from_value(net).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let built = Net::build(&spec, |name, shape| {
        let tensor = case.tensor(&format!("tensor.{name}"));
        assert_eq!(tensor.shape, shape, "{}: shape of {name}", case.name);
        Ok(cast(&tensor.values))
    });
    built.unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

fn forward<T: Scalar>(
    case: &Case<'_>,
    net: &Net<T>,
    batch: &Batch<T>,
    training: bool,
) -> (Mat<T>, Passed<T>) {
    let key = training.then(|| RngKey::new(0));
    net.pass(batch, key).unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

fn back<T: Scalar>(net: &mut Net<T>, passed: Passed<T>, dy: Mat<T>) -> (Vec<Gradient<T>>, Mat<T>) {
    let (all, dx) = net.gradients(passed, dy);
    let tensors = net.tensors_mut().into_iter().zip(all);
    let named = tensors.map(|(tensor, values)| Gradient {
        name: tensor.name,
        purpose: tensor.purpose,
        values,
    });
    (named.collect(), dx)
}

fn cast<T: Scalar>(values: &[f64]) -> Vec<T> {
    values.iter().map(|v| T::from_f64(*v)).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, v| most.max(v.abs()))
}

/// The batch `index` of a case.
fn batch<T: Scalar>(case: &Case<'_>, index: usize, batches: usize) -> Batch<T> {
    let rows: Mat<T> = case.tensor("x").rows().cast();
    let each = rows.rows() / batches;
    let rows = rows.view().rows_range(index * each, each).to_mat();
    Batch { rows, examples: case.count("examples") }
}

/// The loss of a case and its gradient, for the batch `index`.
fn loss(case: &Case<'_>, y: &Mat<f32>, index: usize) -> (f64, Mat<f32>) {
    let (mut dy, rows) = (y.clone(), y.rows());
    let targets = &case.tensor("targets").values;
    let total = match case.what["loss"]["kind"].as_str() {
        Some("cross_entropy") => {
            let targets: Vec<u32> = targets.iter().map(|v| *v as u32).collect();
            let targets = &targets[index * rows..(index + 1) * rows];
            CrossEntropy::mean(targets).of_rows(0, dy.view_mut())
        }
        Some("squared_error") => {
            let targets: Vec<f32> = cast(targets);
            let each = rows * y.cols();
            let targets = &targets[index * each..(index + 1) * each];
            SquaredError { targets, weight: 1.0 / rows as f32 }.of_rows(0, dy.view_mut())
        }
        other => panic!("{}: loss {other:?}", case.name),
    };
    (total, dy)
}

impl Case<'_> {
    /// Compares numbers relative to the largest one, and to `least` at least.
    #[track_caller]
    fn near<T: Scalar>(&self, what: &str, found: &[T], tolerance: f64, least: f64) {
        let (found, want): (Vec<f64>, _) =
            (found.iter().map(|v| v.to_f64()).collect(), &self.tensor(what).values);
        let allowed = tolerance * largest(want).max(least);
        self.compare(what, &found, want, |_| allowed);
    }

    fn tolerance<T>(&self) -> f64 {
        let of_set = self.set.about["tolerance"].as_f64().expect("a tolerance");
        if size_of::<T>() == 4 { SINGLE } else { of_set }
    }

    /// Number of tensors whose names start so.
    fn given(&self, start: &str) -> usize {
        self.tensors.keys().filter(|key| key.starts_with(start)).count()
    }

    /// The modes of a case with passes.
    fn modes(&self) -> Vec<&str> {
        let modes = self.what["modes"].as_array().expect("modes");
        modes.iter().map(|mode| mode.as_str().expect("a mode")).collect()
    }
}

/// The cases of all sets with passes, or those with trainings.
fn each(trained: bool, mut check: impl FnMut(&Case<'_>)) {
    let all: Vec<Set> =
        sets_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/parity/nets"));
    let chosen = |set| Set::cases(set, |_, what| what.get("steps").is_some() == trained);
    let cases: Vec<Case<'_>> = all.iter().flat_map(chosen).collect();
    assert!(!cases.is_empty(), "no case, trained: {trained}");
    cases.iter().for_each(&mut check);
}

fn gradients_agree<T: Scalar>(case: &Case<'_>, mode: &str, net: &mut Net<T>, passed: Passed<T>) {
    let (gradients, dx) = back(net, passed, case.tensor(&format!("{mode}.dy")).rows().cast());
    let tolerance = case.tolerance::<T>();
    case.near(&format!("{mode}.dx"), dx.data(), tolerance, 0.0);
    let start = format!("{mode}.grad.");
    let wanted = case.tensors.iter().filter(|(key, _)| key.starts_with(&start));
    let most = wanted.map(|(_, tensor)| largest(&tensor.values)).fold(0.0, f64::max);
    let mut compared = 0;
    for Gradient { name, purpose, values } in gradients {
        if purpose == TensorUse::Statistic {
            assert!(values.iter().all(|v| *v == T::ZERO), "{}: {name}", case.name);
            continue;
        }
        case.near(&format!("{start}{name}"), &values, tolerance, LEAST * most);
        compared += 1;
    }
    assert_eq!(compared, case.given(&start), "{}: gradients in {mode}", case.name);
}

fn statistics_agree<T: Scalar>(case: &Case<'_>, start: &str, net: &mut Net<T>, tolerance: f64) {
    let mut compared = 0;
    for tensor in net.tensors_mut() {
        if tensor.purpose == TensorUse::Statistic {
            case.near(&format!("{start}{}", tensor.name), tensor.values, tolerance, 0.0);
            compared += 1;
        }
    }
    assert_eq!(compared, case.given(start), "{}: statistics", case.name);
}

fn passes_agree<T: Scalar>() {
    each(false, |case| {
        let batch = batch::<T>(case, 0, 1);
        let mut with_gradients = 0;
        for mode in case.modes() {
            let mut net = build::<T>(case);
            let (y, passed) = forward(case, &net, &batch, mode == "training");
            case.near(&format!("{mode}.y"), y.data(), case.tolerance::<T>(), 0.0);
            if mode == "training" {
                net.learn(&passed);
                statistics_agree(case, "training.after.", &mut net, case.tolerance::<T>());
            }
            if case.what["gradients"].get(mode).is_some() {
                gradients_agree(case, mode, &mut net, passed);
                with_gradients += 1;
            }
        }
        assert!(with_gradients > 0, "{} has no gradients", case.name);
    });
}

#[test]
fn passes_in_double_precision_are_those_of_torch() {
    passes_agree::<f64>();
}

#[test]
fn passes_in_single_precision_are_those_of_torch() {
    passes_agree::<f32>();
}

#[test]
fn losses_and_their_gradients_are_those_of_torch() {
    each(false, |case| {
        for (mode, want) in case.what["gradients"].as_object().expect("modes with losses") {
            let y: Mat<f32> = case.tensor(&format!("{mode}.y")).rows().cast();
            let (found, dy) = loss(case, &y, 0);
            let want = want.as_f64().expect("a loss");
            case.compare("the loss", &[found], &[want], |want| SINGLE * want);
            case.near(&format!("{mode}.dy"), dy.data(), SINGLE, 0.0);
        }
    });
}

/// The settings of a case with a training.
fn settings(case: &Case<'_>) -> OptimizerSettings {
    let beta = |i: usize| case.what["betas"][i].as_f64().expect("a decay of moments");
    OptimizerSettings {
        beta1: beta(0),
        beta2: beta(1),
        epsilon: case.number("eps"),
        weight_decay: case.number("weight_decay"),
        clip_norm: None,
        kind: OptimizerKind::default(),
    }
}

/// One step of the optimiser: weights decay, vectors do not, statistics are not trained.
fn update(
    net: &mut Net,
    gradients: &mut [Gradient<f32>],
    optimise: impl FnOnce(Vec<Slice<'_>>) -> f64,
) {
    let tensors = net.tensors_mut().into_iter().zip(gradients);
    let trained = tensors.filter(|(tensor, _)| tensor.purpose != TensorUse::Statistic);
    let slices = trained.map(|(tensor, gradient)| Slice {
        decay: tensor.purpose == TensorUse::Weight,
        name: tensor.name,
        values: tensor.values,
        gradient: gradient.values.as_mut_slice().into(),
    });
    assert!(optimise(slices.collect()) > 0.0, "a gradient");
}

#[test]
fn trainings_are_those_of_torch() {
    each(true, |case| {
        let (mut net, mut optimizer) = (build::<f32>(case), Optimizer::default());
        let (settings, steps, mut losses) = (settings(case), case.count("steps"), Vec::new());
        for step in 0..steps {
            let (y, passed) = forward(case, &net, &batch(case, step, steps), true);
            let (total, dy) = loss(case, &y, step);
            losses.push(total);
            net.learn(&passed);
            let (mut gradients, _) = back(&mut net, passed, dy);
            update(&mut net, &mut gradients, |slices| {
                optimizer.update(&settings, case.number("lr"), step as u64 + 1, slices)
            });
        }
        case.near("losses", &losses, TRAINED, 0.0);
        let tensors = net.tensors_mut();
        assert_eq!(tensors.len(), case.given("trained."), "{}: tensors", case.name);
        for tensor in tensors {
            case.near(&format!("trained.{}", tensor.name), tensor.values, TRAINED, 0.0);
        }
    });
}
