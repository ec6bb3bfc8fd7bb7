use super::*;
use crate::golden::{least, sets};
use crate::optimum::{Fit, Gufm};
use linwright_run::{Fingerprint, Shard, Store};
use linwright_tensor::{Mat, RngKey};

/// Two evaluations in double precision.
const CLOSE: f64 = 1e-10;

fn spec(architecture: Architecture) -> RefNetSpec {
    RefNetSpec {
        architecture,
        depth: 3,
        width: 6,
        hidden: 9,
        classes: 3,
        tokens: if architecture.is_transformer() { 4 } else { 1 },
        norming: Norming::After,
        norm: 1.5,
    }
}

fn generated(
    classes: usize,
    per_class: usize,
    width: usize,
    tokens: usize,
    seed: u64,
) -> DepthData {
    let sizes = DepthSizes { classes, per_class, width, tokens };
    DepthData::generated(sizes, 1.0, RngKey::new(seed))
}

fn data(spec: &RefNetSpec) -> DepthData {
    generated(spec.classes, 3, spec.width, spec.tokens, 3)
}

#[test]
fn golden_reference_networks() {
    let mut compared = 0;
    for set in sets() {
        let strength = 2.0 * set.penalty();
        let kinds = [("rn1", Architecture::Rn1), ("rn2", Architecture::Rn2)];
        for (name, architecture) in kinds.into_iter().chain([("tx11", Architecture::T11)]) {
            let get = |part: &str| format!("net_{name}.{part}");
            if !set.has(&get("x")) {
                assert_eq!(least(1, 0), 0, "{}: no {name}", set.name);
                continue;
            }
            compared += 1;
            let x = set.rows(&get("x"));
            let labels = set.labels(&get("y"));
            let head = set.rows(&get("p.head"));
            let mut depth = 1;
            let inner = if architecture == Architecture::Rn2 { "W1" } else { "W" };
            while set.has(&get(&format!("p.{}.{inner}", depth - 1))) {
                depth += 1;
            }
            let hidden = set.rows(&get(&format!("p.0.{inner}"))).rows();
            let net = RefNet::new(RefNetSpec {
                architecture,
                depth,
                width: x.cols(),
                hidden,
                classes: head.rows(),
                tokens: x.rows() / labels.len(),
                norming: Norming::After,
                norm: 1.0,
            })
            .expect("a network");
            let mut parameters = vec![0.0; net.numbers()];
            for (part, span) in net.layout() {
                parameters[span].copy_from_slice(set.values(&get(&format!("p.{part}"))));
            }
            for (loss, fit) in [("ce", Fit::CrossEntropy), ("mse", Fit::SquaredError)] {
                let mut gradient = vec![0.0; net.numbers()];
                let penalty = Penalty { blocks: strength, head: strength, biases: true };
                let of = (x.view(), labels.as_slice());
                let (objective, pass) =
                    net.objective(&parameters, of, (fit, penalty), &mut gradient);
                let near = |found: f64, expected: f64, what: &str| {
                    let error = (found - expected).abs();
                    assert!(
                        error < CLOSE * (1.0 + expected.abs()),
                        "{name} {loss} {what}: {error:e}"
                    );
                };
                let all = |found: &[f64], expected: &[f64], what: &str| {
                    assert_eq!(found.len(), expected.len(), "{name} {what}");
                    found.iter().zip(expected).for_each(|(f, e)| near(*f, *e, what));
                };
                all(pass.logits.data(), set.values(&get("logits")), "logits");
                all(pass.features.data(), set.values(&get("feat")), "features");
                near(objective.fit, set.values(&get(&format!("{loss}.fit")))[0], "fit");
                near(objective.total(), set.values(&get(&format!("{loss}.obj")))[0], "objective");
                for (part, span) in net.layout() {
                    all(&gradient[span], set.values(&get(&format!("{loss}.g.{part}"))), part);
                }
            }
        }
    }
    assert!(compared > 0, "no golden set has a network");
}

