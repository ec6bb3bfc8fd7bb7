//! Golden vectors: every set `<stem>.json` with `<stem>.safetensors` in `grass` of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace. Indices, signs and matrices
//! are read from the files, never drawn; so are shapes, names of parts and tolerances, since sets
//! differ in all of them.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

mod attribution;
mod masks;
mod methods;

use crate::maps::{Dense, Identity, Mask, Rows, SparseSigns, VectorMap};
use crate::{LayerMap, LayerShape};
use linwright_tensor::Mat;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) struct Golden {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Golden {
    #[expect(clippy::wildcard_enum_match_arm, reason = "another crate defines the enum")]
    fn of(view: &TensorView<'_>) -> Self {
        let (fours, eights) = (view.data().as_chunks::<4>().0, view.data().as_chunks::<8>().0);
        let values = match view.dtype() {
            Dtype::F64 => eights.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::I64 => eights.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
            Dtype::F32 => fours.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            Dtype::BOOL => view.data().iter().map(|b| f64::from(*b)).collect(),
            Dtype::I8 => view.data().iter().map(|b| f64::from(b.cast_signed())).collect(),
            other => panic!("golden tensor of type {other:?}"),
        };
        Self { shape: view.shape().to_vec(), values }
    }
}

/// One case of one set.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) about: Value,
    pub(crate) tensors: BTreeMap<String, Golden>,
}

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// Smallest number of compared values, in a set of the repository and in another set.
fn least(of_ours: usize, of_others: usize) -> usize {
    if given().is_none() { of_ours } else { of_others }
}

/// The cases of this kind in all sets, at least one.
pub(crate) fn cases(kind: &str) -> Vec<Case> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default).join("grass");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let ends = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        path.extension().is_some_and(|e| e == "safetensors") && stem.ends_with(&format!("_{kind}"))
    };
    paths.retain(ends);
    assert!(!paths.is_empty(), "no case {kind} in {}", root.display());
    paths.into_iter().map(Case::read).collect()
}

impl Case {
    fn read(path: PathBuf) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let about: Value =
            serde_json::from_slice(&read(&path.with_extension("json"))).expect("JSON");
        let bytes = read(&path);
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let tensors = file.iter().map(|(name, view)| (name.to_owned(), Golden::of(&view)));
        let case = Self { name: path.display().to_string(), about, tensors: tensors.collect() };
        // The listed tensors exist, and no others.
        let listed = case.about["tensors"].as_object().expect("a list of tensors");
        let is_there = |name: &String| case.tensors.contains_key(name);
        let is_listed = listed.len() == case.tensors.len() && listed.keys().all(is_there);
        assert!(is_listed, "{}: not the listed tensors", case.name);
        case
    }

    pub(crate) fn get(&self, name: &str) -> &Golden {
        self.tensors.get(name).unwrap_or_else(|| panic!("{}: no tensor {name}", self.name))
    }

    /// A tensor as rows of its last dimension.
    pub(crate) fn rows(&self, name: &str) -> Mat<f32> {
        let Golden { shape, values } = self.get(name);
        let columns = *shape.last().expect("a dimension");
        let values = values.iter().map(|value| *value as f32).collect();
        Mat::from_vec(shape.iter().product::<usize>() / columns, columns, values)
    }

    /// Prefixes of tensor names with this suffix: at least one, and this many in the sets of the
    /// repository.
    #[track_caller]
    pub(crate) fn before(&self, ending: &str, of_ours: usize) -> Vec<&str> {
        let found: Vec<&str> =
            self.tensors.keys().filter_map(|name| name.strip_suffix(ending)).collect();
        let (name, count) = (&self.name, found.len());
        assert!(count >= least(of_ours, 1), "{name}: {count} tensors end in {ending}");
        found
    }

    /// Suffixes of tensor names with this prefix: at least one, and this many in the sets of the
    /// repository.
    #[track_caller]
    pub(crate) fn after(&self, beginning: &str, of_ours: usize) -> Vec<&str> {
        let found: Vec<&str> =
            self.tensors.keys().filter_map(|name| name.strip_prefix(beginning)).collect();
        let (name, count) = (&self.name, found.len());
        assert!(count >= least(of_ours, 1), "{name}: {count} tensors begin with {beginning}");
        found
    }

    /// Allowed errors: relative to a number, and absolute.
    pub(crate) fn tolerance(&self) -> (f64, f64) {
        let of = |key: &str| {
            let tolerance = self.about["tolerance"][key].as_f64();
            tolerance.unwrap_or_else(|| panic!("{}: no tolerance {key}", self.name))
        };
        (of("rtol"), of("atol"))
    }

    pub(crate) fn indices(&self, name: &str) -> Vec<u32> {
        self.get(name).values.iter().map(|value| *value as u32).collect()
    }

    fn signs(&self, name: &str) -> Vec<bool> {
        self.get(name).values.iter().map(|value| *value < 0.0).collect()
    }

    /// Checks numbers against a tensor within the tolerance of the case.
    #[track_caller]
    pub(crate) fn check(&self, found: &[f32], name: &str) {
        let (relative, absolute) = self.tolerance();
        let expected = &self.get(name).values;
        assert_eq!(found.len(), expected.len(), "{}: {name}", self.name);
        for (found, expected) in found.iter().zip(expected) {
            let (found, allowed) = (f64::from(*found), absolute + relative * expected.abs());
            let what = &self.name;
            assert!((found - expected).abs() <= allowed, "{what}: {name}: {found}, {expected}");
        }
    }

    fn sparse(&self, inp: usize, out: usize, prefix: &str) -> SparseSigns {
        let (targets, signs) =
            (self.indices(&format!("{prefix}idx")), self.signs(&format!("{prefix}sign")));
        SparseSigns::new(linwright_ops::Shape { out, inp }, targets.len() / inp, &targets, &signs)
            .expect("a map")
    }
}

