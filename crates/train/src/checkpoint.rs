//! Training checkpoints: parameters, moments, the best parameters and the curve, in one safetensors
//! file with the digest of its bytes, written under a temporary name and then renamed.

use crate::training::{Best, Curve, State};
use crate::{Problem, TrainError};
use linwright_run::{seal, state};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of the header of a checkpoint that are read to recognise it.
const MOST_OF_HEADER: u64 = 1 << 26;

/// Checkpoint settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file.
    pub path: PathBuf,
    /// Steps between two checkpoints.
    pub every: u64,
    /// Fingerprint of data, settings and starting point; a different one in the file is an error.
    pub fingerprint: String,
}

/// The scalars of [`State`], stored as JSON in the file's metadata.
#[derive(serde::Serialize, serde::Deserialize)]
struct Scalars {
    step: u64,
    curve: Curve,
    train_sum: f64,
    train_count: u64,
    best: Option<(u64, f64)>,
    #[serde(default)]
    averaged: bool,
}

impl Checkpoint {
    /// Writes the training state.
    pub(crate) fn write(&self, problem: &mut dyn Problem, state: &State) -> Result<(), TrainError> {
        let buffers: Vec<(String, Vec<f32>)> =
            problem.buffers().into_iter().map(|b| (b.name, b.values.to_vec())).collect();
        let slices = problem.slices();
        let mut tensors: Vec<(String, &[f32])> = Vec::new();
        tensors
            .extend(buffers.iter().map(|(name, values)| (format!("buffer.{name}"), &values[..])));
        for (index, slice) in slices.iter().enumerate() {
            let name = &slice.name;
            tensors.push((format!("values.{name}"), slice.values));
            let Some(first) = state.optimizer.first.get(index) else {
                continue;
            };
            tensors.push((format!("first.{name}"), first));
            tensors.push((format!("second.{name}"), &state.optimizer.second[index]));
        }
        let averages = slices.iter().zip(&state.averages);
        tensors.extend(
            averages.map(|(slice, numbers)| (format!("average.{}", slice.name), &numbers[..])),
        );
        if let Some(best) = &state.best {
            let named = slices.iter().zip(&best.values);
            tensors.extend(
                named.map(|(slice, values)| (format!("best.{}", slice.name), values.as_slice())),
            );
            let named = buffers.iter().zip(&best.buffers);
            tensors.extend(named.map(|((name, _), v)| (format!("best_buffer.{name}"), &v[..])));
        }
        let scalars = Scalars {
            step: state.step,
            curve: state.curve.clone(),
            train_sum: state.train_sum,
            train_count: state.train_count,
            best: state.best.as_ref().map(|best| (best.step, best.loss)),
            averaged: !state.averages.is_empty(),
        };
        let scalars = serde_json::to_string(&scalars).map_err(|error| self.unusable(error))?;
        let metadata = HashMap::from([
            ("fingerprint".to_owned(), self.fingerprint.clone()),
            ("run".to_owned(), scalars),
            (seal::KEY.to_owned(), seal::BLANK.to_owned()),
        ]);
        let views = tensors
            .iter()
            .map(|(name, values)| {
                let bytes: &[u8] = bytes_of(values);
                TensorView::new(Dtype::F32, vec![values.len()], bytes)
                    .map(|view| (name.clone(), view))
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.unusable(error))?;
        let mut bytes =
            safetensors::serialize(views, Some(metadata)).map_err(|error| self.unusable(error))?;
        let head = seal::head_of(&bytes);
        let (head, rest) = bytes.split_at_mut(head);
        seal::seal(head, |add| add(rest));
        if state::exists(&self.path) && !is_checkpoint(&self.path).map_err(|e| self.io(e))? {
            return Err(self.unusable("it appeared during the training and is not a checkpoint"));
        }
        Ok(state::write(&self.path, &bytes)?)
    }

    /// Reads the training state, if there is a checkpoint; returns whether there was one.
    pub(crate) fn restore(
        &self,
        problem: &mut dyn Problem,
        state: &mut State,
    ) -> Result<bool, TrainError> {
        let bytes = match state::read(&self.path, u64::MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(self.io(source)),
        };
        let (_, header) =
            SafeTensors::read_metadata(&bytes).map_err(|error| self.unusable(error))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let found = metadata.get("fingerprint").cloned().unwrap_or_default();
        if found != self.fingerprint {
            let (path, expected) = (self.path.clone(), self.fingerprint.clone());
            return Err(TrainError::Fingerprint { path, expected, found });
        }
        let (head, rest) = bytes.split_at(seal::head_of(&bytes));
        seal::check(head, rest).map_err(|reason| self.unusable(reason))?;
        let run = metadata.get("run").map_or("", String::as_str);
        let scalars: Scalars = serde_json::from_str(run).map_err(|error| self.unusable(error))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|error| self.unusable(error))?;
        let read = |name: &str, len: usize| self.read(&tensors, name, len);
        let mut best = scalars.best.map(|(step, loss)| Best {
            step,
            loss,
            values: Vec::new(),
            buffers: Vec::new(),
        });
        for slice in problem.slices() {
            let (name, len) = (&slice.name, slice.values.len());
            slice.values.copy_from_slice(&read(&format!("values.{name}"), len)?);
            if scalars.step > 0 {
                state.optimizer.first.push(read(&format!("first.{name}"), len)?);
                state.optimizer.second.push(read(&format!("second.{name}"), len)?);
            }
            if scalars.averaged {
                state.averages.push(read(&format!("average.{name}"), len)?);
            }
            if let Some(best) = &mut best {
                best.values.push(read(&format!("best.{name}"), len)?);
            }
        }
        for buffer in problem.buffers() {
            let (name, len) = (&buffer.name, buffer.values.len());
            buffer.values.copy_from_slice(&read(&format!("buffer.{name}"), len)?);
            if let Some(best) = &mut best {
                best.buffers.push(read(&format!("best_buffer.{name}"), len)?);
            }
        }
        let Scalars { step, curve, train_sum, train_count, .. } = scalars;
        *state = State {
            step,
            curve,
            train_sum,
            train_count,
            best,
            optimizer: std::mem::take(&mut state.optimizer),
            averages: std::mem::take(&mut state.averages),
        };
        Ok(true)
    }

