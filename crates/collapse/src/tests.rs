//! Properties of metrics and sums.

use crate::baselines::{Floors, random_frames};
use crate::bootstrap::intervals;
use crate::metrics::METRICS;
use crate::{
    ClassStatistics, ClassSums, CollapseError, Decisions, EXACT_FEATURES, Features, HeadRef, Keep,
    LayerOptions, LayerReport, Metrics, metrics,
};
use linwright_run::atomic::Replace;
use linwright_run::{Silent, Stopped, seal};
use linwright_tensor::dtype::DType;
use linwright_tensor::linalg::orthonormal_columns;
use linwright_tensor::{Mat, MatRef, RngKey, parallel};

/// Two evaluations in double precision.
const CLOSE: f64 = 1e-9;

/// Features of unequal classes, one of them with one sample, and a head.
struct Problem {
    x: Mat<f64>,
    labels: Vec<u32>,
    head: Mat<f64>,
    bias: Vec<f64>,
}

impl Problem {
    fn random(classes: usize, d: usize, seed: u64) -> Self {
        let key = RngKey::new(seed);
        let normals = |name: &str, rows: usize, cols: usize| -> Mat<f64> {
            Mat::from_vec(rows, cols, key.fold(name).stream().normals(rows * cols, 1.0))
        };
        let labels: Vec<u32> =
            (0..classes as u32).flat_map(|k| vec![k; 1 + 3 * k as usize % 11]).collect();
        let means = normals("means", classes, d);
        let mut x = normals("noise", labels.len(), d);
        for (row, label) in labels.iter().enumerate() {
            let row = x.row_mut(row).iter_mut().zip(means.row(*label as usize));
            row.for_each(|(x, mean)| *x = 0.4 * *x + mean);
        }
        let bias = normals("bias", 1, classes).into_vec();
        Self { x, labels, head: normals("head", classes, d), bias }
    }

    fn sums(&self, keep: Keep) -> ClassSums {
        let mut sums = ClassSums::new(self.head.rows(), self.x.cols(), keep);
        sums.add(self.x.view(), &self.labels).expect("features");
        sums
    }

    fn statistics(&self) -> ClassStatistics {
        self.sums(Keep::Scatter).finish().expect("statistics")
    }

    fn metrics(&self) -> Metrics {
        let statistics = self.statistics();
        let mut all = metrics(&statistics, Some(&self.head)).expect("metrics");
        let head = Some((&self.head, Some(self.bias.as_slice())));
        let mut decisions = Decisions::new(&statistics, head).expect("a head");
        decisions.add(self.x.view(), &self.labels).expect("labels");
        all.extend(decisions.metrics());
        all
    }
}

#[track_caller]
fn same(a: &Metrics, b: &Metrics, but: &[&str], what: &str) {
    assert_eq!(a.iter().count(), b.iter().count());
    for (name, value) in a.iter().filter(|(name, _)| !but.contains(name)) {
        let (Some(value), Some(other)) = (value, b.get(name)) else {
            // More classes than features have no K - 1 directions.
            assert!(name == "nc1_svd" && value.is_none() && b.get(name).is_none(), "{name}");
            continue;
        };
        let error = (value - other).abs();
        assert!(error <= CLOSE * (1.0 + value.abs()), "{what}: {name}: {value} {other}");
    }
}

fn times(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.rows(), b.cols(), |i, j| (0..a.cols()).map(|k| a.at(i, k) * b.at(k, j)).sum())
}

#[test]
fn rotation_translation_scale_names_and_order_change_no_metric() {
    for (classes, d) in [(5, 9), (9, 5)] {
        let plain = Problem::random(classes, d, 1);
        let expected = plain.metrics();
        let normals = RngKey::new(9).stream().normals(d * d, 1.0);
        let turn = orthonormal_columns(Mat::from_vec(d, d, normals).view()).expect("finite");
        let turned = Problem {
            x: times(&plain.x, &turn),
            head: times(&plain.head, &turn),
            labels: plain.labels.clone(),
            bias: plain.bias.clone(),
        };
        same(&expected, &turned.metrics(), &[], "rotation");
        // The bias takes back what the head sees of the shift.
        let shift = |j: usize| 3.0 - j as f64;
        let along = |k: usize| (0..d).map(|j| plain.head.at(k, j) * shift(j)).sum::<f64>();
        let moved = Problem {
            x: Mat::from_fn(plain.x.rows(), d, |i, j| plain.x.at(i, j) + shift(j)),
            head: plain.head.clone(),
            labels: plain.labels.clone(),
            bias: (0..classes).map(|k| plain.bias[k] - along(k)).collect(),
        };
        let raw = ["nc3_sample_1mcos", "nc4_agree_nobias", "feature_norm", "nc2_of_err_means"];
        same(&expected, &moved.metrics(), &raw, "translation");
        let scaled = Problem {
            x: Mat::from_fn(plain.x.rows(), d, |i, j| 4.0 * plain.x.at(i, j)),
            head: plain.head.clone(),
            labels: plain.labels.clone(),
            bias: plain.bias.iter().map(|bias| 4.0 * bias).collect(),
        };
        let of_size = ["within_trace", "between_trace", "feature_norm", "unc3_dot_var"];
        same(&expected, &scaled.metrics(), &of_size, "scale");
        let (rows, last) = (plain.x.rows(), classes - 1);
        let renamed = Problem {
            x: Mat::from_fn(rows, d, |i, j| plain.x.at(rows - 1 - i, j)),
            head: Mat::from_fn(classes, d, |k, j| plain.head.at(last - k, j)),
            labels: plain.labels.iter().rev().map(|label| last as u32 - label).collect(),
            bias: plain.bias.iter().rev().copied().collect(),
        };
        same(&expected, &renamed.metrics(), &[], "names and order");
    }
}

