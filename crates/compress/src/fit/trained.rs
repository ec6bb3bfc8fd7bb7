//! Fits by L-BFGS on all rows at once, from forward and backward only.
//!
//! Linear operators are trained on rows equivalent to the moments, others on samples. The best of
//! several starts is kept, and the first one with zero error ends the search. With moments, every
//! other start, including the first, is first trained on the least-squares map as a weight: this
//! weights all input directions equally and converges faster.

use super::alternate::ROUNDING;
use super::kind::{self, LeastSquares};
use super::regression::{Regression, Rows, squares, subtract};
use super::{Context, Found, NAME, Procedure};
use crate::FitError;
use linwright_ops::{Backward, Grads, Op, OpSpec, Shape, Tape, Workspace};
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Control, LbfgsSettings, Progress, lbfgs};

/// Number of vector pairs of L-BFGS.
const MEMORY: usize = 30;

impl LeastSquares<'_, '_> {
    /// Trains from the initial operator, or from random starts.
    pub(super) fn trained(&self, context: &mut Context<'_>) -> Result<Found, FitError> {
        let (regression, rows) = (self.regression, self.regression.rows());
        if let Some(op) = self.from {
            return descend(op.clone(), &rows, context);
        }
        let map = || Regression::of_weight(regression.least_squares().view()).rows();
        let weight = regression.second().map(|_| map());
        fit(self.spec, regression.shape(), &rows, weight.as_ref(), context)
    }
}

/// The best of several starts on `rows`; `weight` are the rows of the least-squares map, if that is
/// another problem.
pub(super) fn fit(
    spec: &OpSpec,
    shape: Shape,
    rows: &Rows,
    weight: Option<&Rows>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let mut best: Option<Found> = None;
    for start in 0..context.options.starts.max(1) {
        let mut op = beginning(spec, shape, u64::from(start), context.options.key)?;
        if let (Some(weight), true) = (weight, start % 2 == 0) {
            op = descend(op, weight, context)?.op;
        }
        let found = descend(op, rows, context)?;
        best = Some(Found::better(best, found));
        if best.as_ref().is_some_and(|best| best.error <= 1e-20 * rows.power) {
            break;
        }
    }
    best.ok_or(FitError::TooFewSamples { found: 0, needed: 1 })
}

/// Initial operator of start number `start`: random as in its source, or as the kind begins the
/// first start.
fn beginning(spec: &OpSpec, shape: Shape, start: u64, key: RngKey) -> Result<Op<f64>, FitError> {
    let key = key.fold("start").fold_index(start);
    let mut op = spec.random::<f64>(shape, key)?;
    if let (Some(first), 0) = (kind::of(spec).first_start(), start) {
        let near = first.random::<f64>(shape, key)?;
        for (to, from) in op.map_mut().params_mut().iter_mut().zip(near.map().params()) {
            to.values.copy_from_slice(from.values);
        }
    }
    Ok(op)
}

/// Minimises the error from the current parameters of an operator.
pub(super) fn descend(
    op: Op<f64>,
    rows: &Rows,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let settings = LbfgsSettings {
        name: NAME.into(),
        iterations: u64::from(context.options.iterations),
        memory: MEMORY,
        tolerance: context.options.tolerance,
        enough: ROUNDING * rows.power,
    };
    let mut descent = Descent::new(op, rows);
    let start = values(&descent.op);
    let minimum = lbfgs(
        &mut |values, gradient| descent.loss(values, gradient),
        start,
        &settings,
        &mut WithRest { control: context.control, rest: rows.rest },
    )?;
    descent.set(&minimum.values);
    let error = minimum.loss + rows.rest;
    Ok(Found {
        op: descent.op,
        error,
        procedure: Procedure::Trained,
        iterations: minimum.iterations,
    })
}

/// Passes on progress, with the irreducible error added.
struct WithRest<'a> {
    control: &'a mut dyn Control,
    rest: f64,
}

