//! A refitted dense weight, with which the output projection heals after a replacement.
//!
//! Closed: ridge regression `W = D (S + λ I)⁻¹` with `λ = ridge · trace(S) / inp`, the training
//! optimum. Trained: AdamW from a random start, as in arXiv:2507.11688 (learning rate 1e-4, weight
//! decay 1e-2, 15 epochs, batch size 256).

use super::{Fit, FitProblem, How, Method, SampleRows, Training, work};
use crate::{FitError, Size, Unit};
use linwright_measure::capture::Needs;
use linwright_ops::{Dense, DenseSpec, Op, OpSpec, Shape};
use linwright_tensor::Mat;
use linwright_tensor::linalg::solve_spd;
use linwright_train::Control;
use serde::{Deserialize, Serialize};

/// Fits a dense weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseMethod {
    /// Closed form or training.
    #[serde(default)]
    pub fit: How,
    /// Ridge parameter relative to the mean diagonal of the Gram matrix.
    #[serde(default = "DenseMethod::default_ridge")]
    pub ridge: f64,
    /// Options of a trained fit.
    #[serde(default = "DenseMethod::default_training")]
    pub training: Training,
}

impl DenseMethod {
    fn default_ridge() -> f64 {
        1e-4
    }

    fn default_training() -> Training {
        Training { epochs: 15, batch: 256, rate: 1e-4, weight_decay: 1e-2, starts: 1 }
    }
}

impl Default for DenseMethod {
    fn default() -> Self {
        Self { fit: How::Closed, ridge: Self::default_ridge(), training: Self::default_training() }
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

    fn units(&self) -> &'static [Unit] {
        &[]
    }

    fn check(&self, _size: Option<Size>) -> Result<(), String> {
        if !(self.ridge.is_finite() && self.ridge >= 0.0) {
            return Err(format!("has ridge {}, expected 0 or more", self.ridge));
        }
        self.training.check()
    }

    fn needs(&self) -> Needs {
        match self.fit {
            How::Closed => Needs::Stats,
            How::Trained => Needs::Samples,
        }
    }

    fn parameters(&self, _size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
        Ok(shape.dense_parameters())
    }

    fn work(&self, _size: Option<Size>, shape: Shape, rows: SampleRows) -> Result<f64, FitError> {
        let (out, inp) = work::sides(shape);
        match self.fit {
            How::Closed => Ok(inp.powi(3) / 3.0 + out * inp * inp + work::report(shape)),
            How::Trained => self.training.work(&OpSpec::Dense(DenseSpec {}), shape, rows),
        }
    }

    fn batch(&self) -> usize {
        self.training.batch
    }

    fn shrunk(&self, _by: usize) -> Self {
        Self { training: self.training.shrunk(), ..*self }
    }

    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
        if self.fit == How::Trained {
            return self.training.run(&OpSpec::Dense(DenseSpec {}), problem, control);
        }
        let inp = problem.shape.inp;
        let target = problem.target()?;
        let mut sxx = target.inputs.sxx.clone();
        let mean = (0..inp).map(|i| sxx.at(i, i)).sum::<f64>() / inp.max(1) as f64;
        let ridge = self.ridge * mean;
        (0..inp).for_each(|i| *sxx.at_mut(i, i) += ridge);
        let weight = match mean == 0.0 {
            // No input at all, as after attention without values: every weight is as good, and
            // none has the least norm.
            true => Mat::zeros(problem.shape.out, inp),
            false => solve_spd(sxx.view(), target.syx.view()).map_err(|error| {
                FitError::Numerics { what: "ridge regression", reason: error.to_string() }
            })?,
        };
        let op = Op::Linear(Box::new(Dense::new(weight.cast())));
        problem.closed(op, &weight, Some(ridge), 0)
    }
}
