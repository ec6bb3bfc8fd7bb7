//! Correctness of an operator's output, checked before timing.

use super::{BenchError, Pass, Subject};
use linwright_ops::{Invertible, Op, Shape, Workspace};
use linwright_tensor::{Mat, RngKey, Scalar, linalg};
use serde::{Deserialize, Serialize};

/// Largest allowed difference from the oracle by type, relative to the largest output or one: for
/// `f32` that of the conformance suite, for `f64` scaled by the ratio of the precisions.
const TOLERANCES: [(&str, f64); 2] = [("f32", 2e-3), ("f64", 4e-12)];
/// Share of it due to rounding error, about sixteen units in the last place of either type.
const ROUNDING: f64 = 1e-3;
/// Number of compared rows.
const ROWS: usize = 4;
/// Largest dense weight formed for a comparison: 2,048 x 2,048.
const MAX_DENSE: usize = 1 << 22;

/// Reference of a comparison, in `f64` with the same parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oracle {
    /// Product with the dense weight, entry by entry.
    DenseWeight,
    /// The operator's own forward pass, for nonlinear maps and weights above 2^22 entries.
    Operator,
}

/// Result of a passed check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The reference.
    pub oracle: Oracle,
    /// Largest difference, relative to the largest output or one; for the round trip of an inverse,
    /// relative to the output of the inverse.
    pub largest_error: f64,
}

/// Compares the outputs of an operator on a few rows with those of its twin in `f64` and, if a pass
/// needs them, its inverse and determinant.
///
/// # Errors
/// [`BenchError::WrongAnswer`] with the first differing number.
pub(super) fn check<T: Scalar>(
    subject: &Subject,
    op: &Op<T>,
    passes: &[Pass],
    seed: u64,
) -> Result<Checked, BenchError> {
    let shape = op.map().shape();
    let mut twin: Op<f64> = subject.build(shape, seed)?;
    for (to, from) in twin.map_mut().params_mut().into_iter().zip(op.map().params()) {
        to.values.iter_mut().zip(from.values).for_each(|(to, from)| *to = from.to_f64());
    }
    let mut checked = compare(&subject.label, op, &twin)?;
    let inverts = passes.iter().any(|pass| pass.inverts());
    if let Some(invertible) = op.map().invertible().filter(|_| inverts) {
        let error = compare_inverse(&subject.label, invertible, &twin)?;
        checked.largest_error = checked.largest_error.max(error);
        if passes.contains(&Pass::DenseInverse) {
            let error = compare_dense_inverse(&subject.label, invertible, &twin)?;
            checked.largest_error = checked.largest_error.max(error);
        }
    }
    Ok(checked)
}

fn compare<T: Scalar>(label: &str, op: &Op<T>, twin: &Op<f64>) -> Result<Checked, BenchError> {
    let shape = op.map().shape();
    let normals = RngKey::new(0).fold("checked rows").stream().normals(ROWS * shape.inp, 1.0);
    let x: Mat<T> = Mat::from_vec(ROWS, shape.inp, normals);
    let mut y = Mat::zeros(ROWS, shape.out);
    op.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    let (oracle, expected) = expected(twin, &x.cast());
    let largest_error = largest_error::<T>(label, shape, &y.cast(), &expected, 1.0)?;
    Ok(Checked { oracle, largest_error })
}

/// Largest difference relative to the largest expected number, or to `least`.
fn largest_error<T: Scalar>(
    label: &str,
    shape: Shape,
    found: &Mat<f64>,
    expected: &Mat<f64>,
    least: f64,
) -> Result<f64, BenchError> {
    let size = largest(expected).max(least);
    let bound = bound_of::<T>();
    let mut largest: f64 = 0.0;
    for (k, (&found, &expected)) in found.data().iter().zip(expected.data()).enumerate() {
        let error = (found - expected).abs() / size;
        if error.is_nan() || error > bound {
            let (row, feature) = (k / shape.out, k % shape.out);
            let label = label.to_owned();
            return Err(BenchError::WrongAnswer { label, shape, row, feature, found, expected });
        }
        largest = largest.max(error);
    }
    Ok(largest)
}

