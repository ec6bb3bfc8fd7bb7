//! Laws of operators at random options, shapes, batches and seeds. A case that breaks one shrinks
//! to a small one. Every run tries the same cases.

use crate::cases::{Case, case, hostile_case, square_case};
use linwright_ops::archive::{self, Header, Tensor, Tensors};
use linwright_ops::{
    Backward, Grads, MAX_PARTS, Map, Op, OpError, OpSpec, Shape, Tape, Workspace, parameter_count,
};
use linwright_tensor::{Mat, RngKey, Scalar, linalg};
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq};
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};
use std::collections::BTreeMap;

/// Largest relative error between results that should be equal up to rounding in `f64`.
const ROUNDING: f64 = 1e-10;
/// Largest relative error between `f32` and `f64`, as in the conformance suite.
const SINGLE: f64 = 2e-3;
/// Size of the largest operator that is built from a hostile specification.
const MODEST: u64 = 1 << 16;

type Law = Result<(), TestCaseError>;

fn config(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(20_251_121);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

fn normal<T: Scalar>(rows: usize, cols: usize, seed: u64, label: &str) -> Mat<T> {
    let mut stream = RngKey::new(seed).fold(label).stream();
    Mat::from_vec(rows, cols, stream.normals(rows * cols, 1.0))
}

fn forward<T: Scalar>(map: &dyn Map<T>, x: &Mat<T>) -> Mat<T> {
    let mut y = Mat::from_fn(x.rows(), map.shape().out, |_, _| T::from_f64(f64::NAN));
    map.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    y
}

fn size_of(m: &Mat<f64>) -> f64 {
    m.data().iter().fold(1.0, |most: f64, v| most.max(v.abs()))
}

/// Largest difference relative to the largest number expected, or one.
fn close(found: &Mat<f64>, expected: &Mat<f64>, tolerance: f64) -> Law {
    let bound = tolerance * size_of(expected);
    for (k, (a, b)) in found.data().iter().zip(expected.data()).enumerate() {
        prop_assert!((a - b).abs() <= bound, "number {k} is {a}, expected {b}");
    }
    Ok(())
}

/// The operator, or nothing if the specification is refused as it should be.
fn build<T: Scalar>(case: &Case, seed: u64) -> Result<Option<Op<T>>, TestCaseError> {
    let Case { spec, shape } = case;
    match spec.random::<T>(*shape, RngKey::new(seed)) {
        Ok(op) => Ok(Some(op)),
        Err(error) => refusal_is_clear(&error, spec, *shape).map(|()| None),
    }
}

/// A refusal is typed and names kind and shape.
fn refusal_is_clear(error: &OpError, spec: &OpSpec, asked: Shape) -> Law {
    let OpError::Unsupported { kind, shape, reason } = error else {
        return Err(TestCaseError::fail(format!("{error:?} for {spec:?}")));
    };
    prop_assert_eq!((*kind, *shape), (spec.kind(), asked));
    prop_assert!(!reason.is_empty());
    let names = format!("{kind} cannot map {} to {} features", asked.inp, asked.out);
    prop_assert!(error.to_string().contains(&names), "{}", error);
    Ok(())
}

fn times(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.rows(), b.cols(), |i, j| (0..a.cols()).map(|k| a.at(i, k) * b.at(k, j)).sum())
}

fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum()
}

/// The gradient of the input.
fn pull_back(map: &dyn Map<f64>, x: &Mat<f64>, dy: &Mat<f64>) -> Mat<f64> {
    let (mut tape, mut ws) = (Tape::default(), Workspace::default());
    let mut y = Mat::zeros(x.rows(), dy.cols());
    let mut dx = Mat::from_fn(x.rows(), x.cols(), |_, _| f64::NAN);
    let mut grads = Grads::zeros(&map.params());
    map.forward(x.view(), y.view_mut(), Some(&mut tape), &mut ws);
    let (dx_view, grads_here) = (Some(dx.view_mut()), Some(&mut grads));
    let args = Backward { x: x.view(), dy: dy.view(), tape: &tape, dx: dx_view, grads: grads_here };
    map.backward(args, &mut ws);
    dx
}

