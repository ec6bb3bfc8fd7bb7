//! Reduction of a symmetric band to tridiagonal form, and eigenvalues of the tridiagonal matrix.
//!
//! A reflection eliminates one column of the band except for the entry next to the diagonal; the
//! fill-in below the band (the bulge) is chased down and out by further reflections, each `b` rows
//! lower (Lang, A parallel algorithm for reducing symmetric banded matrices to tridiagonal form,
//! SIAM J. Sci. Comput. 14, 1993). Only the first column of each bulge is eliminated: the next
//! sweep eliminates the others anyway. 6 n² b multiply-adds on blocks that stay in cache.
//!
//! Eigenvalues by square-root-free QL iteration (Parlett, The Symmetric Eigenvalue Problem, section
//! 8.15, after Pal, Walker and Kahan), about 2 n² steps.

use super::reflection::{add_multiple, dot, reflection};
use crate::kernels::instructions::vectorised;
use crate::kernels::reflections::LENGTH;
use crate::linalg::NoConvergence;

/// Largest number of QL steps per eigenvalue; two or three are usual.
const MAX_STEPS: usize = 60;

/// A symmetric band, lower half, with space below it for fill-in.
///
/// Entry (i, j), i >= j, is at `2 b j + i`: every block of the band is a matrix with contiguous
/// columns that are `2 b` apart.
pub(super) struct Band {
    n: usize,
    width: usize,
    numbers: Vec<f64>,
}

/// A symmetric tridiagonal matrix.
#[derive(Clone)]
pub(super) struct Tridiagonal {
    pub(super) diagonal: Vec<f64>,
    /// Off-diagonal entries, one fewer.
    pub(super) beside: Vec<f64>,
}

impl Band {
    pub(super) fn zeros(n: usize, width: usize) -> Self {
        Self { n, width, numbers: vec![0.0; (2 * width + 1) * n] }
    }

    pub(super) fn set(&mut self, i: usize, j: usize, value: f64) {
        self.numbers[2 * self.width * j + i] = value;
    }

    /// Entry (i, j), i >= j; zero outside the band.
    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        if i - j < 2 * self.width { self.numbers[2 * self.width * j + i] } else { 0.0 }
    }

    /// The tridiagonal matrix with the same eigenvalues. The reflections of each sweep, `I - u uᵀ`
    /// with u padded to [`LENGTH`], are appended to `sweeps`; only for bands of that width.
    pub(super) fn into_tridiagonal(mut self, sweeps: Option<&mut Vec<Vec<f64>>>) -> Tridiagonal {
        assert!(
            sweeps.is_none() || self.width == LENGTH,
            "reflections of a band of {}",
            self.width
        );
        chase_all(&mut self.numbers, self.n, self.width, sweeps);
        Tridiagonal {
            diagonal: (0..self.n).map(|i| self.at(i, i)).collect(),
            beside: (1..self.n).map(|i| self.at(i, i - 1)).collect(),
        }
    }
}

/// Column-major block of the band: its offset, and columns `stride` apart.
macro_rules! column {
    ($numbers:expr, $stride:expr, $row:expr, $col:expr, $len:expr) => {
        $numbers[$stride * ($col) + ($row)..][..$len]
    };
}

