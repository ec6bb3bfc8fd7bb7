//! Rows of irreducible parts, and the tensors of a direction.
//!
//! `t0 = √3 I`, `t1..3 = √2 a`, `t4..8 = ((Sxx - Syy)/√2, √(3/2) Szz, √2 Sxy, √2 Sxz, √2 Syz)` for
//! `X = I 1 + A + S`, with the axial vector a of A:
//! `A = [[0, -a3, a2], [a3, 0, -a1], [-a2, a1, 0]]`.
//! The squared norm of X is the sum of squares; both directions are adjoint to each other.

use super::number::{Number, Rows};
use linwright_tensor::kernels::irreps::jets;

/// Rows of components that have the same weights: scalar, vector, tensor.
pub(crate) const PARTS: [(usize, usize); 3] = [(0, 1), (1, 3), (4, 5)];

/// Components of `1`, `A(u)` and the symmetric traceless part of `u uᵀ` for a vector u.
pub(crate) fn harmonics<N: Number>(u: [N; 3]) -> [N; 9] {
    let root = N::real(2.0_f64.sqrt());
    let half = N::real(std::f64::consts::FRAC_1_SQRT_2);
    let [x, y, z] = u;
    [
        N::real(3.0_f64.sqrt()),
        x * root,
        y * root,
        z * root,
        (x * x - y * y) * half,
        (z * z + z * z - x * x - y * y) * N::real((1.0_f64 / 6.0).sqrt()),
        x * y * root,
        x * z * root,
        y * z * root,
    ]
}

/// Gradient of `Σ g_c harmonics(u)_c`.
pub(crate) fn harmonics_gradient(g: [f64; 9], [x, y, z]: [f64; 3]) -> [f64; 3] {
    let root = 2.0_f64.sqrt();
    let sixth = 2.0 * (1.0_f64 / 6.0).sqrt();
    [
        root * (g[1] + x * g[4] + y * g[6] + z * g[7]) - sixth * x * g[5],
        root * (g[2] - y * g[4] + x * g[6] + z * g[8]) - sixth * y * g[5],
        root * (g[3] + x * g[7] + y * g[8]) + 2.0 * sixth * z * g[5],
    ]
}

/// Squared norms of the three parts of each atom, side by side.
pub(crate) fn invariants<N: Number>(x: &Rows<N>) -> Rows<N> {
    let mut sums = Rows::unset(x.rows() / 9, 3 * x.cols());
    jets::squares(x.cols(), x.jets(), sums.jets_mut());
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_harmonics_equal_differences() {
        let g: [f64; 9] = std::array::from_fn(|c| (c as f64 * 0.9).cos());
        let dot = |h: [f64; 9]| g.iter().zip(h).map(|(g, h)| g * h).sum::<f64>();
        let u = [0.3, -0.7, 0.5];
        let found = harmonics_gradient(g, u);
        for a in 0..3 {
            let at = |by: f64| {
                let mut moved = u;
                moved[a] += by;
                dot(harmonics(moved))
            };
            let want = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((found[a] - want).abs() < 1e-8, "{a}: {} {want}", found[a]);
        }
    }
}
