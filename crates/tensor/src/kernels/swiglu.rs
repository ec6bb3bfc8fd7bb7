//! The gate of a gated MLP.
//!
//! `y = silu(g) u` with `silu(g) = g / (1 + e^-g)`, element by element. Source: Shazeer 2020,
//! arXiv:2002.05202, eq. 5.

use super::instructions::vectorised;
use super::lanes::exp;
use crate::Mat;
use crate::parallel;

/// Numbers handled as one piece.
const PIECE: usize = 1 << 14;

/// Writes `silu(gate) up` into `y`; all have one shape.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn swiglu(gate: &Mat<f32>, up: &Mat<f32>, y: &mut Mat<f32>) {
    let (len, gate, up) = (y.data().len(), gate.data(), up.data());
    assert_eq!((gate.len(), up.len()), (len, len), "gate, up and output differ in size");
    parallel::for_each_chunk(y.data_mut(), PIECE, |piece, y| {
        let at = piece * PIECE;
        swiglu_slice(&gate[at..at + y.len()], &up[at..at + y.len()], y);
    });
}

/// The gradient: `gate` and `up` are overwritten by the gradients with respect to themselves, given
/// that of the output.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn swiglu_backward(gate: &mut Mat<f32>, up: &mut Mat<f32>, dy: &Mat<f32>) {
    let len = dy.data().len();
    assert_eq!(
        (gate.data().len(), up.data().len()),
        (len, len),
        "gate, up and gradient differ in size"
    );
    let gates = gate.data_mut().chunks_mut(PIECE);
    let ups = up.data_mut().chunks_mut(PIECE);
    let pieces = gates.zip(ups).zip(dy.data().chunks(PIECE)).collect();
    parallel::for_each(pieces, |_, ((gate, up), dy)| {
        swiglu_backward_slice(gate, up, dy);
    });
}

vectorised! {
    fn swiglu_slice<const FUSED: bool>(gate: &[f32], up: &[f32], y: &mut [f32]) {
        for ((y, &g), u) in y.iter_mut().zip(gate).zip(up) {
            *y = g / (1.0 + exp::<FUSED>(-g)) * u;
        }
    }
}

vectorised! {
    fn swiglu_backward_slice<const FUSED: bool>(gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
        for ((g, u), dy) in gate.iter_mut().zip(up).zip(dy) {
            let sigmoid = 1.0 / (1.0 + exp::<FUSED>(-*g));
            let silu = *g * sigmoid;
            *g = dy * *u * (sigmoid + silu * (1.0 - sigmoid));
            *u = dy * silu;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    fn naive(gate: f64, up: f64) -> f64 {
        gate / (1.0 + (-gate).exp()) * up
    }

    fn random(seed: u64) -> Mat<f32> {
        Mat::from_vec(3, 41, RngKey::new(seed).stream().normals(123, 3.0))
    }

    #[test]
    fn equals_its_naive_twin() {
        let (mut gate, up, mut y) = (random(1), random(2), Mat::zeros(3, 41));
        gate.data_mut()[..2].copy_from_slice(&[-200.0, 200.0]);
        swiglu(&gate, &up, &mut y);
        for ((&g, &u), &y) in gate.data().iter().zip(up.data()).zip(y.data()) {
            let want = naive(f64::from(g), f64::from(u));
            assert!((f64::from(y) - want).abs() < 1e-6 * (1.0 + want.abs()), "{y} is not {want}");
        }
    }

    #[test]
    fn gradient_equals_central_differences() {
        let (gate, up, dy) = (random(1), random(2), random(3));
        let (mut d_gate, mut d_up) = (gate.clone(), up.clone());
        swiglu_backward(&mut d_gate, &mut d_up, &dy);
        for at in 0..123 {
            let [g, u, d] = [&gate, &up, &dy].map(|m| f64::from(m.data()[at]));
            let step = 1e-6;
            let slope = |a: f64, b: f64| d * (a - b) / (2.0 * step);
            let want_gate = slope(naive(g + step, u), naive(g - step, u));
            let want_up = slope(naive(g, u + step), naive(g, u - step));
            let close = |found: f32, want: f64| {
                let error = (f64::from(found) - want).abs();
                assert!(error < 1e-5 * (1.0 + want.abs()), "{found} is not {want}");
            };
            close(d_gate.data()[at], want_gate);
            close(d_up.data()[at], want_up);
        }
    }
}