impl Control for WithRest<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.control.progress(&Progress { loss: progress.loss + self.rest, ..*progress });
    }

    fn interrupted(&self) -> bool {
        self.control.interrupted()
    }
}

/// All parameters, concatenated.
fn values(op: &Op<f64>) -> Vec<f64> {
    op.map().params().iter().flat_map(|p| p.values.iter().copied()).collect()
}

/// An operator with the buffers of an L-BFGS evaluation.
struct Descent<'a> {
    op: Op<f64>,
    rows: &'a Rows,
    grads: Grads<f64>,
    predicted: Mat<f64>,
    tape: Tape<f64>,
    ws: Workspace<f64>,
}

impl<'a> Descent<'a> {
    fn new(op: Op<f64>, rows: &'a Rows) -> Self {
        let grads = Grads::zeros(&op.map().params());
        let predicted = Mat::zeros(rows.x.rows(), rows.y.cols());
        Self { op, rows, grads, predicted, tape: Tape::default(), ws: Workspace::default() }
    }

    fn set(&mut self, values: &[f64]) {
        let mut at = 0;
        for p in self.op.map_mut().params_mut() {
            p.values.copy_from_slice(&values[at..at + p.values.len()]);
            at += p.values.len();
        }
    }

    fn loss(&mut self, values: &[f64], gradient: &mut [f64]) -> f64 {
        self.set(values);
        self.tape.clear();
        let (x, map) = (self.rows.x.view(), self.op.map());
        #[cfg(test)]
        crate::fit::counted::add(3.0 * x.rows() as f64 * map.macs_per_row() as f64);
        map.forward(x, self.predicted.view_mut(), Some(&mut self.tape), &mut self.ws);
        subtract(&mut self.predicted, &self.rows.y);
        let loss = squares(&self.predicted);
        self.predicted.data_mut().iter_mut().for_each(|v| *v *= 2.0);
        self.grads.clear();
        let dy = self.predicted.view();
        let args = Backward { x, dy, tape: &self.tape, dx: None, grads: Some(&mut self.grads) };
        map.backward(args, &mut self.ws);
        let all = self.grads.iter().flatten();
        gradient.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        loss
    }
}

#[cfg(test)]
mod tests {
    use crate::FitError;
    use crate::fit::planted::{Losses, correlated, distance, fitted, random, recovered};
    use crate::fit::{FitOptions, Procedure, Target, fit_from, fit_operator, project};
    use linwright_ops::{
        BlockHadamardSpec, DiagonalLowRankSpec, Map, MonarchSpec, Nonlinearity, Op, OpSpec,
        ProductSpec, RotorNetworkSpec, RotorSpec, Shape, Workspace,
    };
    use linwright_tensor::{Mat, RngKey};
    use linwright_train::{Control, Progress, TrainError};

    fn square(n: usize) -> Shape {
        Shape { out: n, inp: n }
    }

    /// Recovers members of a kind with a number of starts, from the weight and from moments.
    fn assert_found(spec: &OpSpec, shape: Shape, starts: u32) {
        let options = FitOptions { starts, ..FitOptions::default() };
        for seed in 0..2 {
            let [of_weight, of_moments] = recovered(spec, shape, seed, &options);
            assert!(of_weight < 1e-6, "{spec:?}, seed {seed}: {of_weight:e} of the weight");
            assert!(of_moments < 1e-6, "{spec:?}, seed {seed}: {of_moments:e} of moments");
        }
    }

    #[test]
    fn single_rotors_are_found_with_eight_starts() {
        let spec = RotorSpec { single: true, ..RotorSpec::default() };
        assert_found(&OpSpec::Rotor(spec), square(8), 8);
    }

    #[test]
    fn double_rotors_are_found_with_sixteen_starts() {
        assert_found(&OpSpec::Rotor(RotorSpec::default()), square(8), 16);
    }

