//! Golden vectors of rotor maps and rotor networks, to the tolerance their files state.
//!
//! Every set `<stem>.json` + `<stem>.safetensors` under `$LINWRIGHT_GOLDEN/rotor` is read, by default
//! `testdata/golden/rotor` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "the place of the golden vectors is told by the environment"
)]

use linwright_ops::archive::{self, Tensor, Tensors};
use linwright_ops::{
    Backward, Grads, Nonlinearity, Op, OpSpec, RotorInit, RotorNetworkSpec, RotorSpec, Shape, Tape,
    Workspace, parameter_count, rotor_planes,
};
use linwright_tensor::kernels::spin::skew_matrix;
use linwright_tensor::linalg::{PowerSettings, skew_power};
use linwright_tensor::{Mat, RngKey};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One tensor, widened to `f64`.
#[derive(Clone)]
struct Golden {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Golden {
    fn rows(&self) -> Mat<f64> {
        let cols = *self.shape.last().expect("a matrix");
        Mat::from_vec(self.values.len() / cols, cols, self.values.clone())
    }
}

/// One set of cases.
struct Set {
    path: PathBuf,
    about: Value,
    tensors: BTreeMap<String, Golden>,
}

/// One case with the tensors whose names start with its name.
struct Case<'a> {
    name: String,
    what: &'a Value,
    tensors: BTreeMap<String, Golden>,
    tolerance: f64,
}

fn numbers(view: &safetensors::tensor::TensorView<'_>) -> Vec<f64> {
    let bytes = view.data();
    let eight = |f: fn([u8; 8]) -> f64| -> Vec<f64> {
        bytes.chunks_exact(8).map(|b| f(b.try_into().expect("8 bytes"))).collect()
    };
    let four = |f: fn([u8; 4]) -> f64| -> Vec<f64> {
        bytes.chunks_exact(4).map(|b| f(b.try_into().expect("4 bytes"))).collect()
    };
    match view.dtype() {
        Dtype::F64 => eight(f64::from_le_bytes),
        Dtype::I64 => eight(|b| i64::from_le_bytes(b) as f64),
        Dtype::F32 => four(|b| f64::from(f32::from_le_bytes(b))),
        Dtype::I32 => four(|b| f64::from(i32::from_le_bytes(b))),
        other => panic!("golden tensor of type {other:?}"),
    }
}

fn sets() -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = std::env::var_os("LINWRIGHT_GOLDEN").map_or(default, PathBuf::from).join("rotor");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // A note beside the sets is JSON too, but has no tensors.
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    assert!(!paths.is_empty(), "no golden set in {}", root.display());
    paths.into_iter().map(read_set).collect()
}

fn read_set(path: PathBuf) -> Set {
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let about = serde_json::from_slice(&read(&path.with_extension("json")))
        .unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let bytes = read(&path);
    let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let golden = |view: &safetensors::tensor::TensorView<'_>| Golden {
        shape: view.shape().to_vec(),
        values: numbers(view),
    };
    let tensors = file.tensors().iter().map(|(name, view)| (name.clone(), golden(view))).collect();
    Set { path, about, tensors }
}

impl Set {
    /// The cases that are networks, or those that are not.
    fn cases(&self, networks: bool) -> Vec<Case<'_>> {
        let tolerance = self.about["tolerance"].as_f64().expect("a tolerance");
        let cases = self.about["cases"].as_array().expect("cases");
        assert!(!cases.is_empty(), "{:?} has no cases", self.path);
        let case = |what: &'_ Value| {
            let name = what["name"].as_str().expect("a name").to_owned();
            let prefix = format!("{name}.");
            let own = |(key, golden): (&String, &Golden)| {
                Some((key.strip_prefix(&prefix)?.to_owned(), golden.clone()))
            };
            let tensors = self.tensors.iter().filter_map(own).collect();
            let name = format!("{}: {name}", self.path.display());
            (name, tensors)
        };
        cases
            .iter()
            .filter(|what| what.get("nonlinearity").is_some() == networks)
            .map(|what| {
                let (name, tensors) = case(what);
                Case { name, what, tensors, tolerance }
            })
            .collect()
    }
}

