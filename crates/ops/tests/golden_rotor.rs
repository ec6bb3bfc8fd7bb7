//! Golden vectors of rotor maps and rotor networks, to the tolerance their files state.

use crate::golden::{Case, Golden, Set, least, sets};
use linwright_ops::archive::{self, Tensor, Tensors};
use linwright_ops::{
    Backward, Grads, Nonlinearity, Op, OpSpec, RotorInit, RotorNetworkSpec, RotorSpec, Shape, Tape,
    Workspace, parameter_count, rotor_planes,
};
use linwright_tensor::kernels::spin::skew_matrix;
use linwright_tensor::linalg::{PowerSettings, skew_power};
use linwright_tensor::{Mat, RngKey, Scalar};
use serde_json::Value;

/// Tolerance in single precision.
const SINGLE: f64 = 1e-5;

/// The cases that are networks, or those that are not.
fn cases(set: &Set, networks: bool) -> Vec<Case<'_>> {
    set.cases(|_, what| what.get("nonlinearity").is_some() == networks)
}

impl Case<'_> {
    fn flag(&self, key: &str) -> bool {
        self.what.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn shape(&self) -> Shape {
        Shape { out: self.count("out_features"), inp: self.count("in_features") }
    }

    /// Compares with the tolerance of the set in double precision, and with [`SINGLE`] in single
    /// precision, relative to numbers larger than one.
    #[track_caller]
    fn agree<T: Scalar>(&self, what: &str, found: &[T], want: &[f64]) {
        let of_set = self.set.about["tolerance"].as_f64().expect("a tolerance");
        let tolerance = if size_of::<T>() == 4 { SINGLE } else { of_set };
        let found: Vec<f64> = found.iter().map(|v| v.to_f64()).collect();
        self.compare(what, &found, want, |want| tolerance * want.abs().max(1.0));
    }

    /// The operator of a specification with the parameters and buffers of the case, and how many
    /// branch weights the case leaves out, which then stay 1.
    fn build<T: Scalar>(&self, spec: &OpSpec) -> (Op<T>, usize) {
        let fresh = spec.random::<T>(self.shape(), RngKey::new(0)).expect("a supported case");
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
                    Tensor::Values(shape, cast(&golden.values))
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

fn cast<T: Scalar>(values: &[f64]) -> Vec<T> {
    values.iter().map(|v| T::from_f64(*v)).collect()
}

/// Golden rows in the precision of a test.
fn rows<T: Scalar>(golden: &Golden) -> Mat<T> {
    golden.rows().cast()
}

/// What a test compared: it would pass without having looked if that was nothing.
#[derive(Default)]
struct Compared {
    all: usize,
}

impl Compared {
    /// Adds what was compared of a set: as much as this at least of each of ours, and all that has
    /// this name of another.
    #[track_caller]
    fn add(&mut self, set: &Set, (name, compared): (&str, usize), of_ours: usize) {
        let path = set.path.display();
        assert!(compared >= least(of_ours), "{path}: compared {compared} of {name}");
        let has = set.tensors.keys().any(|key| key.split('.').any(|part| part.starts_with(name)));
        assert!(compared > 0 || !has, "{path}: compared nothing of {name}");
        self.all += compared;
    }

    #[track_caller]
    fn finish(self) {
        assert!(self.all > 0, "no golden set has anything to compare");
    }
}

fn forward<T: Scalar>(op: &Op<T>, x: &Mat<T>) -> Mat<T> {
    let mut y = Mat::zeros(x.rows(), op.map().shape().out);
    op.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    y
}

fn rotor_spec(case: &Case<'_>) -> RotorSpec {
    let (chunk, single) = (Some(case.count("chunk")), case.flag("single_rotor"));
    RotorSpec { chunk, single, ..RotorSpec::default() }
}

fn maps<T: Scalar>() {
    let mut compared = Compared::default();
    for set in sets("rotor") {
        let cases = cases(&set, false);
        for case in &cases {
            let (op, _) = case.build::<T>(&OpSpec::Rotor(rotor_spec(case)));
            let y = forward(&op, &rows(case.tensor("x")));
            case.agree("y", y.data(), &case.tensor("y").values);
        }
        compared.add(&set, ("rotor maps", cases.len()), 6);
    }
    compared.finish();
}

#[test]
fn golden_rotor_maps() {
    maps::<f64>();
}

#[test]
fn golden_rotor_maps_in_single_precision() {
    maps::<f32>();
}

fn gradients<T: Scalar>() {
    let mut all = Compared::default();
    for set in sets("rotor") {
        let mut compared = 0;
        for case in cases(&set, false) {
            let Some(dy) = case.tensors.get("grad_y").map(|golden| rows::<T>(golden)) else {
                continue;
            };
            let (op, _) = case.build::<T>(&OpSpec::Rotor(rotor_spec(&case)));
            let (map, x) = (op.map(), rows::<T>(case.tensor("x")));
            let (mut tape, mut ws) = (Tape::default(), Workspace::default());
            let (mut y, mut dx) =
                (Mat::zeros(dy.rows(), dy.cols()), Mat::zeros(x.rows(), x.cols()));
            let mut grads = Grads::zeros(&map.params());
            map.forward(x.view(), y.view_mut(), Some(&mut tape), &mut ws);
            let (view, dx_view) = (x.view(), Some(dx.view_mut()));
            let (dy, grads_view) = (dy.view(), Some(&mut grads));
            let args = Backward { x: view, dy, tape: &tape, dx: dx_view, grads: grads_view };
            map.backward(args, &mut ws);
            // With the gradient of y come those of x and of every parameter.
            case.agree("grad_x", dx.data(), &case.tensor("grad_x").values);
            for (k, param) in map.params().iter().enumerate() {
                let key = format!("grad_{}", param.name);
                case.agree(&key, grads.get(k), &case.tensor(&key).values);
                compared += 1;
            }
        }
        all.add(&set, ("grad_", compared), 15);
    }
    all.finish();
}

#[test]
fn golden_rotor_gradients() {
    gradients::<f64>();
}

#[test]
fn golden_rotor_gradients_in_single_precision() {
    gradients::<f32>();
}

/// `matrix` (in-chunks, out-chunks, c, c) holds `M` of `y_chunk = M x_chunk`, without alpha.
fn matrices<T: Scalar>() {
    let mut all = Compared::default();
    for set in sets("rotor") {
        let mut compared = 0;
        for case in cases(&set, false) {
            let Some(matrices) = case.tensors.get("matrix") else {
                continue;
            };
            let (spec, chunk) = (rotor_spec(&case), case.count("chunk"));
            let left = case.tensor("bivectors_left");
            let pairs = left.shape[0];
            assert_eq!(matrices.shape[0] * matrices.shape[1], pairs, "{}", case.name);
            for pair in 0..pairs {
                let shape = Shape { out: chunk, inp: chunk };
                let mut op = OpSpec::Rotor(spec).random::<T>(shape, RngKey::new(0)).expect("a map");
                for param in op.map_mut().params_mut().into_iter().filter(|p| p.name != "alpha") {
                    let golden = &case.tensor(&param.name).values;
                    let count = param.values.len();
                    param.values.copy_from_slice(&cast::<T>(&golden[pair * count..][..count]));
                }
                let found = op.to_dense().expect("a linear map");
                let want = &matrices.values[pair * chunk * chunk..][..chunk * chunk];
                case.agree(&format!("matrix {pair}"), found.data(), want);
                compared += 1;
            }
        }
        all.add(&set, ("matrix", compared), 16);
    }
    all.finish();
}

#[test]
fn golden_rotor_matrices() {
    matrices::<f64>();
}

#[test]
fn golden_rotor_matrices_in_single_precision() {
    matrices::<f32>();
}

#[test]
fn golden_rotor_plane_angles() {
    let mut all = Compared::default();
    for set in sets("rotor") {
        let mut compared = 0;
        for case in cases(&set, false) {
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
                case.agree(&format!("angles of pair {pair}"), &found, &want);
                compared += 1;
            }
        }
        all.add(&set, ("plane_angles", compared), 16);
    }
    all.finish();
}

/// The paper's own way, with the patience that the reference's tolerance asks for.
#[test]
fn golden_rotor_plane_angles_by_power_iteration() {
    let patient = PowerSettings { most: 1_000_000, tolerance: 1e-13 };
    let mut all = Compared::default();
    for set in sets("rotor") {
        let mut compared = 0;
        for case in cases(&set, false) {
            let Some(angles) = case.tensors.get("plane_angles_left") else {
                continue;
            };
            let left = case.tensor("bivectors_left");
            let (count, planes, n) = (left.shape[1], angles.shape[1], case.count("chunk").ilog2());
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
                case.agree(&format!("angles of pair {pair}"), &found, &want);
                compared += 1;
            }
        }
        all.add(&set, ("plane_angles", compared), 16);
    }
    all.finish();
}