    #[test]
    fn blocks_between_hadamard_transforms_are_found_with_eight_starts() {
        let spec = BlockHadamardSpec { depth: 2, block: 4, blocks: Some(2) };
        assert_found(&OpSpec::BlockHadamard(spec), square(8), 8);
    }

    #[test]
    fn products_are_found_with_four_starts() {
        let monarch = OpSpec::Monarch(MonarchSpec { blocks: Some(2) });
        let diagonal = OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank: 0 });
        let spec = ProductSpec { factors: vec![monarch, diagonal], widths: None };
        assert_found(&OpSpec::Product(spec), square(6), 4);
    }

    #[test]
    fn networks_are_trained_on_samples_and_on_nothing_else() {
        let network = RotorNetworkSpec {
            nonlinearity: Nonlinearity::Gelu,
            hidden_layers: 1,
            ..RotorNetworkSpec::default()
        };
        let (spec, shape) = (OpSpec::RotorNetwork(network), square(8));
        let member = spec.random::<f64>(shape, RngKey::new(0).fold("start").fold_index(0));
        let member = member.expect("exists");
        let x = random(60, 8, 1);
        let mut y = Mat::zeros(60, 8);
        member.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
        let samples = Target::Samples { x: x.view(), y: y.view() };
        // Permutations are drawn and not trained: those of the first start equal the member's.
        let options = FitOptions { starts: 1, ..FitOptions::default() };
        let same = fitted(&spec, &samples, &options);
        assert!(same.relative_error < 1e-20 && same.procedure == Procedure::Trained);
        let other = FitOptions { key: RngKey::new(7), ..options.clone() };
        let before = fitted(&spec, &samples, &FitOptions { iterations: 0, ..other.clone() });
        let after = fitted(&spec, &samples, &other);
        assert!(after.relative_error < 0.9 * before.relative_error, "{}", after.relative_error);
        let target = Target::Weight(x.view().rows_range(0, 8));
        for result in [
            fit_operator(&spec, &target, &options, &mut Losses::default()),
            fit_from(member, &target, &options, &mut Losses::default()),
        ] {
            assert!(matches!(result, Err(FitError::Evidence { .. })), "{result:?}");
        }
    }

    /// `y = x (A + t 1)`: an operator outside the list.
    #[derive(Clone, Debug)]
    struct Shifted(Vec<f64>);

    impl Map<f64> for Shifted {
        fn spec(&self) -> OpSpec {
            OpSpec::External { name: "shifted" }
        }

        fn shape(&self) -> Shape {
            square(3)
        }

        fn macs_per_row(&self) -> u64 {
            3
        }

        fn params(&self) -> Vec<linwright_ops::Param<'_, f64>> {
            vec![linwright_ops::Param { name: "t".into(), shape: vec![1], values: &self.0 }]
        }

        fn params_mut(&mut self) -> Vec<linwright_ops::ParamMut<'_, f64>> {
            vec![linwright_ops::ParamMut { name: "t".into(), shape: vec![1], values: &mut self.0 }]
        }

        fn forward(
            &self,
            x: linwright_tensor::MatRef<'_, f64>,
            mut y: linwright_tensor::MatMut<'_, f64>,
            _tape: Option<&mut linwright_ops::Tape<f64>>,
            _ws: &mut Workspace<f64>,
        ) {
            for i in 0..x.rows() {
                y.row_mut(i).iter_mut().zip(x.row(i)).for_each(|(y, x)| *y = self.0[0] * x);
            }
        }

        fn backward(&self, args: linwright_ops::Backward<'_, '_, f64>, _ws: &mut Workspace<f64>) {
            let rows = 0..args.x.rows();
            let of_row = |i: usize| -> f64 {
                args.dy.row(i).iter().zip(args.x.row(i)).map(|(dy, x)| dy * x).sum()
            };
            let sum = rows.map(of_row).sum::<f64>();
            args.grads.into_iter().for_each(|grads| grads.get_mut(0)[0] += sum);
        }

        fn clone_op(&self) -> Op<f64> {
            Op::Linear(Box::new(self.clone()))
        }
    }

    impl linwright_ops::LinearOp<f64> for Shifted {}

    #[test]
    fn an_operator_of_another_crate_is_trained_from_where_it_stands() {
        let x = correlated(30, 3, 1);
        let y = Mat::from_fn(30, 3, |i, j| 2.5 * x.at(i, j));
        let start = Op::Linear(Box::new(Shifted(vec![-1.0])));
        let target = Target::Samples { x: x.view(), y: y.view() };
        let options = FitOptions::default();
        let fit = fit_from(start, &target, &options, &mut Losses::default()).expect("fits");
        assert!((fit.op.map().params()[0].values[0] - 2.5).abs() < 1e-9);
        let spec = OpSpec::External { name: "shifted" };
        let unknown = fit_operator(&spec, &target, &options, &mut Losses::default());
        assert!(matches!(unknown, Err(FitError::Operator(_))), "{unknown:?}");
    }

    #[test]
    fn targets_that_are_not_finite_or_do_not_belong_together_are_named() {
        let mut weight = random(4, 6, 1);
        let options = FitOptions::default();
        let dense = OpSpec::default_of("dense").expect("has defaults");
        let (second, x) = (random(5, 5, 2), random(7, 6, 3));
        let moments = Target::Moments { second: second.view(), cross: weight.view(), power: 1.0 };
        let samples = Target::Samples { x: x.view(), y: weight.view() };
        for (target, word) in [(moments, "second moment"), (samples, "targets")] {
            let error = fit_operator(&dense, &target, &options, &mut Losses::default());
            let said = error.expect_err("does not fit").to_string();
            assert!(said.contains(word) && said.contains("expected"), "{said}");
        }
        *weight.at_mut(1, 2) = f64::NAN;
        let error = project(&dense, weight.view(), &options, &mut Losses::default());
        let said = error.expect_err("not finite").to_string();
        assert!(said.contains("weight of the target"), "{said}");
        let odd = OpSpec::default_of("butterfly").expect("has defaults");
        let error = project(&odd, x.view(), &options, &mut Losses::default());
        assert!(matches!(error, Err(FitError::Operator(_))), "{error:?}");
    }

    struct Stopped;

    impl Control for Stopped {
        fn progress(&mut self, _progress: &Progress<'_>) {}

        fn interrupted(&self) -> bool {
            true
        }
    }

    #[test]
    fn every_fit_that_takes_long_can_be_interrupted_and_repeats_its_bits() {
        let (x, y) = crate::fit::planted::noisy(square(8), 1);
        let target = Target::Samples { x: x.view(), y: y.view() };
        let options = FitOptions { starts: 2, iterations: 5, ..FitOptions::default() };
        let low_rank = OpSpec::LowRank(linwright_ops::LowRankSpec { rank: 1 });
        let kinds = ["kronecker", "monarch", "butterfly", "rotor"];
        let mut specs: Vec<_> =
            kinds.map(|kind| OpSpec::default_of(kind).expect("has defaults")).into();
        specs.push(OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank: 1 }));
        specs.push(OpSpec::Sum(linwright_ops::SumSpec { terms: vec![specs[0].clone(), low_rank] }));
        for spec in specs {
            let error = fit_operator(&spec, &target, &options, &mut Stopped);
            let interrupted = matches!(error, Err(FitError::Train(TrainError::Interrupted { .. })));
            assert!(interrupted, "{spec:?}: {error:?}");
            let [one, two] = [(); 2].map(|()| fitted(&spec, &target, &options));
            let [one, two] = [one, two].map(|fit| fit.op.to_dense().expect("is linear"));
            assert_eq!(distance(&one, &two), 0.0, "{spec:?}");
        }
    }
}
