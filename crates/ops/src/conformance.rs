//! The conformance suite of operators, public so that other crates can run it on theirs.
//!
//! [`check`] tests an operator against the laws of [`Map`](crate::Map) and, if it is linear, those
//! of a linear map; the laws of archives apply to operators of this crate. [`check_spec`] adds what
//! needs a constructor: equal keys give equal bits; `f32` agrees with `f64`.
//!
//! ```
//! use linwright_ops::{OpSpec, conformance};
//! for (spec, shape) in OpSpec::examples() {
//!     conformance::check_spec(&spec, shape)?;
//! }
//! # Ok::<(), conformance::Failure>(())
//! ```

use crate::archive::{self, Header, Tensor};
use crate::{
    Backward, Grads, Invertible, Op, OpError, OpSpec, Shape, Tape, Workspace, parameter_count,
};
use linwright_tensor::{Mat, RngKey, linalg};
use std::collections::BTreeSet;

/// Largest relative error between results that should be equal up to rounding in `f64`.
const ROUNDING: f64 = 1e-10;
/// Largest relative error of central differences.
const DIFFERENCES: f64 = 1e-5;
/// Half the step of central differences, relative to the size of a number.
const STEP: f64 = 1e-5;
/// Largest relative error between `f32` and `f64`.
const SINGLE: f64 = 2e-3;
/// Largest number of parameters and of inputs probed by central differences, per tensor.
const PROBES: usize = 24;
/// Rows of the test batch.
const ROWS: usize = 5;

/// A violated law.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{kind} ({} to {} features): {law}: {detail}", shape.inp, shape.out)]
pub struct Failure {
    /// The operator's kind.
    pub kind: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// The law.
    pub law: &'static str,
    /// Found and expected values.
    pub detail: String,
}

/// Checks every law that does not need the constructor.
///
/// # Errors
/// The first violated law.
pub fn check(op: &Op<f64>) -> Result<(), Failure> {
    let suite = Suite::new(op);
    suite.names_are_unique()?;
    suite.batches_may_be_split()?;
    suite.empty_batches_pass()?;
    suite.tapes_may_be_used_again()?;
    suite.gradients_are_central_differences()?;
    suite.gradients_are_added()?;
    suite.input_gradients_stand_alone()?;
    if op.map().spec().external().is_none() {
        suite.numbers_are_foretold()?;
        suite.archive_is_exact()?;
    }
    if matches!(op, Op::Linear(_)) {
        suite.is_linear()?;
    }
    suite.inverse_and_determinant()
}

/// Builds an operator from a specification and a fixed key, runs [`check`] on it, and checks that
/// equal keys give equal bits and that `f32` agrees with `f64`.
///
/// # Errors
/// The first violated law.
pub fn check_spec(spec: &OpSpec, shape: Shape) -> Result<(), Failure> {
    let key = RngKey::new(11);
    let fail = |law, detail| Failure { kind: spec.kind(), shape, law, detail };
    let build = |key| spec.random::<f64>(shape, key);
    let op = build(key).map_err(|e| fail("can be built", e.to_string()))?;
    check(&op)?;
    let again = build(key).map_err(|e| fail("can be built", e.to_string()))?;
    if archive::save(&op) != archive::save(&again) {
        return Err(fail("same key, same bits", "two builds from one key differ".into()));
    }
    // The same parameters in both precisions: those of f32, widened.
    let single = spec.random::<f32>(shape, key).map_err(|e| fail("can be built", e.to_string()))?;
    let (header, tensors) =
        archive::save(&single).map_err(|e| fail("can be archived", e.to_string()))?;
    let widen = |tensor| match tensor {
        Tensor::Values(shape, v) => Tensor::Values(shape, v.into_iter().map(f64::from).collect()),
        Tensor::Indices(v) => Tensor::Indices(v),
    };
    let tensors = tensors.into_iter().map(|(name, tensor)| (name, widen(tensor))).collect();
    let double = archive::load::<f64>(&header, tensors)
        .map_err(|e| fail("f32 parameters load as f64", e.to_string()))?;
    let suite = Suite::new(&double);
    let mut y = Mat::zeros(ROWS, shape.out);
    let x: Mat<f32> = suite.x.cast();
    single.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    suite.close("f32 agrees with f64", &y.cast(), &suite.y, SINGLE)
}