fn networks<T: Scalar>() {
    let mut compared = Compared::default();
    for set in sets("rotor") {
        let cases = cases(&set, true);
        for case in &cases {
            let nonlinearity: Nonlinearity =
                serde_json::from_value(case.what["nonlinearity"].clone()).expect("a nonlinearity");
            let (hidden_layers, breadth) = (case.count("hidden_layers"), case.count("breadth"));
            let rotors = case.count("rotors");
            let plain = 1 + hidden_layers * breadth + 1;
            let permute = case.flag("permute") || case.tensors.contains_key("perm0");
            let spec = RotorNetworkSpec {
                hidden_width: Some(case.count("chunk")),
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
            let (op, absent) = case.build::<T>(&OpSpec::RotorNetwork(spec));
            if let Some(count) = case.what.get("parameters").and_then(Value::as_u64) {
                let found = parameter_count(&op.map().params()) - absent;
                assert_eq!(found as u64, count, "{}: parameters", case.name);
            }
            let y = forward(&op, &rows(case.tensor("x")));
            case.agree("y", y.data(), &case.tensor("y").values);
        }
        compared.add(&set, ("networks", cases.len()), 2);
    }
    compared.finish();
}

#[test]
fn golden_rotor_networks() {
    networks::<f64>();
}

#[test]
fn golden_rotor_networks_in_single_precision() {
    networks::<f32>();
}