    fn read(
        &self,
        tensors: &SafeTensors<'_>,
        name: &str,
        len: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let view = tensors.tensor(name).map_err(|error| self.unusable(error))?;
        if view.dtype() != Dtype::F32 || view.shape() != [len] {
            let (dtype, shape) = (view.dtype(), view.shape());
            return Err(
                self.unusable(format!("{name} is {dtype:?} {shape:?}, expected F32 [{len}]"))
            );
        }
        let numbers = view.data().chunks_exact(4);
        Ok(numbers.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    fn unusable(&self, reason: impl std::fmt::Display) -> TrainError {
        TrainError::Checkpoint { path: self.path.clone(), reason: reason.to_string() }
    }

    fn io(&self, source: std::io::Error) -> TrainError {
        TrainError::Io { path: self.path.clone(), source }
    }
}

/// Whether a file is a checkpoint of any run, by its header.
fn is_checkpoint(path: &Path) -> std::io::Result<bool> {
    let mut file = state::open(path)?;
    let mut length = [0; 8];
    let has_length = file.read_exact(&mut length).is_ok();
    let mut header = Vec::new();
    file.take(u64::from_le_bytes(length).min(MOST_OF_HEADER)).read_to_end(&mut header)?;
    let header: serde_json::Value = serde_json::from_slice(&header).unwrap_or_default();
    Ok(has_length && header.pointer("/__metadata__/fingerprint").is_some())
}

fn bytes_of(values: &[f32]) -> &[u8] {
    linwright_tensor::little_endian_bytes(values)
}

#[cfg(test)]
mod tests {
    use crate::{
        Checkpoint, Control, OptimizerSettings, Plateau, Problem, Progress, Rules, Schedule, Slice,
        TrainError, TrainSettings, train,
    };

    /// Least squares to a fixed point, with a batch that depends on the step.
    struct Quadratic {
        values: Vec<f32>,
        gradient: Vec<f32>,
    }

    impl Problem for Quadratic {
        fn slices(&mut self) -> Vec<Slice<'_>> {
            let Self { values, gradient } = self;
            let gradient = gradient.as_mut_slice().into();
            vec![Slice { name: "x".into(), values, gradient, decay: false }]
        }

        fn step(&mut self, step: u64) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
            let noise = ((step * 7919) % 13) as f32 / 130.0;
            for (g, v) in self.gradient.iter_mut().zip(&self.values) {
                *g = v - 3.0 + noise;
            }
            self.validate()
        }

        fn validate(&mut self) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
            Ok(self.values.iter().map(|v| f64::from(v - 3.0).powi(2)).sum())
        }
    }

    fn start() -> Quadratic {
        Quadratic { values: vec![0.0, 10.0], gradient: vec![0.0; 2] }
    }

    fn settings() -> TrainSettings {
        TrainSettings {
            name: "quadratic".into(),
            steps: 60,
            schedule: Schedule { peak: 0.5, warmup: 3, floor: 0.0 },
            optimizer: OptimizerSettings::default(),
            validate_every: 10,
            keep_best: true,
            divergence_factor: 100.0,
            rules: Rules::default(),
        }
    }

    struct StopAt(u64, u64);

    impl Control for StopAt {
        fn progress(&mut self, progress: &Progress<'_>) {
            self.1 = progress.step;
        }

        fn interrupted(&self) -> bool {
            self.1 >= self.0
        }
    }

    #[test]
    fn an_interrupted_run_ends_with_the_same_bits_as_one_that_was_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let plan =
            Checkpoint { path: dir.path().join("run.ckpt"), every: 7, fingerprint: "f".into() };
        let mut whole = start();
        let expected =
            train(&mut whole, &settings(), None, &mut StopAt(u64::MAX, 0)).expect("trains");
        assert!(expected.best_loss < 0.5, "loss {}", expected.best_loss);

        let mut first = start();
        let stopped = train(&mut first, &settings(), Some(&plan), &mut StopAt(23, 0));
        assert!(matches!(stopped, Err(TrainError::Interrupted { step: 23, .. })), "{stopped:?}");
        let mut second = start();
        let outcome = train(&mut second, &settings(), Some(&plan), &mut StopAt(u64::MAX, 0))
            .expect("goes on");
        assert_eq!(outcome.resumed_at, Some(23));
        assert_eq!((outcome.curve, second.values), (expected.curve, whole.values));
    }

    #[test]
    fn a_run_with_averages_and_a_plateau_resumes_with_the_same_bits() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let plan =
            Checkpoint { path: dir.path().join("run.ckpt"), every: 7, fingerprint: "f".into() };
        let plateau = Some(Plateau { factor: 0.5, patience: 0, threshold: 0.5 });
        let rules = Rules { plateau, average: Some(0.9), patience: None };
        let settings = TrainSettings { rules, validate_every: 5, ..settings() };
        let mut whole = start();
        let expected =
            train(&mut whole, &settings, None, &mut StopAt(u64::MAX, 0)).expect("trains");
        let mut resumed = start();
        let stopped = train(&mut resumed, &settings, Some(&plan), &mut StopAt(23, 0));
        assert!(matches!(stopped, Err(TrainError::Interrupted { step: 23, .. })), "{stopped:?}");
        let mut resumed = start();
        let outcome = train(&mut resumed, &settings, Some(&plan), &mut StopAt(u64::MAX, 0));
        assert_eq!(outcome.expect("goes on").curve, expected.curve);
        assert_eq!(resumed.values, whole.values);
    }

    #[test]
    fn averages_of_noisy_parameters_are_nearer_to_the_minimum() {
        let off = |average| {
            let rules = Rules { average, ..Rules::default() };
            let plateau = Some(Plateau { factor: 1.0, patience: 100, threshold: 0.0 });
            let rules = Rules { plateau, ..rules };
            let schedule = Schedule { peak: 0.3, warmup: 0, floor: 0.3 };
            let settings =
                TrainSettings { rules, schedule, keep_best: false, steps: 200, ..settings() };
            let mut problem = start();
            train(&mut problem, &settings, None, &mut StopAt(u64::MAX, 0)).expect("trains");
            problem.values.iter().map(|v| (f64::from(*v) - 2.954).abs()).sum::<f64>()
        };
        let (with, without) = (off(Some(0.95)), off(None));
        assert!(with < without, "{with} with averages, {without} without");
    }

    #[test]
    fn a_run_stops_where_validation_no_longer_improves() {
        let rules = Rules { patience: Some(2), ..Rules::default() };
        let settings = TrainSettings { rules, steps: 10_000, ..settings() };
        let mut problem = start();
        let found = train(&mut problem, &settings, None, &mut StopAt(u64::MAX, 0));
        let found = found.expect("trains");
        assert!(found.steps < 10_000, "{} steps", found.steps);
        assert_eq!(found.best_step + 3 * 10, found.steps);
    }

    #[test]
    fn a_checkpoint_of_another_run_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut plan =
            Checkpoint { path: dir.path().join("run.ckpt"), every: 7, fingerprint: "f".into() };
        train(&mut start(), &settings(), Some(&plan), &mut StopAt(u64::MAX, 0)).expect("trains");
        plan.fingerprint = "g".into();
        let refused = train(&mut start(), &settings(), Some(&plan), &mut StopAt(u64::MAX, 0));
        assert!(matches!(refused, Err(TrainError::Fingerprint { .. })), "{refused:?}");
    }

    #[test]
    fn a_damaged_checkpoint_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let plan =
            Checkpoint { path: dir.path().join("run.ckpt"), every: 7, fingerprint: "f".into() };
        std::fs::write(&plan.path, b"not a checkpoint").expect("writes");
        let refused = train(&mut start(), &settings(), Some(&plan), &mut StopAt(u64::MAX, 0));
        let Err(TrainError::Checkpoint { path, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(path, plan.path);
    }

    #[test]
    fn a_file_that_came_there_during_the_training_is_not_replaced() {
        /// Puts a file in the place of the checkpoint at the first step.
        struct Put<'a>(&'a std::path::Path);

        impl Control for Put<'_> {
            fn progress(&mut self, progress: &Progress<'_>) {
                if progress.step == 1 {
                    std::fs::write(self.0, b"thesis").expect("writes");
                }
            }

            fn interrupted(&self) -> bool {
                false
            }
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let plan =
            Checkpoint { path: dir.path().join("run.ckpt"), every: 7, fingerprint: "f".into() };
        let refused = train(&mut start(), &settings(), Some(&plan), &mut Put(&plan.path));
        assert!(matches!(refused, Err(TrainError::Checkpoint { .. })), "{refused:?}");
        assert_eq!(std::fs::read(&plan.path).expect("is there"), b"thesis");
        std::fs::remove_file(&plan.path).expect("is removed");
        train(&mut start(), &settings(), Some(&plan), &mut StopAt(u64::MAX, 0)).expect("trains");
        assert!(super::is_checkpoint(&plan.path).expect("is read"));
    }

    #[test]
    fn a_checkpoint_with_a_changed_byte_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("run.ckpt");
        let plan = Checkpoint { path, every: 7, fingerprint: "f".into() };
        let stopped = train(&mut start(), &settings(), Some(&plan), &mut StopAt(23, 0));
        assert!(stopped.is_err());
        let bytes = std::fs::read(&plan.path).expect("a checkpoint");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&plan.path, &changed).expect("writes");
            let refused = train(&mut start(), &settings(), Some(&plan), &mut StopAt(30, 0));
            let error = refused.expect_err("is refused");
            assert!(!matches!(error, TrainError::Interrupted { .. }), "byte {at}: {error}");
            assert!(error.to_string().contains("run.ckpt"), "byte {at}: {error}");
        }
    }

    #[test]
    fn a_diverging_run_is_stopped() {
        let mut settings = settings();
        settings.schedule.peak = 1e4;
        let error =
            train(&mut start(), &settings, None, &mut StopAt(u64::MAX, 0)).expect_err("diverges");
        assert!(matches!(error, TrainError::Diverged { .. }), "{error}");
    }

    #[test]
    fn a_gradient_that_is_not_finite_is_named_with_its_step() {
        struct Broken(Quadratic);
        impl Problem for Broken {
            fn slices(&mut self) -> Vec<Slice<'_>> {
                self.0.slices()
            }
            fn step(&mut self, step: u64) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
                let loss = self.0.step(step)?;
                if step == 5 {
                    self.0.gradient[0] = f32::NAN;
                }
                Ok(loss)
            }
            fn validate(&mut self) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
                self.0.validate()
            }
        }
        let error = train(&mut Broken(start()), &settings(), None, &mut StopAt(u64::MAX, 0))
            .expect_err("stops");
        assert!(matches!(error, TrainError::NonFinite { step: 5, .. }), "{error}");
    }
}