impl Case<'_> {
    fn number(&self, key: &str) -> usize {
        let value = self.what[key].as_u64();
        value.unwrap_or_else(|| panic!("{}: no number {key}", self.name)) as usize
    }

    fn flag(&self, key: &str) -> bool {
        self.what.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn shape(&self) -> Shape {
        Shape { out: self.number("out_features"), inp: self.number("in_features") }
    }

    fn tensor(&self, key: &str) -> &Golden {
        self.tensors.get(key).unwrap_or_else(|| panic!("{}: no tensor {key}", self.name))
    }

    #[track_caller]
    fn close(&self, what: &str, found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len(), "{}: numbers of {what}", self.name);
        for (k, (a, b)) in found.iter().zip(expected).enumerate() {
            let off = (a - b).abs();
            let allowed = self.tolerance * b.abs().max(1.0);
            assert!(off <= allowed, "{}: {what}[{k}] is {a}, expected {b}", self.name);
        }
    }

    /// The operator of a specification with the parameters and buffers of the case, and how many
    /// branch weights the case leaves out, which then stay 1.
    fn build(&self, spec: &OpSpec) -> (Op<f64>, usize) {
        let fresh = spec.random::<f64>(self.shape(), RngKey::new(0)).expect("a supported case");
        let (header, fresh) = archive::save(&fresh).expect("an operator of this crate");
        let mut absent = 0;
        let mut tensors = Tensors::new();
        for (name, tensor) in fresh {
            let tensor = match (tensor, self.tensors.get(&name)) {
                (Tensor::Indices(_), golden) => {
                    let golden = golden.unwrap_or_else(|| panic!("{}: no {name}", self.name));
                    Tensor::Indices(golden.values.iter().map(|&v| v as u32).collect())
                }
                (Tensor::Values(shape, _), Some(golden)) => {
                    Tensor::Values(shape, golden.values.clone())
                }
                (Tensor::Values(shape, ones), None) if name.ends_with(".alphas") => {
                    absent += ones.len();
                    Tensor::Values(shape, ones)
                }
                _ => panic!("{}: no tensor {name}", self.name),
            };
            tensors.insert(name, tensor);
        }
        (archive::load(&header, tensors).expect("the case's own parameters"), absent)
    }
}

fn forward(op: &Op<f64>, x: &Mat<f64>) -> Mat<f64> {
    let mut y = Mat::zeros(x.rows(), op.map().shape().out);
    op.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    y
}

fn rotor_spec(case: &Case<'_>) -> RotorSpec {
    let (chunk, single) = (Some(case.number("chunk")), case.flag("single_rotor"));
    RotorSpec { chunk, single, ..RotorSpec::default() }
}

#[test]
fn golden_rotor_maps() {
    for set in sets() {
        for case in set.cases(false) {
            let (op, _) = case.build(&OpSpec::Rotor(rotor_spec(&case)));
            let y = forward(&op, &case.tensor("x").rows());
            case.close("y", y.data(), &case.tensor("y").values);
        }
    }
}

#[test]
fn golden_rotor_gradients() {
    for set in sets() {
        for case in set.cases(false) {
            let Some(dy) = case.tensors.get("grad_y").map(Golden::rows) else {
                continue;
            };
            let (op, _) = case.build(&OpSpec::Rotor(rotor_spec(&case)));
            let (map, x) = (op.map(), case.tensor("x").rows());
            let (mut tape, mut ws) = (Tape::default(), Workspace::default());
            let (mut y, mut dx) =
                (Mat::zeros(dy.rows(), dy.cols()), Mat::zeros(x.rows(), x.cols()));
            let mut grads = Grads::zeros(&map.params());
            map.forward(x.view(), y.view_mut(), Some(&mut tape), &mut ws);
            let (view, dx_view) = (x.view(), Some(dx.view_mut()));
            let (dy, grads_view) = (dy.view(), &mut grads);
            let args = Backward { x: view, dy, tape: &tape, dx: dx_view, grads: grads_view };
            map.backward(args, &mut ws);
            if let Some(want) = case.tensors.get("grad_x") {
                case.close("grad_x", dx.data(), &want.values);
            }
            for (k, param) in map.params().iter().enumerate() {
                let key = format!("grad_{}", param.name);
                if let Some(want) = case.tensors.get(&key) {
                    case.close(&key, grads.get(k), &want.values);
                }
            }
        }
    }
}