#[test]
fn every_metric_is_in_the_catalogue_once() {
    let all = Problem::random(4, 6, 2).metrics();
    for (name, _) in all.iter() {
        assert_eq!(METRICS.iter().filter(|metric| metric.name == name).count(), 1, "{name}");
        assert_eq!(all.iter().filter(|(other, _)| *other == name).count(), 1, "{name}");
    }
    let missing: Vec<_> =
        METRICS.iter().map(|m| m.name).filter(|name| all.get(name).is_none()).collect();
    assert_eq!(missing, ["nc5_cos"]);
}

fn bits(sums: ClassSums) -> Vec<u64> {
    let all = sums.finish().expect("statistics");
    let within = all.within.map(Mat::into_vec).unwrap_or_default();
    let numbers = all.means.into_vec().into_iter().chain(all.spreads).chain(within);
    numbers.chain(all.mean_of_samples).map(f64::to_bits).collect()
}

#[test]
fn neither_batches_nor_merges_nor_threads_change_a_bit() {
    let problem = Problem::random(7, 12, 3);
    // Features far from zero, of very different sizes.
    let x = Mat::from_fn(problem.x.rows(), 12, |i, j| {
        1000.0 + f64::from(2u32.pow(j as u32)) * problem.x.at(i, j)
    });
    let add = |sums: &mut ClassSums, from: usize, to: usize| {
        let rows = x.view().rows_range(from, to - from);
        sums.add(rows, &problem.labels[from..to]).expect("features");
    };
    let (rows, new) = (x.rows(), || ClassSums::new(7, 12, Keep::Scatter));
    let mut whole = new();
    add(&mut whole, 0, rows);
    let expected = bits(whole);
    for step in [1, 3, 10] {
        let mut batches = new();
        let mut parts = Vec::new();
        for from in (0..rows).step_by(step) {
            let to = rows.min(from + step);
            add(&mut batches, from, to);
            let mut part = new();
            add(&mut part, from, to);
            parts.push(part);
        }
        assert!(bits(batches) == expected, "batches of {step}");
        let mut merged = new();
        parts.iter().rev().for_each(|part| merged.merge(part).expect("of one shape"));
        assert!(bits(merged) == expected, "parts of {step}");
    }
    let alone = parallel::with_threads(1, || {
        let mut sums = new();
        add(&mut sums, 0, rows);
        bits(sums)
    });
    assert!(alone.expect("a thread") == expected);
}

#[test]
fn many_features_have_plain_products_in_blocks() {
    let (rows, d) = (700, EXACT_FEATURES + 40);
    let numbers: Vec<f64> = RngKey::new(4).stream().normals(rows * d, 1.0);
    let x = Mat::from_vec(rows, d, numbers);
    let labels: Vec<u32> = (0..rows as u32).map(|i| i % 3).collect();
    let sums = |from: usize, to: usize| {
        let mut sums = ClassSums::new(3, d, Keep::Scatter);
        sums.add(x.view().rows_range(from, to - from), &labels[from..to]).expect("features");
        sums
    };
    let whole = sums(0, rows);
    let mut merged = sums(0, 512);
    merged.merge(&sums(512, rows)).expect("of one shape");
    assert!(bits(merged) == bits(whole.clone()));
    let mut odd = sums(0, 300);
    odd.merge(&sums(300, rows)).expect("of one shape");
    let (found, other) = (whole.finish().expect("sums"), odd.finish().expect("sums"));
    let (within, other) = (found.within.expect("a scatter"), other.within.expect("a scatter"));
    // Against the definition.
    let centred = Mat::from_fn(rows, d, |i, j| x.at(i, j) - found.means.at(i % 3, j));
    for (i, j) in [(0, 0), (3, 290), (290, 3), (150, 149)] {
        let exact: f64 = (0..rows).map(|r| centred.at(r, i) * centred.at(r, j)).sum();
        for found in [within.at(i, j), other.at(i, j)] {
            assert!((found - exact).abs() < 1e-10 * rows as f64, "{i} {j}: {found} {exact}");
        }
    }
}