fn widened(tensors: Tensors<f32>) -> Tensors<f64> {
    let widen = |tensor| match tensor {
        Tensor::Values(shape, v) => Tensor::Values(shape, v.into_iter().map(f64::from).collect()),
        Tensor::Indices(v) => Tensor::Indices(v),
    };
    tensors.into_iter().map(|(name, tensor)| (name, widen(tensor))).collect()
}

fn is_its_dense_form(case: &Case, rows: usize, seed: u64) -> Law {
    let Some(single) = build::<f32>(case, seed)? else { return Ok(()) };
    let (header, tensors) = archive::save(&single).unwrap();
    let double = archive::load::<f64>(&header, widened(tensors)).unwrap();
    let x: Mat<f32> = normal(rows, case.shape.inp, seed, "x");
    let y = forward(double.map(), &x.cast());
    close(&forward(single.map(), &x).cast(), &y, SINGLE)?;
    if matches!(double, Op::Linear(_)) {
        let dense = double.to_dense().unwrap();
        close(&y, &times(&x.cast(), &dense.transpose()), ROUNDING)?;
    }
    Ok(())
}

fn comes_back_from_the_archive(case: &Case, seed: u64) -> Law {
    let Some(op) = build::<f32>(case, seed)? else { return Ok(()) };
    let (header, tensors) = archive::save(&op).unwrap();
    let json = serde_json::to_string(&header).unwrap();
    let read: Header = serde_json::from_str(&json).unwrap();
    prop_assert_eq!(&read, &header);
    let back = archive::load::<f32>(&read, tensors.clone()).unwrap();
    let bits = |tensors: &Tensors<f32>| -> BTreeMap<String, (Vec<usize>, Vec<u32>)> {
        let bits = |tensor: &Tensor<f32>| match tensor {
            Tensor::Values(shape, v) => (shape.clone(), v.iter().map(|v| v.to_bits()).collect()),
            Tensor::Indices(v) => (vec![v.len()], v.clone()),
        };
        tensors.iter().map(|(name, tensor)| (name.clone(), bits(tensor))).collect()
    };
    let (again, tensors_again) = archive::save(&back).unwrap();
    prop_assert_eq!(again, header);
    prop_assert_eq!(bits(&tensors_again), bits(&tensors));
    let x = normal(3, case.shape.inp, seed, "x");
    prop_assert_eq!(forward(back.map(), &x), forward(op.map(), &x));
    Ok(())
}

fn may_be_split(case: &Case, (head, tail): (usize, usize), seed: u64) -> Law {
    let Some(op) = build::<f64>(case, seed)? else { return Ok(()) };
    let x = normal(head + tail, case.shape.inp, seed, "x");
    let parts = [(0, head), (head, tail)].map(|(start, rows)| {
        forward(op.map(), &x.view().rows_range(start, rows).to_mat()).into_vec()
    });
    let parts = Mat::from_vec(head + tail, case.shape.out, parts.concat());
    close(&parts, &forward(op.map(), &x), ROUNDING)
}

fn has_its_transpose_behind(case: &Case, rows: usize, seed: u64) -> Law {
    let Some(op @ Op::Linear(_)) = build::<f64>(case, seed)? else { return Ok(()) };
    let Shape { out, inp } = case.shape;
    let (x, y) = (normal(rows, inp, seed, "x"), normal(rows, out, seed, "y"));
    let [forth, back] =
        [inner(&forward(op.map(), &x), &y), inner(&x, &pull_back(op.map(), &x, &y))];
    let dense = op.to_dense().unwrap();
    let scale = (inner(&dense, &dense) * inner(&x, &x) * inner(&y, &y)).sqrt();
    let bound = ROUNDING * scale.max(1.0);
    prop_assert!((forth - back).abs() <= bound, "{} forth, {} back", forth, back);
    Ok(())
}

