//! Tests of slots with a bias: the bias absorbs shifts of the mean.

use super::{
    AsvdMethod, BlockHadamardMethod, DenseMethod, FeatureMethod, Fit, FitProblem, How, LaserMethod,
    LowRankMethod, MethodSpec, RotorMethod, StructuredMethod, SvdMethod, SwiftSvdMethod, Training,
    WhitenedSvdMethod,
};
use crate::Size;
use crate::fit::Ridge;
use crate::fit::planted::Losses;
use linwright_measure::capture::{Evidence, Needs};
use linwright_measure::samples::{Rows, Samples};
use linwright_measure::stats::SiteStats;
use linwright_ops::{
    BlockHadamardSpec, Dense, LowRankSpec, MonarchSpec, Op, OpSpec, Shape, SiteId, Workspace,
};
use linwright_tensor::{Mat, RngKey};

const SHAPE: Shape = Shape { out: 8, inp: 8 };
const ROWS: usize = 640;
const TRAIN: usize = 512;

/// Inputs with non-zero mean, and targets of a planted map of rank 2 with a planted bias.
struct Planted {
    x: Mat<f32>,
    y: Mat<f32>,
    weight: Mat<f32>,
    shift: Vec<f32>,
}

fn planted() -> Planted {
    let normals = |count: usize, seed: u64| RngKey::new(seed).stream().normals(count, 1.0);
    let x = Mat::from_vec(ROWS, 8, normals(8 * ROWS, 1));
    let x = Mat::from_fn(ROWS, 8, |i, j| x.at(i, j) + if j % 2 == 0 { 1.5 } else { -0.5 });
    let (u, v): (Vec<f32>, Vec<f32>) = (normals(16, 2), normals(16, 3));
    let weight = Mat::from_fn(8, 8, |o, i| u[2 * o] * v[i] + u[2 * o + 1] * v[8 + i]);
    let shift: Vec<f32> = (0..8).map(|o| 3.0 - o as f32).collect();
    let y = Mat::from_fn(ROWS, 8, |i, o| {
        shift[o] + (0..8).map(|j| weight.at(o, j) * x.at(i, j)).sum::<f32>()
    });
    Planted { x, y, weight, shift }
}

impl Planted {
    fn evidence(&self, needs: Needs) -> Evidence {
        if needs == Needs::Samples {
            let (x, y) = (Rows::of(self.x.clone()), Rows::of(self.y.clone()));
            return Evidence::Samples(Samples { x, y, train: TRAIN });
        }
        let part = |start: usize, count: usize| {
            let (x, y) = (self.x.view(), self.y.view());
            SiteStats::of(x.rows_range(start, count), y.rows_range(start, count))
        };
        Evidence::Stats { train: part(0, TRAIN), validation: part(TRAIN, ROWS - TRAIN) }
    }

    fn fit(&self, (method, size): &(MethodSpec, Option<Size>), biased: bool) -> Fit {
        let (site, evidence) = (SiteId("a site".into()), self.evidence(method.needs()));
        let original = Op::Linear(Box::new(Dense::new(self.weight.clone())));
        let problem = FitProblem {
            site: &site,
            shape: SHAPE,
            original: &original,
            size: *size,
            evidence: Some(&evidence),
            components: None,
            bias: biased.then_some(&[0.0; 8]),
            key: RngKey::new(5),
            ridge: None,
            checkpoint: None,
            part_rows: None,
        };
        method.fit(&problem, &mut Losses::default()).expect("fits")
    }

    /// Mean residual over the training rows, and relative squared error over some rows.
    fn judge(&self, fit: &Fit, rows: std::ops::Range<usize>) -> (Vec<f64>, f64) {
        let mut y = Mat::zeros(ROWS, 8);
        fit.op.map().forward(self.x.view(), y.view_mut(), None, &mut Workspace::default());
        let shift = fit.bias_shift.clone().unwrap_or(vec![0.0; 8]);
        let residual = |i: usize, o: usize| f64::from(self.y.at(i, o) - y.at(i, o) - shift[o]);
        let mean = |o: usize| (0..TRAIN).map(|i| residual(i, o)).sum::<f64>() / TRAIN as f64;
        let pairs = || rows.clone().flat_map(|i| (0..8).map(move |o| (i, o)));
        let error: f64 = pairs().map(|(i, o)| residual(i, o).powi(2)).sum();
        let power: f64 = pairs().map(|(i, o)| f64::from(self.y.at(i, o)).powi(2)).sum();
        ((0..8).map(mean).collect(), error / power)
    }
}

