//! Golden vectors: every set `<stem>.json` with `<stem>.safetensors` in `neural-collapse` of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use crate::optimum::{Fit, Gufm, Ufm};
use crate::{ClassStatistics, ClassSums, Decisions, Keep, metrics};
use linwright_tensor::{Mat, MatRef};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Relative difference of two evaluations in double precision, as declared by the sets.
const RELATIVE: f64 = 1e-9;
/// Bound for values that are zero at collapse, up to sums of products of rounding errors.
const ABSOLUTE: f64 = 1e-12;

/// One set.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) about: Value,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// Smallest number of compared values, in a set of the repository and in another set.
pub(crate) fn least(of_ours: usize, of_others: usize) -> usize {
    if given().is_none() { of_ours } else { of_others }
}

/// All sets, at least one.
pub(crate) fn sets() -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default).join("neural-collapse");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    assert!(!paths.is_empty(), "no set in {}", root.display());
    paths.into_iter().map(Set::read).collect()
}

impl Set {
    #[expect(clippy::wildcard_enum_match_arm, reason = "another crate defines the enum")]
    fn read(path: PathBuf) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let about = serde_json::from_slice(&read(&path.with_extension("json"))).expect("JSON");
        let bytes = read(&path);
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let tensors = file.iter().map(|(name, view)| {
            let (fours, eights) = (view.data().as_chunks::<4>().0, view.data().as_chunks::<8>().0);
            let values = match view.dtype() {
                Dtype::F64 => eights.iter().map(|b| f64::from_le_bytes(*b)).collect(),
                Dtype::I64 => eights.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
                Dtype::F32 => fours.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
                other => panic!("golden tensor of type {other:?}"),
            };
            (name.to_owned(), (view.shape().to_vec(), values))
        });
        Self { name: path.display().to_string(), about, tensors: tensors.collect() }
    }

    pub(crate) fn values(&self, name: &str) -> &[f64] {
        &self.tensors.get(name).unwrap_or_else(|| panic!("{}: no tensor {name}", self.name)).1
    }

    pub(crate) fn rows(&self, name: &str) -> Mat<f64> {
        let (shape, values) =
            self.tensors.get(name).unwrap_or_else(|| panic!("{}: no tensor {name}", self.name));
        let columns = *shape.last().expect("a dimension");
        Mat::from_vec(values.len() / columns, columns, values.clone())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub(crate) fn labels(&self, name: &str) -> Vec<u32> {
        self.values(name).iter().map(|label| *label as u32).collect()
    }

    /// Factor of the squares of all parameters in the objectives of the networks.
    pub(crate) fn penalty(&self) -> f64 {
        let texts = self.about["keys"].as_object().into_iter().flat_map(|keys| keys.values());
        let of = |text: &Value| {
            let (_, rest) = text.as_str()?.split_once("fit + ")?;
            rest.split_once('*')?.0.parse().ok()
        };
        texts.filter_map(of).next().unwrap_or_else(|| panic!("{}: no penalty", self.name))
    }

    fn cases(&self) -> Vec<(String, &Value)> {
        let cases = self.about["cases"].as_array().expect("cases").iter();
        assert!(cases.len() >= least(17, 1), "{} has {} cases", self.name, cases.len());
        cases.map(|case| (case["name"].as_str().expect("a name").to_owned(), case)).collect()
    }
}

fn sums(x: MatRef<'_, f64>, labels: &[u32], classes: usize) -> ClassSums {
    let mut sums = ClassSums::new(classes, x.cols(), Keep::Scatter);
    sums.add(x, labels).expect("features");
    sums
}

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    let allowed = ABSOLUTE + RELATIVE * expected.abs();
    assert!((found - expected).abs() <= allowed, "{what}: {found:e}, expected {expected:e}");
}

fn statistics_of(set: &Set, case: &str) -> ClassStatistics {
    let get = |part: &str| format!("{case}.{part}");
    let (x, labels) = (set.rows(&get("X")), set.labels(&get("y")));
    sums(x.view(), &labels, set.rows(&get("W")).rows()).finish().expect("statistics")
}

