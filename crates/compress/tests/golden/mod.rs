//! Golden vectors: every set `<stem>.json` with `<stem>.safetensors` in a folder of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use linwright_tensor::Mat;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file of tensors with its description.
pub(crate) struct Set {
    pub(crate) path: PathBuf,
    pub(crate) about: Value,
    bytes: Vec<u8>,
}

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// The least that each set of the repository has of what a test compares; another set may have
/// `of_others`.
pub(crate) fn least(of_ours: usize, of_others: usize) -> usize {
    if given().is_none() { of_ours } else { of_others }
}

/// All sets of a folder, of which there must be one.
pub(crate) fn sets(folder: &str) -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default).join(folder);
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    assert!(!paths.is_empty(), "no golden set in {}", root.display());
    let read = |path: PathBuf| {
        let about = std::fs::read(path.with_extension("json")).expect("a description");
        let about = serde_json::from_slice(&about).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        Set { bytes: std::fs::read(&path).expect("tensors"), about, path }
    };
    paths.into_iter().map(read).collect()
}

impl Set {
    fn names(&self) -> Vec<String> {
        let file = SafeTensors::deserialize(&self.bytes).expect("safetensors");
        file.names().into_iter().map(ToOwned::to_owned).collect()
    }

    /// A matrix; a vector is one row.
    pub(crate) fn tensor(&self, name: &str) -> Option<Mat<f64>> {
        let file = SafeTensors::deserialize(&self.bytes).expect("safetensors");
        let tensor = file.tensor(name).ok()?;
        let dtype = tensor.dtype();
        let values: Vec<f64> = if dtype == Dtype::F32 {
            let numbers = tensor.data().as_chunks().0.iter();
            numbers.map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        } else {
            assert_eq!(dtype, Dtype::F64, "{name}: golden tensor");
            tensor.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
        };
        let cols = *tensor.shape().last().expect("a vector or a matrix");
        Some(Mat::from_vec(values.len() / cols, cols, values))
    }

    pub(crate) fn matrix(&self, case: &str, name: &str) -> Mat<f64> {
        let name = format!("{case}.{name}");
        self.tensor(&name).unwrap_or_else(|| panic!("{:?} has no {name}", self.path))
    }
}

/// A case of a set: its identifier and description.
pub(crate) type Case<'a> = (&'a Set, &'a str, &'a Value);

/// The cases of all sets whose identifiers start so, of which there must be one. A set has a case
/// for each of its tensors of the kind, and each of ours has this many at least.
pub(crate) fn cases<'a>(sets: &'a [Set], start: &str, of_ours: usize) -> Vec<Case<'a>> {
    let of_set = |set: &'a Set| {
        let cases = set.about["cases"].as_array().expect("cases").iter();
        let all = cases.map(move |case| (set, case["id"].as_str().expect("an identifier"), case));
        let found: Vec<Case<'a>> = all.filter(|(_, id, _)| id.starts_with(start)).collect();
        assert!(found.len() >= least(of_ours, 0), "{:?} has {} {start}", set.path, found.len());
        for name in set.names().iter().filter(|name| name.starts_with(start)) {
            let is_of = |id: &str| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('.'));
            let is_announced = found.iter().any(|(_, id, _)| is_of(id));
            assert!(is_announced, "{:?}: no case of {name}", set.path);
        }
        found
    };
    let found: Vec<_> = sets.iter().flat_map(of_set).collect();
    assert!(!found.is_empty(), "no golden set has a case {start}");
    found
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

pub(crate) fn norm(a: &Mat<f64>) -> f64 {
    a.data().iter().map(|x| x * x).sum::<f64>().sqrt()
}

pub(crate) fn minus(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    assert_eq!((a.rows(), a.cols()), (b.rows(), b.cols()));
    Mat::from_fn(a.rows(), a.cols(), |i, j| a.at(i, j) - b.at(i, j))
}