fn bound_of<T: Scalar>() -> f64 {
    TOLERANCES.iter().find(|(name, _)| *name == T::NAME).map_or(0.0, |(_, bound)| *bound)
}

fn largest(numbers: &Mat<f64>) -> f64 {
    numbers.data().iter().fold(0.0, |largest: f64, v| largest.max(v.abs()))
}

/// Scale of the residual of an inverse. For a nearly singular map its output `x` is large, and
/// rounding it changes the result by as much.
fn least(x: &Mat<f64>) -> f64 {
    (ROUNDING * largest(x)).max(1.0)
}

/// Checks that the twin maps the output of the inverse back to its input, and that the determinant
/// equals that of the dense weight by elimination, or of the twin for a large weight.
fn compare_inverse<T: Scalar>(
    label: &str,
    invertible: &dyn Invertible<T>,
    twin: &Op<f64>,
) -> Result<f64, BenchError> {
    let shape = invertible.shape();
    let normals = RngKey::new(0).fold("checked inverse").stream().normals(ROWS * shape.out, 1.0);
    let y: Mat<T> = Mat::from_vec(ROWS, shape.out, normals);
    let mut x = Mat::zeros(ROWS, shape.inp);
    invertible.inverse(y.view(), x.view_mut(), &mut Workspace::default())?;
    let x: Mat<f64> = x.cast();
    let (_, back) = expected(twin, &x);
    let residual = largest_error::<T>(label, shape, &back, &y.cast(), least(&x))?;
    let determinant = match twin {
        Op::Linear(linear) if shape.dense_parameters() <= MAX_DENSE => {
            linalg::log_abs_det(linear.to_dense().view()).0
        }
        Op::Linear(_) | Op::Map(_) => match twin.map().invertible() {
            Some(twin) => twin.log_abs_det()?.log_abs,
            None => f64::NAN,
        },
    };
    let one = |value: f64| Mat::from_vec(1, 1, vec![value]);
    let found = one(invertible.log_abs_det()?.log_abs);
    // Elimination has rounding error, too, in f64.
    let least = (ROUNDING * largest(&x) * bound_of::<f64>() / bound_of::<T>()).max(1.0);
    Ok(residual.max(largest_error::<T>(label, shape, &found, &one(determinant), least)?))
}

/// Checks that the twin maps the first columns of the dense inverse to unit vectors.
fn compare_dense_inverse<T: Scalar>(
    label: &str,
    invertible: &dyn Invertible<T>,
    twin: &Op<f64>,
) -> Result<f64, BenchError> {
    let shape = invertible.shape();
    let inverse = invertible.inverse_dense()?;
    let columns = ROWS.min(shape.inp);
    let x = Mat::from_fn(columns, shape.inp, |j, i| inverse.at(i, j).to_f64());
    let units = Mat::from_fn(columns, shape.out, |j, i| f64::from(u8::from(i == j)));
    largest_error::<T>(label, shape, &expected(twin, &x).1, &units, least(&x))
}

