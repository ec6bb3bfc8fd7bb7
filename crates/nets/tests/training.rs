//! Training by the one loop.

use linwright_nets::{
    Labelled, Loss, Net, NetError, NetSpec, NetTraining, Scores, Targets, TensorUse, TrainingPlan,
    score,
};
use linwright_ops::{CrossEntropy, OutputLoss};
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey, parallel};
use linwright_train::{
    Checkpoint, Control, Curve, Gradient, Optimizer, OptimizerSettings, Problem, Progress, Rules,
    Schedule, Slice, TrainError, TrainSettings, train,
};

fn spec(layers: &str) -> NetSpec {
    serde_saphyr::from_str(&format!("{{input: {{channels: 2}}, layers: {layers}}}")).expect("reads")
}

const DEEP: &str = "[{linear: {name: a, out: 24}}, {batch_norm: {name: n}}, relu, {dropout: {share: 0.1}}, {linear: {name: b, out: 2}}]";

/// Points whose class is the sign of the product of their coordinates.
fn points(seed: u64) -> Labelled {
    let rows = Mat::from_vec(300, 2, RngKey::new(seed).stream().normals(600, 1.0));
    let class = |i| u32::from(rows.at(i, 0) * rows.at(i, 1) > 0.0);
    let classes = (0..300).map(class).collect();
    Labelled::new(rows, 1, Targets::Classes(classes)).expect("suits")
}

struct StopAt {
    limit: u64,
    done: u64,
}

impl StopAt {
    fn step(limit: u64) -> Self {
        Self { limit, done: 0 }
    }
}

impl Control for StopAt {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.done = progress.step;
    }

    fn interrupted(&self) -> bool {
        self.done >= self.limit
    }
}

fn settings(steps: u64) -> TrainSettings {
    TrainSettings {
        name: "net".into(),
        steps,
        schedule: Schedule { peak: 0.02, warmup: 5, floor: 1e-3 },
        optimizer: OptimizerSettings::default(),
        validate_every: 20,
        keep_best: true,
        divergence_factor: 10.0,
        rules: Rules::default(),
    }
}

fn plan(loss: Loss) -> TrainingPlan {
    TrainingPlan { loss, batch: 64, key: RngKey::new(9) }
}

/// Trains until a step; the network and its curve.
fn trained(
    net: &mut Net,
    loss: Loss,
    checkpoint: Option<&Checkpoint>,
    until: u64,
) -> Result<Curve, TrainError> {
    let (training, validation) = (points(1), points(2));
    let mut problem =
        NetTraining::new(net, &training, &validation, plan(loss)).expect("suits the network");
    let stop = &mut StopAt::step(until);
    train(&mut problem, &settings(120), checkpoint, stop).map(|outcome| outcome.curve)
}

fn scored(net: &Net) -> Scores {
    score(net, &points(3), &mut Silent).expect("scores")
}

#[test]
fn networks_learn_with_either_loss() {
    for loss in [Loss::CrossEntropy, Loss::SquaredError] {
        let mut net = Net::random(&spec(DEEP), RngKey::new(1)).expect("is random");
        let before = scored(&net);
        let curve = trained(&mut net, loss, None, u64::MAX).expect("trains");
        let after = scored(&net);
        let accuracy = after.accuracy.expect("classes");
        assert!(accuracy.value > 0.9, "{loss:?}: {after:?} after {before:?}");
        assert!(accuracy.stderr > 0.0 && accuracy.stderr < 0.02 && after.examples == 300);
        assert!(curve[curve.len() - 1].validation < 0.5 * curve[0].validation, "{curve:?}");
    }
}

#[test]
fn a_resumed_training_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("net.ckpt");
    let checkpoint = Checkpoint { path, every: 1000, fingerprint: "net".into() };
    let start = Net::random(&spec(DEEP), RngKey::new(1)).expect("is random");
    let (mut whole, mut first, mut second) = (start.clone(), start.clone(), start);
    let expected = trained(&mut whole, Loss::CrossEntropy, None, u64::MAX).expect("trains");
    let stopped = trained(&mut first, Loss::CrossEntropy, Some(&checkpoint), 50);
    assert!(matches!(stopped, Err(TrainError::Interrupted { step: 50, .. })), "{stopped:?}");
    let curve =
        trained(&mut second, Loss::CrossEntropy, Some(&checkpoint), u64::MAX).expect("goes on");
    assert_eq!(curve, expected);
    let mut compared = 0;
    for (a, b) in whole.tensors_mut().into_iter().zip(second.tensors_mut()) {
        assert_eq!(a.values, b.values, "{}", a.name);
        compared += 1;
    }
    assert_eq!(compared, 8, "two linear layers, scale and shift, and two statistics");
}

#[test]
fn values_are_fitted_by_squared_error() {
    let rows = Mat::from_vec(200, 2, RngKey::new(5).stream().normals(400, 1.0));
    let wanted = Mat::from_fn(200, 1, |i, _| 3.0 * rows.at(i, 0) - rows.at(i, 1) + 1.0);
    let examples = Labelled::new(rows, 1, Targets::Values(wanted)).expect("suits");
    let mut net = Net::random(&spec("[{linear: {name: a, out: 1}}]"), RngKey::new(1)).expect("is");
    let mut problem =
        NetTraining::new(&mut net, &examples, &examples, plan(Loss::SquaredError)).expect("suits");
    let mut settings = settings(400);
    settings.schedule.peak = 0.1;
    train(&mut problem, &settings, None, &mut StopAt::step(u64::MAX)).expect("trains");
    let mut found = Vec::new();
    net.tensors_mut().into_iter().for_each(|tensor| found.extend(tensor.values.to_vec()));
    for (found, want) in found.iter().zip([3.0, -1.0, 1.0]) {
        assert!((found - want).abs() < 0.01, "{found} is not {want}");
    }
    let scores = score(&net, &examples, &mut Silent).expect("scores");
    assert!(scores.loss.value < 1e-4 && scores.accuracy.is_none(), "{scores:?}");
}

