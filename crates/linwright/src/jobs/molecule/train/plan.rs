//! Settings of a training, from its options, the settings of torchmd-net, and defaults.

use super::data::Held;
use super::{LossName, MoleculeTrain, ReferenceKind, ScheduleKind};
use crate::jobs::kit::{Failure, JobError, Session};
use linwright_molecule::tensornet::{Head, TensorNetConfig};
use linwright_molecule::training::LossKind;
use linwright_molecule::{MoleculeModel, Settings, Units, read_settings};
use linwright_train::{OptimizerSettings, Plateau, Rules, Schedule, TrainSettings};
use serde_json::{Map, Value};

/// Factor of the first validation loss beyond which training is stopped.
const DIVERGENCE: f64 = 100.0;
/// A cosine ends at this share of the largest rate.
const FLOOR: f64 = 0.01;
/// Factor and patience of a plateau.
const PLATEAU: (f64, u64) = (0.8, 25);
const EPOCHS: u64 = 100;
const CUTOFF: f64 = 5.0;
/// Weights of energies and forces: those of torchmd-net's settings for rMD17, whose energy weight
/// of 0.5 is multiplied by `ema_alpha_y` = 0.01.
const WEIGHTS: [f64; 2] = [0.005, 0.5];

/// Everything but the structures.
pub(super) struct Plan {
    pub(super) architecture: TensorNetConfig,
    /// The potential to start from.
    pub(super) start: Option<MoleculeModel>,
    pub(super) seed: u64,
    pub(super) references: ReferenceKind,
    /// Units of the files, and of the potential.
    pub(super) units: (Units, Units),
    pub(super) loss: LossKind,
    /// Effective weights of energies and forces.
    pub(super) weights: [f64; 2],
    pub(super) batch: usize,
    /// Sets that the settings of torchmd-net ask for.
    pub(super) trained: Option<Held>,
    pub(super) validation: Option<Held>,
    pub(super) tested: Option<Held>,
    epochs: u64,
    rate: f64,
    floor: Option<f64>,
    plateau: Option<Plateau>,
    weight_decay: f64,
    clip: Option<f64>,
    warmup: Option<u64>,
    patience: Option<u64>,
}

/// Settings of torchmd-net; empty without a file.
struct Given(Map<String, Value>);

impl Given {
    fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key).and_then(Value::as_f64)
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    fn is(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    /// A number of structures, or a share of them.
    fn held(&self, key: &str) -> Option<Held> {
        match self.0.get(key)? {
            Value::Number(number) if number.is_u64() => match number.as_u64() {
                Some(0) => None,
                count => count.map(|count| Held::Count(count as usize)),
            },
            value => value.as_f64().filter(|share| *share > 0.0).map(Held::Share),
        }
    }

    /// Refuses settings that would mean another training than this one.
    fn check(&self, session: &Session<'_>) -> Result<(), Failure> {
        let named = |key: &str, allowed: &[Value]| {
            let found = self.0.get(key).unwrap_or(&Value::Null);
            found.is_null() || allowed.contains(found)
        };
        let same = [
            ("precision", Value::from(32), "32: training is in single precision"),
            ("spin", false.into(), "false: spin has no effect on a TensorNet"),
            ("atom_filter", (-1).into(), "-1: all atoms count"),
            ("lr_metric", "val".into(), "val: the rate follows validation"),
            ("early_stopping_monitor", "val_total_mse_loss".into(), "val_total_mse_loss"),
            ("checkpoint_monitor", "val_total_mse_loss".into(), "val_total_mse_loss"),
            ("box_vecs", Value::Null, "none: cells belong to the structures"),
            ("splits", Value::Null, "none: give the file by --split"),
            ("load_weights", Value::Null, "none: give the potential by --init"),
        ];
        for (key, allowed, expected) in same {
            if !named(key, &[allowed]) {
                let found = &self.0[key];
                let message = format!("--config: {key} is {found}, expected {expected}");
                return Err(Failure::usage(message));
            }
        }
        let atomref = [Value::from("Atomref"), vec!["Atomref"].into()];
        if !named("prior_model", &atomref) {
            let found = &self.0["prior_model"];
            let message = format!("--config: prior_model is {found}, expected Atomref or none");
            return Err(Failure::usage(message)
                .hint("train without it; a potential with it can be trained on by --init"));
        }
        for key in ["dataset", "coord_files", "embed_files", "energy_files", "force_files"] {
            if self.0.get(key).is_some_and(|value| !value.is_null()) {
                session.note(&format!("note: --config: {key} is not read; --data has the data"));
            }
        }
        Ok(())
    }
}

