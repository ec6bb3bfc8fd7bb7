//! Golden vectors of circulant-diagonal operators: maps, inverses, determinants and the gradients
//! of all three, in every parameterisation, to the tolerances that their files state.
//!
//! Flow and squeezes in the sets belong to no operator.

use crate::golden::{Case, Set, least, sets};
use crate::golden_fits;
use linwright_ops::{
    Backward, CirculantDiagonal, CirculantFactors, CirculantParameterisation, Grads, Invertible,
    LinearOp, Map, Tape, Workspace,
};
use linwright_tensor::linalg::{
    CirculantEffort, CirculantTarget, fit_circulant, recover_circulant,
};
use linwright_tensor::{Mat, RngKey, Scalar};

use CirculantParameterisation::{Polar, Raw, Time};

/// The cases of all sets whose names start so, of which there must be one. A set has as many as
/// its file has tensors of, and each of ours has this many at least.
fn cases<'a>(sets: &'a [Set], start: &str, of_ours: usize) -> Vec<Case<'a>> {
    let of_set = |set: &'a Set| {
        let found = set.cases(|name, _| name.starts_with(start));
        assert!(found.len() >= least(of_ours), "{:?} has {} {start}", set.path, found.len());
        // Every tensor of the kind belongs to a case that is announced and will be compared.
        let held = set.tensors.keys().filter(|key| key.starts_with(start)).count();
        let announced: usize = found.iter().map(|case| case.tensors.len()).sum();
        assert_eq!(held, announced, "{:?}: tensors of {start} that are not announced", set.path);
        found
    };
    let found: Vec<_> = sets.iter().flat_map(of_set).collect();
    assert!(!found.is_empty(), "no golden set has a case {start}");
    found
}

impl Case<'_> {
    /// The tensor, or none of its numbers if m = 1, where there are no circulants.
    fn vectors(&self, key: &str) -> Vec<Vec<f64>> {
        let rows = self.tensors.get(key).map(|golden| golden.rows());
        let rows = rows.iter().flat_map(|mat| (0..mat.rows()).map(|i| mat.row(i).to_vec()));
        rows.collect()
    }

    fn operator<T: Scalar>(&self, parameters: CirculantParameterisation) -> CirculantDiagonal<T> {
        let factors = CirculantFactors { diagonals: self.vectors("d"), columns: self.vectors("c") };
        let circulants = self.count("m") - 1;
        assert_eq!(factors.columns.len(), circulants, "{}: circulants", self.name);
        CirculantDiagonal::new(parameters, &factors).expect("factors without zeros")
    }

    /// Compares with a tolerance relative to the largest number expected.
    #[track_caller]
    fn close(&self, what: &str, found: &[f64], want: &[f64], tolerance: f64) {
        let allowed = tolerance * size(most(want));
        self.compare(what, found, want, |_| allowed);
    }

    /// Compares gradients whose names start with `kind` with the golden ones, brought to the
    /// parameters of the operator.
    fn gradients(
        &self,
        kind: &str,
        parameters: CirculantParameterisation,
        grads: &Grads<f64>,
        tolerance: f64,
    ) {
        let of = |name: &str| self.vectors(&format!("{kind}_{name}"));
        let (d, a, b) = (self.vectors("d"), self.vectors("a"), self.vectors("b"));
        let (gd, ga, gb) = (of("d"), of("a"), of("b"));
        let each = |x: &[Vec<f64>], y: &[Vec<f64>], f: &dyn Fn(f64, f64) -> f64| -> Vec<Vec<f64>> {
            let rows = x.iter().zip(y);
            rows.map(|(x, y)| x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect()).collect()
        };
        let times = |x: f64, y: f64| x * y;
        let n = d[0].len();
        // Bins 0 and, for even n, n / 2 are real.
        let inner =
            |rows: &[Vec<f64>]| rows.iter().flat_map(|r| r[1..1 + (n - 1) / 2].to_vec()).collect();
        let want: Vec<Vec<f64>> = match parameters {
            Time => vec![gd.concat(), of("c").concat()],
            Raw => vec![gd.concat(), ga.concat(), inner(&gb)],
            Polar => {
                let (aa, bb) = (each(&a, &ga, &times), each(&b, &gb, &times));
                let (ab, ba) = (each(&a, &gb, &times), each(&b, &ga, &times));
                let sizes = each(&aa, &bb, &|x, y| x + y);
                let phases = each(&ab, &ba, &|x, y| x - y);
                vec![each(&d, &gd, &times).concat(), sizes.concat(), inner(&phases)]
            }
        };
        assert_eq!(grads.len(), want.len(), "{}", self.name);
        for (k, numbers) in want.iter().enumerate() {
            let what = format!("{kind}, {parameters:?}, parameter {k}");
            // The two parts of one spectrum have one size: a part that is zero is zero to that.
            let largest = if k == 0 { most(numbers) } else { most(&want[1]).max(most(numbers)) };
            let allowed = tolerance * size(largest);
            self.compare(&what, grads.get(k), numbers, |_| allowed);
        }
    }
}

