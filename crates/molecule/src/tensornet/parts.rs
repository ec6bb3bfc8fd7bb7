//! Irreducible parts of 3 x 3 matrices in an orthonormal basis, and products of the matrices.
//!
//! `t0 = √3 I`, `t1..3 = √2 a`, `t4..8 = ((Sxx - Syy)/√2, √(3/2) Szz, √2 Sxy, √2 Sxz, √2 Syz)` for
//! `X = I 1 + A + S`, with the axial vector a of A:
//! `A = [[0, -a3, a2], [a3, 0, -a1], [-a2, a1, 0]]`.
//! The squared norm of X is the sum of squares; both directions are adjoint to each other.

use super::number::Number;

/// Rows of components that have the same weights: scalar, vector, tensor.
pub(crate) const PARTS: [(usize, usize); 3] = [(0, 1), (1, 3), (4, 5)];

/// Part of each component.
pub(crate) const PART_OF: [usize; 9] = [0, 1, 1, 1, 2, 2, 2, 2, 2];

/// A 3 x 3 matrix.
pub(crate) type Three<N> = [[N; 3]; 3];

const ROOT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// The matrix of nine components.
#[inline(always)]
pub(crate) fn compose<N: Number>(t: [N; 9]) -> Three<N> {
    let third = N::real((1.0_f64 / 3.0).sqrt());
    let half = N::real(ROOT_HALF);
    let (trace, zz) = (t[0] * third, t[5] * N::real((2.0_f64 / 3.0).sqrt()));
    let other = t[5] * N::real((1.0_f64 / 6.0).sqrt());
    let difference = t[4] * half;
    let [a1, a2, a3] = [t[1] * half, t[2] * half, t[3] * half];
    let [xy, xz, yz] = [t[6] * half, t[7] * half, t[8] * half];
    [
        [trace - other + difference, xy - a3, xz + a2],
        [xy + a3, trace - other - difference, yz - a1],
        [xz - a2, yz + a1, trace + zz],
    ]
}

/// The nine components of a matrix.
#[inline(always)]
pub(crate) fn decompose<N: Number>(x: Three<N>) -> [N; 9] {
    let half = N::real(ROOT_HALF);
    let sixth = N::real((1.0_f64 / 6.0).sqrt());
    let trace = x[0][0] + x[1][1] + x[2][2];
    [
        trace * N::real((1.0_f64 / 3.0).sqrt()),
        (x[2][1] - x[1][2]) * half,
        (x[0][2] - x[2][0]) * half,
        (x[1][0] - x[0][1]) * half,
        (x[0][0] - x[1][1]) * half,
        (x[2][2] + x[2][2] - x[0][0] - x[1][1]) * sixth,
        (x[0][1] + x[1][0]) * half,
        (x[0][2] + x[2][0]) * half,
        (x[1][2] + x[2][1]) * half,
    ]
}

/// `a b`.
#[inline(always)]
pub(crate) fn times<N: Number>(a: Three<N>, b: Three<N>) -> Three<N> {
    let at = |i: usize, j: usize| a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
    std::array::from_fn(|i| std::array::from_fn(|j| at(i, j)))
}

#[inline(always)]
pub(crate) fn transpose<N: Number>(a: Three<N>) -> Three<N> {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

#[inline(always)]
pub(crate) fn plus<N: Number>(a: Three<N>, b: Three<N>) -> Three<N> {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + b[i][j]))
}

#[inline(always)]
pub(crate) fn scaled<N: Number>(a: Three<N>, by: N) -> Three<N> {
    a.map(|row| row.map(|x| x * by))
}

/// `Σ a_c b_c`.
#[inline(always)]
pub(crate) fn dot<N: Number>(a: [N; 9], b: [N; 9]) -> N {
    let mut sum = a[0] * b[0];
    for c in 1..9 {
        sum += a[c] * b[c];
    }
    sum
}

/// Derivative of `t / (n(t) + 1)` applied to `g`: `g / c - 2 t <g, t> / c²`.
#[inline(always)]
pub(crate) fn through_norm<N: Number>(t: [N; 9], g: [N; 9]) -> [N; 9] {
    let over = (dot(t, t) + N::real(1.0)).inverse();
    let along = dot(g, t) * over * over * N::real(2.0);
    std::array::from_fn(|c| g[c] * over - t[c] * along)
}

/// `t / (n(t) + 1)`.
#[inline(always)]
pub(crate) fn normalised<N: Number>(t: [N; 9]) -> [N; 9] {
    let over = (dot(t, t) + N::real(1.0)).inverse();
    t.map(|x| x * over)
}

/// Components of `1`, `A(u)` and the symmetric traceless part of `u uᵀ` for a vector u.
#[inline(always)]
pub(crate) fn harmonics<N: Number>(u: [N; 3]) -> [N; 9] {
    let root = N::real(2.0_f64.sqrt());
    let half = N::real(ROOT_HALF);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_an_orthonormal_basis_of_matrices() {
        let t: [f64; 9] = std::array::from_fn(|c| (c as f64 * 1.7).sin());
        let x = compose(t);
        let again = decompose(x);
        let norm: f64 = x.iter().flatten().map(|v| v * v).sum();
        assert!(t.iter().zip(again).all(|(a, b)| (a - b).abs() < 1e-14));
        assert!((norm - dot(t, t)).abs() < 1e-13);
    }

    #[test]
    fn gradients_of_harmonics_equal_differences() {
        let g: [f64; 9] = std::array::from_fn(|c| (c as f64 * 0.9).cos());
        let u = [0.3, -0.7, 0.5];
        let found = harmonics_gradient(g, u);
        for a in 0..3 {
            let at = |by: f64| {
                let mut moved = u;
                moved[a] += by;
                dot(g, harmonics(moved))
            };
            let want = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((found[a] - want).abs() < 1e-8, "{a}: {} {want}", found[a]);
        }
    }
}