fn wrong(flag: &str, value: f64, expected: &str) -> JobError {
    JobError::new(format!("--{flag}{value}: expected {expected}"))
}

/// An option, or else the settings of torchmd-net, or else a default, with its range.
fn checked(
    (flag, value): (&str, f64),
    expected: &str,
    fits: impl Fn(f64) -> bool,
) -> Result<f64, JobError> {
    if value.is_finite() && fits(value) { Ok(value) } else { Err(wrong(flag, value, expected)) }
}

impl Plan {
    /// Resolves the options.
    ///
    /// # Errors
    /// [`Failure`] for values out of range, and for settings that mean another training.
    pub(super) fn new(job: &MoleculeTrain, session: &Session<'_>) -> Result<Self, Failure> {
        let Settings { hyper, warnings } = match &job.config {
            Some(path) => read_settings(path)?,
            None => Settings::default(),
        };
        warnings.iter().for_each(|warning| session.note(&format!("note: --config: {warning}")));
        let (given, has) = (Given(hyper), job.config.is_some());
        given.check(session)?;
        let start = job.init.as_deref().map(MoleculeModel::open).transpose()?;
        let architecture = match &start {
            Some(model) => model.network.config().clone(),
            None => architecture(job, has.then_some(&given))?,
        };
        if architecture.head != Head::Scalar {
            let found = format!("{:?}", architecture.head);
            let message = format!("the output model is {found}, expected Scalar, an energy");
            return Err(Failure::usage(message));
        }
        let own = start.as_ref().map_or_else(Units::default, |model| model.checkpoint.units);
        let units = job.sets.units.as_deref().map(Units::parse).transpose()?.unwrap_or(own);
        // A potential that is trained on keeps its units.
        let units = (units, if start.is_some() { own } else { units });
        let architecture = TensorNetConfig { length: units.1.length, ..architecture };
        let steps = &job.steps;
        let or = |option: Option<f64>, key: &str, default: f64| {
            option.or_else(|| given.number(key)).unwrap_or(default)
        };
        let positive = "a finite number above zero";
        let rate = checked(("rate ", or(steps.rate, "lr", 1e-3)), positive, |rate| rate > 0.0)?;
        let decay = or(steps.weight_decay, "weight_decay", 0.0);
        let clip = or(steps.clip, "gradient_clipping", 40.0);
        let least = "a finite number of at least zero";
        let clip = checked(("training clip=", clip), least, |norm| norm >= 0.0)?;
        if let Some(average) = steps.average {
            checked(("training average=", average), "a decay above 0 and below 1", |decay| {
                decay > 0.0 && decay < 1.0
            })?;
        }
        let early = given.count("early_stopping_patience").filter(|_| has);
        Ok(Self {
            seed: job.seed.or_else(|| given.count("seed")).unwrap_or(1),
            references: references(job, has.then_some(&given)),
            units,
            loss: loss(job, &given)?,
            weights: weights(job, &given)?,
            batch: steps
                .batch
                .or_else(|| given.count("batch_size").map(|n| n as usize))
                .unwrap_or(8),
            trained: given.held("train_size"),
            validation: given.held("val_size"),
            tested: given.held("test_size").filter(|_| job.sets.test.is_none()),
            epochs: steps.epochs.or_else(|| given.count("num_epochs")).unwrap_or(EPOCHS),
            rate,
            floor: given.number("lr_min").map(|floor| floor.min(rate)),
            plateau: plateau(job, &given, has),
            weight_decay: checked(("training weight_decay=", decay), least, |decay| decay >= 0.0)?,
            clip: Some(clip).filter(|norm| *norm > 0.0),
            warmup: steps.warmup.or_else(|| given.count("lr_warmup_steps")),
            patience: steps.patience.or(early),
            architecture,
            start,
        })
    }

    /// The settings of a training with `count` structures.
    pub(super) fn settings(&self, job: &MoleculeTrain, structures: usize) -> TrainSettings {
        let of_epoch = structures.div_ceil(self.batch).max(1) as u64;
        let steps = job.steps.steps.unwrap_or(self.epochs.saturating_mul(of_epoch));
        let warmup = self.warmup.unwrap_or((steps / 20).min(500)).min(steps);
        let floor = match self.plateau {
            Some(_) => self.floor.unwrap_or(0.0),
            None => FLOOR * self.rate,
        };
        let (weight_decay, clip_norm) = (self.weight_decay, self.clip);
        TrainSettings {
            name: "potential".into(),
            steps,
            schedule: Schedule { peak: self.rate, warmup, floor },
            optimizer: OptimizerSettings { weight_decay, clip_norm, ..Default::default() },
            validate_every: job.steps.validate_every.unwrap_or(of_epoch),
            keep_best: !job.steps.last,
            divergence_factor: DIVERGENCE,
            rules: Rules {
                plateau: self.plateau,
                patience: self.patience,
                average: job.steps.average,
            },
        }
    }
}