#[test]
fn golden_statistics() {
    for set in sets() {
        for (case, _) in set.cases() {
            let get = |part: &str| format!("{case}.{part}");
            let found = statistics_of(&set, &case);
            let (counts, means) = (set.values(&get("counts")), set.rows(&get("means")));
            let norms = set.values(&get("var_norms"));
            assert_eq!(found.classes, counts.len(), "{case}");
            for (place, &class) in found.present.iter().enumerate() {
                assert_eq!(found.counts[place] as f64, counts[class], "{case}: class {class}");
                let pairs = found.means.row(place).iter().zip(means.row(class));
                pairs.for_each(|(found, expected)| near(*found, *expected, &case));
                near(found.variances()[place], norms[class], &format!("{case}: variance"));
            }
            assert_eq!(found.present(), counts.iter().filter(|count| **count > 0.0).count());
            let pairs = found.mean_of_means().into_iter().zip(set.values(&get("mean_of_means")));
            pairs.for_each(|(found, expected)| near(found, *expected, &case));
            let of_samples = set.values(&get("mean_of_samples"));
            let pairs = found.mean_of_samples.iter().zip(of_samples);
            pairs.for_each(|(found, expected)| near(*found, *expected, &case));
            near(found.within_trace(), set.values(&get("tr_sw"))[0], &case);
            let within = found.within.as_ref().expect("a scatter");
            if set.tensors.contains_key(&get("sw")) {
                let scale = set.values(&get("tr_sw"))[0];
                for (found, expected) in within.data().iter().zip(set.values(&get("sw"))) {
                    let error = (found / found_rows(&set, &case) - expected).abs();
                    assert!(error <= ABSOLUTE + RELATIVE * scale, "{case}: {error:e}");
                }
            }
        }
    }
}

fn found_rows(set: &Set, case: &str) -> f64 {
    set.values(&format!("{case}.y")).len() as f64
}

#[test]
fn golden_metrics() {
    for set in sets() {
        for (case, about) in set.cases() {
            let get = |part: &str| format!("{case}.{part}");
            let (x, labels) = (set.rows(&get("X")), set.labels(&get("y")));
            let (head, bias) = (set.rows(&get("W")), set.values(&get("b")));
            let found = statistics_of(&set, &case);
            let mut all = metrics(&found, Some(&head)).expect("metrics");
            let mut decisions = Decisions::new(&found, Some((&head, Some(bias)))).expect("a head");
            decisions.add(x.view(), &labels).expect("labels");
            all.extend(decisions.metrics());
            let expected = about["metrics"].as_object().expect("metrics");
            assert!(expected.len() >= least(26, 1), "{case}: {} metrics", expected.len());
            for (name, expected) in expected {
                let Some(expected) = expected.as_f64() else {
                    assert!(expected.is_null(), "{case}: {name} is {expected}");
                    assert!(all.get(name).is_none(), "{case}: {name} is not defined");
                    continue;
                };
                let value = all.get(name).unwrap_or_else(|| panic!("{case}: no {name}"));
                near(value, expected, &format!("{case}: {name}"));
            }
        }
    }
}

