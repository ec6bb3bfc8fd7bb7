//! Golden vectors of Vendi scores and of rows chosen by them: every set `<stem>.json` with
//! `<stem>.safetensors` in `laser-sfsd` of `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the
//! workspace, to the tolerances that the files state.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use linwright_measure::vendi::{
    Criterion, Goal, Items, Order, Selected, of_features, of_kernel, reconstruct, select,
    spectrum_of_kernel, weighted_by_quality,
};
use linwright_tensor::Mat;
use serde_json::Value;
use std::path::{Path, PathBuf};

struct Set {
    path: PathBuf,
    about: Value,
    header: Value,
    data: Vec<u8>,
}

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// The least that a set of the repository has of what a test compares, and that another set has.
fn least(of_ours: usize, of_others: usize) -> usize {
    if given().is_none() { of_ours } else { of_others }
}

/// All sets, of which there must be one.
fn sets() -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default).join("laser-sfsd");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    assert!(!paths.is_empty(), "no golden set in {}", root.display());
    paths.into_iter().map(Set::read).collect()
}

impl Set {
    fn read(path: PathBuf) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let parse = |bytes: &[u8]| {
            serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"))
        };
        let about = parse(&read(&path.with_extension("json")));
        let bytes = read(&path);
        let (length, rest) = bytes.split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
        let (header, data) = rest.split_at(length);
        let (header, data) = (parse(header), data.to_vec());
        Self { path, about, header, data }
    }

    /// A tensor as a matrix; a vector is one row.
    fn tensor(&self, name: &str) -> Mat<f64> {
        let entry = &self.header[name];
        let list = |key: &str| -> Vec<usize> {
            let numbers = entry[key].as_array().unwrap_or_else(|| panic!("{name}: no {key}"));
            numbers.iter().map(|n| n.as_u64().expect("a count") as usize).collect()
        };
        let (shape, offsets) = (list("shape"), list("data_offsets"));
        let bytes = &self.data[offsets[0]..offsets[1]];
        let eight = |f: fn([u8; 8]) -> f64| -> Vec<f64> {
            bytes.chunks_exact(8).map(|b| f(b.try_into().expect("8 bytes"))).collect()
        };
        let four = |f: fn([u8; 4]) -> f64| -> Vec<f64> {
            bytes.chunks_exact(4).map(|b| f(b.try_into().expect("4 bytes"))).collect()
        };
        let values = match entry["dtype"].as_str() {
            Some("F64") => eight(f64::from_le_bytes),
            Some("I64") => eight(|b| i64::from_le_bytes(b) as f64),
            Some("F32") => four(|b| f64::from(f32::from_le_bytes(b))),
            Some("I32") => four(|b| f64::from(i32::from_le_bytes(b))),
            other => panic!("{name}: golden tensor of type {other:?}"),
        };
        let cols = *shape.last().expect("a vector or a matrix");
        Mat::from_vec(values.len() / cols, cols, values)
    }
}

/// The cases of all sets whose identifiers are wanted, of which there must be one. A set has a case
/// for each of its tensors of the kind, and each of ours has this many at least.
fn cases<'a>(
    sets: &'a [Set],
    wanted: &dyn Fn(&str) -> bool,
    of_ours: usize,
) -> Vec<(&'a Set, &'a Value)> {
    let of_set = |set: &'a Set| {
        let cases = set.about["cases"].as_array().expect("cases").iter();
        let found: Vec<_> = cases.filter(|case| wanted(id(case))).map(|case| (set, case)).collect();
        assert!(found.len() >= least(of_ours, 0), "{:?} has {} cases", set.path, found.len());
        let names = set.header.as_object().expect("tensors").keys();
        let case_of = |name: &str| name.rsplit_once('.').map(|(case, _)| case.to_owned());
        for case in names.filter_map(|name| case_of(name)).filter(|case| wanted(case)) {
            let is_announced = found.iter().any(|(_, one)| id(one) == case);
            assert!(is_announced, "{:?}: tensors of {case}, which is not a case", set.path);
        }
        found
    };
    let found: Vec<_> = sets.iter().flat_map(of_set).collect();
    assert!(!found.is_empty(), "no golden set has a case of these");
    found
}

fn id(case: &Value) -> &str {
    case["id"].as_str().expect("an identifier")
}

fn number(value: &Value, what: &str) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number {what}: {value}"))
}

fn tolerance(case: &Value, key: &str) -> f64 {
    number(&case["tol"][key], key)
}

/// Eigenvalues of a kernel, descending, as far as they exceed rounding error; the number of the
/// others, and the largest value that those can have.
fn told_from_zero(kernel: &Mat<f64>, items: &Items<'_>) -> (Vec<f64>, usize, f64) {
    let mut values = spectrum_of_kernel(kernel.view(), items).expect("a spectrum");
    let (all, threshold) = (values.len(), values.len() as f64 * f64::EPSILON * values[0]);
    values.retain(|&value| value > threshold);
    let zeros = all - values.len();
    (values, zeros, threshold)
}

