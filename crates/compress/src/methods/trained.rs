//! Training of any operator on samples of a site, by explicit forward and backward.

use super::{Fit, FitProblem, FitReport, MethodTraits, relative};
use crate::fit::work;
use crate::{FitError, Unit};
use linwright_measure::capture::Needs;
use linwright_measure::samples::{Samples, gather, power};
use linwright_ops::{Backward, Grads, Op, OpSpec, Shape, Tape, Workspace};
use linwright_run::Measured;
use linwright_tensor::{Mat, MatRef, RngKey};
use linwright_train::{
    Control, OptimizerSettings, Problem, Rules, Schedule, Slice, TrainSettings, train,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operations of Adam per parameter, in multiply-adds.
const ADAM: f64 = 10.0;

/// Numbers of samples of a trained fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRows {
    /// Training samples.
    pub train: usize,
    /// Validation samples.
    pub validation: usize,
}

/// Options of training: Adam on the mean squared error with a cosine schedule; the parameters with
/// the least validation error are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Passes over the training samples.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub epochs: u32,
    /// Batch size; all samples if there are fewer.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub batch: usize,
    /// Peak learning rate.
    #[schemars(range(min = 0.0, max = 1e38))]
    pub rate: f64,
    /// Decoupled weight decay.
    #[schemars(range(min = 0.0, max = 1e38))]
    pub weight_decay: f64,
    /// Number of random starts; the one with the least validation error is kept.
    #[schemars(range(min = 1, max = 10_000))]
    pub starts: u32,
}

impl Default for Training {
    fn default() -> Self {
        Self { epochs: 1, batch: 256, rate: 0.05, weight_decay: 0.0, starts: 1 }
    }
}