struct Suite<'a> {
    op: &'a Op<f64>,
    x: Mat<f64>,
    /// Weights of the loss `Σ weight · y` whose gradients are checked.
    weight: Mat<f64>,
    y: Mat<f64>,
    dx: Mat<f64>,
    grads: Grads<f64>,
}

fn normal(rows: usize, cols: usize, label: &str) -> Mat<f64> {
    Mat::from_vec(rows, cols, RngKey::new(23).fold(label).stream().normals(rows * cols, 1.0))
}

fn forward(op: &Op<f64>, x: &Mat<f64>) -> Mat<f64> {
    let mut y = Mat::zeros(x.rows(), op.map().shape().out);
    op.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    y
}

fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum()
}

/// At most [`PROBES`] indices below `len`, evenly spaced.
fn probes(len: usize) -> Vec<usize> {
    let count = len.min(PROBES);
    (0..count).map(|k| k * len / count).collect()
}

impl<'a> Suite<'a> {
    fn new(op: &'a Op<f64>) -> Self {
        let Shape { out, inp } = op.map().shape();
        let mut suite = Self {
            op,
            x: normal(ROWS, inp, "x"),
            weight: normal(ROWS, out, "weight"),
            y: Mat::zeros(ROWS, out),
            dx: Mat::zeros(ROWS, inp),
            grads: Grads::zeros(&op.map().params()),
        };
        let (y, dx, grads) = suite.run(&mut Tape::default(), &mut Workspace::default());
        (suite.y, suite.dx, suite.grads) = (y, dx, grads);
        suite
    }

    fn run(
        &self,
        tape: &mut Tape<f64>,
        ws: &mut Workspace<f64>,
    ) -> (Mat<f64>, Mat<f64>, Grads<f64>) {
        let map = self.op.map();
        let mut grads = Grads::zeros(&map.params());
        // NaN reveals memory that an operator does not overwrite.
        let nan = |rows, cols| Mat::from_fn(rows, cols, |_, _| f64::NAN);
        let (mut y, mut dx) = (nan(ROWS, map.shape().out), nan(ROWS, map.shape().inp));
        tape.clear();
        map.forward(self.x.view(), y.view_mut(), Some(tape), ws);
        let args = Backward {
            x: self.x.view(),
            dy: self.weight.view(),
            tape,
            dx: Some(dx.view_mut()),
            grads: Some(&mut grads),
        };
        map.backward(args, ws);
        (y, dx, grads)
    }

    fn fail(&self, law: &'static str, detail: String) -> Failure {
        let map = self.op.map();
        Failure { kind: map.spec().kind(), shape: map.shape(), law, detail }
    }

    /// Largest difference, relative to the largest expected number or one.
    fn close(
        &self,
        law: &'static str,
        found: &Mat<f64>,
        expected: &Mat<f64>,
        tolerance: f64,
    ) -> Result<(), Failure> {
        let size = expected.data().iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        for (k, (a, b)) in found.data().iter().zip(expected.data()).enumerate() {
            let off = (a - b).abs();
            if off.is_nan() || off > tolerance * size {
                return Err(self.fail(law, format!("number {k} is {a}, expected {b}")));
            }
        }
        Ok(())
    }

    fn numbers_are_foretold(&self) -> Result<(), Failure> {
        let map = self.op.map();
        let buffers: usize = map.buffers().iter().map(|buffer| buffer.values.len()).sum();
        let held = parameter_count(&map.params()) as u64 + buffers as u64;
        let foretold = map.spec().numbers(map.shape());
        if held == foretold {
            return Ok(());
        }
        Err(self.fail("numbers are foretold", format!("{held} held, {foretold} foretold")))
    }

    fn names_are_unique(&self) -> Result<(), Failure> {
        let map = self.op.map();
        let mut seen = BTreeSet::new();
        let buffers = map.buffers().into_iter().map(|b| b.name);
        for name in map.params().into_iter().map(|p| p.name).chain(buffers) {
            if !seen.insert(name.clone()) {
                return Err(self.fail("parameter names are unique", format!("{name} occurs twice")));
            }
        }
        for p in map.params() {
            if p.shape.iter().product::<usize>() != p.values.len() {
                let detail =
                    format!("{} has shape {:?}, {} numbers", p.name, p.shape, p.values.len());
                return Err(self.fail("shapes fit the numbers", detail));
            }
        }
        Ok(())
    }

