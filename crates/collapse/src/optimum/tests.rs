use super::numeric::Model;
use super::*;
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Control, Progress};

struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        false
    }
}

fn ufm(fit: Fit) -> Ufm {
    Ufm { classes: 4, per_class: 3, head_strength: 0.02, feature_strength: 0.01, fit }
}

#[test]
fn minimisation_from_random_starts_finds_the_closed_form() {
    for fit in Fit::ALL {
        let ufm = ufm(fit);
        let optimum = ufm.optimum().expect("an optimum");
        let starts = (2, RngKey::new(1));
        let found = minimise(Problem::Free(ufm), 5, starts, &mut Quiet).expect("a minimum");
        for of_start in &found.of_starts {
            let error = (of_start - optimum.objective).abs();
            assert!(error < 1e-8, "{fit:?}: {error:e}");
        }
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
        assert!(near(found.head_row_squared, optimum.head_row_squared), "{fit:?} {found:?}");
        assert!(near(found.feature_squared, optimum.feature_squared), "{fit:?} {found:?}");
        let gufm = Gufm { classes: 3, strength: 0.01, norm: 2.0, fit };
        let optimum = gufm.optimum().expect("an optimum");
        let problem = Problem::Normalised(gufm, 2);
        let found = minimise(problem, 5, starts, &mut Quiet).expect("a minimum");
        for of_start in &found.of_starts {
            let error = (of_start - optimum.objective).abs();
            assert!(error < 1e-8, "{fit:?}: {error:e}");
        }
        assert!((found.feature_squared - 4.0).abs() < 1e-9);
    }
}

#[test]
fn the_gradient_at_the_closed_form_is_zero() {
    // The simplex in K features: W = a P, H = b P with P the centring matrix.
    let ufm = ufm(Fit::CrossEntropy);
    let (optimum, k) = (ufm.optimum().expect("an optimum"), ufm.classes);
    let share = (k as f64 - 1.0) / k as f64;
    let (a, b) =
        ((optimum.head_row_squared / share).sqrt(), (optimum.feature_squared / share).sqrt());
    let entry = |i: usize, j: usize| f64::from(u8::from(i == j)) - 1.0 / k as f64;
    let each = ufm.per_class as usize;
    let head = Mat::from_fn(k, k, |i, j| a * entry(i, j));
    let features = Mat::from_fn(k * each, k, |i, j| b * entry(i / each, j));
    let at: Vec<f64> = head.into_vec().into_iter().chain(features.into_vec()).collect();
    let mut gradient = vec![1.0; at.len()];
    let loss = Model::of(Problem::Free(ufm), k).loss(&at, &mut gradient);
    assert!((loss - optimum.objective).abs() < 1e-12, "{loss} {optimum:?}");
    assert!(gradient.iter().all(|g| g.abs() < 1e-14), "{gradient:?}");
}

#[test]
fn from_the_threshold_on_features_vanish() {
    for fit in Fit::ALL {
        let at = |c: f64| {
            let strength = c / (4.0 * 3f64.sqrt());
            let ufm = Ufm { head_strength: strength, feature_strength: strength, ..ufm(fit) };
            ufm.optimum().expect("an optimum")
        };
        let (below, above) = (at(0.999), at(1.001));
        assert!(below.collapsed && below.feature_squared > 0.0 && below.accuracy == 1.0);
        assert!(!above.collapsed && above.feature_squared == 0.0 && above.accuracy == 0.25);
        assert!((below.objective - above.objective).abs() < 1e-5, "{fit:?}");
    }
}

#[test]
fn one_feature_too_few_costs() {
    let ufm = ufm(Fit::CrossEntropy);
    let starts = (3, RngKey::new(2));
    let few = minimise(Problem::Free(ufm), 2, starts, &mut Quiet).expect("a minimum");
    let enough = minimise(Problem::Free(ufm), 3, starts, &mut Quiet).expect("a minimum");
    let optimum = ufm.optimum().expect("an optimum").objective;
    assert!((enough.objective - optimum).abs() < 1e-8, "{enough:?}");
    assert!(few.objective > optimum + 1e-4, "{few:?} {optimum}");
}

#[test]
fn unusable_settings_are_named() {
    for (ufm, word) in [
        (Ufm { classes: 1, ..ufm(Fit::CrossEntropy) }, "classes is 1"),
        (Ufm { per_class: 0, ..ufm(Fit::CrossEntropy) }, "per class is 0"),
        (Ufm { head_strength: -1.0, ..ufm(Fit::CrossEntropy) }, "head is -1"),
        (Ufm { feature_strength: f64::NAN, ..ufm(Fit::CrossEntropy) }, "features is NaN"),
    ] {
        let error = ufm.optimum().expect_err("is refused").to_string();
        assert!(error.contains(word), "{error}");
    }
    let gufm = Gufm { classes: 3, strength: 0.1, norm: 0.0, fit: Fit::SquaredError };
    assert!(gufm.optimum().is_err());
}

#[test]
fn a_head_at_the_optimum_has_its_norms_and_logits() {
    let ufm = ufm(Fit::CrossEntropy);
    let optimum = ufm.optimum().expect("an optimum");
    let starts = (1, RngKey::new(3));
    let found = minimise(Problem::Free(ufm), 4, starts, &mut Quiet).expect("a minimum");
    let mut sums = crate::ClassSums::new(4, 4, crate::Keep::Traces);
    let labels: Vec<u32> = (0..12).map(|i| i / 3).collect();
    sums.add(found.features.view(), &labels).expect("features");
    let statistics = sums.finish().expect("statistics");
    let of = |head: &Mat<f64>| Comparison::of(&optimum, &statistics, head).expect("a head");
    let same = of(&found.head);
    for ratio in [same.head_ratio, same.feature_ratio, same.logit_ratio] {
        assert!((ratio - 1.0).abs() < 1e-3, "{same:?}");
    }
    assert_eq!(same.imbalance, 1.0);
    let twice = Mat::from_fn(4, 4, |i, j| 2.0 * found.head.at(i, j));
    assert!((of(&twice).head_ratio / same.head_ratio - 4.0).abs() < 1e-12);
    assert!((of(&twice).logit_ratio / same.logit_ratio - 2.0).abs() < 1e-12);
}
