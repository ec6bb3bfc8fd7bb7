//! The same optima by minimisation from random starts: a check of the closed forms, also for cases
//! that they do not cover, such as too few features.

use super::{Fit, Gufm, Ufm};
use crate::CollapseError;
use linwright_run::memory;
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, MatRef, RngKey};
use linwright_train::{Control, LbfgsSettings, lbfgs};
use serde::{Deserialize, Serialize};

/// Largest number of iterations of a minimisation.
const ITERATIONS: u64 = 5000;
/// Memory of a minimisation, in steps.
const HISTORY: usize = 20;
/// Epsilon of a LayerNorm.
const EPSILON: f64 = 1e-12;

/// A model to minimise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Problem {
    /// Penalised features.
    Free(Ufm),
    /// Features after a LayerNorm, with this number of samples for each class.
    Normalised(Gufm, u64),
}

/// What minimisation found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumericOptimum {
    /// The smallest objective of all starts.
    pub objective: f64,
    /// The objective of each start.
    pub of_starts: Vec<f64>,
    /// Iterations of each start.
    pub iterations: Vec<u64>,
    /// Mean of |w_k|².
    pub head_row_squared: f64,
    /// Mean of |h|².
    pub feature_squared: f64,
    /// The head of the best start, (K, d).
    #[serde(skip)]
    pub head: Mat<f64>,
    /// Its features, (N, d), class by class.
    #[serde(skip)]
    pub features: Mat<f64>,
}

/// Minimises from random starts with `features` features, L-BFGS in double precision.
///
/// # Errors
/// [`CollapseError::Train`] if cancelled, [`CollapseError::Setting`] for no features or starts,
/// [`CollapseError::Memory`] for too many.
pub fn minimise(
    problem: Problem,
    features: usize,
    (starts, key): (usize, RngKey),
    control: &mut dyn Control,
) -> Result<NumericOptimum, CollapseError> {
    for (what, count) in [("the number of features", features), ("the number of starts", starts)] {
        if count == 0 {
            let (found, expected) = ("0".to_owned(), "1 or more".to_owned());
            return Err(CollapseError::Setting { what, found, expected });
        }
    }
    let model = Model::of(problem, features);
    model.check_memory()?;
    let mut best: Option<(f64, Vec<f64>)> = None;
    let (mut of_starts, mut iterations) = (Vec::new(), Vec::new());
    for start in 0..starts as u64 {
        let values = key.fold("start").fold_index(start).stream().normals(model.numbers(), 1.0);
        let settings = LbfgsSettings {
            name: format!("start {}", start + 1),
            iterations: ITERATIONS,
            memory: HISTORY,
            tolerance: 1e-15,
            enough: 0.0,
        };
        let mut loss = |at: &[f64], gradient: &mut [f64]| model.loss(at, gradient);
        let found = lbfgs(&mut loss, values, &settings, control)?;
        of_starts.push(found.loss);
        iterations.push(found.iterations);
        if best.as_ref().is_none_or(|(least, _)| found.loss < *least) {
            best = Some((found.loss, found.values));
        }
    }
    let (objective, values) = best.unwrap_or_default();
    let (head, features, _) = model.parts(&values);
    let features = model.normalised(features);
    let mean_square = |a: &Mat<f64>| a.data().iter().map(|x| x * x).sum::<f64>() / a.rows() as f64;
    let head = head.to_mat();
    Ok(NumericOptimum {
        objective,
        of_starts,
        iterations,
        head_row_squared: mean_square(&head),
        feature_squared: mean_square(&features),
        head,
        features,
    })
}

/// The objective over head (K, d), features (N, d) and bias (K), in this order.
pub(crate) struct Model {
    classes: usize,
    per_class: usize,
    d: usize,
    head_strength: f64,
    feature_strength: f64,
    norm: Option<f64>,
    fit: Fit,
}

impl Model {
    pub(crate) fn of(problem: Problem, d: usize) -> Self {
        match problem {
            Problem::Free(ufm) => Self {
                classes: ufm.classes,
                per_class: ufm.per_class as usize,
                d,
                head_strength: ufm.head_strength,
                feature_strength: ufm.feature_strength,
                norm: None,
                fit: ufm.fit,
            },
            Problem::Normalised(gufm, per_class) => Self {
                classes: gufm.classes,
                per_class: per_class as usize,
                d,
                head_strength: gufm.strength,
                feature_strength: 0.0,
                norm: Some(gufm.norm),
                fit: gufm.fit,
            },
        }
    }

    /// Rejects problems that do not fit in memory: the parameters, which a minimisation stores
    /// twice for each remembered step, and the logits.
    fn check_memory(&self) -> Result<(), CollapseError> {
        let [classes, per_class, d] = [self.classes, self.per_class, self.d].map(|n| n as u64);
        let rows = memory::product(&[classes, per_class]);
        let parameters = memory::product(&[rows.saturating_add(classes), d, 2 * HISTORY as u64]);
        let numbers = parameters.saturating_add(memory::product(&[rows, classes]));
        let what = || {
            format!("minimising over {classes} classes of {per_class} samples with {d} features")
        };
        Ok(memory::check(what, &[numbers, size_of::<f64>() as u64])?)
    }

