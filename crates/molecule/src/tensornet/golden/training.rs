//! Steps of training: losses, gradients by every parameter, and parameters after the steps.

use super::super::{Batch, Precision, TensorNet};
use super::{Set, sets, triples};
use crate::Wanted;
use std::collections::BTreeMap;

/// Rates and decays to try for a set without them.
const RATES: [f64; 9] = [1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2];
const DECAYS: [f64; 2] = [0.0, 0.01];
/// Accuracy to which weights of losses are recovered from gradients.
const ROUNDING: f64 = 1e-9;
/// Prefix of names of parameters, followed by the number of steps.
const AFTER: &str = "train/param_after";

/// Numbers by the name of the parameter.
type Numbers = BTreeMap<String, Vec<f64>>;

/// AdamW as described by a set.
#[derive(Clone, Copy, Debug)]
struct Steps {
    rate: f64,
    decay: f64,
    betas: [f64; 2],
    epsilon: f64,
    clip: f64,
    warmup: f64,
}

/// The steps of a set on one of its systems.
struct Training<'a> {
    set: &'a Set,
    system: &'a str,
    /// Weights of the means of squares of energies and of forces.
    weights: [f64; 2],
}

/// A number of the description of the steps, by any of its names.
fn number(set: &Set, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| set.about["train"][*name].as_f64())
}

impl<'a> Training<'a> {
    fn new(set: &'a Set) -> Self {
        let given = [
            number(set, &["y_weight", "energy_weight", "w_y", "wE"]),
            number(set, &["neg_dy_weight", "force_weight", "w_neg_dy", "wF"]),
        ];
        let mut training = Self { set, system: system_of(set), weights: [1.0; 2] };
        training.weights = match given {
            [Some(y), Some(neg_dy)] => [y, neg_dy],
            _ => training.fitted_weights(),
        };
        training
    }

    fn label(&self, key: &str) -> &[f64] {
        self.set.need("train", key)
    }

    /// The loss, with its gradients by energies and by forces.
    fn loss(&self, model: &TensorNet<f64>, batch: &Batch) -> (f64, Vec<f64>, Vec<[f64; 3]>) {
        let found = f64::evaluate(model, batch, Wanted { forces: true }).expect("energies");
        let (y, f) = (self.label("y"), self.label("neg_dy"));
        let [wy, wf] = [self.weights[0] / y.len() as f64, self.weights[1] / f.len() as f64];
        let off: Vec<f64> = found.energies.iter().zip(y).map(|(a, b)| a - b).collect();
        let of_f: Vec<f64> =
            found.forces.as_flattened().iter().zip(f).map(|(a, b)| a - b).collect();
        let squares = |all: &[f64]| all.iter().map(|x| x * x).sum::<f64>();
        let by_forces: Vec<f64> = of_f.iter().map(|x| 2.0 * wf * x).collect();
        let by_energies = off.iter().map(|x| 2.0 * wy * x).collect();
        (wy * squares(&off) + wf * squares(&of_f), by_energies, triples(&by_forces))
    }

    fn gradients(&self, model: &TensorNet<f64>, batch: &Batch) -> Numbers {
        let (_, by_energies, by_forces) = self.loss(model, batch);
        model.loss_gradients((batch, &model.filters(batch)), &by_energies, &by_forces)
    }

    /// The two weights by least squares from the gradients, which are linear in them; the
    /// comparison of all gradients then checks the fit.
    fn fitted_weights(&self) -> [f64; 2] {
        let model = self.set.model::<f64>();
        let batch = self.set.batch(self.system, model.config());
        let of = |weights| Self { weights, ..*self }.gradients(&model, &batch);
        let (of_y, of_f) = (of([1.0, 0.0]), of([0.0, 1.0]));
        let [mut yy, mut yf, mut ff, mut y, mut f] = [0.0; 5];
        for (name, want) in self.set.below("train/grad/") {
            for ((a, b), g) in of_y[name].iter().zip(&of_f[name]).zip(want) {
                (yy, yf, ff) = (yy + a * a, yf + a * b, ff + b * b);
                (y, f) = (y + a * g, f + b * g);
            }
        }
        let determinant = yy * ff - yf * yf;
        let what = self.set.path.display();
        assert!(determinant > 0.0, "{what}: neither weights of losses nor gradients");
        [(ff * y - yf * f) / determinant, (yy * f - yf * y) / determinant]
            .map(|weight| (weight / ROUNDING).round() * ROUNDING)
    }