/// A number in the name of a tensor: `0p05` and `1e-3`, and none for the default of the reference.
pub(crate) fn number(text: &str) -> Option<f64> {
    if text == "none" {
        return None;
    }
    Some(text.replace('p', ".").parse().unwrap_or_else(|e| panic!("{text}: {e}")))
}

fn image(map: &dyn VectorMap, x: &Mat<f32>) -> Vec<f32> {
    let mut y = Mat::zeros(x.rows(), map.out());
    map.apply(Rows::plain(x.view()), y.view_mut());
    y.into_vec()
}

#[test]
fn masks_and_dense_maps_are_those_of_the_reference() {
    for case in cases("mask") {
        let x = case.rows("x");
        for of in case.after("idx_", 3) {
            let mask = Mask::new(x.cols(), case.indices(&format!("idx_{of}"))).expect("a mask");
            case.check(&image(&mask, &x), &format!("y_{of}"));
        }
    }
    for case in cases("dense") {
        let x = case.rows("x");
        for of in case.before("_P", 4) {
            let map = Dense::of_entries(case.rows(&format!("{of}_P"))).expect("a map");
            case.check(&image(&map, &x), &format!("{of}_y"));
        }
    }
}

#[test]
fn sparse_signs_and_their_adjoints_are_those_of_the_reference() {
    for case in cases("sjlt") {
        let x = case.rows("x");
        for of in case.before("_idx", 3) {
            let y = case.rows(&format!("{of}_y"));
            let map = case.sparse(x.cols(), y.cols(), &format!("{of}_"));
            case.check(&image(&map, &x), &format!("{of}_y"));
            if case.tensors.contains_key(&format!("{of}_xt")) {
                let mut back = Mat::zeros(x.rows(), x.cols());
                map.adjoint(y.view(), back.view_mut());
                case.check(back.data(), &format!("{of}_xt"));
            }
        }
    }
}

