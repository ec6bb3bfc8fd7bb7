//! Golden vectors of feature-space and weight-space decompositions in `laser-sfsd`, to the
//! tolerances that the files state.

use crate::golden::{cases, minus, norm, number, sets};
use linwright_compress::Size;
use linwright_compress::fit::spectrum::{Moments, Spectrum};
use linwright_compress::methods::{FeatureMethod, FitProblem, MethodSpec, SvdMethod};
use linwright_measure::capture::Evidence;
use linwright_measure::stats::SiteStats;
use linwright_ops::{Dense, Op, Shape, SiteId};
use linwright_tensor::linalg::Components;
use linwright_tensor::{HalfType, Mat, RngKey};
use linwright_train::{Control, Progress};
use serde_json::Value;

/// Bias that the reference drops.
const OWN_BIAS: f32 = 3.0;

struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        false
    }
}

fn times(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let dot = |i: usize, j: usize| (0..b.rows()).map(|k| a.at(i, k) * b.at(k, j)).sum();
    Mat::from_fn(a.rows(), b.cols(), dot)
}

fn product((u, v): (Mat<f32>, Mat<f32>)) -> Mat<f64> {
    times(&u.cast(), &v.cast())
}

/// Outputs of a map with a bias.
fn outputs(x: &Mat<f64>, a: &Mat<f64>, bias: &[f64]) -> Mat<f64> {
    let y = times(x, &a.transpose());
    Mat::from_fn(y.rows(), y.cols(), |i, o| y.at(i, o) + bias[o])
}

/// Through numbers of 16 bits.
fn half(a: &Mat<f32>) -> Mat<f32> {
    let mut bits = vec![0; a.data().len()];
    HalfType::F16.narrow(a.data(), &mut bits);
    let mut wide = a.clone();
    HalfType::F16.widen(&bits, wide.data_mut());
    wide
}

fn ranks(case: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let ranks = case["ranks"].as_array().expect("ranks").iter();
    ranks.map(|rank| (number(&rank["rank"]) as usize, rank))
}

fn stats_of(x: &Mat<f64>, y: &Mat<f64>) -> SiteStats {
    SiteStats::of(x.cast().view(), y.cast().view())
}

/// The dense matrix and the change of the bias of a method.
fn fitted(
    method: &MethodSpec,
    weight: &Mat<f32>,
    stats: &SiteStats,
    rank: usize,
) -> (Mat<f64>, Vec<f64>) {
    let shape = Shape { out: weight.rows(), inp: weight.cols() };
    let (train, validation) = (stats.clone(), stats.clone());
    let site = SiteId("a site".into());
    let original = Op::Linear(Box::new(Dense::new(weight.clone())));
    let problem = FitProblem {
        site: &site,
        shape,
        original: &original,
        size: Some(Size::Rank(rank)),
        evidence: Some(&Evidence::Stats { train, validation }),
        components: None,
        bias: Some(&vec![OWN_BIAS; shape.out]),
        key: RngKey::new(1),
        ridge: None,
        checkpoint: None,
        part_rows: None,
    };
    let fit = method.fit(&problem, &mut Quiet).unwrap_or_else(|e| panic!("{}: {e}", method.id()));
    let shift = fit.bias_shift.expect("the slot has a bias");
    (fit.op.to_dense().expect("is linear").cast(), shift.into_iter().map(f64::from).collect())
}

#[test]
fn golden_feature_space_decomposition() {
    for (set, id, case) in cases(&sets("laser-sfsd"), "sfsd.eigen", 2) {
        let tolerance = |name: &str| number(&case["tol"][name]);
        let (w, x) = (set.matrix(id, "W"), set.matrix(id, "x"));
        let weight: Mat<f32> = w.cast();
        let y = times(&x, &w.transpose());
        let stats = stats_of(&x, &y);
        let spectrum =
            Spectrum::of(Moments::from(&*stats.inputs), &weight, true).expect("decomposes");
        check_spectrum(&spectrum, set.matrix(id, "eigenvalues_ascending").data(), x.rows());
        let want = set.matrix(id, "y_mean");
        let mean = spectrum.mean.as_ref().expect("is centred");
        assert!(mean.iter().zip(want.data()).all(|(a, b)| (a - b).abs() < 1e-5), "{id}");
        for (rank, about) in ranks(case) {
            // The reference counts to out; there are min(out, inp) components with data.
            let kept = rank.min(spectrum.values.len());
            let (u, v) = spectrum.factors(kept);
            let found = product((u.clone(), v.clone()));
            let near = |found: &Mat<f64>, name: &str, tolerance: f64| {
                let want = set.matrix(id, &format!("r{rank}.{name}"));
                let off = norm(&minus(found, &want)) / norm(&want);
                assert!(off <= tolerance, "{id}, rank {rank}: {name} is off by {off}");
            };
            near(&found, "W2W1_f32", tolerance("W2W1_rel_fro"));
            near(&product((half(&u), half(&v))), "W2W1_f16_stored", tolerance("f16_rel_fro"));
            let bias = spectrum.bias(kept).expect("is centred");
            let bias: Vec<f64> = bias.into_iter().map(f64::from).collect();
            let want = set.matrix(id, &format!("r{rank}.paper_bias"));
            let off = bias.iter().zip(want.data()).map(|(a, b)| (a - b).abs());
            let most = off.fold(0.0, f64::max);
            assert!(most <= tolerance("bias_abs"), "{id}, rank {rank}: the bias is off by {most}");
            // The released bias is zero, and so is what compat leaves of the layer's own.
            let released = outputs(&x, &found, &vec![0.0; y.cols()]);
            let published = set.matrix(id, &format!("r{rank}.y_first_forward"));
            let off = norm(&minus(&released, &published)) / norm(&published);
            assert!(off <= tolerance("y_rel_fro"), "{id}, rank {rank}: outputs are off by {off}");
            let intended = outputs(&x, &found, &bias);
            for (found, name) in
                [(&released, "rel_err_released"), (&intended, "rel_err_with_paper_bias")]
            {
                let error = norm(&minus(found, &y)) / norm(&y);
                assert!((error - number(&about[name])).abs() < 1e-5, "{id} {rank}: {name} {error}");
            }
        }
    }
}