    fn update(&self, model: &mut TensorNet<f64>, batch: &Batch, steps: Steps, moments: &mut State) {
        let gradients = self.gradients(model, batch);
        let norm = gradients.values().flatten().map(|g| g * g).sum::<f64>().sqrt();
        let shorter = if norm > steps.clip { steps.clip / norm } else { 1.0 };
        moments.step += 1;
        let t = moments.step;
        let rate = steps.rate * (f64::from(t) / steps.warmup).min(1.0);
        for tensor in model.tensors_mut() {
            let Some(gradient) = gradients.get(&tensor.name) else { continue };
            let zeros = || (vec![0.0; gradient.len()], vec![0.0; gradient.len()]);
            let (first, second) = moments.of.entry(tensor.name).or_insert_with(zeros);
            let [b1, b2] = steps.betas;
            for (i, g) in gradient.iter().map(|g| shorter * g).enumerate() {
                first[i] = b1 * first[i] + (1.0 - b1) * g;
                second[i] = b2 * second[i] + (1.0 - b2) * g * g;
                let mean = first[i] / (1.0 - b1.powi(t));
                let root = (second[i] / (1.0 - b2.powi(t))).sqrt();
                let decayed = steps.decay * tensor.values[i];
                tensor.values[i] -= rate * (decayed + mean / (root + steps.epsilon));
            }
        }
    }

    /// Losses before each step and after the last, and the parameters after each step.
    fn run(&self, steps: Steps, count: usize) -> (Vec<f64>, Vec<Numbers>) {
        let mut model = self.set.model::<f64>();
        let batch = self.set.batch(self.system, model.config());
        let (mut losses, mut moments, mut after) = (Vec::new(), State::default(), Vec::new());
        for _ in 0..count {
            losses.push(self.loss(&model, &batch).0);
            self.update(&mut model, &batch, steps, &mut moments);
            let tensors = model.to_tensors().into_iter();
            after.push(tensors.map(|(name, _, values)| (name, values)).collect());
        }
        losses.push(self.loss(&model, &batch).0);
        (losses, after)
    }

    /// The steps of the description; without a rate, the ones that explain the second loss.
    fn steps(&self, losses: &[f64]) -> Steps {
        let of = |names: &[&str], default| number(self.set, names).unwrap_or(default);
        let beta = |index: usize| self.set.about["train"]["betas"][index].as_f64();
        let given = Steps {
            rate: of(&["lr", "rate", "learning_rate"], 0.0),
            decay: of(&["weight_decay"], 0.0),
            betas: [beta(0).unwrap_or(0.9), beta(1).unwrap_or(0.999)],
            epsilon: of(&["eps", "epsilon"], 1e-8),
            clip: of(&["clip", "clip_norm", "gradient_clipping"], f64::INFINITY),
            warmup: of(&["warmup", "lr_warmup_steps"], 1.0).max(1.0),
        };
        if given.rate > 0.0 {
            return given;
        }
        let what = format!("{}: no rate of the training steps", self.set.path.display());
        let second = *losses.get(1).expect(&what);
        let decays = number(self.set, &["weight_decay"]).map_or(DECAYS.to_vec(), |own| vec![own]);
        let mut tried = RATES.iter().flat_map(|rate| decays.iter().map(move |decay| (rate, decay)));
        let found = tried.find_map(|(rate, decay)| {
            let steps = Steps { rate: *rate, decay: *decay, ..given };
            let off = (self.run(steps, 1).0[1] - second).abs();
            (off <= 1e-9 * second.max(1.0)).then_some(steps)
        });
        found.expect(&what)
    }
}

#[derive(Default)]
struct State {
    step: i32,
    of: BTreeMap<String, (Vec<f64>, Vec<f64>)>,
}