fn powers(values: &[f64], q: f64) -> f64 {
    values.iter().map(|value| value.powf(q)).sum()
}

/// Compares scores of orders below 1 of one kernel, given as (q, expected).
///
/// The reference counts whatever positive number its solver leaves of a zero, which below order 1
/// shows: 7e-17 is 2.5 per cent of an item at order 0.1. No two solvers agree on that number, nor
/// does the reference with itself from one version of its libraries to the next. But it is one
/// number for all orders: it follows from the lowest order, and the other orders must then follow
/// from it and our eigenvalues.
fn assert_low_orders(
    what: &str,
    kernel: &Mat<f64>,
    items: &Items<'_>,
    low: &[(f64, f64)],
    allowed: f64,
) {
    let (values, zeros, threshold) = told_from_zero(kernel, items);
    assert!(zeros <= least(1, usize::MAX), "{what}: {zeros} eigenvalues are zero");
    let rest = |(q, want): (f64, f64)| want.powf(1.0 - q) - powers(&values, q);
    let Some(first) = low.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    let noise = if zeros == 1 { rest(first).powf(1.0 / first.0) } else { 0.0 };
    assert!((0.0..=1.001 * threshold).contains(&noise), "{what}: the zero is {noise:e}");
    for &(q, want) in low {
        if zeros > 1 {
            // If there are several, a score does not determine their values, but they lie between
            // zero and the threshold.
            let most = zeros as f64 * threshold.powf(q);
            let (below, found) = (-allowed * want.powf(1.0 - q), rest((q, want)));
            assert!((below..=most - below).contains(&found), "{what} of order {q}: {found:e}");
        } else {
            let found = (powers(&values, q) + noise.powf(q)).powf(1.0 / (1.0 - q));
            let off = (found / want - 1.0).abs();
            assert!(off <= allowed, "{what} of order {q}: {found}, expected {want}: {off:e}");
        }
        let own = of_kernel(kernel.view(), Order::new(q).expect("an order"), items);
        let (own, kept) = (own.expect("a score"), powers(&values, q).powf(1.0 / (1.0 - q)));
        assert!((own / kept - 1.0).abs() <= allowed, "{what} of order {q} is {own}, not {kept}");
    }
}

fn indices(value: &Value) -> Vec<usize> {
    let list = value.as_array().unwrap_or_else(|| panic!("no indices: {value}"));
    list.iter().map(|index| index.as_u64().expect("an index") as usize).collect()
}

#[test]
fn golden_vendi_scores() {
    for (set, case) in cases(&sets(), &|id| id == "vendi", 1) {
        let allowed = tolerance(case, "rel");
        let tensor = |name: &str| set.tensor(&format!("vendi.{name}"));
        let (kernel, x, p) = (tensor("K"), tensor("X"), tensor("p"));
        let plain = Items::default();
        let weighted = Items { probabilities: Some(p.data()), ..plain };
        let close = |what: &str, found: f64, want: f64| {
            let off = (found / want - 1.0).abs();
            assert!(off <= allowed, "{:?}: {what} is {found}, expected {want}", set.path);
        };
        let values = case["values"].as_object().expect("values");
        assert!(values.len() >= least(6, 1), "{:?}: {} orders", set.path, values.len());
        let kernels = [("score_K", &plain), ("score_K_p", &weighted)];
        let mut low = [Vec::new(), Vec::new()];
        for (name, values) in values {
            let q = name.parse().expect("a number or inf");
            let order = Order::new(q).expect("an order");
            let of_x =
                |order, items: &Items<'_>| of_features(x.view(), order, items).expect("a score");
            let of_k = |items: &Items<'_>| of_kernel(kernel.view(), order, items).expect("a score");
            let want = |key: &str| number(&values[key], key);
            for (place, (key, items)) in kernels.iter().enumerate() {
                match q < 1.0 {
                    true => low[place].push((q, want(key))),
                    false => close(key, of_k(items), want(key)),
                }
            }
            close("score_dual", of_x(order, &plain), want("score_dual"));
            // The reference computes these of order 1 whatever it is asked for.
            close("score_X", of_x(Order::ONE, &plain), want("score_X"));
            close("score_X_p", of_x(Order::ONE, &weighted), want("score_X_p"));
            // The kernel of the features themselves is the dual form's other side.
            let norm = |i: usize| x.row(i).iter().map(|v| v * v).sum::<f64>().sqrt();
            let cosine = Mat::from_fn(x.rows(), x.rows(), |i, j| {
                let dot: f64 = x.row(i).iter().zip(x.row(j)).map(|(a, b)| a * b).sum();
                dot / (norm(i) * norm(j))
            });
            let primal = of_kernel(cosine.view(), order, &plain).expect("a score");
            close("the score of the cosines", primal, want("score_dual"));
        }
        for ((key, items), low) in kernels.iter().zip(&low) {
            let what = format!("{}: {key}", set.path.display());
            assert!(low.len() >= least(2, 0), "{what}: {} orders below 1", low.len());
            assert_low_orders(&what, &kernel, items, low, allowed);
        }
        if let Some(want) = case["normalize_true_q1"].as_f64() {
            let raw = tensor("K_unnormalised");
            let normalised = Items { normalise: true, ..plain };
            let found = of_kernel(raw.view(), Order::ONE, &normalised).expect("a score");
            close("normalize_true_q1", found, want);
        } else {
            assert_eq!(least(1, 0), 0, "{:?}: no normalize_true_q1", set.path);
        }
    }
}