fn expected(twin: &Op<f64>, x: &Mat<f64>) -> (Oracle, Mat<f64>) {
    let Shape { out, inp } = twin.map().shape();
    match twin {
        Op::Linear(linear) if out * inp <= MAX_DENSE => {
            let dense = linear.to_dense();
            let dot = |i: usize, o: usize| x.row(i).iter().zip(dense.row(o)).map(|(a, b)| a * b);
            (Oracle::DenseWeight, Mat::from_fn(x.rows(), out, |i, o| dot(i, o).sum()))
        }
        Op::Linear(_) | Op::Map(_) => {
            let mut y = Mat::zeros(x.rows(), out);
            let ws = &mut Workspace::default();
            twin.map().forward(x.view(), y.view_mut(), None, ws);
            (Oracle::Operator, y)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::Scaling;
    use crate::standard;
    use linwright_ops::OpSpec;

    fn subject(kind: &str) -> Subject {
        Subject::new(standard(kind).unwrap())
    }

    #[test]
    fn right_answers_pass_with_their_oracle() {
        let shape = Shape { out: 64, inp: 128 };
        for kind in OpSpec::KINDS {
            let subject = subject(kind);
            let Ok(op) = subject.build::<f32>(shape, 3) else { continue };
            let checked = check(&subject, &op, Pass::ALL, 3).unwrap();
            let linear = matches!(op, Op::Linear(_));
            assert_eq!(checked.oracle == Oracle::DenseWeight, linear, "{kind}");
            assert!(checked.largest_error > 0.0 || *kind == "dense", "{kind}: f32 is not f64");
        }
    }

    #[test]
    fn a_wrong_answer_is_named_and_refused() {
        let shape = Shape { out: 64, inp: 64 };
        for kind in ["dense", "rotor", "rotor_network"] {
            let subject = subject(kind);
            let mut op: Op<f32> = subject.build(shape, 3).unwrap();
            let twin: Op<f64> = subject.build(shape, 3).unwrap();
            op.map_mut().params_mut()[0].values[0] += 1.0;
            let error = compare(&subject.label, &op, &twin).unwrap_err();
            assert!(matches!(error, BenchError::WrongAnswer { .. }), "{kind}: {error}");
            assert!(error.to_string().contains("not timed"), "{error}");
        }
    }

    /// A product of many random pairs is nearly singular.
    #[test]
    fn an_inverse_of_large_numbers_is_as_right_as_rounding_lets_it() {
        fn passes<T: Scalar>(features: usize, seed: u64) -> Op<T> {
            let (subject, shape) = (subject("butterfly"), Shape { out: features, inp: features });
            let op = subject.build(shape, seed).unwrap();
            check(&subject, &op, &[Pass::Inverse, Pass::DenseInverse], seed).unwrap();
            op
        }
        /// One wrong entry of 9,216 is detected, although the inverse is as large as 1e11.
        fn is_refused<T: Scalar>(mut op: Op<T>) {
            let twin = passes::<f64>(512, 0);
            op.map_mut().params_mut()[0].values[0] += T::ONE;
            let error = compare_inverse("", op.map().invertible().unwrap(), &twin).unwrap_err();
            assert!(matches!(error, BenchError::WrongAnswer { .. }), "{error}");
        }
        for (features, seed) in [(64, 0), (256, 1), (512, 2)] {
            passes::<f32>(features, seed);
            passes::<f64>(features, seed);
        }
        is_refused(passes::<f32>(512, 0));
        is_refused(passes::<f64>(512, 0));
    }

    #[test]
    fn an_answer_that_is_no_number_is_wrong() {
        let (subject, shape) = (subject("dense"), Shape { out: 3, inp: 3 });
        let mut op: Op<f32> = subject.build(shape, 3).unwrap();
        op.map_mut().params_mut()[0].values[4] = f32::NAN;
        assert!(matches!(check(&subject, &op, Pass::ALL, 3), Err(BenchError::WrongAnswer { .. })));
    }

    #[test]
    fn a_wrong_inverse_or_determinant_is_refused() {
        let check = |claimed: f64, factor: f64| {
            let op = Scaling { features: 5, factor, claimed };
            let twin = Op::Linear(Box::new(Scaling { claimed: factor, ..op.clone() }));
            compare_inverse::<f32>("scaling", &op, &twin)
        };
        assert!(check(3.0, 3.0).unwrap() < 1e-6);
        let error = check(3.5, 3.0).unwrap_err();
        assert!(matches!(error, BenchError::WrongAnswer { .. }), "{error}");
        // 1e-6 is rounding error in one type and wrong in the other.
        let almost = Scaling { features: 5, factor: 3.0, claimed: 3.0 + 3e-6 };
        let twin = Op::Linear(Box::new(Scaling { claimed: 3.0, ..almost.clone() }));
        assert!(compare_dense_inverse::<f32>("scaling", &almost, &twin).unwrap() > 1e-7);
        let error = compare_dense_inverse::<f64>("scaling", &almost, &twin).unwrap_err();
        assert!(matches!(error, BenchError::WrongAnswer { .. }), "{error}");
    }
}