/// Features far from zero in single precision with their variances, and their values from sums in
/// single precision: of a set itself, or of a set moved away from zero.
fn with_an_offset(set: &Set) -> Vec<(Mat<f64>, Vec<f64>, Vec<f64>)> {
    let own: Vec<_> = set
        .tensors
        .keys()
        .filter_map(|name| name.strip_suffix(".X_f32"))
        .map(|name| {
            let values = |part: &str| set.values(&format!("{name}.{part}")).to_vec();
            let x = set.rows(&format!("{name}.X_f32"));
            (x, values("true_var"), values("naive_var_f32"))
        })
        .collect();
    if !own.is_empty() {
        return own;
    }
    let (case, _) = &set.cases()[0];
    let x = set.rows(&format!("{case}.X"));
    let x = Mat::from_fn(x.rows(), x.cols(), |i, j| f64::from((x.at(i, j) + 1e3) as f32));
    let column = |j: usize| (0..x.rows()).map(|i| x.at(i, j)).collect::<Vec<f64>>();
    let exact = |j: usize| {
        let (column, count) = (column(j), x.rows() as f64);
        let mean = column.iter().sum::<f64>() / count;
        column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count
    };
    let naive = |j: usize| {
        let (column, count) = (column(j), x.rows() as f32);
        let mean = column.iter().map(|v| *v as f32).sum::<f32>() / count;
        let square = column.iter().map(|v| (*v as f32).powi(2)).sum::<f32>() / count;
        f64::from(square - mean * mean)
    };
    let of_columns = |f: &dyn Fn(usize) -> f64| (0..x.cols()).map(f).collect::<Vec<f64>>();
    let (exact, naive) = (of_columns(&exact), of_columns(&naive));
    vec![(x, exact, naive)]
}

#[test]
fn golden_features_in_single_precision_with_an_offset() {
    let sets = sets();
    let own = sets.iter().filter(|set| set.tensors.keys().any(|name| name.ends_with(".X_f32")));
    assert!(own.count() >= least(sets.len(), 0), "a set without features in single precision");
    for (x, expected, naive) in sets.iter().flat_map(with_an_offset) {
        // Samples of one class and of another far away, so that the first has all the variance.
        let mut labels = vec![0; x.rows()];
        let mut padded = x.data().to_vec();
        padded.extend(vec![0.0; x.cols()]);
        labels.push(1);
        let padded = Mat::from_vec(x.rows() + 1, x.cols(), padded);
        let found = sums(padded.view(), &labels, 2).finish().expect("statistics");
        let within = found.within.expect("a scatter");
        for (j, expected) in expected.iter().enumerate() {
            let value = within.at(j, j) / x.rows() as f64;
            assert!((value / expected - 1.0).abs() < 1e-5, "{value}, expected {expected}");
        }
        let mut pairs = naive.iter().zip(&expected);
        let wrong = pairs.any(|(naive, true_)| (naive / true_ - 1.0).abs() > 1e-3);
        assert!(wrong, "the case is too easy");
    }
}

/// Where cases are split: as declared by a set, or else in three.
fn cuts(set: &Set) -> Vec<(String, Vec<usize>)> {
    let given = set.about.as_object().expect("an object").iter();
    let given = given.filter_map(|(key, cuts)| Some((key.strip_prefix("merge_cuts_")?, cuts)));
    let numbers = |cuts: &Value| -> Vec<usize> {
        let cuts = cuts.as_array().expect("cuts").iter();
        cuts.map(|cut| cut.as_u64().expect("a row") as usize).collect()
    };
    let given: Vec<_> = given.map(|(case, cuts)| (case.to_owned(), numbers(cuts))).collect();
    assert!(given.len() >= least(1, 0), "{} has no splits", set.name);
    if !given.is_empty() {
        return given;
    }
    let in_three = |(case, _): (String, &Value)| {
        let rows = set.values(&format!("{case}.y")).len();
        (case, vec![rows / 3, 2 * rows / 3])
    };
    set.cases().into_iter().map(in_three).collect()
}

#[test]
fn golden_merges_have_the_bits_of_one_pass() {
    for set in sets() {
        for (case, mut ends) in cuts(&set) {
            let x = set.rows(&format!("{case}.X"));
            let labels = set.labels(&format!("{case}.y"));
            let classes = set.rows(&format!("{case}.W")).rows();
            let whole = sums(x.view(), &labels, classes);
            ends.push(labels.len());
            let mut start = 0;
            let mut parts = Vec::new();
            for end in ends {
                let rows = x.view().rows_range(start, end - start);
                parts.push(sums(rows, &labels[start..end], classes));
                start = end;
            }
            // From the left, and from the right.
            for order in [parts.clone(), parts.into_iter().rev().collect()] {
                let mut merged = ClassSums::new(classes, x.cols(), Keep::Scatter);
                order.iter().for_each(|part| merged.merge(part).expect("of one shape"));
                let (one, merged) = (bits(whole.clone()), bits(merged));
                assert!(one == merged, "{case}");
            }
        }
    }
}