/// The two examples of the reference's introduction.
#[test]
fn golden_scores_of_the_readme() {
    let near = Mat::from_vec(3, 3, vec![1.0, 0.9, 0.0, 0.9, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let plain = Items::default();
    let found = of_kernel(near.view(), Order::ONE, &plain).expect("a score");
    // Eigenvalues 1.9, 1 and 0.1, over 3.
    let entropy: f64 = [1.9, 1.0, 0.1].iter().map(|v: &f64| -v / 3.0 * (v / 3.0).ln()).sum();
    assert!((found - entropy.exp()).abs() < 1e-12, "{found}");
    assert!((found - 2.1573).abs() < 5e-5, "{found}");
    let weighted = weighted_by_quality(near.view(), &[0.5; 3], Order::ONE, &plain);
    assert!((weighted.expect("a score") - 0.5 * found).abs() < 1e-12);
    // Orders below 1 of the same eigenvalues, none of which is zero.
    for q in [0.1, 0.5, 0.9] {
        let order = Order::new(q).expect("an order");
        let found = of_kernel(near.view(), order, &plain).expect("a score");
        let sum: f64 = [1.9, 1.0, 0.1].iter().map(|v: &f64| (v / 3.0).powf(q)).sum();
        let want = sum.powf(1.0 / (1.0 - q));
        assert!((found / want - 1.0).abs() < 1e-12, "order {q}: {found}, expected {want}");
    }
}

fn chosen(rows: &Mat<f32>, count: usize, criterion: &Criterion) -> Selected {
    select(rows.view(), count, criterion, &mut |_, _| true).expect("a selection")
}

#[test]
fn golden_vendi_selections() {
    for (set, case) in cases(&sets(), &|id| id.starts_with("vendi_laser"), 4) {
        let name = format!("{}: {}", set.path.display(), id(case));
        let tensor = |key: &str| set.tensor(&format!("{}.{key}", id(case)));
        let weight: Mat<f32> = tensor("W").cast();
        let rank = case["rank"].as_u64().expect("a rank") as usize;
        let quality = case["use_quality"].as_bool().expect("yes or no");
        let criterion = Criterion { quality, ..Criterion::default() };
        let found = chosen(&weight, rank, &criterion);
        let want = indices(&case["indices"]);
        let steps = case["steps"].as_array().expect("steps");
        assert_eq!(steps.len(), rank, "{name}");
        for (t, step) in steps.iter().enumerate() {
            let (score, next) = (&step["score"], &step["runner_up"]);
            let (score, next) = (number(score, "score"), number(next, "runner_up"));
            // Gaps below are rounding of the reference, but for the full tie of the first pick.
            if score - next > 1e-6 || (t == 0 && !quality) {
                assert_eq!(found.indices[t], want[t], "{name}: pick {t}");
            } else if found.indices[t] != want[t] {
                break;
            }
            let off = (found.scores[t] / score - 1.0).abs();
            let allowed = tolerance(case, "score_rel");
            assert!(off <= allowed, "{name}: step {t} scores {}, not {score}", found.scores[t]);
        }
        let want_least = case.get("spec_min_diversity_indices");
        assert!(want_least.is_some() || least(1, 0) == 0, "{name}: no least diversity");
        if let Some(want) = want_least {
            let found = chosen(&weight, rank, &Criterion { goal: Goal::Least, ..criterion });
            assert_eq!(found.indices, indices(want), "{name}: least");
        }

        let rebuilt = reconstruct(weight.view(), &want).expect("independent rows");
        let product = rebuilt.apply(weight.view(), &want);
        for (key, allowed) in [("out", "out_rel_fro"), ("projection_f64", "projection_rel_fro")] {
            let (want, allowed) = (tensor(key), tolerance(case, allowed));
            let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
            let off: Vec<f64> =
                product.data().iter().zip(want.data()).map(|(a, b)| a - b).collect();
            let off = norm(&off) / norm(want.data());
            assert!(off <= allowed, "{name}: {key} is off by {off:e}, allowed {allowed:e}");
        }
        let norm = weight.data().iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let found = rebuilt.relative_residual * norm;
        let want = number(&case["resid_fro"], "resid_fro");
        assert!((found / want - 1.0).abs() <= 1e-3, "{name}: residual {found}, not {want}");
    }
}
