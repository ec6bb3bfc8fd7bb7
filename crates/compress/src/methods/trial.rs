//! A weight and its inputs, for tests of what methods minimise.

use super::{Fit, FitProblem, MethodSpec};
use crate::fit::planted::{Losses, correlated, random};
use crate::fit::regression::multiply;
use crate::fit::spectrum::times;
use crate::{FitError, Size};
use linwright_measure::capture::Evidence;
use linwright_measure::stats::{InputStats, SiteStats};
use linwright_ops::{Dense, LowRank, Op, Shape, SiteId};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::{Mat, RngKey};
use std::sync::Arc;

/// A linear layer on fixed inputs.
pub(super) struct Trial {
    pub(super) weight: Mat<f32>,
    /// Inputs with `W x` as targets.
    pub(super) stats: SiteStats,
    pub(super) bias: Option<Vec<f32>>,
}

impl Trial {
    pub(super) fn new(x: &Mat<f32>, weight: Mat<f32>) -> Self {
        let dot = |o: usize, i: usize| weight.row(o).iter().zip(x.row(i)).map(|(w, x)| w * x).sum();
        let y = Mat::from_fn(x.rows(), weight.rows(), |i, o| dot(o, i));
        let stats = SiteStats::of(x.view(), y.view());
        Self { weight, stats, bias: None }
    }

    /// Correlated inputs with non-zero means.
    pub(super) fn correlated(shape: Shape, rows: usize) -> Self {
        let x = correlated(rows, shape.inp, 1);
        let x = Mat::from_fn(rows, shape.inp, |i, j| (x.at(i, j) + (j % 3) as f64) as f32);
        Self::new(&x, random(shape.out, shape.inp, 3).cast())
    }

    /// The same in a slot with a bias.
    pub(super) fn biased(self) -> Self {
        let bias = (0..self.weight.rows()).map(|o| o as f32 - 1.5).collect();
        Self { bias: Some(bias), ..self }
    }

    /// Changes the sums of the inputs.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut InputStats)) {
        change(Arc::make_mut(&mut self.stats.inputs));
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { out: self.weight.rows(), inp: self.weight.cols() }
    }

    pub(super) fn try_fit(&self, method: &MethodSpec, rank: usize) -> Result<Fit, FitError> {
        let (train, validation) = (self.stats.clone(), self.stats.clone());
        self.fit_to(method, rank, Some(&Evidence::Stats { train, validation }))
    }

    /// Sums over inputs alone, and over the outputs of the weight.
    pub(super) fn sums(&self) -> [Evidence; 2] {
        let inputs = &self.stats.inputs;
        let wide: Mat<f64> = self.weight.cast();
        let half = multiply(wide.view().into(), inputs.sxx.view().into());
        let sxx = multiply(half.view().into(), Arg::Transposed(wide.view()));
        let (sx, absolute) = (times(&self.weight, &inputs.sx), vec![0.0; wide.rows()]);
        let outputs = InputStats::new(sxx, sx, absolute, inputs.count);
        let of_inputs =
            Evidence::Inputs { train: Arc::clone(inputs), validation: Arc::clone(inputs) };
        [of_inputs, Evidence::Outputs { train: outputs.clone(), validation: outputs }]
    }

    pub(super) fn fit_to(
        &self,
        method: &MethodSpec,
        rank: usize,
        evidence: Option<&Evidence>,
    ) -> Result<Fit, FitError> {
        self.with(rank, evidence, |problem| method.fit(problem, &mut Losses::default()))
    }

    /// Errors of all ranks, as the method tells them.
    pub(super) fn curve(&self, method: &MethodSpec) -> Vec<f64> {
        let (train, validation) = (self.stats.clone(), self.stats.clone());
        let evidence = Evidence::Stats { train, validation };
        let curve = self.with(1, Some(&evidence), |problem| method.error_curve(problem));
        curve.expect("decomposes").expect("has one decomposition")
    }

    fn with<R>(
        &self,
        rank: usize,
        evidence: Option<&Evidence>,
        work: impl FnOnce(&FitProblem<'_>) -> R,
    ) -> R {
        let site = SiteId("a site".into());
        let original = Op::Linear(Box::new(Dense::new(self.weight.clone())));
        work(&FitProblem {
            site: &site,
            shape: self.shape(),
            original: &original,
            size: Some(Size::Rank(rank)),
            evidence,
            components: None,
            bias: self.bias.as_deref(),
            key: RngKey::new(5),
            ridge: None,
            checkpoint: None,
            part_rows: None,
        })
    }

    pub(super) fn fit(&self, method: &MethodSpec, rank: usize) -> Fit {
        self.try_fit(method, rank).unwrap_or_else(|error| panic!("{}: {error}", method.id()))
    }

    /// Mean squared error of a fit on the inputs, over that of the zero map.
    pub(super) fn error(&self, fit: &Fit) -> f64 {
        let a: Mat<f64> = fit.op.to_dense().expect("is linear").cast();
        let shift = fit.bias_shift.as_deref().unwrap_or_default().iter();
        let shift: Vec<f64> = shift.map(|b| f64::from(*b)).collect();
        self.stats.squared_error_with(&a, &shift) / self.stats.target_power()
    }

    pub(super) fn error_of(&self, method: &MethodSpec, rank: usize) -> f64 {
        self.error(&self.fit(method, rank))
    }

    /// Asserts that no random change of the factors, and of the bias if there is one, is better.
    pub(super) fn assert_no_nearby_is_better(&self, fit: &Fit) {
        let best = self.error(fit);
        let mut stream = RngKey::new(9).stream();
        for step in (0..60).map(|n| 0.1f64.powi(1 + n % 3)) {
            let mut nudged = |values: &[f32]| -> Vec<f32> {
                let power = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
                let mut nudge = || (step * stream.normal()) as f32 * power.sqrt();
                values.iter().map(|x| x + nudge()).collect()
            };
            let params = fit.op.map().params();
            let factor = |k: usize, values: Vec<f32>| {
                Mat::from_vec(params[k].shape[0], params[k].shape[1], values)
            };
            let (u, v) = (nudged(params[0].values), nudged(params[1].values));
            let op = LowRank::new(factor(0, u), factor(1, v));
            let near = Fit {
                op: Op::Linear(Box::new(op)),
                bias_shift: fit.bias_shift.as_deref().map(nudged),
                report: fit.report.clone(),
            };
            let found = self.error(&near);
            // Sums in f64 of products of f32 factors tell errors apart to about 1e-7.
            assert!(found > best - 1e-7, "{found} is below {best}, at a step of {step}");
        }
    }
}