vectorised! {
    /// Eliminates column by column, and chases each bulge to the end of the band.
    fn chase_all<const FUSED: bool>(
        numbers: &mut [f64],
        n: usize,
        width: usize,
        sweeps: Option<&mut Vec<Vec<f64>>>,
    ) {
        let mut sweeps = sweeps;
        let stride = 2 * width;
        let (mut v, mut next, mut along) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
        for cleared in 0..n.saturating_sub(2) {
            let mut top = cleared + 1;
            let mut len = width.min(n - top);
            let first = &mut column!(numbers, stride, top, cleared, len);
            let mut tau = clear::<FUSED>(first, &mut v[..len]);
            let mut sweep = Vec::with_capacity(
                if sweeps.is_some() { (n - top).next_multiple_of(LENGTH) } else { 0 });
            loop {
                if sweeps.is_some() {
                    let root = tau.sqrt();
                    sweep.extend(v[..len].iter().map(|v| root * v));
                    sweep.resize(sweep.len().next_multiple_of(LENGTH), 0.0);
                }
                let corner = &mut numbers[stride * top + top..];
                both_sides::<FUSED>(corner, stride - 1, &v[..len], tau, &mut along[..len]);
                let below = top + len;
                let rows = width.min(n - below);
                if rows == 0 {
                    break;
                }
                let along = &mut along[..rows];
                along.fill(0.0);
                for (c, factor) in v[..len].iter().enumerate() {
                    let column = &column!(numbers, stride, below, top + c, rows);
                    add_multiple::<FUSED>(*factor, column, along);
                }
                for (c, factor) in v[..len].iter().enumerate() {
                    let column = &mut column!(numbers, stride, below, top + c, rows);
                    add_multiple::<FUSED>(-tau * factor, along, column);
                }
                if rows == 1 {
                    break;
                }
                let next = &mut next[..rows];
                tau = clear::<FUSED>(&mut column!(numbers, stride, below, top, rows), next);
                for c in 1..len {
                    let column = &mut column!(numbers, stride, below, top + c, rows);
                    let along = tau * dot::<FUSED>(next, column);
                    add_multiple::<FUSED>(-along, next, column);
                }
                v[..rows].copy_from_slice(next);
                (top, len) = (below, rows);
            }
            if let Some(sweeps) = &mut sweeps {
                sweeps.push(sweep);
            }
        }
    }
}

/// Eliminates a column except for its first entry; `v` becomes the reflection, whose tau is
/// returned.
#[inline(always)]
fn clear<const FUSED: bool>(column: &mut [f64], v: &mut [f64]) -> f64 {
    v.copy_from_slice(column);
    let (beta, tau) = reflection::<FUSED>(v);
    column.fill(0.0);
    column[0] = beta;
    tau
}

/// `B := H B H` for the lower triangle of a symmetric block, whose diagonal entries are `apart + 2`
/// apart. With `p = tau B v` and `q = p - ½ tau (pᵀ v) v`, it is `B - v qᵀ - q vᵀ`.
#[inline(always)]
fn both_sides<const FUSED: bool>(
    block: &mut [f64],
    apart: usize,
    v: &[f64],
    tau: f64,
    q: &mut [f64],
) {
    let step = apart + 2;
    let len = v.len();
    q.fill(0.0);
    for c in 0..len {
        let column = &block[step * c..][..len - c];
        add_multiple::<FUSED>(v[c], column, &mut q[c..]);
        q[c] += dot::<FUSED>(&column[1..], &v[c + 1..]);
    }
    q.iter_mut().for_each(|q| *q *= tau);
    let half = -0.5 * tau * dot::<FUSED>(q, v);
    add_multiple::<FUSED>(half, v, q);
    for c in 0..len {
        let column = &mut block[step * c..][..len - c];
        add_multiple::<FUSED>(-q[c], &v[c..], column);
        add_multiple::<FUSED>(-v[c], &q[c..], column);
    }
}

/// Eigenvalues of a tridiagonal matrix, unordered, with an error of a small multiple of ε times the
/// largest entry.
pub(super) fn eigenvalues(matrix: Tridiagonal) -> Result<Vec<f64>, NoConvergence> {
    let Tridiagonal { diagonal: mut d, beside } = matrix;
    let n = d.len();
    let largest = d.iter().chain(&beside).fold(0.0, |most: f64, value| most.max(value.abs()));
    // Neglecting an off-diagonal entry changes eigenvalues by at most twice itself.
    let negligible = (f64::EPSILON * largest).powi(2);
    let mut squares: Vec<f64> = beside.iter().map(|e| e * e).collect();
    for first in 0..n {
        let mut steps = 0;
        loop {
            let coupled = squares[first.min(n - 1)..].iter().take_while(|e| **e > negligible);
            let last = first + coupled.count();
            if last == first {
                break;
            }
            steps += 1;
            if steps > MAX_STEPS {
                return Err(NoConvergence);
            }
            ql_step(&mut d[first..=last], &mut squares[first..last]);
        }
    }
    Ok(d)
}