#[test]
fn windows_of_rows_sorted_by_class_have_the_bits_of_single_rows() {
    let (rows, d, classes) = (3000, EXACT_FEATURES + 3, 7);
    let numbers = RngKey::new(8).stream().normals(rows * d, 1.0);
    let x = Mat::<f32>::from_vec(rows, d, numbers);
    let labels: Vec<u32> = (0..rows as u32).map(|i| i * i % 11 % classes).collect();
    let new = || ClassSums::new(classes as usize, d, Keep::Scatter);
    let mut of_windows = new();
    let source = Features::new(x.clone(), labels.clone());
    of_windows.add_all(&source, &mut Silent).expect("features");
    let mut of_rows = new();
    for (row, label) in labels.iter().enumerate() {
        let wide: Mat<f64> = x.view().rows_range(row, 1).to_mat().cast();
        of_rows.add(wide.view(), &[*label]).expect("a row");
    }
    assert!(bits(of_windows) == bits(of_rows));
    let mut spoilt = x;
    *spoilt.at_mut(2222, 5) = f32::INFINITY;
    let error = new().add_all(&Features::new(spoilt, labels), &mut Silent).expect_err("is refused");
    let words = error.to_string();
    assert!(words.contains("row 2222, column 5"), "{words}");
}

#[test]
fn scatter_within_and_between_add_up_and_copies_of_the_data_change_nothing() {
    let problem = Problem::random(6, 8, 5);
    let statistics = problem.statistics();
    let rows = statistics.rows() as f64;
    let between: f64 = (0..6)
        .map(|k| {
            let row = statistics.means.row(k).iter().zip(&statistics.mean_of_samples);
            statistics.counts[k] as f64 * row.map(|(a, b)| (a - b).powi(2)).sum::<f64>()
        })
        .sum();
    let total: f64 = (0..problem.x.rows())
        .map(|i| {
            let row = problem.x.row(i).iter().zip(&statistics.mean_of_samples);
            row.map(|(a, b)| (a - b).powi(2)).sum::<f64>()
        })
        .sum();
    let within = statistics.within_trace() * rows;
    assert!((within + between - total).abs() < 1e-12 * total, "{within} {between} {total}");
    let trace: f64 = (0..8).map(|i| statistics.within.as_ref().expect("kept").at(i, i)).sum();
    assert!((trace - within).abs() < 1e-12 * total);
    let (mut twice, once) = (problem.sums(Keep::Scatter), problem.sums(Keep::Scatter));
    twice.merge(&once).expect("of one shape");
    let metrics_of = |sums: ClassSums| {
        metrics(&sums.finish().expect("statistics"), Some(&problem.head)).expect("metrics")
    };
    same(&metrics_of(once), &metrics_of(twice), &[], "copies");
}

/// A simplex of K rows with K features.
fn simplex(classes: usize) -> Mat<f64> {
    Mat::from_fn(classes, classes, |i, j| f64::from(u8::from(i == j)) - 1.0 / classes as f64)
}

#[test]
fn collapsed_features_have_the_values_of_collapse() {
    for centred in [true, false] {
        let means = if centred { simplex(5) } else { Mat::identity(5) };
        let x = Mat::from_fn(20, 5, |i, j| means.at(i % 5, j));
        let labels: Vec<u32> = (0..20).map(|i| i % 5).collect();
        let problem = Problem { x, labels, head: simplex(5), bias: vec![0.0; 5] };
        let all = problem.metrics();
        // Orthogonal means, centred, are a simplex.
        for metric in METRICS.iter().filter(|metric| metric.name != "nc5_cos") {
            let orthogonal = ["nc2_of_err_means", "nc2_of_err_W", "nc3_sample_1mcos"];
            if orthogonal.contains(&metric.name) {
                continue;
            }
            let value = all.get(metric.name).expect(metric.name);
            if let Some(collapsed) = metric.collapsed {
                assert!((value - collapsed).abs() < 1e-7, "{}: {value}", metric.name);
            }
        }
        assert_eq!((all.get("nc1_quotient"), all.get("nc1_pinv")), (Some(0.0), Some(0.0)));
        assert_eq!(all.get("cdnv_max"), Some(0.0));
        assert!((all.get("nc2_of_err_means").expect("defined") < 1e-12) != centred);
    }
}

#[test]
fn no_frame_is_below_the_floor_and_tight_ones_are_on_it() {
    for (classes, d) in [(2, 3), (4, 2), (9, 3), (30, 8), (5, 5)] {
        for seed in 0..4 {
            let all = random_frames(classes, d, RngKey::new(seed));
            let floor = Floors::of(classes, d).etf;
            for name in ["nc2_etf_err_M", "nc2_etf_err_W", "nc3_dual_err"] {
                let value = all.get(name).expect(name);
                assert!(value >= floor - 1e-12, "{classes} {d} {name}: {value} {floor}");
            }
            let orthogonal = all.get("nc2_of_err_W").expect("defined");
            assert!(orthogonal >= Floors::of(classes, d).orthogonal - 1e-12);
        }
    }
    // The corners of a square: four vectors of two features, centred, with equal eigenvalues.
    let x = Mat::from_vec(4, 2, vec![1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0]);
    let problem = Problem { head: x.clone(), x, labels: vec![0, 1, 2, 3], bias: vec![0.0; 4] };
    let (found, floor) = (problem.metrics().get("nc2_etf_err_M"), Floors::of(4, 2).etf);
    assert!((found.expect("defined") - floor).abs() < 1e-12 && floor > 0.3);
}