    fn batches_may_be_split(&self) -> Result<(), Failure> {
        for split in 1..ROWS {
            let mut rows = Vec::new();
            for (start, count) in [(0, split), (split, ROWS - split)] {
                rows.extend(
                    forward(self.op, &self.x.view().rows_range(start, count).to_mat()).into_vec(),
                );
            }
            let y = Mat::from_vec(ROWS, self.y.cols(), rows);
            self.close("a batch may be split", &y, &self.y, ROUNDING)?;
        }
        // Enough rows to be split into several work items.
        let many = normal(150, self.x.cols(), "many");
        let whole = forward(self.op, &many);
        let tail = forward(self.op, &many.view().rows_range(130, 20).to_mat());
        let expected = whole.view().rows_range(130, 20).to_mat();
        self.close("a batch may be split", &tail, &expected, ROUNDING)
    }

    fn empty_batches_pass(&self) -> Result<(), Failure> {
        let (map, mut tape, mut ws) = (self.op.map(), Tape::default(), Workspace::default());
        let Shape { out, inp } = map.shape();
        let (x, mut y, mut dx) = (Mat::zeros(0, inp), Mat::zeros(0, out), Mat::zeros(0, inp));
        let mut grads = Grads::zeros(&map.params());
        map.forward(x.view(), y.view_mut(), Some(&mut tape), &mut ws);
        let dy = Mat::zeros(0, out);
        let (dx, grads_ref) = (Some(dx.view_mut()), Some(&mut grads));
        let args = Backward { x: x.view(), dy: dy.view(), tape: &tape, dx, grads: grads_ref };
        map.backward(args, &mut ws);
        if grads.iter().flatten().any(|&g| g != 0.0) {
            return Err(self.fail("an empty batch is supported", "it has a gradient".into()));
        }
        Ok(())
    }

    fn tapes_may_be_used_again(&self) -> Result<(), Failure> {
        let (mut tape, mut ws) = (Tape::default(), Workspace::default());
        for _ in 0..2 {
            let (y, dx, grads) = self.run(&mut tape, &mut ws);
            if (y, dx, grads) != (self.y.clone(), self.dx.clone(), self.grads.clone()) {
                let detail = "another result with reused memory".to_owned();
                return Err(self.fail("tape and workspace can be reused", detail));
            }
        }
        Ok(())
    }

    fn loss(&self, op: &Op<f64>, x: &Mat<f64>) -> f64 {
        inner(&forward(op, x), &self.weight)
    }

    fn agree(&self, name: &str, index: usize, found: f64, expected: f64) -> Result<(), Failure> {
        let off = (found - expected).abs();
        if off.is_nan() || off > DIFFERENCES * (1.0 + expected.abs()) {
            let law = "gradients are central differences";
            let detail = format!("{name}[{index}] is {found}, expected {expected}");
            return Err(self.fail(law, detail));
        }
        Ok(())
    }

