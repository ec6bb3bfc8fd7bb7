//! Activations of feed-forward layers: `y = f(x)`, and gated `y = f(gate) up`, elementwise.
//!
//! Source of the gate: Shazeer 2020, arXiv:2002.05202, eq. 5. The backward pass needs only the
//! inputs: recomputing the activation is cheaper than reading it from memory.

use super::curves::{self, Curve};
use super::instructions::vectorised;
use super::lanes::each;
use super::nonlinearity::Activation;
use crate::parallel::{self, rows_of_piece};
use crate::{MatMut, MatRef};

/// Runs an expression with an activation's curve bound to a name.
macro_rules! with_curve {
    ($activation:expr, |$f:ident| $run:expr) => {
        with_curve!(
            $activation, |$f| $run,
            [Identity, Relu, ReluSquared, Gelu, GeluTanh, QuickGelu, Silu, Elu, Tanh]
        )
    };
    ($activation:expr, |$f:ident| $run:expr, [$($plain:ident),*]) => {
        match $activation {
            $(Activation::$plain => {
                let $f = curves::$plain;
                $run
            })*
            Activation::Leaky { slope } => {
                let $f = curves::Leaky { slope };
                $run
            }
        }
    };
}

/// Writes `f(x)` into `y`; both have one shape (rows, features).
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn activate(activation: Activation<f32>, x: MatRef<'_, f32>, y: MatMut<'_, f32>) {
    assert_same_shape([shape(x), shape(y.as_ref())]);
    with_curve!(activation, |f| each_row(y, |row, y| activate_row(f, x.row(row), y)));
}

/// Backward pass of [`activate`]: `x` is overwritten by its gradient, from that of the output.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn activate_backward(activation: Activation<f32>, x: MatMut<'_, f32>, dy: MatRef<'_, f32>) {
    assert_same_shape([shape(x.as_ref()), shape(dy)]);
    with_curve!(activation, |f| {
        each_row(x, |row, x| activate_backward_row(f, x, dy.row(row)));
    });
}

/// Writes `f(gate) up` to `y`; all have one shape (rows, features). Gate and up may be column
/// blocks of one matrix.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn gated(
    activation: Activation<f32>,
    gate: MatRef<'_, f32>,
    up: MatRef<'_, f32>,
    y: MatMut<'_, f32>,
) {
    assert_same_shape([shape(gate), shape(up), shape(y.as_ref())]);
    with_curve!(activation, |f| {
        each_row(y, |row, y| gated_row(f, gate.row(row), up.row(row), y));
    });
}

/// Backward pass of [`gated`]: `gate` and `up` are overwritten by their gradients, from that of the
/// output.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn gated_backward(
    activation: Activation<f32>,
    gate: MatMut<'_, f32>,
    up: MatMut<'_, f32>,
    dy: MatRef<'_, f32>,
) {
    assert_same_shape([shape(gate.as_ref()), shape(up.as_ref()), shape(dy)]);
    let block = rows_of_piece(dy.cols());
    let pieces = gate.row_blocks(block).into_iter().zip(up.row_blocks(block)).collect();
    with_curve!(activation, |f| {
        parallel::for_each(pieces, |k, (mut gate, mut up): (MatMut<'_, f32>, MatMut<'_, f32>)| {
            for i in 0..gate.rows() {
                gated_backward_row(f, gate.row_mut(i), up.row_mut(i), dy.row(k * block + i));
            }
        });
    });
}

/// As [`gated_backward`], with gate and up as the first and second half of the columns of one
/// matrix (rows, 2 features): mutable views of both would overlap.
///
/// # Panics
/// If `gate_up` is not twice as wide as `dy`, or the rows differ.
#[track_caller]
pub fn gated_halves_backward(
    activation: Activation<f32>,
    gate_up: MatMut<'_, f32>,
    dy: MatRef<'_, f32>,
) {
    assert_same_shape([shape(gate_up.as_ref()), (dy.rows(), 2 * dy.cols())]);
    with_curve!(activation, |f| {
        each_row(gate_up, |row, gate_up| {
            let (gate, up) = gate_up.split_at_mut(dy.cols());
            gated_backward_row(f, gate, up, dy.row(row));
        });
    });
}

fn shape(mat: MatRef<'_, f32>) -> (usize, usize) {
    (mat.rows(), mat.cols())
}

#[track_caller]
fn assert_same_shape<const N: usize>(shapes: [(usize, usize); N]) {
    assert!(shapes.iter().all(|other| *other == shapes[0]), "nonlinearity of shapes {shapes:?}");
}

/// Runs `work` on every row, in parallel.
fn each_row(mat: MatMut<'_, f32>, work: impl Fn(usize, &mut [f32]) + Sync + Send) {
    let block = rows_of_piece(mat.cols());
    parallel::for_each(mat.row_blocks(block), |k, mut mat| {
        for i in 0..mat.rows() {
            work(k * block + i, mat.row_mut(i));
        }
    });
}

vectorised! {
    fn activate_row<const FUSED: bool, F: Curve>(f: F, x: &[f32], y: &mut [f32]) {
        each([y], [x], |_, [x]| [f.value::<FUSED>(x)]);
    }
}