/// One square-root-free QL step on a block; `squares` are the squared off-diagonal entries, all
/// positive.
fn ql_step(d: &mut [f64], squares: &mut [f64]) {
    let last = squares.len();
    let shift = {
        let root = squares[0].sqrt();
        let half = (d[1] - d[0]) / (2.0 * root);
        d[0] - root / (half + half.hypot(1.0).copysign(half))
    };
    let (mut cosine, mut sine) = (1.0, 0.0);
    let mut gamma = d[last] - shift;
    let mut p = gamma * gamma;
    for i in (0..last).rev() {
        let square = squares[i];
        let r = p + square;
        if i + 1 < last {
            squares[i + 1] = sine * r;
        }
        let cosine_before = cosine;
        cosine = p / r;
        sine = square / r;
        let (gamma_before, alpha) = (gamma, d[i]);
        gamma = cosine * (alpha - shift) - sine * gamma_before;
        d[i + 1] = gamma_before + (alpha - gamma);
        p = if cosine == 0.0 { cosine_before * square } else { gamma * gamma / cosine };
    }
    squares[0] = sine * p;
    d[0] = shift + gamma;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::symmetric::whole;
    use crate::{Mat, RngKey};

    fn sorted(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_by(f64::total_cmp);
        values
    }

    #[test]
    fn a_band_becomes_tridiagonal_with_the_same_eigenvalues() {
        for width in [2, 3, 8, 32] {
            for n in [1, 2, 3, 4, 7, 8, 9, 33, 64, 65, 70, 130] {
                let mut band = Band::zeros(n, width);
                let raw: Vec<f64> = RngKey::new((n * width) as u64).stream().normals(n * n, 1.0);
                for j in 0..n {
                    for i in j..n.min(j + width + 1) {
                        band.set(i, j, raw[i * n + j]);
                    }
                }
                let dense = Mat::from_fn(n, n, |i, j| band.at(i.max(j), i.min(j)));
                let expected = whole(dense.view()).unwrap().values;
                let tridiagonal = band.into_tridiagonal(None);
                let Tridiagonal { diagonal, beside } = &tridiagonal;
                let dense = Mat::from_fn(n, n, |i, j| match i.abs_diff(j) {
                    0 => diagonal[i],
                    1 => beside[i.min(j)],
                    _ => 0.0,
                });
                let of_dense = whole(dense.view()).unwrap().values;
                let found = sorted(eigenvalues(tridiagonal).unwrap());
                for ((a, b), e) in of_dense.iter().zip(&found).zip(&expected) {
                    assert!((a - e).abs() < 1e-11, "width {width}, n {n}: {a} {e}");
                    assert!((b - e).abs() < 1e-11, "width {width}, n {n}: {b} {e}");
                }
            }
        }
    }

    #[test]
    fn known_tridiagonal_matrices() {
        // 2 on the diagonal and 1 beside it: 2 + 2 cos(k pi / (n + 1)).
        let n = 50;
        let matrix = Tridiagonal { diagonal: vec![2.0; n], beside: vec![1.0; n - 1] };
        let found = sorted(eigenvalues(matrix).unwrap());
        for (k, value) in (1..=n).rev().zip(found) {
            let angle = k as f64 * std::f64::consts::PI / (n + 1) as f64;
            assert!((value - (2.0 + 2.0 * angle.cos())).abs() < 1e-14);
        }
        let split = Tridiagonal { diagonal: vec![1.0, 5.0, 3.0], beside: vec![0.0, 0.0] };
        assert_eq!(sorted(eigenvalues(split).unwrap()), [1.0, 3.0, 5.0]);
        let none = Tridiagonal { diagonal: vec![], beside: vec![] };
        assert!(eigenvalues(none).unwrap().is_empty());
    }
}