/// `matrix` (in-chunks, out-chunks, c, c) holds `M` of `y_chunk = M x_chunk`, without alpha.
#[test]
fn golden_rotor_matrices() {
    for set in sets() {
        for case in set.cases(false) {
            let Some(matrices) = case.tensors.get("matrix") else {
                continue;
            };
            let (spec, chunk) = (rotor_spec(&case), case.number("chunk"));
            let left = case.tensor("bivectors_left");
            let pairs = left.shape[0];
            assert_eq!(matrices.shape[0] * matrices.shape[1], pairs, "{}", case.name);
            for pair in 0..pairs {
                let shape = Shape { out: chunk, inp: chunk };
                let mut op =
                    OpSpec::Rotor(spec).random::<f64>(shape, RngKey::new(0)).expect("a map");
                for param in op.map_mut().params_mut().into_iter().filter(|p| p.name != "alpha") {
                    let golden = &case.tensor(&param.name).values;
                    let count = param.values.len();
                    param.values.copy_from_slice(&golden[pair * count..][..count]);
                }
                let found = op.to_dense().expect("a linear map");
                let want = &matrices.values[pair * chunk * chunk..][..chunk * chunk];
                case.close(&format!("matrix {pair}"), found.data(), want);
            }
        }
    }
}

#[test]
fn golden_rotor_plane_angles() {
    for set in sets() {
        for case in set.cases(false) {
            let Some(angles) = case.tensors.get("plane_angles_left") else {
                continue;
            };
            let left = case.tensor("bivectors_left");
            let (count, planes) = (left.shape[1], angles.shape[1]);
            for pair in 0..left.shape[0] {
                let found =
                    rotor_planes(&left.values[pair * count..][..count]).expect("a bivector");
                let mut found: Vec<f64> = found.iter().map(|plane| plane.angle).collect();
                let mut want: Vec<f64> =
                    angles.values[pair * planes..][..planes].iter().map(|v| v.abs()).collect();
                found.sort_by(f64::total_cmp);
                want.sort_by(f64::total_cmp);
                case.close(&format!("angles of pair {pair}"), &found, &want);
            }
        }
    }
}

/// The paper's own way, with the patience that the reference's tolerance asks for.
#[test]
fn golden_rotor_plane_angles_by_power_iteration() {
    let patient = PowerSettings { most: 1_000_000, tolerance: 1e-13 };
    let mut compared = 0;
    for set in sets() {
        for case in set.cases(false) {
            let Some(angles) = case.tensors.get("plane_angles_left") else {
                continue;
            };
            let left = case.tensor("bivectors_left");
            let (count, planes, n) = (left.shape[1], angles.shape[1], case.number("chunk").ilog2());
            let n = n as usize;
            let starts: Vec<Vec<f64>> =
                (0..n as u64).map(|k| RngKey::new(k).stream().normals(n, 1.0)).collect();
            for pair in 0..left.shape[0] {
                let skew = skew_matrix(&left.values[pair * count..][..count], n);
                let power = skew_power(skew.view(), &starts, patient).expect("a finite matrix");
                let mut found: Vec<f64> = power.planes.iter().map(|p| p.plane.angle).collect();
                // What is left is the last plane: both numbers of each pair are in it.
                let rest: f64 = power.rest.data().iter().map(|v| v * v).sum();
                found.push((rest / 2.0).sqrt());
                let mut want: Vec<f64> =
                    angles.values[pair * planes..][..planes].iter().map(|v| v.abs()).collect();
                found.sort_by(f64::total_cmp);
                want.sort_by(f64::total_cmp);
                case.close(&format!("angles of pair {pair}"), &found, &want);
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "no golden set has angles");
}

#[test]
fn golden_rotor_networks() {
    for set in sets() {
        for case in set.cases(true) {
            let nonlinearity: Nonlinearity =
                serde_json::from_value(case.what["nonlinearity"].clone()).expect("a nonlinearity");
            let (hidden_layers, breadth) = (case.number("hidden_layers"), case.number("breadth"));
            let rotors = case.number("rotors");
            let plain = 1 + hidden_layers * breadth + 1;
            let permute = case.flag("permute") || case.tensors.contains_key("perm0");
            let spec = RotorNetworkSpec {
                hidden_width: Some(case.number("chunk")),
                hidden_layers,
                breadth,
                nonlinearity,
                normalize: case.flag("normalize"),
                residual: case.flag("residual"),
                permute,
                proj_parallel: case.flag("proj_parallel") || rotors > plain,
                single_rotor: !case.tensors.contains_key("rotor0.bivectors_right"),
                init: RotorInit::Normal,
            };
            let (op, absent) = case.build(&OpSpec::RotorNetwork(spec));
            if let Some(count) = case.what.get("parameters").and_then(Value::as_u64) {
                let found = parameter_count(&op.map().params()) - absent;
                assert_eq!(found as u64, count, "{}: parameters", case.name);
            }
            let y = forward(&op, &case.tensor("x").rows());
            case.close("y", y.data(), &case.tensor("y").values);
        }
    }
}