/// All numbers of statistics.
fn bits(sums: ClassSums) -> Vec<u64> {
    let all = sums.finish().expect("statistics");
    let within = all.within.expect("a scatter").into_vec();
    let numbers = all.means.into_vec().into_iter().chain(all.spreads).chain(within);
    numbers.chain(all.mean_of_samples).chain([all.squares]).map(f64::to_bits).collect()
}

#[test]
fn golden_optima_of_unconstrained_features() {
    for table in tables("ufm_closed_form", 25) {
        for row in table {
            let number = |name: &str| row[name].as_f64().expect("a number");
            for (key, fit) in of_fits() {
                let ufm = Ufm {
                    classes: number("K") as usize,
                    per_class: number("n") as u64,
                    head_strength: number("lw"),
                    feature_strength: number("lh"),
                    fit,
                };
                // A row of another set may have no fit.
                let Some(expected) = row.get(key) else {
                    assert_eq!(least(1, 0), 0, "{row}: no {key}");
                    continue;
                };
                let found = ufm.optimum().expect("an optimum");
                let what = format!("{ufm:?}");
                assert_eq!(found.collapsed, expected["collapsed"].as_bool().expect("a flag"));
                let values = [
                    ("c", found.threshold),
                    ("t", found.true_logit),
                    ("s", found.scale.unwrap_or(f64::NAN)),
                    ("obj", found.objective),
                    ("w2", found.head_row_squared),
                    ("h2", found.feature_squared),
                ];
                check(&values, expected, &what);
            }
        }
    }
}

fn of_fits() -> [(&'static str, Fit); 3] {
    [("ce", Fit::CrossEntropy), ("mse", Fit::SquaredError), ("mse_bias", Fit::SquaredErrorBias)]
}

/// The rows of a table of all sets, at least one; those of the repository have at least this many
/// rows.
fn tables(name: &str, of_ours: usize) -> Vec<Vec<Value>> {
    let of = |set: &Set| {
        let table = set.about[name].as_array().cloned();
        let (count, has) = (table.as_ref().map_or(0, Vec::len), set.about.get(name).is_some());
        assert!(count >= least(of_ours, has.into()), "{}: {count} rows of {name}", set.name);
        table
    };
    let tables: Vec<Vec<Value>> = sets().iter().filter_map(of).collect();
    assert!(!tables.is_empty(), "no golden set has {name}");
    tables
}

/// Checks the values of a table: at least one, and three in the sets of the repository.
#[track_caller]
fn check(values: &[(&str, f64)], expected: &Value, what: &str) {
    let mut checked = 0;
    for (name, found) in values {
        if let Some(expected) = expected[*name].as_f64() {
            near(*found, expected, &format!("{what}: {name}"));
            checked += 1;
        }
    }
    assert!(checked >= least(3, 1), "{what}: {expected}");
}

#[test]
fn golden_optima_behind_a_layer_norm() {
    for table in tables("gufm_closed_form", 18) {
        for row in table {
            let number = |name: &str| row[name].as_f64().expect("a number");
            for (key, fit) in of_fits() {
                let gufm = Gufm {
                    classes: number("K") as usize,
                    strength: number("lam"),
                    norm: number("r"),
                    fit,
                };
                let Some(expected) = row.get(key) else {
                    assert_eq!(least(1, 0), 0, "{row}: no {key}");
                    continue;
                };
                let found = gufm.optimum().expect("an optimum");
                let values = [
                    ("t", found.true_logit),
                    ("s", found.scale.unwrap_or(f64::NAN)),
                    ("obj", found.objective),
                    ("w2", found.head_row_squared),
                ];
                check(&values, expected, &format!("{gufm:?}"));
            }
        }
    }
}
