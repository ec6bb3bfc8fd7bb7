//! A refitted dense weight, with which the output projection heals after a replacement.
//!
//! Closed: the regression of the original's outputs with a ridge towards the weight
//! ([`crate::fit::Ridge`]); the paper below has a ridge towards zero. Trained: AdamW from a random
//! start, as in arXiv:2507.11688 (rate 1e-4, weight decay 1e-2, 15 epochs, batches of 256).

use super::{Fit, FitProblem, How, Method, MethodTraits, SampleRows, Training};
use crate::fit::Ridge;
use crate::fit::work;
use crate::{FitError, Size};
use linwright_measure::capture::Needs;
use linwright_ops::{Dense, DenseSpec, Op, OpSpec, Shape};
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fits a dense weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenseMethod {
    /// Closed form or training.
    #[serde(default)]
    pub fit: How,
    /// Ridge of the regression towards the weight.
    #[serde(default)]
    pub ridge: Ridge,
    /// Options of a trained fit.
    #[serde(default = "DenseMethod::default_training")]
    pub training: Training,
}

impl DenseMethod {
    fn default_training() -> Training {
        Training { epochs: 15, batch: 256, rate: 1e-4, weight_decay: 1e-2, starts: 1 }
    }
}

impl Default for DenseMethod {
    fn default() -> Self {
        Self { fit: How::Closed, ridge: Ridge::Auto, training: Self::default_training() }
    }
}

impl Method for DenseMethod {
    const ID: &'static str = "dense";
    const SUMMARY: &'static str = "a dense weight refitted by ridge regression or trained, with which the output projection heals";

    fn label(&self, _size: Option<Size>) -> String {
        match self.fit {
            How::Closed => "dense-ridge".into(),
            How::Trained => "dense-trained".into(),
        }
    }

    fn traits(&self) -> MethodTraits {
        match self.fit {
            How::Closed => {
                MethodTraits { ridge: Some(self.ridge), ..MethodTraits::new(Needs::Stats, &[]) }
            }
            How::Trained => self.training.traits(&[]),
        }
    }

    fn check(&self, _size: Option<Size>) -> Result<(), String> {
        self.ridge.check()?;
        self.training.check()
    }

    fn parameters(&self, _size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
        Ok(shape.dense_parameters())
    }

    fn work(&self, _size: Option<Size>, shape: Shape, rows: SampleRows) -> Result<f64, FitError> {
        match self.fit {
            How::Closed => Ok(work::regression(self.ridge, shape) + work::report(shape)),
            How::Trained => self.training.work(&OpSpec::Dense(DenseSpec {}), shape, rows),
        }
    }

    fn shrunk(&self, _by: usize) -> Self {
        Self { training: self.training.shrunk(), ..*self }
    }

    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
        if self.fit == How::Trained {
            return self.training.run(&OpSpec::Dense(DenseSpec {}), problem, control);
        }
        let target = problem.target(self.ridge)?;
        let op = Op::Linear(Box::new(Dense::new(target.pulled.map.cast())));
        problem.closed(op, &target.pulled.map, &target.pulled)
    }
}
