use super::*;
use crate::tensornet::{TensorNetConfig, TensorNetPotential};
use crate::{Labels, Potential};
use linwright_train::{
    Control, OptimizerSettings, Progress, Rules, Schedule, TrainSettings, train,
};

struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn interrupted(&self) -> bool {
        false
    }
}

fn model(seed: u64) -> TensorNet<f32> {
    let config = TensorNetConfig { species: 9, ..TensorNetConfig::new(8, 1, 8, 3.0) };
    TensorNet::random(config, RngKey::new(seed)).expect("a model")
}

/// Molecules of four atoms, labelled by another model.
fn labelled(count: usize) -> Vec<Structure> {
    let mut teacher = TensorNetPotential::new(model(7));
    let mut stream = RngKey::new(3).stream();
    let mut one = || {
        let corners = [[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [0.0, 1.2, 0.0], [0.0, 0.0, 1.3]];
        let moved = corners.map(|p| p.map(|x| x + 0.1 * stream.normal()));
        let mut structure = Structure {
            species: vec![6, 1, 8, 1],
            positions: moved.to_vec(),
            ..Structure::default()
        };
        let found = teacher.predict(&structure, Wanted { forces: true }).expect("labels");
        let (energy, forces) = (Some(found.energy), Some(found.forces));
        structure.labels = Labels { energy, forces, ..Labels::default() };
        structure
    };
    (0..count).map(|_| one()).collect()
}

fn plan() -> TrainingPlan {
    let (loss, key) = (LossKind::Square, RngKey::new(1));
    TrainingPlan { energy_weight: 0.5, force_weight: 0.5, loss, batch: 6, key }
}

fn settings() -> TrainSettings {
    TrainSettings {
        name: "potential".into(),
        steps: 60,
        schedule: Schedule { peak: 1e-2, warmup: 5, floor: 1e-3 },
        optimizer: OptimizerSettings::default(),
        validate_every: 20,
        keep_best: true,
        divergence_factor: 10.0,
        rules: Rules::default(),
    }
}

#[test]
fn training_lowers_the_loss_on_other_structures() {
    let (structures, mut student) = (labelled(20), model(8));
    let (training, validation) = structures.split_at(16);
    let mut problem =
        TensorNetTraining::new(&mut student, training, validation, plan()).expect("a problem");
    let outcome = train(&mut problem, &settings(), None, &mut Quiet).expect("training");
    let (first, best) = (outcome.curve[0].validation, outcome.best_loss);
    assert!(best < 0.2 * first, "from {first} to {best}");
}

#[test]
fn gradients_have_the_same_bits_on_one_thread_and_two() {
    let structures = labelled(10);
    let gradients = |threads| {
        let mut student = model(8);
        let work = || {
            let (training, validation) = structures.split_at(8);
            let plan = TrainingPlan { batch: 8, ..plan() };
            let mut problem =
                TensorNetTraining::new(&mut student, training, validation, plan).expect("it");
            let loss = problem.step(0).expect("a step");
            (loss.to_bits(), problem.gradients.clone())
        };
        parallel::with_threads(threads, work).expect("threads")
    };
    assert!(gradients(1) == gradients(2));
}

#[test]
fn structures_without_labels_are_refused() {
    let mut structures = labelled(3);
    structures[1].labels.forces = None;
    let mut student = model(8);
    let error = TensorNetTraining::new(&mut student, &structures, &structures, plan());
    let error = error.expect_err("no forces").to_string();
    assert!(error.contains("structure 1"), "{error}");
}

#[test]
fn gradients_of_every_loss_equal_differences() {
    let structures = labelled(4);
    for loss in [LossKind::Square, LossKind::Absolute, LossKind::Huber { delta: 0.05 }] {
        let plan = TrainingPlan { loss, batch: 3, energy_weight: 0.3, ..plan() };
        let mut student = model(8);
        let mut problem =
            TensorNetTraining::new(&mut student, &structures, &structures, plan).expect("it");
        problem.step(0).expect("a step");
        let gradients: Vec<f64> = problem
            .slices()
            .iter()
            .flat_map(|slice| match &slice.gradient {
                linwright_train::Gradient::Numbers(numbers) => numbers.to_vec(),
                linwright_train::Gradient::Product { .. } => Vec::new(),
            })
            .map(f64::from)
            .collect();
        let norm = gradients.iter().map(|g| g * g).sum::<f64>().sqrt();
        let mut at = |by: f64| {
            let mut rest = gradients.as_slice();
            for slice in problem.slices() {
                let (own, others) = rest.split_at(slice.values.len());
                rest = others;
                for (value, g) in slice.values.iter_mut().zip(own) {
                    *value += (by * g / norm) as f32;
                }
            }
            problem.step(0).expect("a step")
        };
        let (before, h) = (at(-1e-3), 1e-3);
        let after = at(2.0 * h);
        let slope = (after - before) / (2.0 * h);
        assert!((slope / norm - 1.0).abs() < 2e-2, "{loss:?}: {slope} is not {norm}");
    }
}

#[test]
fn a_tiny_set_is_learnt_by_heart() {
    let (structures, mut student) = (labelled(2), model(8));
    let plan = TrainingPlan { batch: 2, ..plan() };
    let mut problem =
        TensorNetTraining::new(&mut student, &structures, &structures, plan).expect("a problem");
    let settings = TrainSettings { steps: 300, validate_every: 100, ..settings() };
    let outcome = train(&mut problem, &settings, None, &mut Quiet).expect("training");
    let (first, best) = (outcome.curve[0].validation, outcome.best_loss);
    assert!(best < 1e-3 * first, "from {first} to {best}");
}
