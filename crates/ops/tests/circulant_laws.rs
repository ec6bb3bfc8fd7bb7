//! Laws of circulant-diagonal operators that no golden vector can state.

use linwright_ops::{
    Backward, CirculantDiagonal, CirculantDiagonalSpec, CirculantFactors, CirculantInit,
    CirculantParameterisation, Grads, Invertible, LinearOp, Map, OpError, Shape, Structured, Tape,
    Workspace,
};
use linwright_tensor::{Mat, RngKey, Scalar};

use CirculantParameterisation::{Polar, Raw, Time};

/// Largest error of results that are equal but for rounding.
const ROUNDING: f64 = 1e-12;

fn random(features: usize, factors: usize, seed: u64) -> CirculantFactors {
    let spec =
        CirculantDiagonalSpec { factors, parameterisation: Raw, init: CirculantInit::Random };
    let shape = Shape { out: features, inp: features };
    let op = CirculantDiagonal::<f64>::random(&spec, shape, RngKey::new(seed));
    op.expect("a square shape").factors()
}

fn operator(factors: &CirculantFactors) -> CirculantDiagonal<f64> {
    CirculantDiagonal::new(Polar, factors).expect("factors without zeros")
}

fn forward<T: Scalar>(op: &CirculantDiagonal<T>, x: &Mat<T>) -> Mat<T> {
    let mut y = Mat::zeros(x.rows(), x.cols());
    op.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    y
}

#[track_caller]
fn close(found: &Mat<f64>, want: &Mat<f64>) {
    let size = want.data().iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (k, (found, want)) in found.data().iter().zip(want.data()).enumerate() {
        assert!((found - want).abs() <= ROUNDING * size, "number {k} is {found}, expected {want}");
    }
}

fn unit(features: usize, at: usize) -> Vec<f64> {
    (0..features).map(|k| f64::from(u8::from(k == at))).collect()
}

#[test]
fn a_unit_column_is_the_cyclic_shift() {
    for features in [1, 2, 5, 8, 12, 17] {
        for step in 0..features {
            let ones = vec![1.0; features];
            let columns = vec![unit(features, step)];
            let factors = CirculantFactors { diagonals: vec![ones.clone(), ones], columns };
            let x = Mat::from_fn(3, features, |i, j| (7 * i + j) as f64 - 5.0);
            let want = Mat::from_fn(3, features, |i, j| x.at(i, (j + features - step) % features));
            for parameters in [Time, Raw, Polar] {
                let op = CirculantDiagonal::<f64>::new(parameters, &factors).expect("a shift");
                close(&forward(&op, &x), &want);
                let found = op.log_abs_det().expect("a determinant");
                let odd = step * (features - 1) % 2 == 1;
                assert_eq!(found.sign, if odd { -1.0 } else { 1.0 }, "{features}, {step}");
                assert!(found.log_abs.abs() < ROUNDING * features as f64);
            }
        }
    }
}

#[test]
fn gauge_moves_leave_the_weight_and_its_determinant() {
    for (features, m) in [(6, 2), (7, 3), (12, 4)] {
        let factors = random(features, m, 1);
        let (want, det) = (operator(&factors).to_dense(), operator(&factors).log_abs_det());
        let mut moved = factors.clone();
        moved.diagonals[0].iter_mut().for_each(|v| *v *= -3.0);
        moved.columns[0].iter_mut().for_each(|v| *v /= -3.0);
        let mut inserted = factors.clone();
        inserted.columns.insert(1, unit(features, 0));
        inserted.diagonals.insert(1, vec![1.0; features]);
        let mut turned = factors.clone();
        if features % 2 == 0 {
            let rows = turned.diagonals.iter_mut().take(2).chain(turned.columns.iter_mut().take(1));
            for row in rows {
                row.iter_mut().skip(1).step_by(2).for_each(|v| *v = -*v);
            }
        }
        for other in [moved, inserted, turned] {
            close(&operator(&other).to_dense(), &want);
            let (found, want) = (operator(&other).log_abs_det(), det.clone());
            let (found, want) = (found.expect("one"), want.expect("one"));
            assert_eq!(found.sign, want.sign);
            assert!((found.log_abs - want.log_abs).abs() < ROUNDING * 10.0 * features as f64);
        }
    }
}

#[test]
fn transpose_and_inverse_are_those_of_the_weight() {
    for (features, m) in [(1, 2), (9, 2), (16, 3), (31, 2), (97, 3)] {
        let factors = random(features, m, 2);
        let op = operator(&factors);
        let transposed = CirculantFactors {
            diagonals: factors.diagonals.iter().rev().cloned().collect(),
            columns: factors
                .columns
                .iter()
                .rev()
                .map(|c| (0..features).map(|k| c[(features - k) % features]).collect())
                .collect(),
        };
        close(&operator(&transposed).to_dense(), &op.to_dense().transpose());
        let bounds = op.norm_bounds();
        let svd = linwright_tensor::linalg::svd(op.to_dense().view()).expect("finite");
        assert!(bounds.norm >= svd.s[0] * (1.0 - ROUNDING));
        assert!(bounds.inverse >= (1.0 - ROUNDING) / svd.s[features - 1]);
        let (inverse, want) = (op.inverse_dense().expect("one"), op.log_abs_det().expect("one"));
        let (log_abs, sign) = linwright_tensor::linalg::log_abs_det(inverse.view());
        assert!((log_abs + want.log_abs).abs() < 1e-9 && sign == want.sign);
    }
}