#[test]
fn linear_maps_leave_pinv_only_if_the_means_span_all() {
    for (classes, d, expected) in [(6, 4, true), (4, 6, false)] {
        let problem = Problem::random(classes, d, 6);
        let map = Mat::from_fn(d, d, |i, j| if i == j { 1.0 + i as f64 } else { 0.3 });
        let mapped = Problem { x: times(&problem.x, &map), ..Problem::random(classes, d, 6) };
        let value = |problem: &Problem| problem.metrics().get("nc1_pinv").expect("defined");
        let (plain, mapped) = (value(&problem), value(&mapped));
        assert_eq!((plain / mapped - 1.0).abs() < 1e-9, expected, "{plain} {mapped}");
    }
}

#[test]
fn isotropic_noise_on_a_simplex_has_the_expected_values() {
    let (classes, each, v) = (4, 4000, 0.01f64);
    let means = simplex(classes);
    let noise: Vec<f64> = RngKey::new(8).stream().normals(classes * each * classes, v.sqrt());
    let noise = Mat::from_vec(classes * each, classes, noise);
    let x = Mat::from_fn(noise.rows(), classes, |i, j| means.at(i % classes, j) + noise.at(i, j));
    let labels = (0..noise.rows()).map(|i| (i % classes) as u32).collect();
    let all = Problem { x, labels, head: means, bias: vec![0.0; classes] }.metrics();
    let (k, d) = (classes as f64, classes as f64);
    let radius = 1.0 - 1.0 / k;
    for (name, expected) in [
        ("nc1_quotient", v * d / radius),
        ("cdnv_mean", v * d * (k - 1.0) / (2.0 * k * radius)),
        ("nc1_pinv", v * (k - 1.0).powi(2) / (k * radius)),
    ] {
        let value = all.get(name).expect(name);
        assert!((value / expected - 1.0).abs() < 0.03, "{name}: {value} {expected}");
    }
}

#[test]
fn thousands_of_classes_have_the_values_of_the_definitions() {
    let (classes, d) = (crate::pairs::EXACT_ROWS + 4, 2);
    let numbers =
        |seed: u64, count: usize| -> Vec<f64> { RngKey::new(seed).stream().normals(count, 1.0) };
    let (means, noise) = (numbers(1, classes * d), numbers(2, 2 * classes * d));
    let x = Mat::from_fn(2 * classes, d, |i, j| means[i / 2 * d + j] + 0.1 * noise[i * d + j]);
    let labels: Vec<u32> = (0..2 * classes as u32).map(|i| i / 2).collect();
    let mut sums = ClassSums::new(classes, d, Keep::Scatter);
    sums.add(x.view(), &labels).expect("features");
    let statistics = sums.finish().expect("statistics");
    let all = metrics(&statistics, None).expect("metrics");
    let (centred, variances) = (statistics.centred_means(), statistics.variances());
    let (mut distance, mut cosine) = (0.0, 0.0);
    for i in 0..classes {
        for j in 0..i {
            let (a, b) = (centred.row(i), centred.row(j));
            let apart = (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2);
            distance += (variances[i] + variances[j]) / (2.0 * apart);
            let cos = (a[0] * b[0] + a[1] * b[1]) / (a[0].hypot(a[1]) * b[0].hypot(b[1]));
            cosine += (cos + 1.0 / (classes as f64 - 1.0)).abs();
        }
    }
    let pairs = (classes * (classes - 1) / 2) as f64;
    // Sw Sb⁻¹ by the inverse of 2 x 2 numbers.
    let within = statistics.within.as_ref().expect("kept");
    let at = |i: usize, j: usize| {
        (0..classes).map(|k| centred.at(k, i) * centred.at(k, j)).sum::<f64>() / classes as f64
    };
    let (a, b, c) = (at(0, 0), at(0, 1), at(1, 1));
    let trace = within.at(0, 0) * c - 2.0 * within.at(0, 1) * b + within.at(1, 1) * a;
    let pinv = trace / (a * c - b * b) / x.rows() as f64 / classes as f64;
    for (name, expected, allowed) in [
        ("cdnv_mean", distance / pairs, 1e-4),
        ("nc2_maxangle_M", cosine / pairs, 1e-5),
        ("nc1_pinv", pinv, 1e-9),
    ] {
        let value = all.get(name).expect(name);
        assert!((value / expected - 1.0).abs() < allowed, "{name}: {value} {expected}");
    }
    assert!(all.get("nc2_etf_err_M").expect("defined") > Floors::of(classes, d).etf - 1e-6);
    assert_eq!(all.get("nc1_svd"), None, "two features have fewer directions");
}

