//! Common code of the tests of fits: random matrices, moments, and planted members.

use super::regression::{Inputs, multiply};
use super::{FitOptions, OperatorFit, Target, fit_operator};
use linwright_ops::{OpSpec, Shape};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Control, Progress};

pub(crate) fn random(rows: usize, cols: usize, seed: u64) -> Mat<f64> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
}

/// Sums of squares of rows.
pub(crate) fn inputs_of(x: &Mat<f64>) -> Inputs {
    let second = multiply(Arg::Transposed(x.view()), x.view().into());
    Inputs::new(second.view(), x.rows()).expect("decomposes")
}

/// Rows with correlated features of different scales.
pub(crate) fn correlated(rows: usize, inp: usize, seed: u64) -> Mat<f64> {
    let (mut x, mix) = (random(rows, inp, seed), random(inp, inp, seed + 1));
    for i in 0..rows {
        x.row_mut(i).iter_mut().enumerate().for_each(|(j, x)| *x /= (1 + j % 3) as f64);
    }
    let mut mixed = multiply(x.view().into(), mix.view().into());
    mixed.data_mut().iter_mut().zip(x.data()).for_each(|(m, x)| *m = 0.2 * *m + x);
    mixed
}

/// Records the losses of a fit; never cancels.
#[derive(Default)]
pub(crate) struct Losses(pub Vec<f64>);

impl Control for Losses {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.0.push(progress.loss);
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// A fit that must succeed.
pub(crate) fn fitted(spec: &OpSpec, target: &Target<'_>, options: &FitOptions) -> OperatorFit {
    fit_operator(spec, target, options, &mut Losses::default()).expect("fits")
}

/// Relative distance `|A - B| / |B|` in the Frobenius norm.
pub(crate) fn distance(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let away: f64 = a.data().iter().zip(b.data()).map(|(a, b)| (a - b).powi(2)).sum();
    (away / b.data().iter().map(|b| b * b).sum::<f64>()).sqrt()
}

/// Distances of the fitted operators from a random member of a kind: fitted to its dense weight,
/// and to moments of correlated inputs.
pub(crate) fn recovered(spec: &OpSpec, shape: Shape, seed: u64, options: &FitOptions) -> [f64; 2] {
    let member = spec.random::<f64>(shape, RngKey::new(seed)).expect("exists");
    let weight = member.to_dense().expect("is linear");
    let x = correlated(6 * shape.inp, shape.inp, seed + 10);
    let y = multiply(x.view().into(), Arg::Transposed(weight.view()));
    let second = multiply(Arg::Transposed(x.view()), x.view().into());
    let cross = multiply(Arg::Transposed(y.view()), x.view().into());
    let power = super::regression::squares(&y);
    let moments = Target::Moments { second: second.view(), cross: cross.view(), power };
    [Target::Weight(weight.view()), moments].map(|target| {
        let fit = fitted(spec, &target, options);
        distance(&fit.op.to_dense().expect("is linear"), &weight)
    })
}

/// Asserts that fits recover members of a kind up to rounding.
pub(crate) fn assert_recovers(spec: &OpSpec, shape: Shape) {
    let options = FitOptions { tolerance: 0.0, ..FitOptions::default() };
    for seed in 0..2 {
        let [of_weight, of_moments] = recovered(spec, shape, seed, &options);
        assert!(of_weight < 1e-10, "{spec:?}, seed {seed}: {of_weight:e} of the weight");
        assert!(of_moments < 1e-10, "{spec:?}, seed {seed}: {of_moments:e} of moments");
    }
}

/// A problem without an exact solution by a small operator: correlated inputs, noisy targets.
pub(crate) fn noisy(shape: Shape, seed: u64) -> (Mat<f64>, Mat<f64>) {
    let x = correlated(8 * shape.inp, shape.inp, seed);
    let weight = random(shape.out, shape.inp, seed + 5);
    let mut y = multiply(x.view().into(), Arg::Transposed(weight.view()));
    let noise = random(y.rows(), y.cols(), seed + 6);
    y.data_mut().iter_mut().zip(noise.data()).for_each(|(y, noise)| *y += 0.3 * noise);
    (x, y)
}

/// Fits a kind to a problem without an exact solution and asserts that the error never increases;
/// returns the relative error before the first step and at the end.
pub(crate) fn assert_monotone(spec: &OpSpec, shape: Shape) -> [f64; 2] {
    let (x, y) = noisy(shape, 3);
    let target = Target::Samples { x: x.view(), y: y.view() };
    let options = FitOptions { starts: 1, iterations: 40, ..FitOptions::default() };
    let at_once = FitOptions { iterations: 0, ..options };
    let mut losses = Losses::default();
    let fit = fit_operator(spec, &target, &options, &mut losses).expect("fits");
    assert!(losses.0.len() > 1, "{spec:?}: nothing alternated");
    assert!(losses.0.windows(2).all(|pair| pair[1] <= pair[0]), "{spec:?}: {:?}", losses.0);
    let first = fitted(spec, &target, &at_once).relative_error;
    assert!(fit.relative_error <= first, "{spec:?}: {} after {first}", fit.relative_error);
    [first, fit.relative_error]
}