fn is_undone_by_its_inverse(case: &Case, rows: usize, seed: u64) -> Law {
    let Some(op) = build::<f64>(case, seed)? else { return Ok(()) };
    let Some(invertible) = op.map().invertible() else { return Ok(()) };
    let features = case.shape.inp;
    let singular = linalg::svd(op.to_dense().unwrap().view()).unwrap().s;
    let condition = singular[0] / singular[features - 1];
    let x = normal(rows, features, seed, "x");
    let y = forward(op.map(), &x);
    let mut found = Mat::from_fn(rows, features, |_, _| f64::NAN);
    let done = invertible.inverse(y.view(), found.view_mut(), &mut Workspace::default());
    // Beyond it no digit of the result is sure.
    if condition < 1.0 / (f64::EPSILON * features as f64) {
        prop_assert!(done.is_ok(), "condition {}: {:?}", condition, done);
        close(&found, &x, 1e3 * f64::EPSILON * features as f64 * condition)?;
    }
    Ok(())
}

fn holds_what_was_foretold(case: &Case, seed: u64) -> Law {
    let Case { spec, shape } = case;
    let foretold = spec.numbers(*shape);
    // An archive without tensors builds nothing that holds a number, and asks for no memory.
    let header = Header { spec: spec.clone(), shape: *shape };
    if foretold > MODEST {
        prop_assert!(archive::load::<f32>(&header, Tensors::new()).is_err());
        if spec.parts(*shape) > MAX_PARTS {
            prop_assert!(build::<f32>(case, seed)?.is_none());
        }
        return Ok(());
    }
    let Some(op) = build::<f32>(case, seed)? else { return Ok(()) };
    let buffers: usize = op.map().buffers().iter().map(|buffer| buffer.values.len()).sum();
    prop_assert_eq!(parameter_count(&op.map().params()) as u64 + buffers as u64, foretold);
    prop_assert_eq!(op.map().shape(), *shape);
    // Archives count on it.
    prop_assert!(spec.parts(*shape) <= foretold.max(1));
    Ok(())
}

proptest::proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn operators_are_their_dense_form(case in case(), rows in 0_usize..20, seed in 0_u64..1000) {
        is_its_dense_form(&case, rows, seed)?;
    }

    #[test]
    fn archives_are_exact(case in case(), seed in 0_u64..1000) {
        comes_back_from_the_archive(&case, seed)?;
    }

    #[test]
    fn batches_may_be_split(
        case in case(),
        parts in (0_usize..100, 0_usize..100),
        seed in 0_u64..1000,
    ) {
        may_be_split(&case, parts, seed)?;
    }

    #[test]
    fn backward_is_the_transpose(case in case(), rows in 1_usize..40, seed in 0_u64..1000) {
        has_its_transpose_behind(&case, rows, seed)?;
    }

    #[test]
    fn inverses_undo(case in square_case(), rows in 1_usize..40, seed in 0_u64..1000) {
        is_undone_by_its_inverse(&case, rows, seed)?;
    }
}

proptest::proptest! {
    #![proptest_config(config(4096))]

    #[test]
    fn impossible_operators_are_refused(case in hostile_case(), seed in 0_u64..1000) {
        holds_what_was_foretold(&case, seed)?;
    }
}

/// Laws of operators that cannot be built hold of nothing: most of the cases can.
#[test]
fn cases_are_of_every_kind_and_mostly_possible() {
    let mut runner = TestRunner::new(config(1));
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for _ in 0..600 {
        let Case { spec, shape } = case().new_tree(&mut runner).unwrap().current();
        let possible = spec.random::<f32>(shape, RngKey::new(0)).is_ok();
        counts.entry(spec.kind()).or_default()[usize::from(possible)] += 1;
    }
    for kind in OpSpec::KINDS {
        let [refused, built] = counts[kind];
        assert!(built >= 20 && built > refused, "{kind}: {built} built, {refused} refused");
    }
}