#[test]
fn pairs_of_equal_means_are_counted_and_left_out() {
    let mut problem = Problem::random(5, 4, 21);
    let alone = problem.sums(Keep::Traces);
    let expected = metrics(&alone.finish().expect("statistics"), None).expect("metrics");
    // One more class, with the rows of class 2.
    let (x, rows) = (problem.x.clone(), problem.x.rows());
    let copied: Vec<usize> = (0..rows).filter(|i| problem.labels[*i] == 2).collect();
    problem.x = Mat::from_fn(rows + copied.len(), 4, |i, j| {
        if i < rows { x.at(i, j) } else { x.at(copied[i - rows], j) }
    });
    problem.labels.extend(copied.iter().map(|_| 5));
    problem.head = Mat::zeros(6, 4);
    let found = problem.sums(Keep::Traces).finish().expect("statistics");
    let found = metrics(&found, None).expect("metrics");
    assert_eq!(expected.get("coincident_pairs"), Some(0.0));
    assert_eq!(found.get("coincident_pairs"), Some(1.0));
    let max = [&found, &expected].map(|all| all.get("cdnv_max").expect("finite"));
    assert!((max[0] / max[1] - 1.0).abs() < 1e-9, "{max:?}");
    let means = [&found, &expected].map(|all| all.get("gnc2_log_mean").expect("finite"));
    assert_ne!(means[0], means[1]);
}

#[test]
fn bad_features_labels_and_heads_are_named() {
    let problem = Problem::random(4, 3, 7);
    let mut sums = ClassSums::new(4, 3, Keep::Scatter);
    let mut spoilt = problem.x.clone();
    *spoilt.at_mut(5, 2) = f64::NAN;
    let error = sums.add(spoilt.view(), &problem.labels).expect_err("is refused");
    assert_eq!(
        error.to_string(),
        "features: row 5, column 2 is NaN; every number has to be finite"
    );
    assert_eq!(sums.rows(), 0, "nothing is added");
    let mut labels = problem.labels.clone();
    labels[3] = 4;
    let error = sums.add(problem.x.view(), &labels).expect_err("is refused").to_string();
    assert!(error.contains("label 4 of row 3") && error.contains("0 to 3"), "{error}");
    let one = vec![2; labels.len()];
    sums.add(problem.x.view(), &one).expect("features");
    let error = sums.finish().expect_err("one class");
    assert!(matches!(error, CollapseError::FewClasses { found: 1, classes: 4 }), "{error}");
    let wide = Mat::zeros(4, 5);
    let error = metrics(&problem.statistics(), Some(&wide)).expect_err("is refused").to_string();
    assert!(error.contains("the head has shape [4, 5], expected (4, 3)"), "{error}");
    let mut huge = ClassSums::new(2, 1, Keep::Scatter);
    huge.add(Mat::from_vec(2, 1, vec![1e200, -1e200]).view(), &[0, 1]).expect("finite");
    assert!(matches!(huge.finish(), Err(CollapseError::Overflow { .. })));
    let (mut few, other) = (ClassSums::new(2, 3, Keep::Traces), ClassSums::new(3, 3, Keep::Traces));
    let error = few.merge(&other).expect_err("is refused").to_string();
    assert!(error.contains("3 classes, 3 features"), "{error}");
}