fn methods() -> Vec<(MethodSpec, Option<Size>)> {
    let training = Training { epochs: 30, batch: 64, rate: 0.05, ..Training::default() };
    let ridge = Ridge::Share(0.0);
    let low_rank = |fit| MethodSpec::LowRank(LowRankMethod { fit, training, ridge });
    let dense = DenseMethod { ridge, ..DenseMethod::default() };
    let structured =
        |spec| MethodSpec::Structured(StructuredMethod { ridge, ..StructuredMethod::new(spec) });
    let all = vec![
        MethodSpec::Dense(dense),
        MethodSpec::Dense(DenseMethod { fit: How::Trained, training, ..dense }),
        low_rank(How::Closed),
        low_rank(How::Trained),
        MethodSpec::BlockHadamard(BlockHadamardMethod {
            blocks: Some(2),
            training,
            ..BlockHadamardMethod::default()
        }),
        MethodSpec::Rotor(RotorMethod { training, ..RotorMethod::default() }),
        structured(OpSpec::LowRank(LowRankSpec { rank: 2 })),
        structured(OpSpec::Monarch(MonarchSpec { blocks: Some(2) })),
        structured(OpSpec::BlockHadamard(BlockHadamardSpec {
            blocks: Some(2),
            ..Default::default()
        })),
        MethodSpec::Feature(FeatureMethod::default()),
        MethodSpec::Svd(SvdMethod::default()),
        MethodSpec::WhitenedSvd(WhitenedSvdMethod::default()),
        MethodSpec::Asvd(AsvdMethod::default()),
        MethodSpec::SwiftSvd(SwiftSvdMethod::default()),
    ];
    let sized = |method: MethodSpec| {
        let size = method.needs_size().then_some(Size::Rank(2));
        (method, size)
    };
    all.into_iter().map(sized).collect()
}

#[test]
fn a_refit_without_any_input_keeps_the_weight() {
    let zero = Planted { x: Mat::zeros(ROWS, 8), ..planted() };
    for ridge in [Ridge::Auto, Ridge::Share(0.0), Ridge::Share(1e-4)] {
        let method = MethodSpec::Dense(DenseMethod { ridge, ..DenseMethod::default() });
        let fit = zero.fit(&(method, None), false);
        let weight = fit.op.to_dense().expect("a dense operator");
        assert_eq!(weight, zero.weight, "{ridge:?}");
        assert!((fit.report.relative_error - 1.0).abs() < 1e-9, "{:?}", fit.report);
    }
}

#[test]
fn a_planted_shift_goes_to_the_bias_with_every_method() {
    let planted = planted();
    for method in methods() {
        let label = method.0.label(method.1);
        let (with, without) = (planted.fit(&method, true), planted.fit(&method, false));
        assert!(without.bias_shift.is_none(), "{label}: a slot without a bias gets none");
        let (residual, train) = planted.judge(&with, 0..TRAIN);
        let (_, validation) = planted.judge(&with, TRAIN..ROWS);
        let largest = residual.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        assert!(largest < 1e-4, "{label}: the mean residual is {residual:?}");
        let reported = (with.report.train_relative_error, with.report.relative_error);
        assert!((reported.0 - train).abs() < 1e-5, "{label}: reported {reported:?}, found {train}");
        assert!(
            (reported.1 - validation).abs() < 1e-5,
            "{label}: reported {reported:?}, found {validation}"
        );
        let (_, unshifted) = planted.judge(&Fit { bias_shift: None, ..with.clone() }, TRAIN..ROWS);
        assert!(validation < 0.8 * unshifted, "{label}: {validation}, unshifted {unshifted}");
        // A network with a nonlinearity can make part of a shift by itself, and ends in another
        // minimum with a bias than without.
        let before = without.report.relative_error;
        if method.0.is_linear() {
            assert!(validation < 0.98 * before, "{label}: {validation}, without bias {before}");
        }
    }
}

#[test]
fn a_planted_map_and_its_shift_are_recovered_in_closed_form() {
    let planted = planted();
    for index in [0, 2, 6, 9, 10, 11, 12, 13] {
        let method = &methods()[index];
        let fit = planted.fit(method, true);
        let label = method.0.label(method.1);
        // Sums of products in f32 tell errors below 1e-6 from zero no more.
        assert!(fit.report.relative_error < 1e-6, "{label}: {:?}", fit.report);
        let weight = fit.op.to_dense().expect("is linear");
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close(weight.data(), planted.weight.data()), "{label}");
        let shift = fit.bias_shift.expect("the slot has a bias");
        assert!(close(&shift, &planted.shift), "{label}: {shift:?}");
    }
}

#[test]
fn a_cut_leaves_the_bias_alone() {
    let method = (MethodSpec::Laser(LaserMethod::default()), Some(Size::Rank(1)));
    let fits = [true, false].map(|biased| planted().fit(&method, biased));
    assert!(fits[0].bias_shift.is_none());
    assert_eq!(fits[0].report, fits[1].report);
}