fn architecture(job: &MoleculeTrain, given: Option<&Given>) -> Result<TensorNetConfig, Failure> {
    let mut config = match given {
        Some(given) => TensorNetConfig::from_hyperparameters(&Value::Object(given.0.clone()))?,
        None => TensorNetConfig::new(128, 2, 32, CUTOFF),
    };
    let own = &job.network;
    config.channels = own.channels.unwrap_or(config.channels);
    config.layers = own.layers.unwrap_or(config.layers);
    config.radial = own.radial.unwrap_or(config.radial);
    config.cutoff_upper = own.cutoff.unwrap_or(config.cutoff_upper);
    config.check()?;
    Ok(config)
}

fn references(job: &MoleculeTrain, given: Option<&Given>) -> ReferenceKind {
    job.sets.references.unwrap_or_else(|| match given {
        Some(given) if given.is("standardize") => ReferenceKind::Mean,
        Some(given) if given.0.get("prior_model").is_none_or(Value::is_null) => {
            match given.is("remove_ref_energy") {
                true => ReferenceKind::LeastSquares,
                false => ReferenceKind::None,
            }
        }
        _ => ReferenceKind::LeastSquares,
    })
}

fn loss(job: &MoleculeTrain, given: &Given) -> Result<LossKind, Failure> {
    let name = match (job.losses.loss, given.text("train_loss")) {
        (Some(name), _) => name,
        (None, None | Some("mse_loss")) => LossName::Mse,
        (None, Some("l1_loss")) => LossName::L1,
        (None, Some("huber_loss")) => LossName::Huber,
        (None, Some(other)) => {
            let other = linwright_run::shown(other);
            let expected = "expected mse_loss, l1_loss or huber_loss";
            return Err(Failure::usage(format!("--config: train_loss is {other}, {expected}")));
        }
    };
    let of_file = given.0.get("train_loss_arg").and_then(|arg| arg.get("delta"));
    let delta = job.losses.delta.or_else(|| of_file.and_then(Value::as_f64));
    Ok(match name {
        LossName::Mse => LossKind::Square,
        LossName::L1 => LossKind::Absolute,
        LossName::Huber => {
            let delta = ("loss delta=", delta.unwrap_or(1.0));
            LossKind::Huber { delta: checked(delta, "a finite number above zero", |d| d > 0.0)? }
        }
    })
}

fn weights(job: &MoleculeTrain, given: &Given) -> Result<[f64; 2], Failure> {
    let own = &job.losses;
    let parts = [
        ("energy", own.energy_weight, "y_weight", own.energy_ema, "ema_alpha_y"),
        ("force", own.force_weight, "neg_dy_weight", own.force_ema, "ema_alpha_neg_dy"),
    ];
    let mut weights = WEIGHTS;
    for ((name, weight, key, share, share_key), to) in parts.into_iter().zip(&mut weights) {
        let weight = weight.or_else(|| given.number(key)).unwrap_or(*to);
        let flag = format!("loss {name}_weight=");
        let weight = checked((&flag, weight), "a finite number of at least zero", |w| w >= 0.0)?;
        let share = share.or_else(|| given.number(share_key)).unwrap_or(1.0);
        let flag = format!("loss {name}_ema=");
        // Outside of these torchmd-net takes the loss as it is; here it is a mistake.
        let range = |share: f64| share > 0.0 && share <= 1.0;
        *to = weight * checked((&flag, share), "a share above 0, at most 1", range)?;
    }
    if given.0.contains_key("derivative") && !given.is("derivative") && own.force_weight.is_none() {
        weights[1] = 0.0;
    }
    if weights == [0.0; 2] {
        return Err(Failure::usage("the weights of energies and forces are both zero"));
    }
    Ok(weights)
}

fn plateau(job: &MoleculeTrain, given: &Given, has: bool) -> Option<Plateau> {
    let kind = job.steps.schedule.unwrap_or(match has {
        true => ScheduleKind::Plateau,
        false => ScheduleKind::Cosine,
    });
    (kind == ScheduleKind::Plateau).then(|| Plateau {
        factor: given.number("lr_factor").unwrap_or(PLATEAU.0),
        patience: given.count("lr_patience").unwrap_or(PLATEAU.1),
        threshold: Plateau::THRESHOLD,
    })
}