vectorised! {
    fn activate_backward_row<const FUSED: bool, F: Curve>(f: F, x: &mut [f32], dy: &[f32]) {
        each([x], [dy], |[x], [dy]| [dy * f.both::<FUSED>(x).1]);
    }
}

vectorised! {
    fn gated_row<const FUSED: bool, F: Curve>(f: F, gate: &[f32], up: &[f32], y: &mut [f32]) {
        each([y], [gate, up], |_, [gate, up]| [f.value::<FUSED>(gate) * up]);
    }
}

vectorised! {
    fn gated_backward_row<const FUSED: bool, F: Curve>(
        f: F,
        gate: &mut [f32],
        up: &mut [f32],
        dy: &[f32],
    ) {
        each([gate, up], [dy], |[gate, up], [dy]| {
            let (value, slope) = f.both::<FUSED>(gate);
            [dy * up * slope, dy * value]
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    /// Rows, features: more than one piece, and no multiple of a register.
    const SHAPE: (usize, usize) = (300, 141);
    const COUNT: usize = SHAPE.0 * SHAPE.1;

    const ALL: [Activation<f32>; 10] = [
        Activation::Identity,
        Activation::Relu,
        Activation::ReluSquared,
        Activation::Leaky { slope: 0.125 },
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::QuickGelu,
        Activation::Silu,
        Activation::Elu,
        Activation::Tanh,
    ];

    fn twin(activation: Activation<f32>) -> Activation<f64> {
        activation.cast()
    }

    fn random(seed: u64) -> Mat<f32> {
        Mat::from_vec(SHAPE.0, SHAPE.1, RngKey::new(seed).stream().normals(COUNT, 3.0))
    }

    #[track_caller]
    fn close(found: f32, want: f64, what: impl std::fmt::Debug) {
        let error = (f64::from(found) - want).abs();
        assert!(error < 1e-5 * (1.0 + want.abs()), "{what:?}: {found} is not {want}");
    }

    #[test]
    fn values_equal_the_naive_twin_in_columns_of_one_matrix() {
        let (gate, up) = (random(1), random(2));
        let fused = Mat::from_fn(SHAPE.0, 2 * SHAPE.1, |i, j| match j.checked_sub(SHAPE.1) {
            None => gate.at(i, j),
            Some(j) => up.at(i, j),
        });
        let halves = [0, SHAPE.1].map(|start| fused.view().columns(start, SHAPE.1));
        for activation in ALL {
            let f = twin(activation);
            let mut both = Mat::from_fn(SHAPE.0, SHAPE.1 + 3, |_, _| 7.0);
            gated(activation, halves[0], halves[1], both.view_mut().columns(1, SHAPE.1));
            let mut alone = Mat::zeros(SHAPE.0, SHAPE.1);
            activate(activation, halves[0], alone.view_mut());
            for i in 0..SHAPE.0 {
                assert_eq!(
                    [0, SHAPE.1 + 1, SHAPE.1 + 2].map(|j| both.at(i, j)),
                    [7.0; 3],
                    "beside row {i}"
                );
                for j in 0..SHAPE.1 {
                    let value = f.value(f64::from(gate.at(i, j)));
                    close(alone.at(i, j), value, activation);
                    close(both.at(i, j + 1), value * f64::from(up.at(i, j)), activation);
                }
            }
        }
    }

    #[test]
    fn gradients_equal_central_differences() {
        let (gate, up, dy) = (random(1), random(2), random(3));
        for activation in ALL {
            let f = twin(activation);
            let (mut d_gate, mut d_up, mut dx) = (gate.clone(), up.clone(), gate.clone());
            gated_backward(activation, d_gate.view_mut(), d_up.view_mut(), dy.view());
            activate_backward(activation, dx.view_mut(), dy.view());
            for at in 0..COUNT {
                let [g, u, d] = [&gate, &up, &dy].map(|m| f64::from(m.data()[at]));
                let step = 1e-6;
                if g.abs() < step {
                    continue;
                }
                let slope = d * (f.value(g + step) - f.value(g - step)) / (2.0 * step);
                close(d_gate.data()[at], slope * u, activation);
                close(d_up.data()[at], d * f.value(g), activation);
                close(dx.data()[at], slope, activation);
            }
        }
    }

    #[test]
    fn halves_of_one_matrix_have_the_same_gradients() {
        let (mut gate, mut up, dy) = (random(1), random(2), random(3));
        let mut halves = Mat::from_fn(SHAPE.0, 2 * SHAPE.1, |i, j| match j.checked_sub(SHAPE.1) {
            None => gate.at(i, j),
            Some(j) => up.at(i, j),
        });
        gated_halves_backward(Activation::GeluTanh, halves.view_mut(), dy.view());
        gated_backward(Activation::GeluTanh, gate.view_mut(), up.view_mut(), dy.view());
        for i in 0..SHAPE.0 {
            assert_eq!(&halves.row(i)[..SHAPE.1], gate.row(i));
            assert_eq!(&halves.row(i)[SHAPE.1..], up.row(i));
        }
    }

    #[test]
    #[should_panic(expected = "(3, 5)")]
    fn another_shape_is_refused() {
        activate(Activation::Silu, Mat::zeros(3, 4).view(), Mat::zeros(3, 5).view_mut());
    }
}