fn most(of: &[f64]) -> f64 {
    of.iter().fold(0.0, |most: f64, v| most.max(v.abs()))
}

/// What numbers are compared to: zeros are zero to an absolute tolerance.
fn size(largest: f64) -> f64 {
    if largest == 0.0 { 1.0 } else { largest }
}

const ALL: [CirculantParameterisation; 3] = [Time, Raw, Polar];

/// Each set has something that a test compares.
#[test]
fn golden_sets_are_known() {
    for set in sets("cdflow") {
        let known = ["layer", "conv", "bidiag", "fit.", "flow.", "squeeze."];
        let is_known = |key: &String| known.iter().any(|start| key.starts_with(start));
        let of_ours = set.tensors.keys().filter(|key| is_known(key)).count();
        assert!(of_ours > 0, "{:?}: nothing to compare", set.path);
    }
}

#[test]
fn golden_layers() {
    for case in cases(&sets("cdflow"), "layer", 46) {
        for parameters in ALL {
            maps(&case, parameters);
            determinants(&case, parameters);
        }
    }
}

/// Map, inverse, their gradients, dense form.
fn maps(case: &Case<'_>, parameters: CirculantParameterisation) {
    let op: CirculantDiagonal<f64> = case.operator(parameters);
    let tolerance = case.number("rtol_f64");
    let (x, g) = (case.tensor("x").rows(), case.tensor("G").rows());
    let empty = || Mat::<f64>::zeros(x.rows(), x.cols());
    let (mut y, mut dx, mut ws) = (empty(), empty(), Workspace::default());
    let mut tape = Tape::default();
    op.forward(x.view(), y.view_mut(), Some(&mut tape), &mut ws);
    case.close("y", y.data(), &case.tensor("y").values, tolerance);
    let mut grads = Grads::zeros(&op.params());
    let args = Backward {
        x: x.view(),
        dy: g.view(),
        tape: &tape,
        dx: Some(dx.view_mut()),
        grads: Some(&mut grads),
    };
    op.backward(args, &mut ws);
    case.close("gy_x", dx.data(), &case.tensor("gy_x").values, tolerance);
    case.gradients("gy", parameters, &grads, tolerance);

    let mut back = empty();
    op.inverse(x.view(), back.view_mut(), &mut ws).expect("an inverse");
    case.close("xinv", back.data(), &case.tensor("xinv").values, tolerance);
    if let Some(want) = case.tensors.get("gi_x") {
        let (mut dy, mut grads) = (empty(), Grads::zeros(&op.params()));
        let inverted = op.inverse_backward(back.view(), g.view(), dy.view_mut(), &mut grads);
        inverted.expect("an inverse");
        case.close("gi_x", dy.data(), &want.values, tolerance);
        case.gradients("gi", parameters, &grads, tolerance);
    }
    if let Some(want) = case.tensors.get("W") {
        case.close("W", op.to_dense().data(), &want.values, tolerance);
    }
    let dense = op.inverse_dense().expect("an inverse");
    let by_rows = Mat::from_fn(x.rows(), x.cols(), |i, j| {
        (0..x.cols()).map(|k| dense.at(j, k) * x.at(i, k)).sum()
    });
    case.close("xinv, dense", by_rows.data(), &case.tensor("xinv").values, tolerance);
    single(case, parameters);
}