    fn gradients_are_central_differences(&self) -> Result<(), Failure> {
        for index in probes(self.x.data().len()) {
            let moved = |by: f64| {
                let mut x = self.x.clone();
                x.data_mut()[index] += by;
                self.loss(self.op, &x)
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            self.agree("dx", index, self.dx.data()[index], slope)?;
        }
        let mut op = self.op.clone();
        for (tensor, param) in self.op.map().params().iter().enumerate() {
            for index in probes(param.values.len()) {
                let mut moved = |by: f64| {
                    op.map_mut().params_mut()[tensor].values[index] = param.values[index] + by;
                    self.loss(&op, &self.x)
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                moved(0.0);
                self.agree(&param.name, index, self.grads.get(tensor)[index], slope)?;
            }
        }
        Ok(())
    }

    /// The gradient of the input is the same without those of the parameters.
    fn input_gradients_stand_alone(&self) -> Result<(), Failure> {
        let (map, mut tape, mut ws) = (self.op.map(), Tape::default(), Workspace::default());
        let (mut y, mut dx) = (self.y.clone(), Mat::from_fn(ROWS, self.x.cols(), |_, _| f64::NAN));
        map.forward(self.x.view(), y.view_mut(), Some(&mut tape), &mut ws);
        let (x, dy, d_view) = (self.x.view(), self.weight.view(), Some(dx.view_mut()));
        map.backward(Backward { x, dy, tape: &tape, dx: d_view, grads: None }, &mut ws);
        self.close("gradients of inputs do not need those of parameters", &dx, &self.dx, ROUNDING)
    }

    /// Backward adds to gradients, independently of whether `dx` is requested.
    fn gradients_are_added(&self) -> Result<(), Failure> {
        let (map, mut tape, mut ws) = (self.op.map(), Tape::default(), Workspace::default());
        let mut y = self.y.clone();
        map.forward(self.x.view(), y.view_mut(), Some(&mut tape), &mut ws);
        let mut grads = self.grads.clone();
        let (x, dy) = (self.x.view(), self.weight.view());
        map.backward(Backward { x, dy, tape: &tape, dx: None, grads: Some(&mut grads) }, &mut ws);
        for (k, (sum, once)) in grads.iter().zip(self.grads.iter()).enumerate() {
            let sum = Mat::from_vec(1, sum.len(), sum.to_vec());
            let twice = Mat::from_fn(1, once.len(), |_, j| 2.0 * once[j]);
            let law = "gradients are added, with or without dx";
            self.close(law, &sum, &twice, ROUNDING)
                .map_err(|f| Failure { detail: format!("parameter {k}, {}", f.detail), ..f })?;
        }
        Ok(())
    }

    fn archive_is_exact(&self) -> Result<(), Failure> {
        let law = "the archive is bit-exact";
        let (header, tensors) =
            archive::save(self.op).map_err(|e| self.fail(law, e.to_string()))?;
        let json = serde_json::to_string(&header).map_err(|e| self.fail(law, e.to_string()))?;
        let read: Header = serde_json::from_str(&json)
            .map_err(|e| self.fail(law, format!("{json} is not read back: {e}")))?;
        if read != header {
            return Err(self.fail(law, format!("{json} is read back as {read:?}")));
        }
        let unknown = json.replacen('{', r#"{"no_such_key":1,"#, 1);
        if serde_json::from_str::<Header>(&unknown).is_ok() {
            return Err(self.fail("unknown keys are rejected", unknown));
        }
        let back = archive::load::<f64>(&read, tensors.clone())
            .map_err(|e| self.fail(law, e.to_string()))?;
        if archive::save(&back) != Ok((header, tensors.clone())) {
            return Err(self.fail(law, "loaded parameters differ".into()));
        }
        if forward(&back, &self.x) != self.y {
            return Err(self.fail(law, "the loaded operator computes another map".into()));
        }
        for name in tensors.keys() {
            let mut fewer = tensors.clone();
            fewer.remove(name);
            match archive::load::<f64>(&read, fewer) {
                Err(OpError::MissingTensor { name: found, .. }) if &found == name => {}
                other => {
                    let detail = format!("without {name}: {:?}", other.map(|_| "loaded"));
                    return Err(self.fail("a missing tensor is named", detail));
                }
            }
        }
        Ok(())
    }

    fn is_linear(&self) -> Result<(), Failure> {
        let other = normal(ROWS, self.x.cols(), "other");
        let combined =
            Mat::from_fn(ROWS, self.x.cols(), |i, j| 2.0 * self.x.at(i, j) - 0.5 * other.at(i, j));
        let y = forward(self.op, &other);
        let expected =
            Mat::from_fn(ROWS, y.cols(), |i, j| 2.0 * self.y.at(i, j) - 0.5 * y.at(i, j));
        self.close("the map is linear", &forward(self.op, &combined), &expected, ROUNDING)?;

        let dense = self.op.to_dense().map_err(|e| self.fail("has a dense form", e.to_string()))?;
        let y = times(&self.x, &dense.transpose());
        self.close("the map is its dense form", &self.y, &y, ROUNDING)?;
        let dx = times(&self.weight, &dense);
        self.close("dx is that of the dense transpose", &self.dx, &dx, ROUNDING)
    }

    /// Laws of operators with an inverse and a determinant.
    fn inverse_and_determinant(&self) -> Result<(), Failure> {
        let Some(invertible) = self.op.map().invertible() else {
            return Ok(());
        };
        let law = "inverse and determinant are those of the dense form";
        let dense = self.op.to_dense().map_err(|e| self.fail(law, e.to_string()))?;
        let features = dense.cols();
        let svd = linalg::svd(dense.view()).map_err(|e| self.fail(law, e.to_string()))?;
        let condition = svd.s[0] / svd.s[features - 1];
        let mut ws = Workspace::default();
        for (y, x) in [(&self.y, &self.x), (&Mat::zeros(0, features), &Mat::zeros(0, features))] {
            // NaN reveals memory that is not overwritten.
            let mut found = Mat::from_fn(y.rows(), features, |_, _| f64::NAN);
            let inverted = invertible.inverse(y.view(), found.view_mut(), &mut ws);
            inverted.map_err(|e| self.fail(law, e.to_string()))?;
            self.close("the inverse undoes the map", &found, x, ROUNDING * condition)?;
        }
        let inverse = invertible.inverse_dense().map_err(|e| self.fail(law, e.to_string()))?;
        let unit = times(&inverse, &dense);
        let law_of_dense = "the dense inverse undoes the dense form";
        self.close(law_of_dense, &unit, &Mat::identity(features), ROUNDING * condition)?;
        let found = invertible.log_abs_det().map_err(|e| self.fail(law, e.to_string()))?;
        let (log_abs, sign) = linalg::log_abs_det(dense.view());
        let off = (found.log_abs - log_abs).abs();
        if off.is_nan() || off > ROUNDING * condition * features as f64 || found.sign != sign {
            let expected = format!("{found:?}, by elimination {log_abs} and {sign}");
            return Err(self.fail(law, expected));
        }
        self.determinant_gradients(invertible, &inverse, condition)
    }

    /// Gradients of the determinant are those of the map of unit vectors at the inverse transpose.
    fn determinant_gradients(
        &self,
        invertible: &dyn Invertible<f64>,
        inverse: &Mat<f64>,
        condition: f64,
    ) -> Result<(), Failure> {
        let law = "gradients of the determinant are those at the inverse transpose";
        let (map, mut ws, mut tape) = (self.op.map(), Workspace::default(), Tape::default());
        let [mut found, mut expected] = [(); 2].map(|()| Grads::zeros(&map.params()));
        for scale in [1.5, 0.5] {
            let done = invertible.log_det_backward(scale, &mut found);
            done.map_err(|e| self.fail(law, e.to_string()))?;
        }
        let (units, mut dy) = (Mat::identity(inverse.cols()), inverse.clone());
        dy.data_mut().iter_mut().for_each(|v| *v *= 2.0);
        map.forward(units.view(), inverse.clone().view_mut(), Some(&mut tape), &mut ws);
        let (x, dy, grads) = (units.view(), dy.view(), Some(&mut expected));
        map.backward(Backward { x, dy, tape: &tape, dx: None, grads }, &mut ws);
        for (found, expected) in found.iter().zip(expected.iter()) {
            let row = |numbers: &[f64]| Mat::from_vec(1, numbers.len(), numbers.to_vec());
            self.close(law, &row(found), &row(expected), ROUNDING * condition)?;
        }
        Ok(())
    }
}

fn times(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let dot = |i, j| (0..a.cols()).map(|k| a.at(i, k) * b.at(k, j)).sum();
    Mat::from_fn(a.rows(), b.cols(), dot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinearOp, Map, Param, ParamMut, Sum};
    use linwright_tensor::kernels::diagonal::{add_gradient, add_scaled};
    use linwright_tensor::{MatMut, MatRef};

    #[test]
    fn every_kind_has_examples_and_conforms() {
        let examples = OpSpec::examples();
        for kind in OpSpec::KINDS {
            assert!(examples.iter().any(|(spec, _)| spec.kind() == *kind), "{kind}");
        }
        for (spec, shape) in examples {
            if let Err(failure) = check_spec(&spec, shape) {
                panic!("{failure}\n{spec:?}");
            }
        }
    }

    #[test]
    fn impossible_shapes_are_named() {
        for (json, text) in [
            (r#"{"kind":"low_rank","rank":9}"#, "low_rank cannot map 4 to 6 features"),
            (r#"{"kind":"rotor","chunk":8}"#, "rotor cannot map 4 to 6 features"),
            (r#"{"kind":"rotor","chunk":3}"#, "chunk 3 must be a power of two"),
            (r#"{"kind":"block_hadamard","blocks":4}"#, "4 blocks do not divide 4 and 6"),
            (r#"{"kind":"rotor_network","breadth":0}"#, "rotor_network cannot map 4 to 6"),
        ] {
            let spec: OpSpec = serde_json::from_str(json).unwrap();
            let shape = Shape { out: 6, inp: 4 };
            let error = spec.random::<f64>(shape, RngKey::new(0)).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    /// An operator of another crate: scales by a number, with an optionally wrong gradient.
    #[derive(Clone, Debug)]
    struct Scale {
        factor: Vec<f64>,
        has_gradient: bool,
    }

    impl Map<f64> for Scale {
        fn spec(&self) -> OpSpec {
            OpSpec::External { name: "scale" }
        }
        fn shape(&self) -> Shape {
            Shape { out: 2, inp: 2 }
        }
        fn macs_per_row(&self) -> u64 {
            2
        }
        fn params(&self) -> Vec<Param<'_, f64>> {
            vec![Param { name: "scale".into(), shape: vec![1], values: &self.factor }]
        }
        fn params_mut(&mut self) -> Vec<ParamMut<'_, f64>> {
            vec![ParamMut { name: "scale".into(), shape: vec![1], values: &mut self.factor }]
        }
        fn forward(
            &self,
            x: MatRef<'_, f64>,
            mut y: MatMut<'_, f64>,
            _tape: Option<&mut Tape<f64>>,
            _ws: &mut Workspace<f64>,
        ) {
            y.fill(0.0);
            add_scaled(x, &[self.factor[0]; 2], y);
        }
        fn backward(&self, args: Backward<'_, '_, f64>, _ws: &mut Workspace<f64>) {
            if self.has_gradient {
                let mut sums = [0.0; 2];
                add_gradient(args.dy, args.x, &mut sums);
                let sum = sums[0] + sums[1];
                args.grads.into_iter().for_each(|grads| grads.get_mut(0)[0] += sum);
            }
            if let Some(mut dx) = args.dx {
                dx.fill(0.0);
                add_scaled(args.dy, &[self.factor[0]; 2], dx);
            }
        }
        fn clone_op(&self) -> Op<f64> {
            Op::Linear(Box::new(self.clone()))
        }
    }

    impl LinearOp<f64> for Scale {}

    #[test]
    fn a_missing_gradient_is_found() {
        let op = Scale { factor: vec![1.5], has_gradient: false };
        let failure = check(&op.clone_op()).unwrap_err();
        assert_eq!(failure.law, "gradients are central differences");
        assert!(failure.to_string().contains("scale[0] is 0"), "{failure}");
    }

    #[test]
    fn operators_from_outside_conform_and_are_refused_by_archives() {
        let op = Scale { factor: vec![1.5], has_gradient: true }.clone_op();
        check(&op).unwrap();
        let sum = Sum::new(vec![op.clone(), op.clone()]).unwrap().clone_op();
        check(&sum).unwrap();
        for op in [op, sum] {
            let error = archive::save(&op).unwrap_err();
            assert_eq!(error, OpError::External { kind: "scale" });
            assert!(error.to_string().contains("scale is an operator of another crate"), "{error}");
            let built = op.map().spec().random::<f64>(op.map().shape(), RngKey::new(0));
            assert!(built.unwrap_err().to_string().contains("scale"));
            assert!(serde_json::to_string(&op.map().spec()).is_err());
        }
        let read = serde_json::from_str::<OpSpec>(r#"{"kind":"external","name":"scale"}"#);
        assert!(read.unwrap_err().to_string().contains("unknown variant `external`"));
    }
}