impl Training {
    /// Checks the options.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { epochs, batch, rate, weight_decay, starts } = *self;
        let least = [("epochs", epochs as usize), ("batch", batch), ("starts", starts as usize)];
        if let Some((name, _)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("has training.{name} 0, at least 1 is needed"));
        }
        if !(rate.is_finite() && rate > 0.0) {
            return Err(format!("has training.rate {rate}, expected a positive number"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(format!("has training.weight_decay {weight_decay}, expected 0 or more"));
        }
        Ok(())
    }

    /// Those of a method that is trained and has these sizes.
    pub(super) fn traits(&self, units: &'static [Unit]) -> MethodTraits {
        MethodTraits { batch: self.batch, ..MethodTraits::new(Needs::Samples, units) }
    }

    /// Multiply-adds of a training: forward and backward (twice as many) for every sample, Adam for
    /// every parameter and step, validations, and final errors.
    pub(crate) fn work(
        &self,
        spec: &OpSpec,
        shape: Shape,
        rows: SampleRows,
    ) -> Result<f64, FitError> {
        let (macs, parameters) = work::cost(spec, shape)?;
        let beside = shape.out as f64 + shape.inp as f64;
        let (train, validation) = (rows.train as f64, rows.validation as f64);
        let steps = self.steps(rows.train) as f64;
        let validations = (steps / self.validate_every(rows.train) as f64).ceil();
        let trained = f64::from(self.epochs) * train * 3.0 * (macs + beside);
        let judged = (validations * validation + train) * (macs + beside);
        Ok(f64::from(self.starts) * (trained + judged + steps * ADAM * parameters))
    }

    /// Options for one start with one pass over the samples.
    pub(crate) fn shrunk(self) -> Self {
        Self { epochs: 1, starts: 1, ..self }
    }

    fn steps(&self, train: usize) -> u64 {
        train.div_ceil(self.batch.clamp(1, train.max(1))) as u64 * u64::from(self.epochs)
    }

    /// Number of steps between two validations.
    fn validate_every(&self, train: usize) -> u64 {
        self.steps(train).div_ceil(20).max(1)
    }

    /// Trains an operator with this specification on the samples of a problem.
    pub(crate) fn run(
        &self,
        spec: &OpSpec,
        problem: &FitProblem<'_>,
        control: &mut dyn Control,
    ) -> Result<Fit, FitError> {
        let samples = problem.samples()?;
        if samples.train == 0 || samples.train == samples.x.rows() {
            return Err(FitError::TooFewSamples { found: samples.x.rows(), needed: 2 });
        }
        let mut best: Option<Fit> = None;
        for start in 0..self.starts {
            let fit = self.run_once(spec, problem, samples, start, control)?;
            let better = |old: &Fit| fit.report.relative_error < old.report.relative_error;
            if best.as_ref().is_none_or(better) {
                best = Some(fit);
            }
        }
        best.ok_or(FitError::TooFewSamples { found: 0, needed: 1 })
    }

    fn run_once(
        &self,
        spec: &OpSpec,
        problem: &FitProblem<'_>,
        samples: &Samples,
        start: u32,
        control: &mut dyn Control,
    ) -> Result<Fit, FitError> {
        let key = problem.key.fold_index(u64::from(start));
        let op = spec.random::<f32>(problem.shape, key.fold("operator"))?;
        let batch = self.batch.min(samples.train);
        let steps = self.steps(samples.train);
        let settings = TrainSettings {
            name: problem.site.to_string(),
            steps,
            schedule: Schedule { peak: self.rate, warmup: 0, floor: 0.0 },
            optimizer: OptimizerSettings { weight_decay: self.weight_decay, ..Default::default() },
            validate_every: self.validate_every(samples.train),
            keep_best: true,
            divergence_factor: 1e3,
            rules: Rules::default(),
        };
        let mut regression = Regression::new(op, samples, batch, key.fold("batches"));
        if problem.biased() {
            regression.shift = Some(Shift::new(problem.shape.out));
        }
        let mut checkpoint = problem.checkpoint.cloned();
        if let Some(checkpoint) = &mut checkpoint {
            checkpoint.fingerprint = format!("{}-{start}", checkpoint.fingerprint);
            checkpoint.path.set_extension(format!("start{start}.ckpt"));
        }
        let outcome = train(&mut regression, &settings, checkpoint.as_ref(), control)?;
        let elements = problem.shape.out as f64;
        let relative = |mse: f64, power: f64| relative(mse * elements, power);
        let [(x, y), (validation_x, validation_y)] = [samples.training(), samples.validation()];
        let best_loss = match problem.biased() {
            true => {
                regression.settle_shift();
                regression.error(validation_x, validation_y)
            }
            false => outcome.best_loss,
        };
        let train_error = regression.error(x, y);
        let [train_power, validation_power] = [y, validation_y].map(power);
        Ok(Fit {
            report: FitReport {
                relative_error: relative(best_loss, validation_power),
                train_relative_error: relative(train_error, train_power),
                target_power: validation_power / elements,
                held_out: Some(validation_x.rows() > 0),
                ridge: None,
                dropped_directions: 0,
                shrinkage: None,
                curve: outcome.curve,
                seconds: Measured::default(),
                cut: None,
            },
            bias_shift: regression.shift.map(|shift| shift.values),
            op: regression.op,
        })
    }
}

/// Least-squares regression of an operator on samples, in batches.
struct Regression<'a> {
    op: Op<f32>,
    grads: Grads<f32>,
    /// Shift of the bias, trained with the operator.
    shift: Option<Shift>,
    samples: &'a Samples,
    batch: usize,
    key: RngKey,
    order: (u64, Vec<u32>),
    x: Mat<f32>,
    y: Mat<f32>,
    predicted: Mat<f32>,
    tape: Tape<f32>,
    ws: Workspace<f32>,
}

/// Shift of a slot's bias, and its gradient.
struct Shift {
    values: Vec<f32>,
    gradient: Vec<f32>,
}

impl Shift {
    fn new(out: usize) -> Self {
        Self { values: vec![0.0; out], gradient: vec![0.0; out] }
    }
}

impl<'a> Regression<'a> {
    fn new(op: Op<f32>, samples: &'a Samples, batch: usize, key: RngKey) -> Self {
        let grads = Grads::zeros(&op.map().params());
        Self {
            op,
            grads,
            shift: None,
            samples,
            batch,
            key,
            order: (u64::MAX, Vec::new()),
            x: Mat::default(),
            y: Mat::default(),
            predicted: Mat::default(),
            tape: Tape::default(),
            ws: Workspace::default(),
        }
    }

    /// Mean squared error per entry.
    fn error(&mut self, x: MatRef<'_, f32>, y: MatRef<'_, f32>) -> f64 {
        let mut sum = 0.0;
        self.in_blocks(x, y, |predicted, y| sum += squared_difference(predicted, y));
        sum / (y.rows() * y.cols()).max(1) as f64
    }