#[test]
fn stored_sums_are_the_same_and_damaged_files_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("sums.safetensors");
    for keep in [Keep::Scatter, Keep::Traces] {
        let sums = Problem::random(5, 4, 8).sums(keep);
        let replace = Replace::if_forced(keep == Keep::Traces, ClassSums::is_stored);
        sums.clone().written(&path, replace).expect("writes").commit().expect("appears");
        let read = ClassSums::read(&path).expect("reads");
        assert!(read.keep() == keep && ClassSums::is_stored(&path));
        assert!(bits(read) == bits(sums));
    }
    let bytes = std::fs::read(&path).expect("bytes");
    for cut in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).expect("writes");
        assert!(ClassSums::read(&path).is_err(), "{cut} bytes");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        std::fs::write(&path, &changed).expect("writes");
        let error = ClassSums::read(&path).expect_err("is refused").to_string();
        assert!(error.contains("sums.safetensors"), "byte {at}: {error}");
    }
    // Numbers that nobody can have added, under a digest that fits them.
    let spoilt = |numbers: &[(usize, f64)]| {
        let mut bytes = bytes.clone();
        for (from_end, number) in numbers {
            let at = bytes.len() - 8 * from_end;
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let head = seal::head_of(&bytes);
        let text = String::from_utf8(bytes[8..head].to_vec()).expect("JSON");
        let (before, rest) = text.split_once("\"sha256\":\"").expect("a digest");
        let rest = &rest[seal::BLANK.len()..];
        let text = format!("{before}\"sha256\":\"{}{rest}", seal::BLANK);
        bytes[8..head].copy_from_slice(text.as_bytes());
        let (head, rest) = bytes.split_at_mut(head);
        seal::seal(head, |add| add(rest));
        std::fs::write(&path, &bytes).expect("writes");
        ClassSums::read(&path).and_then(ClassSums::finish).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(spoilt(&[]), Ok(()));
    let error = spoilt(&[(1, f64::NAN)]).expect_err("is refused");
    assert!(error.contains("is NaN"), "{error}");
    // The squares of two classes stand before what they lost, in five numbers each.
    let error = spoilt(&[(6, f64::MAX), (7, f64::MAX)]).expect_err("is refused");
    assert!(error.contains("the sum of all squares"), "{error}");
}

#[test]
fn a_layer_has_baselines_intervals_and_remarks() {
    let problem = Problem::random(9, 4, 11);
    let x: Mat<f32> = problem.x.cast();
    let source = Features::new(x, problem.labels.clone());
    let options = LayerOptions { keep: Keep::Scatter, draws: 100, baselines: true, seed: 1 };
    let head = HeadRef { rows: &problem.head, bias: Some(&problem.bias) };
    let measure = |options: LayerOptions, monitor: &mut dyn linwright_run::Monitor| {
        LayerReport::measure("one", &source, (9, Some(head)), options, monitor)
    };
    let report = measure(options, &mut Silent).expect("a report");
    assert_eq!((report.classes_present, report.classes_missing, report.singletons), (9, 0, 1));
    assert!(report.notes.iter().any(|note| note.contains("no simplex frame")), "{report:?}");
    let baselines = report.baselines.as_ref().expect("baselines");
    let shuffled = baselines.shuffled_labels.as_ref().expect("features");
    let quotient = |metrics: &Metrics| metrics.get("nc1_quotient").expect("defined");
    assert!(quotient(shuffled) > 2.0 * quotient(&report.metrics), "{report:?}");
    for interval in &report.intervals {
        assert!(interval.low < interval.high, "{interval:?}");
    }
    let names: Vec<_> = report.intervals.iter().map(|interval| interval.name.as_str()).collect();
    for name in ["nc1_quotient", "cdnv_mean", "nc2_norm_cv_M", "nc3_cos_mean", "nc4_agree"] {
        assert!(names.contains(&name), "{names:?}");
        let interval = report.intervals.iter().find(|one| one.name == name).expect("there");
        let value = report.metrics.get(name).expect("defined");
        assert!(interval.low <= value && value <= interval.high, "{name}: {value} {interval:?}");
    }
    let traces = LayerOptions { keep: Keep::Traces, baselines: false, draws: 0, ..options };
    let report = measure(traces, &mut Silent).expect("a report");
    assert!(report.metrics.get("nc1_pinv").is_none() && report.intervals.is_empty());
    assert!(report.metrics.get("nc1_quotient").is_some());
    assert!(matches!(measure(options, &mut Stopped), Err(CollapseError::Interrupted)));
}

/// The quotient and the mean distance of classes drawn so often, by the definitions.
fn drawn(statistics: &ClassStatistics, counts: &[f64]) -> [f64; 2] {
    let (classes, d) = (counts.iter().sum::<f64>(), statistics.features());
    let column = |j: usize| (0..counts.len()).map(move |k| counts[k] * statistics.means.at(k, j));
    let centre: Vec<f64> = (0..d).map(|j| column(j).sum::<f64>() / classes).collect();
    let squared = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let (mut within, mut rows, mut between) = (0.0, 0.0, 0.0);
    let (mut distance, mut pairs) = (0.0, 0.0);
    let variance = |k: usize| statistics.spreads[k] / statistics.counts[k] as f64;
    for (k, count) in counts.iter().enumerate() {
        within += count * statistics.spreads[k];
        rows += count * statistics.counts[k] as f64;
        between += count * squared(statistics.means.row(k), &centre) / classes;
        for (other, more) in counts.iter().enumerate().skip(k + 1) {
            let apart = squared(statistics.means.row(k), statistics.means.row(other));
            distance += count * more * (variance(k) + variance(other)) / (2.0 * apart);
            pairs += count * more;
        }
    }
    [within / rows / between, distance / pairs]
}

#[test]
fn intervals_of_the_quotient_are_those_of_the_definition() {
    let problem = Problem::random(6, 5, 12);
    let statistics = problem.statistics();
    let (key, draws) = (RngKey::new(1), 400);
    let found = intervals(&statistics, (None, &[]), draws, key).expect("intervals");
    let mut all = [Vec::new(), Vec::new()];
    for draw in 0..draws as u64 {
        let mut stream = key.fold("classes").fold_index(draw).stream();
        let mut counts = vec![0.0; statistics.present()];
        (0..counts.len()).for_each(|_| counts[stream.below(6)] += 1.0);
        for (values, value) in all.iter_mut().zip(drawn(&statistics, &counts)) {
            values.push(value);
        }
    }
    for (name, mut values) in ["nc1_quotient", "cdnv_mean"].into_iter().zip(all) {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let interval = found.iter().find(|one| one.name == name).expect("has an interval");
        // As many draws are below an end as its quantile says, give or take the one that it is at.
        for (end, share) in [(interval.low, 0.025), (interval.high, 0.975)] {
            let below = values.iter().filter(|value| **value < end - 1e-12 * end).count() as f64;
            let most = values.iter().filter(|value| **value <= end + 1e-12 * end).count() as f64;
            let place = share * (values.len() - 1) as f64;
            assert!(below <= place + 1.0 && place <= most, "{name}: {below} {place} {most}");
        }
    }
    // Another key has other draws, with quantiles of the same distribution.
    let others = intervals(&statistics, (None, &[]), draws, RngKey::new(2)).expect("intervals");
    assert_ne!(found, others);
    for (one, other) in found.iter().zip(&others) {
        let width = (one.high - one.low).max(other.high - other.low);
        let off = (one.low - other.low).abs().max((one.high - other.high).abs());
        assert!(off < 0.5 * width, "{one:?} {other:?}");
    }
    // Doubling all spreads doubles quotients and distances, and no angle.
    let mut wider = statistics.clone();
    wider.spreads.iter_mut().for_each(|spread| *spread *= 2.0);
    let wider = intervals(&wider, (None, &[]), 400, key).expect("intervals");
    for (a, wider) in found.iter().zip(&wider) {
        let factor =
            if matches!(a.name.as_str(), "nc1_quotient" | "cdnv_mean") { 2.0 } else { 1.0 };
        assert!((wider.high / a.high - factor).abs() < 1e-12, "{} {}", a.name, wider.high);
    }
}

/// Samples of classes in few dimensions of many.
struct InFew {
    x: Mat<f64>,
    labels: Vec<u32>,
}

impl InFew {
    /// Classes with the given spread, shifted by an offset in all dimensions.
    fn new(
        (classes, each): (usize, usize),
        (few, d): (usize, usize),
        spread: f64,
        at: f64,
    ) -> Self {
        let key = RngKey::new(77);
        let normals = |name: &str, rows: usize, cols: usize| -> Mat<f64> {
            Mat::from_vec(rows, cols, key.fold(name).stream().normals(rows * cols, 1.0))
        };
        let labels: Vec<u32> = (0..classes * each).map(|row| (row % classes) as u32).collect();
        let (means, noise) = (normals("means", classes, few), normals("noise", labels.len(), few));
        let inner = Mat::from_fn(labels.len(), few, |i, j| {
            means.at(labels[i] as usize, j) + spread * noise.at(i, j) + at
        });
        let basis = normals("basis", few, d);
        Self { x: times(&inner, &basis), labels }
    }

    /// The metrics of the features as a type holds them.
    fn metrics(&self, dtype: DType) -> Metrics {
        let classes = self.labels.iter().max().map_or(0, |most| *most as usize + 1);
        let mut sums = ClassSums::new(classes, self.x.cols(), Keep::Scatter);
        match dtype {
            DType::F64 => sums.add(self.x.view(), &self.labels),
            DType::F32 | DType::F16 | DType::Bf16 => {
                let narrow: Mat<f32> = self.x.cast();
                let stored = dtype.decode(&dtype.encode(narrow.data()));
                sums.came_in(dtype);
                let x = Mat::from_vec(narrow.rows(), narrow.cols(), stored);
                sums.add(x.view(), &self.labels)
            }
        }
        .expect("features");
        metrics(&sums.finish().expect("statistics"), None).expect("metrics")
    }
}

#[test]
fn rounding_of_the_features_is_no_direction_of_their_means() {
    let types = [(DType::F32, 1e-4), (DType::F16, 0.02), (DType::Bf16, 0.1)];
    let shapes = [((6, 20), (3, 16)), ((10, 4), (5, 8)), ((40, 30), (7, 300)), ((300, 3), (9, 24))];
    for (samples, extents) in shapes {
        for (spread, offset) in [(0.3, 0.0), (0.05, 0.0), (1.0, 0.5)] {
            let features = InFew::new(samples, extents, spread, offset);
            let exact = features.metrics(DType::F64);
            let few = extents.0.min(samples.0 - 1) as f64;
            assert_eq!(exact.get("rank_means"), Some(few));
            for (dtype, tolerance) in types {
                let found = features.metrics(dtype);
                let what = format!("{samples:?} {extents:?} {spread} {offset} {dtype:?}");
                assert_eq!(found.get("rank_means"), Some(few), "{what}");
                let names =
                    ["nc1_pinv", "nc1_pinv_sum", "nc1_pinv_weighted", "effective_rank_means"];
                for name in names {
                    let (found, exact) = (found.get(name).unwrap(), exact.get(name).unwrap());
                    assert!(
                        (found / exact - 1.0).abs() < tolerance,
                        "{what} {name}: {found} {exact}"
                    );
                }
                assert_eq!(found.get("nc1_svd").is_some(), few as usize == samples.0 - 1, "{what}");
            }
        }
    }
}

#[test]
fn small_directions_of_features_in_single_precision_are_kept() {
    // Half of the dimensions are a ten-thousandth of the others, and no rounding.
    let mut features = InFew::new((12, 25), (8, 8), 0.3, 0.0);
    for i in 0..features.x.rows() {
        features.x.row_mut(i)[4..].iter_mut().for_each(|x| *x *= 1e-4);
    }
    for dtype in [DType::F64, DType::F32, DType::Bf16] {
        let expected = if dtype == DType::Bf16 { 4.0 } else { 8.0 };
        assert_eq!(features.metrics(dtype).get("rank_means"), Some(expected), "{dtype:?}");
    }
}

#[test]
fn classes_that_differ_by_rounding_alone_have_equal_means() {
    // Two classes of the same samples, of which one was computed in another order.
    let base = InFew::new((3, 30), (4, 12), 0.2, 0.0);
    let mut rows = base.x.data().to_vec();
    let mut labels = base.labels.clone();
    for (i, label) in base.labels.iter().enumerate().filter(|(_, label)| **label == 2) {
        rows.extend(base.x.row(i).iter().map(|x| f64::from((*x as f32) * (1.0 + f32::EPSILON))));
        labels.push(label + 1);
    }
    let x = Mat::from_vec(labels.len(), base.x.cols(), rows);
    let twice = InFew { x, labels };
    let (base, found) = (base.metrics(DType::F32), twice.metrics(DType::F32));
    assert_eq!(
        (base.get("coincident_pairs"), found.get("coincident_pairs")),
        (Some(0.0), Some(1.0))
    );
    assert!(found.get("cdnv_max") < Some(2.0 * base.get("cdnv_max").unwrap()), "{found:?}");
    let log = found.get("gnc2_log_mean").unwrap();
    assert!(log.abs() < 2.0, "{log}");
    // In double precision the difference is one.
    assert_eq!(twice.metrics(DType::F64).get("coincident_pairs"), Some(0.0));
}

/// Metrics of pairs of samples about means, of so little spread that the means are exact.
fn about_means(means: &Mat<f64>, dtype: DType) -> Metrics {
    let x = Mat::from_fn(2 * means.rows(), means.cols(), |i, j| {
        means.at(i / 2, j) + if i % 2 == 0 { 0.25 } else { -0.25 }
    });
    let labels = (0..x.rows() as u32).map(|row| row / 2).collect();
    InFew { x, labels }.metrics(dtype)
}

#[test]
fn directions_that_differ_by_rounding_alone_are_equal_in_every_precision() {
    let key = RngKey::new(5);
    for d in [3, 40] {
        let normals: Vec<f64> = key.fold(format!("{d}").as_str()).stream().normals(d, 1.0);
        for dtype in [DType::F64, DType::F32] {
            let means = Mat::from_fn(3, d, |k, j| [1.0, 2.0, -3.0][k] * normals[j]);
            let found = about_means(&means, dtype);
            let [log, variance] = ["gnc2_log_mean", "gnc2_log_var"].map(|name| found.get(name));
            let (log, variance) = (log.expect("defined"), variance.expect("defined"));
            assert!((log + 2f64.ln()).abs() < 1e-6, "{d} {dtype:?}: {log}");
            assert!(variance < 1e-9, "{d} {dtype:?}: {variance}");
            // Beyond rounding they are two.
            let apart = Mat::from_fn(3, d, |k, j| {
                means.at(k, j) * if (k, j) == (1, 0) { 1.01 } else { 1.0 }
            });
            let found = about_means(&apart, dtype).get("gnc2_log_var").expect("defined");
            assert!(found > 1.0, "{d} {dtype:?}: {found}");
        }
    }
}

#[test]
fn nothing_is_compared_with_means_that_are_equal() {
    for dtype in [DType::F64, DType::F32, DType::Bf16] {
        let found = about_means(&Mat::from_fn(3, 4, |_, j| 1.0 + j as f64), dtype);
        assert_eq!(found.get("rank_means"), Some(0.0));
        for name in [
            "nc1_pinv",
            "nc1_pinv_sum",
            "nc1_svd",
            "nc1_pinv_weighted",
            "nc1_quotient",
            "nc1_quotient_class_mean",
            "cdnv_mean",
            "cdnv_max",
            "effective_rank_means",
            "gnc2_log_mean",
        ] {
            assert_eq!(found.get(name), None, "{name} {dtype:?}");
            assert!(found.undefined().contains(&name));
        }
        assert!(found.get("within_trace") > Some(0.0));
    }
}

#[test]
fn precision_is_that_of_the_least_precise_rows() {
    let problem = Problem::random(4, 3, 5);
    let narrow: Mat<f32> = problem.x.cast();
    let sums = |x: MatRef<'_, f32>| {
        let mut sums = ClassSums::new(4, 3, Keep::Scatter);
        sums.add(x, &problem.labels).expect("features");
        sums
    };
    let mut all = problem.sums(Keep::Scatter);
    assert_eq!(all.precision(), DType::F64);
    all.merge(&sums(narrow.view())).expect("of one shape");
    assert_eq!(all.precision(), DType::F32);
    all.came_in(DType::F16);
    let (folder, mut other) = (tempfile::tempdir().expect("a folder"), sums(narrow.view()));
    let path = folder.path().join("sums");
    all.written(&path, Replace::Nothing).expect("writes").commit().expect("appears");
    let read = ClassSums::read(&path).expect("reads");
    assert_eq!(read.precision(), DType::F16);
    other.merge(&read).expect("of one shape");
    assert_eq!(other.finish().expect("statistics").precision, DType::F16);
}