/// The same in `f32`, whose errors grow with the condition.
fn single(case: &Case<'_>, parameters: CirculantParameterisation) {
    let op: CirculantDiagonal<f32> = case.operator(parameters);
    let tolerance = case.number("rtol_f32");
    let x: Mat<f32> = case.tensor("x").rows().cast();
    let mut y = Mat::zeros(x.rows(), x.cols());
    op.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    case.close("y, f32", y.cast::<f64>().data(), &case.tensor("y").values, tolerance);
    op.inverse(x.view(), y.view_mut(), &mut Workspace::default()).expect("an inverse");
    let found = y.cast::<f64>();
    let tolerance = tolerance * case.number("cond");
    case.close("xinv, f32", found.data(), &case.tensor("xinv").values, tolerance);
}

/// Determinant and its gradients.
fn determinants(case: &Case<'_>, parameters: CirculantParameterisation) {
    let op: CirculantDiagonal<f64> = case.operator(parameters);
    let tolerance = case.number("rtol_f64");
    let (log_abs, sign) = (case.tensor("logabsdet").values[0], case.tensor("sign").values[0]);
    let found = op.log_abs_det().expect("a determinant");
    assert_eq!(found.sign, sign, "{}: sign", case.name);
    let off = (found.log_abs - log_abs).abs();
    let allowed = tolerance * log_abs.abs().max(1.0);
    assert!(off <= allowed, "{}: {found:?}, expected {log_abs}", case.name);
    let mut grads = Grads::zeros(&op.params());
    op.log_det_backward(1.0, &mut grads).expect("a determinant");
    case.gradients("gl", parameters, &grads, tolerance);
    assert!(case.tensor("gl_x").values.iter().all(|&v| v == 0.0), "a determinant knows no rows");

    let single: CirculantDiagonal<f32> = case.operator(parameters);
    let found = single.log_abs_det().expect("a determinant");
    assert_eq!(found.sign, sign, "{}: sign, f32", case.name);
    let off = (found.log_abs - log_abs).abs();
    let allowed = case.number("rtol_f32") * log_abs.abs().max(1.0);
    assert!(off <= allowed, "{}: {found:?} in f32, expected {log_abs}", case.name);
}

/// The same map at every pixel: pixels are rows.
#[test]
fn golden_pixels() {
    for case in cases(&sets("cdflow"), "conv", 2) {
        let (x, want) = (case.tensor("x"), case.tensor("y"));
        let [images, channels, height, width] = x.shape[..] else {
            panic!("{}: images of shape {:?}", case.name, x.shape);
        };
        let pixels = height * width;
        let place = |row: usize, c: usize| (row / pixels * channels + c) * pixels + row % pixels;
        let rows = Mat::from_fn(images * pixels, channels, |i, c| x.values[place(i, c)]);
        for parameters in ALL {
            let op: CirculantDiagonal<f64> = case.operator(parameters);
            let mut y = Mat::zeros(rows.rows(), channels);
            op.forward(rows.view(), y.view_mut(), None, &mut Workspace::default());
            let want: Vec<f64> = (0..rows.rows() * channels)
                .map(|k| want.values[place(k / channels, k % channels)])
                .collect();
            case.close("y", y.data(), &want, 1e-12);
            let found = op.log_abs_det().expect("a determinant").log_abs * pixels as f64;
            let want = &case.tensor("logdet_per_image").values;
            case.close("logdet_per_image", &[found], want, 1e-12);
        }
    }
}