#[test]
fn gradients_are_those_of_central_differences() {
    for architecture in Architecture::ALL {
        for norming in Norming::ALL {
            for fit in [Fit::CrossEntropy, Fit::SquaredError] {
                let spec = RefNetSpec { norming, ..spec(architecture) };
                let (net, data) = (RefNet::new(spec).expect("a network"), data(&spec));
                let penalty = Penalty { blocks: 0.02, head: 0.03, biases: false };
                let mut at = net.random(RngKey::new(5));
                let value = |at: &[f64], gradient: &mut [f64]| {
                    let of = (data.x.view(), data.labels.as_slice());
                    net.objective(at, of, (fit, penalty), gradient).0.total()
                };
                let mut gradient = vec![0.0; at.len()];
                value(&at, &mut gradient);
                for index in (0..at.len()).step_by(7) {
                    let (step, before) = (1e-5, at[index]);
                    let mut scratch = vec![0.0; at.len()];
                    at[index] = before + step;
                    let up = value(&at, &mut scratch);
                    at[index] = before - step;
                    let down = value(&at, &mut scratch);
                    at[index] = before;
                    let error = ((up - down) / (2.0 * step) - gradient[index]).abs();
                    assert!(
                        error < 1e-7,
                        "{architecture:?} {norming:?} {fit:?} {index}: {error:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn features_have_mean_zero_and_the_norm_and_empty_blocks_leave_the_normalised_input() {
    for architecture in Architecture::ALL {
        let spec = spec(architecture);
        let (net, data) = (RefNet::new(spec).expect("a network"), data(&spec));
        let features = net.forward(&net.random(RngKey::new(1)), data.x.view()).features;
        let empty = net.forward(&vec![0.0; net.numbers()], data.x.view()).features;
        for i in 0..features.rows() {
            let row = features.row(i);
            assert!(row.iter().sum::<f64>().abs() < 1e-12);
            let length: f64 = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!((length - spec.norm).abs() < 1e-10);
            let x = data.x.row((i + 1) * spec.tokens - 1);
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            let scale = spec.norm / x.iter().map(|x| (x - mean).powi(2)).sum::<f64>().sqrt();
            for (found, x) in empty.row(i).iter().zip(x) {
                assert!((found - (x - mean) * scale).abs() < 1e-10);
            }
        }
    }
}

#[test]
fn the_order_of_tokens_before_the_last_changes_nothing() {
    let spec = spec(Architecture::T22);
    let (net, data) = (RefNet::new(spec).expect("a network"), data(&spec));
    let parameters = net.random(RngKey::new(2));
    let turned = Mat::from_fn(data.x.rows(), data.x.cols(), |i, j| {
        let (example, token) = (i / spec.tokens, i % spec.tokens);
        let from = if token + 1 == spec.tokens { token } else { spec.tokens - 2 - token };
        data.x.at(example * spec.tokens + from, j)
    });
    let logits = |x: &Mat<f64>| net.forward(&parameters, x.view()).logits;
    let pairs = logits(&data.x).into_vec().into_iter().zip(logits(&turned).into_vec());
    pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
    assert_ne!(data.x, turned);
}

#[test]
fn scaling_two_maps_leaves_logits_and_changes_the_penalty() {
    let spec = spec(Architecture::Rn2);
    let (net, data) = (RefNet::new(spec).expect("a network"), data(&spec));
    let parameters = net.random(RngKey::new(4));
    let mut scaled = parameters.clone();
    for (name, span) in net.layout() {
        let factor = if name.ends_with("1") { 4.0 } else { 0.25 };
        if name.ends_with("W1") || name.ends_with("b1") || name.ends_with("W2") {
            scaled[span].iter_mut().for_each(|x| *x *= factor);
        }
    }
    let penalty = Penalty { blocks: 0.1, head: 0.1, biases: true };
    let of = (data.x.view(), data.labels.as_slice());
    let mut gradient = vec![0.0; net.numbers()];
    let (plain, a) = net.objective(&parameters, of, (Fit::CrossEntropy, penalty), &mut gradient);
    let (other, b) = net.objective(&scaled, of, (Fit::CrossEntropy, penalty), &mut gradient);
    let pairs = a.logits.data().iter().zip(b.logits.data());
    pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
    assert!((plain.blocks - other.blocks).abs() > 0.1);
}

#[test]
fn deeper_networks_collapse_more_and_stay_above_the_optimum() {
    let data = generated(3, 6, 10, 1, 7);
    let mut plan = DepthPlan {
        architecture: Architecture::Rn1,
        depths: vec![2, 6],
        seeds: 2,
        strength: 0.005,
        rule: StrengthRule::Constant,
        head_strength: None,
        biases: true,
        fit: Fit::CrossEntropy,
        norming: Norming::After,
        norm: 10f64.sqrt(),
        hidden: 10,
        training: TrainingOptions { steps: 250, rate: 0.01, last_share: 0.02 },
    };
    let (store, identity) = (Store::none(), Fingerprint::of(&[]));
    let around = Surroundings {
        progress: &|_, _| {},
        stop: &|| false,
        store: &store,
        identity: &identity,
        shard: Shard::WHOLE,
    };
    let run = |plan: &DepthPlan| match experiment(plan, &data, RngKey::new(1), &around) {
        Ok(DepthOutcome::Complete(found)) => found,
        other => panic!("{other:?}"),
    };
    let found = run(&plan);
    assert_eq!(found.rows.iter().map(|row| row.depth).collect::<Vec<_>>(), [2, 2, 6, 6]);
    let slope = found.nc1_slope.expect("a slope");
    assert!(slope.slope < -0.3, "{slope:?}");
    assert!(slope.interval.is_some_and(|[low, high]| low <= slope.slope && slope.slope <= high));
    for row in &found.rows {
        assert!(row.gap.expect("balanced") > 0.0 && row.accuracy == 1.0, "{row:?}");
        assert_eq!(row.nc1_of_layers.len(), row.depth - 1);
    }
    // The same at any number of threads.
    let one = linwright_tensor::parallel::with_threads(1, || run(&plan)).expect("a thread");
    assert_eq!(one, found);
    plan.rule = StrengthRule::OverDepth;
    plan.depths = vec![4];
    let shrunk = run(&plan);
    assert_eq!(shrunk.rows[0].strength, 0.00125);
    assert!(shrunk.nc1_slope.is_none(), "one depth has no slope");
    let stopped = Surroundings { stop: &|| true, ..around };
    let stopped = experiment(&plan, &data, RngKey::new(1), &stopped);
    assert!(matches!(stopped, Err(crate::CollapseError::Interrupted)));
    let gufm = Gufm { classes: 3, strength: 0.005, norm: 10f64.sqrt(), fit: Fit::CrossEntropy };
    assert!(found.rows[3].objective > gufm.optimum().expect("an optimum").objective);
}

#[test]
fn shares_of_an_experiment_make_the_bits_of_the_whole() {
    let data = generated(3, 4, 6, 1, 3);
    let plan = DepthPlan {
        architecture: Architecture::Rn2,
        depths: vec![2, 3],
        seeds: 3,
        strength: 0.005,
        rule: StrengthRule::Constant,
        head_strength: None,
        biases: true,
        fit: Fit::SquaredError,
        norming: Norming::Before,
        norm: 6f64.sqrt(),
        hidden: 5,
        training: TrainingOptions { steps: 20, ..TrainingOptions::default() },
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (none, kept) = (Store::none(), Store::at(folder.path()));
    let identity = Fingerprint::of(&[("test", &1)]);
    let part = |store: &Store, shard: Shard, stop: &(dyn Fn() -> bool + Sync)| {
        let progress = |_, _| {};
        let identity = &identity;
        let around = Surroundings { progress: &progress, stop, store, identity, shard };
        experiment(&plan, &data, RngKey::new(2), &around)
    };
    let whole = part(&none, Shard::WHOLE, &|| false).expect("trains");
    assert!(matches!(whole, DepthOutcome::Complete(_)));
    let first = part(&kept, Shard::new(1, 4).expect("a shard"), &|| false).expect("trains");
    assert_eq!(first, DepthOutcome::Part { known: 2, total: 6 });
    let alone = part(&none, Shard::new(1, 4).expect("a shard"), &|| false).expect("trains");
    assert_eq!(alone, first);
    let rest = part(&kept, Shard::WHOLE, &|| false).expect("trains");
    assert_eq!(rest, whole);
    // All is known now, so nothing is trained that could be stopped.
    assert_eq!(part(&kept, Shard::WHOLE, &|| true).expect("is known"), whole);
    assert!(part(&none, Shard::WHOLE, &|| true).is_err());
}