/// The training system: as described, or the one with the same number of molecules and atoms.
fn system_of(set: &Set) -> &str {
    let sizes = [set.need("train", "y").len(), set.need("train", "neg_dy").len() / 3];
    let fits = |system: &&str| {
        let structures = set.structures(system);
        sizes == [structures.len(), structures.iter().map(|one| one.species.len()).sum()]
    };
    let described = set.about["train"]["system"].as_str();
    let named = set.systems().into_iter().find(|system| Some(*system) == described);
    named
        .or_else(|| set.systems().into_iter().find(fits))
        .unwrap_or_else(|| panic!("{}: no system of the training step", set.path.display()))
}

/// Compares losses, gradients and later parameters, and counts them.
pub(in super::super) fn check(set: &Set) -> usize {
    let training = Training::new(set);
    let what = |name: &str| format!("{} {name}", set.path.display());
    let mut compared = 0;
    let model = set.model::<f64>();
    let batch = set.batch(training.system, model.config());
    let gradients = training.gradients(&model, &batch);
    for (name, want) in set.below("train/grad/") {
        let own = gradients.get(name).unwrap_or_else(|| panic!("no gradient of {name}"));
        set.close((&what(name), "grad"), own, want, 1e-10);
        compared += 1;
    }
    let losses = set.get("train", "losses").map_or(&[][..], Vec::as_slice);
    let kept = set.below(AFTER).map(|(name, want)| {
        let (steps, name) = name.split_once('/').expect("steps and a parameter");
        (steps.parse::<usize>().expect("a number of steps"), name, want)
    });
    let kept: Vec<_> = kept.collect();
    let count = kept.iter().map(|(steps, ..)| *steps).max().unwrap_or(0);
    let count = count.max(losses.len().saturating_sub(1));
    if losses.is_empty() && kept.is_empty() {
        return compared;
    }
    let (found, after) = training.run(training.steps(losses), count);
    set.close((&what("losses"), "loss"), &found[..losses.len()], losses, 1e-9);
    for (steps, name, want) in kept {
        let after = &after[steps - 1];
        set.close((&what(name), "param"), &after[name], want, 1e-8);
        compared += 1;
    }
    compared + usize::from(!losses.is_empty())
}

/// Compares the gradients of squares of energies and forces with a central difference along them,
/// for sets without steps.
fn check_derivative(set: &Set) {
    let mut model = set.model::<f64>();
    let system = *set.systems().first().expect("a system");
    let batch = set.batch(system, model.config());
    let predict = |model: &TensorNet<f64>| {
        f64::evaluate(model, &batch, Wanted { forces: true }).expect("energies")
    };
    let squares = |all: &[f64]| all.iter().map(|x| x * x).sum::<f64>();
    let loss = |model: &TensorNet<f64>| {
        let found = predict(model);
        squares(&found.energies) + squares(found.forces.as_flattened())
    };
    let found = predict(&model);
    let by_energies: Vec<f64> = found.energies.iter().map(|x| 2.0 * x).collect();
    let by_forces: Vec<f64> = found.forces.as_flattened().iter().map(|x| 2.0 * x).collect();
    let both = (&batch, &model.filters(&batch));
    let gradients = model.loss_gradients(both, &by_energies, &triples(&by_forces));
    let norm = gradients.values().map(|all| squares(all)).sum::<f64>().sqrt();
    let mut moved = |by: f64| {
        for tensor in model.tensors_mut() {
            let Some(gradient) = gradients.get(&tensor.name) else { continue };
            tensor.values.iter_mut().zip(gradient).for_each(|(x, g)| *x += by * g / norm);
        }
        loss(&model)
    };
    let (step, up) = (1e-5, moved(1e-5));
    let found = (up - moved(-2.0 * step)) / (2.0 * step);
    let what = format!("{}: {found} along a gradient of size {norm}", set.path.display());
    assert!(norm > 0.0 && (found / norm - 1.0).abs() < 1e-5, "{what}");
}

#[test]
fn golden_training_steps_equal_the_reference() {
    for set in sets() {
        let is_announced = set.about["train_keys"].is_object() || set.about["train"].is_object();
        if is_announced || set.below("train/").next().is_some() {
            assert!(check(&set) > 0, "{}: nothing to compare of the steps", set.path.display());
        } else {
            check_derivative(&set);
        }
    }
}