/// `diag(e) + diag(f) P` with the cyclic shift P, as a product of two diagonals and a circulant.
#[test]
fn golden_linear_factors() {
    for case in cases(&sets("cdflow"), "bidiag", 5) {
        let of = |key: &str| case.tensor(key).values.clone();
        let factors = CirculantFactors::of_bidiagonal(&of("e"), &of("f"));
        let factors = factors.expect("a real factor");
        // Both diagonals may be scaled against each other; the golden ones start with one.
        case.close("alpha", &factors.diagonals[0], &of("alpha"), 1e-12);
        case.close("beta", &factors.diagonals[1], &of("beta"), 1e-12);
        case.close("kappa", &factors.columns[0][1..2], &of("kappa"), 1e-12);
        for parameters in ALL {
            let op = CirculantDiagonal::<f64>::new(parameters, &factors);
            let op = op.expect("factors without zeros");
            case.close("M", op.to_dense().data(), &of("M"), 1e-12);
            let found = op.log_abs_det().expect("a determinant");
            case.close("det", &[found.sign * found.log_abs.exp()], &of("det"), 1e-11);
        }
    }
}

/// How much worse than the reference a fit may be.
const FIT: f64 = 1.02;

/// Fits of matrices and of rows do as well as those of the reference.
#[test]
fn golden_fits() {
    let mut total = 0;
    for set in sets("cdflow") {
        let mut compared = 0;
        for name in set.tensors.keys() {
            // Products of two diagonals and a circulant are recovered exactly.
            if name.starts_with("fit.exact_m2_") {
                let exact = recover_circulant(&set.tensors[name].rows()).expect("no zeros");
                assert!(exact.error < 1e-14, "{:?}: recovered to {}", set.path, exact.error);
                compared += 1;
            }
        }
        for fit in golden_fits::of(&set.about) {
            let target = target(&set, &fit.target);
            let effort = CirculantEffort { factors: fit.factors, sweeps: 400, starts: 24 };
            let effort = match fit.sweeps {
                Some(sweeps) => CirculantEffort { sweeps, starts: 1, ..effort },
                None => effort,
            };
            let found = fit_circulant(&target, effort, RngKey::new(3)).error;
            let (name, want) = (&fit.name, fit.error);
            assert!(found <= FIT * want, "{:?}: {name} is {found}, reference {want}", set.path);
            compared += 1;
        }
        assert!(compared >= least(14), "{:?}: {compared} fits", set.path);
        let announced = set.about.get("fit_reference").is_some();
        assert!(compared > 0 || !announced, "{:?}: no fit", set.path);
        total += compared;
    }
    assert!(total > 0, "no golden set has a fit");
}

/// A matrix of a set, or the map from its samples `X` to `Y`, which are columns.
fn target(set: &Set, name: &str) -> CirculantTarget {
    if let Some(matrix) = set.tensors.get(&format!("fit.{name}")) {
        return CirculantTarget::matrix(&matrix.rows());
    }
    let of = |letter: &str| {
        let start = format!("fit.{letter}");
        let found = set.tensors.iter().find(|(name, _)| name.starts_with(&start));
        found.unwrap_or_else(|| panic!("{:?}: no {start} for {name}", set.path)).1.rows()
    };
    let (x, y) = (of("X"), of("Y"));
    let moment = |a: &Mat<f64>, b: &Mat<f64>| {
        Mat::from_fn(a.rows(), b.rows(), |i, j| {
            a.row(i).iter().zip(b.row(j)).map(|(a, b)| a * b).sum()
        })
    };
    let size = y.data().iter().map(|v| v * v).sum();
    CirculantTarget { inputs: Some(moment(&x, &x)), cross: moment(&y, &x), size }
}