#[test]
fn examples_that_do_not_suit_are_refused_by_name() {
    let net = Net::random(&spec(DEEP), RngKey::new(1)).expect("is random");
    let classes = |classes: &[u32]| Targets::Classes(classes.to_vec());
    let new = |numbers: &[f32], targets| {
        Labelled::new(Mat::from_vec(2, numbers.len() / 2, numbers.to_vec()), 1, targets)
    };
    let check = |examples: Result<Labelled, NetError>| examples.and_then(|e| e.check(&net));
    for (found, expected) in [
        (check(new(&[0.0, 1.0, f32::NAN, 0.0], classes(&[0, 1]))), "example 1 has NaN at place 0"),
        (check(new(&[0.0; 4], classes(&[0]))), "2 rows of 2 numbers for 1 targets"),
        (check(new(&[0.0; 4], classes(&[]))), "at least one"),
        (check(new(&[0.0; 6], classes(&[0, 1]))), "expected 1 x 1 places of 2 channels"),
        (check(new(&[0.0; 4], classes(&[0, 2]))), "a label of 2; expected below 2"),
        (check(new(&[0.0; 4], Targets::Values(Mat::zeros(2, 3)))), "3 numbers for each example"),
    ] {
        let error = found.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut net = net;
    let values = new(&[0.0; 4], Targets::Values(Mat::zeros(2, 2))).expect("suits");
    let error = NetTraining::new(&mut net, &values, &values, plan(Loss::CrossEntropy));
    assert!(error.expect_err("values").to_string().contains("classes, for cross-entropy"));
}

/// A wide network and a batch: the gradient of its first weight is not formed in training.
fn wide() -> (Net, Labelled) {
    let layers = "[{linear: {name: a, out: 700}}, relu, {linear: {name: b, out: 3}}]";
    let text = format!("{{input: {{channels: 800}}, layers: {layers}}}");
    let spec: NetSpec = serde_saphyr::from_str(&text).expect("reads");
    let rows = Mat::from_vec(40, 800, RngKey::new(6).stream().normals(32_000, 1.0));
    let classes = Targets::Classes((0..40).map(|i| i % 3).collect());
    let examples = Labelled::new(rows, 1, classes).expect("suits");
    (Net::random(&spec, RngKey::new(1)).expect("is random"), examples)
}

/// All numbers after three updates.
fn updated(mut update: impl FnMut(&mut Net, &Labelled, &mut Optimizer, u64)) -> Vec<f32> {
    let ((mut net, examples), mut optimizer) = (wide(), Optimizer::default());
    (1..4).for_each(|step| update(&mut net, &examples, &mut optimizer, step));
    net.tensors_mut().into_iter().flat_map(|tensor| tensor.values.to_vec()).collect()
}

#[test]
fn a_gradient_that_is_not_formed_updates_as_one_that_is_whatever_the_threads() {
    let settings = OptimizerSettings { weight_decay: 0.1, ..OptimizerSettings::default() };
    let trained = |threads| {
        let run = || {
            updated(|net, examples, optimizer, step| {
                let plan = TrainingPlan { batch: 40, ..plan(Loss::CrossEntropy) };
                let mut problem =
                    NetTraining::new(net, examples, examples, plan).expect("suits the network");
                problem.step(step).expect("runs");
                let slices = problem.slices();
                let first = &slices[0].gradient;
                assert!(matches!(first, Gradient::Product { .. }), "{first:?}");
                optimizer.update(&settings, 0.01, step, slices);
            })
        };
        parallel::with_threads(threads, run).expect("threads")
    };
    let (one, two) = (trained(1), trained(2));
    assert_eq!(one, two);
    let formed = updated(|net, examples, optimizer, step| {
        let all: Vec<u32> = (0..40).collect();
        let (mut y, passed) = net.pass(&examples.batch(&all), Some(RngKey::new(0))).expect("runs");
        let Targets::Classes(classes) = examples.targets() else { panic!("classes") };
        CrossEntropy::mean(classes).of_rows(0, y.view_mut());
        let (mut gradients, _) = net.gradients(passed, y);
        let tensors = net.tensors_mut().into_iter().zip(&mut gradients);
        let slices = tensors.map(|(tensor, gradient)| Slice {
            decay: tensor.purpose == TensorUse::Weight,
            name: tensor.name,
            values: tensor.values,
            gradient: gradient.as_mut_slice().into(),
        });
        optimizer.update(&settings, 0.01, step, slices.collect());
    });
    let far = one.iter().zip(&formed).filter(|(a, b)| (*a - *b).abs() > 1e-3).count();
    // The first updates of Adam have the sign of gradients, some of which are rounding errors.
    assert!(far * 10_000 < one.len(), "{far} of {} numbers differ", one.len());
}
