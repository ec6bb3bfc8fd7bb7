//! Golden vectors: every set `<stem>.json` + `<stem>.safetensors` of a folder of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace, cut into its cases.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use linwright_tensor::Mat;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One tensor, widened to `f64`.
pub(crate) struct Golden {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Golden {
    fn of(view: &TensorView<'_>) -> Self {
        let bytes = view.data();
        let eight = |f: fn([u8; 8]) -> f64| -> Vec<f64> {
            bytes.chunks_exact(8).map(|b| f(b.try_into().expect("8 bytes"))).collect()
        };
        let four = |f: fn([u8; 4]) -> f64| -> Vec<f64> {
            bytes.chunks_exact(4).map(|b| f(b.try_into().expect("4 bytes"))).collect()
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "the types of safetensors are many")]
        let values = match view.dtype() {
            Dtype::F64 => eight(f64::from_le_bytes),
            Dtype::I64 => eight(|b| i64::from_le_bytes(b) as f64),
            Dtype::F32 => four(|b| f64::from(f32::from_le_bytes(b))),
            Dtype::I32 => four(|b| f64::from(i32::from_le_bytes(b))),
            other => panic!("golden tensor of type {other:?}"),
        };
        Self { shape: view.shape().to_vec(), values }
    }

    pub(crate) fn rows(&self) -> Mat<f64> {
        let cols = *self.shape.last().expect("a matrix");
        Mat::from_vec(self.values.len() / cols, cols, self.values.clone())
    }
}

/// One set of cases.
pub(crate) struct Set {
    pub(crate) path: PathBuf,
    pub(crate) about: Value,
    pub(crate) tensors: BTreeMap<String, Golden>,
}

/// One case with the tensors whose names start with its name.
pub(crate) struct Case<'a> {
    pub(crate) set: &'a Set,
    pub(crate) name: String,
    pub(crate) what: &'a Value,
    pub(crate) tensors: BTreeMap<String, &'a Golden>,
}

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// All sets of a folder of golden vectors, of which there must be one.
#[allow(dead_code, reason = "vectors that are not golden ones have a folder of their own")]
pub(crate) fn sets(folder: &str) -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    sets_in(&given().unwrap_or(default).join(folder))
}

/// The least that each set of the repository has of what a test compares; another set may have
/// none of it.
#[allow(dead_code, reason = "as above")]
pub(crate) fn least(of_ours: usize) -> usize {
    if given().is_none() { of_ours } else { 0 }
}

/// All sets of a folder, of which there must be one.
pub(crate) fn sets_in(root: &Path) -> Vec<Set> {
    let entries = std::fs::read_dir(root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // A note beside the sets is JSON too, but has no tensors.
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    assert!(!paths.is_empty(), "no set in {}", root.display());
    paths.into_iter().map(Set::read).collect()
}

impl Set {
    fn read(path: PathBuf) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let about = serde_json::from_slice(&read(&path.with_extension("json")))
            .unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let bytes = read(&path);
        let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let tensors = file.iter().map(|(name, view)| (name.to_owned(), Golden::of(&view)));
        let tensors = tensors.collect();
        Self { path, about, tensors }
    }

    /// The cases of which `wanted` says yes to name and description.
    pub(crate) fn cases(&self, wanted: impl Fn(&str, &Value) -> bool) -> Vec<Case<'_>> {
        let cases = self.about["cases"].as_array().expect("cases");
        assert!(!cases.is_empty(), "{:?} has no cases", self.path);
        let case = |what| {
            let name = what_name(what);
            if !wanted(name, what) {
                return None;
            }
            let prefix = format!("{name}.");
            let own = self.tensors.iter();
            let own = own.filter_map(|(key, t)| Some((key.strip_prefix(&prefix)?.to_owned(), t)));
            let tensors = own.collect();
            Some(Case {
                set: self,
                name: format!("{}: {name}", self.path.display()),
                what,
                tensors,
            })
        };
        cases.iter().filter_map(case).collect()
    }
}

fn what_name(what: &Value) -> &str {
    what["name"].as_str().expect("a name")
}

impl Case<'_> {
    pub(crate) fn number(&self, key: &str) -> f64 {
        self.what[key].as_f64().unwrap_or_else(|| panic!("{}: no number {key}", self.name))
    }

    pub(crate) fn count(&self, key: &str) -> usize {
        let value = self.what[key].as_u64();
        value.unwrap_or_else(|| panic!("{}: no count {key}", self.name)) as usize
    }

    pub(crate) fn tensor(&self, key: &str) -> &Golden {
        self.tensors.get(key).unwrap_or_else(|| panic!("{}: no tensor {key}", self.name))
    }

    /// Compares numbers, each of which may be off by what `allowed` says of the one expected.
    #[track_caller]
    pub(crate) fn compare(
        &self,
        what: &str,
        found: &[f64],
        want: &[f64],
        allowed: impl Fn(f64) -> f64,
    ) {
        assert_eq!(found.len(), want.len(), "{}: numbers of {what}", self.name);
        for (k, (&found, &want)) in found.iter().zip(want).enumerate() {
            let (off, allowed, name) = ((found - want).abs(), allowed(want), &self.name);
            assert!(
                off <= allowed,
                "{name}: {what}[{k}] is {found}, expected {want}: off by {off:e}, allowed {allowed:e}"
            );
        }
    }
}