/// Compares eigenvalues with those of the covariance over so many rows less one.
fn check_spectrum(spectrum: &Spectrum, ascending: &[f64], rows: usize) {
    let scale = rows as f64 / (rows - 1) as f64;
    let largest = ascending.last().expect("eigenvalues");
    for (index, want) in ascending.iter().rev().enumerate() {
        let found = spectrum.values.get(index).map_or(0.0, |value| value * scale);
        assert!((found - want).abs() <= 1e-5 * largest, "value {index} is {found}, not {want}");
    }
}

#[test]
fn golden_feature_method_in_both_modes() {
    for (set, id, case) in cases(&sets("laser-sfsd"), "sfsd.eigen", 2) {
        let (w, x) = (set.matrix(id, "W"), set.matrix(id, "x"));
        let y = times(&x, &w.transpose());
        let (weight, stats) = (w.cast(), stats_of(&x, &y));
        let kappa = number(&case["kappa_int"]) as usize;
        let below = ranks(case).filter(|(rank, _)| *rank < kappa);
        for (rank, about) in below {
            for compat in [false, true] {
                let method = FeatureMethod { compat, ..FeatureMethod::default() };
                let (a, shift) = fitted(&MethodSpec::Feature(method), &weight, &stats, rank);
                // A right layer keeps its own bias; the released code drops it.
                let own = f64::from(OWN_BIAS);
                let target = outputs(&x, &w, &vec![own; w.rows()]);
                let bias: Vec<f64> = shift.iter().map(|shift| own + shift).collect();
                let found = outputs(&x, &a, &bias);
                if compat {
                    assert!(bias.iter().all(|b| *b == 0.0), "{id}: {bias:?}");
                    let off = norm(&minus(&found, &y)) / norm(&y);
                    assert!((off - number(&about["rel_err_released"])).abs() < 1e-5, "{off}");
                } else {
                    let off = norm(&minus(&found, &target)) / norm(&y);
                    let want = number(&about["rel_err_with_paper_bias"]);
                    assert!((off - want).abs() < 1e-5, "{id}, rank {rank}: {off}, not {want}");
                }
            }
        }
    }
}

#[test]
fn golden_weight_space_decomposition() {
    for (set, id, case) in cases(&sets("laser-sfsd"), "sfsd.svd", 2) {
        let tolerance = |name: &str| number(&case["tol"][name]);
        let (w, x) = (set.matrix(id, "W"), set.matrix(id, "x"));
        let weight: Mat<f32> = w.cast();
        let all = Components::of(weight.view()).expect("decomposes");
        let kappa = number(&case["kappa_int"]) as usize;
        for (rank, about) in ranks(case) {
            let found = product(all.chosen(&(0..rank).collect::<Vec<_>>()));
            let name = |name: &str| format!("r{rank}.{name}");
            let want = set.matrix(id, &name("W2W1"));
            let off = norm(&minus(&found, &want)) / norm(&want);
            assert!(off <= tolerance("W2W1_rel_fro"), "{id}, rank {rank}: {off}");
            let (y, want) = (times(&x, &found.transpose()), set.matrix(id, &name("y")));
            let off = norm(&minus(&y, &want)) / norm(&want);
            assert!(off <= tolerance("y_rel_fro"), "{id}, rank {rank}: {off}");
            let norms = set.matrix(id, &name("weight1_rownorm"));
            for (value, norm) in all.values.iter().zip(norms.data()) {
                assert!((value - norm).abs() < 1e-5 * all.values[0], "{id}: {value} {norm}");
            }
            let rest = norm(&minus(&found, &w)) / norm(&w);
            let want = number(&about["rel_resid_intended"]);
            assert!((rest - want).abs() < 1e-5, "{id}, rank {rank}: {rest}, not {want}");
            if rank < kappa {
                let stats = stats_of(&x, &times(&x, &w.transpose()));
                let method = MethodSpec::Svd(SvdMethod::default());
                let (a, _) = fitted(&method, &weight, &stats, rank);
                assert!(norm(&minus(&a, &found)) <= 1e-6 * norm(&found), "{id}, rank {rank}");
            }
        }
    }
}