#[test]
fn grass_of_plain_vectors_is_that_of_the_reference() {
    for case in cases("grass") {
        for prefix in case.before("mask_idx", 3) {
            let own = format!("{prefix}x");
            let x = if case.tensors.contains_key(&own) { own } else { "x".into() };
            let (x, y) = (case.rows(&x), format!("{prefix}y"));
            let out = case.rows(&y).cols();
            let mask = case.indices(&format!("{prefix}mask_idx"));
            let sketch = case.sparse(mask.len(), out, &format!("{prefix}sjlt_"));
            let mask = Mask::new(x.cols(), mask).expect("a mask");
            let chosen = Mat::from_vec(x.rows(), mask.out(), image(&mask, &x));
            case.check(&image(&sketch, &chosen), &y);
            // The same as the gradient of a layer of one output whose gradient is 1.
            let shape = LayerShape { out: 1, inp: x.cols(), bias: false };
            let identity = |size| Box::new(Identity::new(size));
            let flat: Vec<Box<dyn VectorMap>> = vec![Box::new(mask), Box::new(sketch)];
            let map = LayerMap::new(shape, identity(x.cols()), identity(1), flat).expect("a map");
            let (reduced, one) = (map.reduce_inputs(x.view()), Mat::from_vec(1, 1, vec![1.0]));
            let mut found = vec![0.0; x.rows() * out];
            for (row, y) in found.chunks_mut(out).enumerate() {
                map.add(one.view(), reduced.view().rows_range(row, 1), y);
            }
            case.check(&found, &y);
        }
    }
}

/// The map of a layer in a pipeline of the reference, whose second stage has this size.
fn pipeline(case: &Case, pipeline: &str, layer: &str, shape: LayerShape, size: usize) -> LayerMap {
    let name = |part: &str| format!("{pipeline}.{layer}.{part}");
    let stage = |side: &str, size: usize| -> Box<dyn VectorMap> {
        let (index, matrix) = (name(&format!("{side}_idx")), name(&format!("{side}_P")));
        if case.tensors.contains_key(&index) {
            Box::new(Mask::new(size, case.indices(&index)).expect("a mask"))
        } else if case.tensors.contains_key(&matrix) {
            Box::new(Dense::of_entries(case.rows(&matrix)).expect("a map"))
        } else {
            Box::new(Identity::new(size))
        }
    };
    let (inp, out) = (stage("in", shape.width()), stage("out", shape.out));
    let numbers = inp.out() * out.out();
    let mut flat: Vec<Box<dyn VectorMap>> = Vec::new();
    if case.tensors.contains_key(&name("sjlt_idx")) {
        flat.push(Box::new(case.sparse(numbers, size, &name("sjlt_"))));
    } else if case.tensors.contains_key(&name("proj_P")) {
        flat.push(Box::new(Dense::of_entries(case.rows(&name("proj_P"))).expect("a map")));
    }
    LayerMap::new(shape, inp, out, flat).expect("a map")
}

/// Whether a layer of a case has a bias, whose inputs are an additional column of ones.
fn has_bias(case: &Case, layer: &str) -> bool {
    match case.about["layers"][layer].as_str() {
        Some(text) if text.starts_with("bias") => true,
        Some(text) if text.starts_with("no bias") => false,
        other => panic!("{}: {layer} with or without a bias: {other:?}", case.name),
    }
}

#[test]
fn pipelines_of_layers_are_those_of_the_reference() {
    for case in cases("compress2d").into_iter().chain(cases("compress3d")) {
        for layer in case.before(".a", 2) {
            let (x, dy) = (case.rows(&format!("{layer}.a")), case.rows(&format!("{layer}.g")));
            let (inp, out) = (x.cols(), dy.cols());
            let shape = LayerShape { out, inp, bias: has_bias(&case, layer) };
            let examples = case.get(&format!("{layer}.a")).shape[0];
            let tokens = x.rows() / examples;
            let kinds = case.about["kinds"].as_object().expect("kinds");
            for kind in kinds.keys() {
                let size = case.rows(&format!("{kind}.{layer}.y")).cols();
                let map = pipeline(&case, kind, layer, shape, size);
                let (x, dy) = (map.reduce_inputs(x.view()), map.reduce_gradients(dy.view()));
                let mut found = vec![0.0; examples * map.size()];
                for (example, y) in found.chunks_mut(map.size()).enumerate() {
                    let rows =
                        |all: &Mat<f32>| all.view().rows_range(example * tokens, tokens).to_mat();
                    map.add(rows(&dy).view(), rows(&x).view(), y);
                    // The loss of the reference is the mean over the batch.
                    y.iter_mut().for_each(|y| *y *= examples as f32);
                }
                case.check(&found, &format!("{kind}.{layer}.y"));
            }
        }
    }
}