    /// Predictions and targets, in blocks of rows.
    fn in_blocks(
        &mut self,
        x: MatRef<'_, f32>,
        y: MatRef<'_, f32>,
        mut see: impl FnMut(MatRef<'_, f32>, MatRef<'_, f32>),
    ) {
        for start in (0..x.rows()).step_by(1024) {
            let rows = 1024.min(x.rows() - start);
            self.predicted.resize(rows, y.cols());
            let (map, x) = (self.op.map(), x.rows_range(start, rows));
            map.forward(x, self.predicted.view_mut(), None, &mut self.ws);
            self.add_shift();
            see(self.predicted.view(), y.rows_range(start, rows));
        }
    }

    fn add_shift(&mut self) {
        let Some(shift) = &self.shift else { return };
        for i in 0..self.predicted.rows() {
            self.predicted.row_mut(i).iter_mut().zip(&shift.values).for_each(|(p, b)| *p += b);
        }
    }

    /// Adds the mean residual over the training samples to the shift, which makes it optimal for
    /// the operator.
    fn settle_shift(&mut self) {
        let (x, y) = self.samples.training();
        let mut mean = vec![0.0; y.cols()];
        let n = y.rows().max(1) as f64;
        self.in_blocks(x, y, |predicted, y| {
            for i in 0..y.rows() {
                let residuals = y.row(i).iter().zip(predicted.row(i));
                let add = |(sum, (y, p)): (&mut f64, (&f32, &f32))| *sum += f64::from(y - p) / n;
                mean.iter_mut().zip(residuals).for_each(add);
            }
        });
        if let Some(shift) = &mut self.shift {
            shift.values.iter_mut().zip(mean).for_each(|(b, mean)| *b += mean as f32);
        }
    }
}

fn squared_difference(a: MatRef<'_, f32>, b: MatRef<'_, f32>) -> f64 {
    (0..a.rows())
        .map(|i| a.row(i).iter().zip(b.row(i)).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>())
        .sum()
}

impl Problem for Regression<'_> {
    fn slices(&mut self) -> Vec<Slice<'_>> {
        let Self { op, grads, shift, .. } = self;
        let params = op.map_mut().params_mut().into_iter().zip(grads.iter_mut());
        params
            .map(|(p, gradient)| Slice {
                name: p.name,
                values: p.values,
                gradient: gradient.into(),
                decay: true,
            })
            .chain(shift.as_mut().map(|Shift { values, gradient }| Slice {
                name: "slot.bias_shift".into(),
                values,
                gradient: gradient.as_mut_slice().into(),
                decay: false,
            }))
            .collect()
    }

    fn step(&mut self, step: u64) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
        let (x, y) = self.samples.training();
        let per_epoch = x.rows().div_ceil(self.batch) as u64;
        let (epoch, position) = (step / per_epoch, (step % per_epoch) as usize);
        if self.order.0 != epoch {
            self.order = (epoch, self.key.fold_index(epoch).stream().permutation(x.rows()));
        }
        let from = position * self.batch;
        let chosen = &self.order.1[from..(from + self.batch).min(x.rows())];
        gather(x, chosen, &mut self.x);
        gather(y, chosen, &mut self.y);
        self.predicted.resize(chosen.len(), y.cols());
        self.tape.clear();
        let map = self.op.map();
        map.forward(self.x.view(), self.predicted.view_mut(), Some(&mut self.tape), &mut self.ws);
        self.add_shift();
        let elements = (self.predicted.rows() * y.cols()) as f64;
        let loss = squared_difference(self.predicted.view(), self.y.view()) / elements;
        let scale = (2.0 / elements) as f32;
        for (p, y) in self.predicted.data_mut().iter_mut().zip(self.y.data()) {
            *p = scale * (*p - y);
        }
        self.grads.clear();
        if let Some(Shift { gradient, .. }) = &mut self.shift {
            gradient.fill(0.0);
            for i in 0..self.predicted.rows() {
                gradient.iter_mut().zip(self.predicted.row(i)).for_each(|(g, dy)| *g += dy);
            }
        }
        let (x, dy) = (self.x.view(), self.predicted.view());
        let args = Backward { x, dy, tape: &self.tape, dx: None, grads: Some(&mut self.grads) };
        self.op.map().backward(args, &mut self.ws);
        Ok(loss)
    }

    fn validate(&mut self) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
        let (x, y) = self.samples.validation();
        Ok(self.error(x, y))
    }
}
