//! Conservation of energy with a trained model.

use super::{Dynamics, DynamicsPlan, Ensemble, MdSummary, masses};
use crate::tensornet::{TensorNet, TensorNetConfig};
use crate::toy::{ElasticEthanol, ethanol};
use crate::training::{LossKind, TensorNetTraining, TrainingPlan};
use crate::vectors::dot;
use crate::{FastOptions, FastTensorNet, Labels, Potential, Prediction, Structure, Wanted};
use linwright_tensor::RngKey;
use linwright_train::{
    Control, OptimizerSettings, Progress, Rules, Schedule, TrainSettings, train,
};

const FORCES: Wanted = Wanted { forces: true };
/// Largest drift in electron volts for each atom and picosecond.
const DRIFT: f64 = 1e-5;

struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn interrupted(&self) -> bool {
        false
    }
}

/// Ethanol with atoms displaced by this much, labelled by its springs.
fn labelled(spread: f64, index: u64) -> Structure {
    let mut structure = ethanol();
    let mut random = RngKey::new(26).fold("ethanol").fold_index(index).stream();
    structure.positions.iter_mut().flatten().for_each(|x| *x += spread * random.normal());
    let Prediction { energy, forces, .. } = ElasticEthanol.predict(&structure, FORCES).unwrap();
    let (energy, forces) = (Some(energy), Some(forces));
    Structure { labels: Labels { energy, forces, ..Labels::default() }, ..structure }
}

fn trained() -> TensorNet<f32> {
    let all: Vec<Structure> = (0..120).map(|index| labelled(0.06, index)).collect();
    let (training, validation) = all.split_at(104);
    let config = TensorNetConfig { species: 9, ..TensorNetConfig::new(16, 1, 8, 5.0) };
    let mut model = TensorNet::random(config, RngKey::new(1)).unwrap();
    model.set_offset_and_scale(0.5, 1.0);
    let (loss, key) = (LossKind::Square, RngKey::new(2));
    let plan = TrainingPlan { energy_weight: 0.1, force_weight: 0.9, loss, batch: 8, key };
    let mut problem = TensorNetTraining::new(&mut model, training, validation, plan).unwrap();
    let settings = TrainSettings {
        name: "ethanol".into(),
        steps: 260,
        schedule: Schedule { peak: 1e-2, warmup: 20, floor: 2e-4 },
        optimizer: OptimizerSettings::default(),
        validate_every: 130,
        keep_best: true,
        divergence_factor: 10.0,
        rules: Rules::default(),
    };
    train(&mut problem, &settings, None, &mut Quiet).unwrap();
    model
}

#[test]
fn a_trained_model_keeps_the_energy_of_ethanol_over_ten_thousand_steps() {
    let mut potential = FastTensorNet::new(&trained(), FastOptions::default()).unwrap();
    potential.keep_pairs(0.5).unwrap();
    // Check that training worked: forces on other structures are mostly right.
    let (mut wrong, mut all) = (0.0, 0.0);
    for structure in (200..216).map(|index| labelled(0.05, index)) {
        let found = potential.predict(&structure, FORCES).unwrap().forces;
        let labels = structure.labels.forces.unwrap();
        for (found, label) in found.iter().flatten().zip(labels.iter().flatten()) {
            wrong += (found - label) * (found - label);
            all += label * label;
        }
    }
    assert!(wrong < 0.1 * all, "{}", wrong / all);

    let start = ethanol();
    let masses = masses(&start).unwrap();
    let plan = DynamicsPlan { time_step: 0.5, ensemble: Ensemble::Nve, seed: 3 };
    let mut run = Dynamics::new(&mut potential, start, masses, plan, None).unwrap();
    run.thermalise(300.0);
    let mut summary = MdSummary::default();
    for _ in 0..10_000 {
        run.advance().unwrap();
        summary.add(run.thermo());
    }
    let (slope, deviation) = summary.drift().unwrap();
    let atoms = run.structure().positions.len() as f64;
    assert!(slope.abs() / atoms < DRIFT, "{:e}", slope / atoms);
    // The molecule moves and stays intact.
    assert!(summary.temperature().mean > 50.0 && deviation > 0.0);
    let places = &run.structure().positions;
    let bond = [0, 1, 2].map(|axis| places[0][axis] - places[1][axis]);
    assert!((1.3..1.8).contains(&dot(&bond, &bond).sqrt()), "{bond:?}");
}