#[test]
fn determinants_of_any_size_do_not_overflow() {
    for parameters in [Time, Raw, Polar] {
        for scale in [1e-18, 1e18] {
            let mut factors = random(300, 3, 3);
            let want = operator(&factors).log_abs_det().expect("one").log_abs;
            factors.diagonals.iter_mut().flatten().for_each(|v| *v *= scale);
            let op = CirculantDiagonal::<f64>::new(parameters, &factors).expect("no zeros");
            let (found, want) = (op.log_abs_det(), want + 900.0 * f64::ln(scale));
            assert!((found.expect("one").log_abs - want).abs() < 1e-8);
            let single = CirculantDiagonal::<f32>::new(parameters, &factors).expect("no zeros");
            assert!((single.log_abs_det().expect("one").log_abs - want).abs() < 1e-2);
        }
    }
}

#[test]
fn a_zero_is_named() {
    let mut factors = random(5, 2, 4);
    factors.diagonals[1][3] = 0.0;
    let refused = CirculantDiagonal::<f64>::new(Polar, &factors).unwrap_err().to_string();
    assert!(refused.contains("diagonal 1[3] is 0"), "{refused}");
    let op = CirculantDiagonal::<f64>::new(Time, &factors).expect("raw numbers may be zero");
    assert!(matches!(op.log_abs_det(), Err(OpError::Singular { index: 3, .. })));
    let (y, mut x) = (Mat::zeros(1, 5), Mat::zeros(1, 5));
    let inverted = op.inverse(y.view(), x.view_mut(), &mut Workspace::default());
    assert!(matches!(inverted, Err(OpError::Singular { index: 3, .. })));
    factors.diagonals[1][3] = 1.0;
    factors.columns[0] = vec![1.0; 5];
    let op = CirculantDiagonal::<f64>::new(Raw, &factors).expect("raw numbers may be zero");
    let bins = op.inverse_dense().map(|_| ()).unwrap_err().to_string();
    assert!(bins.contains("spectrum of circulant 0[1]"), "{bins}");
}

#[test]
fn shapes_are_square() {
    let spec = CirculantDiagonalSpec::default();
    let shape = Shape { out: 6, inp: 4 };
    let refused = CirculantDiagonal::<f64>::random(&spec, shape, RngKey::new(0)).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("map 4 to 6 features") && text.contains("4 to 4 features"), "{text}");
}

#[test]
fn polar_determinants_have_constant_gradients() {
    for features in [1, 6, 7] {
        let op = operator(&random(features, 2, 5));
        let mut grads = Grads::zeros(&op.params());
        op.log_det_backward(2.0, &mut grads).expect("a determinant");
        assert!(grads.get(0).iter().all(|&g| g == 2.0));
        let real = |k: usize| k == 0 || 2 * k == features;
        let want = |k: usize| if real(k) { 2.0 } else { 4.0 };
        assert!(grads.get(1).iter().enumerate().all(|(k, &g)| g == want(k)));
        assert!(grads.get(2).iter().all(|&g| g == 0.0));
    }
}

/// Gradients of 200 rows are those of its halves: pieces are cut by the rows, whatever the threads.
#[test]
fn gradients_of_parts_add_up_and_repeat_bit_by_bit() {
    let (op, rows, features) = (operator(&random(24, 3, 6)), 400, 24);
    let draw = |name: &str| {
        let numbers = RngKey::new(9).fold(name).stream().normals(rows * features, 1.0);
        Mat::from_vec(rows, features, numbers)
    };
    let (x, dy): (Mat<f64>, Mat<f64>) = (draw("x"), draw("dy"));
    let run = |parts: &[(usize, usize)]| {
        let mut grads = Grads::zeros(&op.params());
        for &(start, count) in parts {
            let (x, dy) = (x.view().rows_range(start, count), dy.view().rows_range(start, count));
            let args =
                Backward { x, dy, tape: &Tape::default(), dx: None, grads: Some(&mut grads) };
            op.backward(args, &mut Workspace::default());
        }
        grads
    };
    let whole = run(&[(0, rows)]);
    assert_eq!(whole, run(&[(0, rows)]));
    for (a, b) in whole.iter().zip(run(&[(0, 150), (150, 250)]).iter()) {
        close(&Mat::from_vec(1, b.len(), b.to_vec()), &Mat::from_vec(1, a.len(), a.to_vec()));
    }
}