    fn rows(&self) -> usize {
        self.classes * self.per_class
    }

    pub(crate) fn numbers(&self) -> usize {
        let bias = if self.fit == Fit::SquaredErrorBias { self.classes } else { 0 };
        (self.classes + self.rows()) * self.d + bias
    }

    fn parts<'a>(&self, values: &'a [f64]) -> (MatRef<'a, f64>, MatRef<'a, f64>, &'a [f64]) {
        let (head, rest) = values.split_at(self.classes * self.d);
        let (features, bias) = rest.split_at(self.rows() * self.d);
        let features = MatRef::new(features, self.rows(), self.d);
        (MatRef::new(head, self.classes, self.d), features, bias)
    }

    /// Features at the input of the head.
    fn normalised(&self, free: MatRef<'_, f64>) -> Mat<f64> {
        let mut features = free.to_mat();
        if let Some(norm) = self.norm {
            for i in 0..features.rows() {
                let row = features.row_mut(i);
                let mean = row.iter().sum::<f64>() / row.len() as f64;
                row.iter_mut().for_each(|x| *x -= mean);
                let length = (row.iter().map(|x| x * x).sum::<f64>() + EPSILON).sqrt();
                row.iter_mut().for_each(|x| *x *= norm / length);
            }
        }
        features
    }

    pub(crate) fn loss(&self, values: &[f64], gradient: &mut [f64]) -> f64 {
        let (head, free, bias) = self.parts(values);
        let features = self.normalised(free);
        let mut logits = Mat::zeros(self.rows(), self.classes);
        linear(features.view(), head, logits.view_mut(), Write::Set);
        let mut total = 0.0;
        for i in 0..logits.rows() {
            let row = logits.row_mut(i);
            row.iter_mut().zip(bias).for_each(|(logit, bias)| *logit += bias);
            total += fit_of_row(self.fit, row, i / self.per_class);
        }
        let scale = 1.0 / self.rows() as f64;
        logits.data_mut().iter_mut().for_each(|d| *d *= scale);
        let (of_head, rest) = gradient.split_at_mut(self.classes * self.d);
        let (of_features, of_bias) = rest.split_at_mut(self.rows() * self.d);
        let square = |a: &[f64]| a.iter().map(|x| x * x).sum::<f64>();
        let penalty =
            self.head_strength * square(head.data()) + self.feature_strength * square(free.data());
        of_head.copy_from_slice(head.data());
        of_head.iter_mut().for_each(|g| *g *= self.head_strength);
        let into = linwright_tensor::MatMut::new(of_head, self.classes, self.d);
        let left = Arg::Transposed(logits.view());
        product(1.0, left, features.view().into(), into, Write::Add);
        let mut through = Mat::zeros(self.rows(), self.d);
        product(1.0, logits.view().into(), head.into(), through.view_mut(), Write::Set);
        if let Some(norm) = self.norm {
            for i in 0..through.rows() {
                layer_norm_back(norm, free.row(i), features.row(i), through.row_mut(i));
            }
        }
        for ((to, through), free) in of_features.iter_mut().zip(through.data()).zip(free.data()) {
            *to = through + self.feature_strength * free;
        }
        of_bias.fill(0.0);
        for i in 0..if of_bias.is_empty() { 0 } else { logits.rows() } {
            of_bias.iter_mut().zip(logits.row(i)).for_each(|(to, d)| *to += d);
        }
        total * scale + 0.5 * penalty
    }
}

/// The loss of one row of logits, which are overwritten by its gradient.
pub(crate) fn fit_of_row(fit: Fit, logits: &mut [f64], label: usize) -> f64 {
    if fit != Fit::CrossEntropy {
        logits[label] -= 1.0;
        return 0.5 * logits.iter().map(|x| x * x).sum::<f64>();
    }
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let own = logits[label] - largest;
    logits.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f64 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= sum);
    logits[label] -= 1.0;
    sum.ln() - own
}

/// Gradient of `z` from that of `h = ρ (z - mean) / √(|z - mean|² + ε)`, in place.
pub(crate) fn layer_norm_back(norm: f64, z: &[f64], h: &[f64], gradient: &mut [f64]) {
    let count = z.len() as f64;
    let mean = z.iter().sum::<f64>() / count;
    let length = (z.iter().map(|x| (x - mean).powi(2)).sum::<f64>() + EPSILON).sqrt();
    let along = gradient.iter().zip(h).map(|(g, h)| g * h).sum::<f64>() / (norm * norm);
    gradient.iter_mut().zip(h).for_each(|(g, h)| *g = (*g - along * h) * norm / length);
    let mean = gradient.iter().sum::<f64>() / count;
    gradient.iter_mut().for_each(|g| *g -= mean);
}
