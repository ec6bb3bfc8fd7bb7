//! Reduction of a symmetric matrix to a band with the same eigenvalues, by block reflections.
//!
//! The first of the two steps of Bischof, Lang and Sun (A framework for symmetric band reduction,
//! ACM TOMS 26, 2000): nearly all work is in matrix products, while the direct reduction to
//! tridiagonal form spends half of it on matrix-vector products, which are limited by memory
//! bandwidth.
//!
//! With a QR decomposition of the `b` columns below the band, `Q = I - V T Vᵀ`, the trailing matrix
//! `B` becomes `Qᵀ B Q = B - V Wᵀ - W Vᵀ`, where `X = B V T` and `W = X - ½ V Tᵀ Vᵀ X`.

use super::reflection::{add_multiple, dot, reflection};
use super::tridiagonal::Band;
use crate::kernels::gemm::{Arg, Write, product_on_this_thread};
use crate::kernels::instructions::vectorised;
use crate::kernels::reflections::LENGTH;
use crate::{Mat, MatMut, parallel};
use std::ops::Range;

/// Rows of a block of the matrix. Diagonal blocks hold both triangles.
pub(in crate::linalg) const BLOCK: usize = 256;
/// Bandwidth, and columns of a panel.
const WIDTH: usize = LENGTH;

/// The band with the same eigenvalues. Only the lower triangle of `a` is read. The reflections are
/// appended to `panels`, in the order of application.
pub(super) fn to_band(mut a: Mat<f64>, mut panels: Option<&mut Vec<Panel>>) -> Band {
    let n = a.rows();
    let mut band = Band::zeros(n, WIDTH);
    for i in 0..n {
        for j in i + 1..n.min((i / BLOCK + 1) * BLOCK) {
            *a.at_mut(i, j) = a.at(j, i);
        }
    }
    for left in (0..n).step_by(WIDTH) {
        let below = n.min(left + WIDTH);
        for j in left..below {
            for i in j..below {
                band.set(i, j, a.at(i, j));
            }
        }
        let width = below - left;
        let height = n - below;
        let mut panel = Panel::of(&a, left, width);
        panel.factor();
        for c in 0..width {
            for i in 0..height.min(c + 1) {
                band.set(below + i, left + c, panel.columns[c * height + i]);
            }
        }
        if height > 1 {
            panel.reflect_rest(&mut a, below);
            if let Some(panels) = &mut panels {
                panels.push(panel);
            }
        }
    }
    band
}

/// The columns below the band, each contiguous; after [`Self::factor`] the triangle R on and above
/// the diagonal, and reflections below it.
pub(super) struct Panel {
    columns: Vec<f64>,
    pub(super) height: usize,
    pub(super) width: usize,
    /// Factor of each reflection `I - tau v vᵀ`.
    pub(super) taus: Vec<f64>,
}

impl Panel {
    fn of(a: &Mat<f64>, left: usize, width: usize) -> Self {
        let top = left + width;
        let height = a.rows() - top;
        let mut columns = vec![0.0; width * height];
        for i in 0..height {
            for (c, value) in a.row(top + i)[left..top].iter().enumerate() {
                columns[c * height + i] = *value;
            }
        }
        Self { columns, height, width, taus: vec![0.0; width] }
    }

    fn factor(&mut self) {
        factor_columns(&mut self.columns, self.height, &mut self.taus);
    }

    /// Column c of `V` (height, width): a one on the diagonal, zeros above.
    pub(super) fn reflection(&self, c: usize) -> impl Iterator<Item = f64> {
        let column = &self.columns[c * self.height..][..self.height];
        column.iter().enumerate().map(move |(i, number)| match i.cmp(&c) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => *number,
        })
    }

    fn reflections(&self) -> Mat<f64> {
        let mut v = Mat::zeros(self.height, self.width);
        for c in 0..self.width {
            self.reflection(c).enumerate().for_each(|(i, number)| *v.at_mut(i, c) = number);
        }
        v
    }

    /// Applies the reflections to both sides of the trailing matrix, which begins at `top`.
    fn reflect_rest(&self, a: &mut Mat<f64>, top: usize) {
        let v = self.reflections();
        let t = triangle(&v, &self.taus);
        let y = symmetric_product(a, top, &v);
        let (height, width) = (self.height, self.width);
        let mut x = Mat::zeros(height, width);
        product_on_this_thread(1.0, y.view().into(), t.view().into(), x.view_mut(), Write::Set);
        let mut inner = Mat::zeros(width, width);
        let vt = Arg::Transposed(v.view());
        product_on_this_thread(1.0, vt, x.view().into(), inner.view_mut(), Write::Set);
        let mut both = Mat::zeros(width, width);
        let tt = Arg::Transposed(t.view());
        product_on_this_thread(1.0, tt, inner.view().into(), both.view_mut(), Write::Set);
        let w = &mut x;
        product_on_this_thread(-0.5, v.view().into(), both.view().into(), w.view_mut(), Write::Add);
        // V Wᵀ + W Vᵀ as one product of twice the depth.
        let beside = |left: &Mat<f64>, right: &Mat<f64>| {
            let mut joined = Mat::zeros(height, 2 * width);
            for i in 0..height {
                joined.row_mut(i)[..width].copy_from_slice(left.row(i));
                joined.row_mut(i)[width..].copy_from_slice(right.row(i));
            }
            joined
        };
        let (vw, wv) = (beside(&v, w), beside(w, &v));
        parallel::for_each(block_rows(a, top), |_, (range, rows)| {
            // Up to the end of the diagonal block, which holds both triangles.
            let (start, count) = (range.start - top, range.len());
            let left = vw.view().rows_range(start, count);
            let right = wv.view().rows_range(0, range.end - top);
            let rows = rows.columns(top, range.end - top);
            product_on_this_thread(-1.0, left.into(), Arg::Transposed(right), rows, Write::Add);
        });
    }
}

/// The upper triangle `T` of `I - V T Vᵀ`, the product of the reflections in order, column by
/// column: `T_c = -tau_c T (Vᵀ v_c)`.
pub(super) fn triangle(v: &Mat<f64>, taus: &[f64]) -> Mat<f64> {
    let width = taus.len();
    let mut inner = Mat::zeros(width, width);
    let transposed = Arg::Transposed(v.view());
    product_on_this_thread(1.0, transposed, v.view().into(), inner.view_mut(), Write::Set);
    let mut t: Mat<f64> = Mat::zeros(width, width);
    for (c, tau) in taus.iter().enumerate() {
        for i in 0..c {
            let sum: f64 = (i..c).map(|k| t.at(i, k) * inner.at(k, c)).sum();
            *t.at_mut(i, c) = -tau * sum;
        }
        *t.at_mut(c, c) = *tau;
    }
    t
}

/// Row ranges from `top` on that end at block boundaries, the longest rows first.
fn ranges(top: usize, n: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = top;
    while start < n {
        let end = n.min((start / BLOCK + 1) * BLOCK);
        ranges.push(start..end);
        start = end;
    }
    ranges.reverse();
    ranges
}

/// The rows of each of [`ranges`], to be updated in parallel.
fn block_rows(a: &mut Mat<f64>, top: usize) -> Vec<(Range<usize>, MatMut<'_, f64>)> {
    let n = a.rows();
    let mut rest = a.view_mut();
    let mut blocks = Vec::new();
    for range in ranges(top, n) {
        let (head, tail) = rest.split_rows(range.start);
        blocks.push((range, tail));
        rest = head;
    }
    blocks
}

/// `B V` for the symmetric matrix B that begins at `top`, of which only blocks on and below the
/// diagonal are stored.
fn symmetric_product(a: &Mat<f64>, top: usize, v: &Mat<f64>) -> Mat<f64> {
    let n = a.rows();
    let mut y = Mat::zeros(v.rows(), v.cols());
    let mut rest = y.view_mut();
    let mut pieces = Vec::new();
    for range in ranges(top, n) {
        let (head, tail) = rest.split_rows(range.start - top);
        pieces.push((range, tail));
        rest = head;
    }
    parallel::for_each(pieces, |_, (range, mut y)| {
        let rows = a.view().rows_range(range.start, range.len()).columns(top, range.end - top);
        let left = v.view().rows_range(0, range.end - top);
        product_on_this_thread(1.0, rows.into(), left.into(), y.reborrow(), Write::Set);
        if range.end < n {
            let below = a.view().rows_range(range.end, n - range.end);
            let columns = Arg::Transposed(below.columns(range.start, range.len()));
            let right = v.view().rows_range(range.end - top, n - range.end);
            product_on_this_thread(1.0, columns, right.into(), y, Write::Add);
        }
    });
    y
}

vectorised! {
    /// Householder QR decomposition in place, column by column.
    fn factor_columns<const FUSED: bool>(columns: &mut [f64], height: usize, taus: &mut [f64]) {
        for c in 0..taus.len().min(height.saturating_sub(1)) {
            let (done, rest) = columns.split_at_mut((c + 1) * height);
            let v = &mut done[c * height + c..];
            let (beta, tau) = reflection::<FUSED>(v);
            taus[c] = tau;
            for column in rest.chunks_exact_mut(height) {
                let column = &mut column[c..];
                let along = tau * dot::<FUSED>(v, column);
                add_multiple::<FUSED>(-along, v, column);
            }
            v[0] = beta;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;
    use crate::linalg::symmetric::whole;

    #[test]
    fn the_band_has_the_eigenvalues_of_the_matrix() {
        for n in [1, 2, 31, 32, 33, 64, 65, 97, 256, 257, 300] {
            let raw: Vec<f64> = RngKey::new(n as u64).stream().normals(n * n, 1.0);
            let a = Mat::from_fn(n, n, |i, j| raw[i.max(j) * n + i.min(j)]);
            let expected = whole(a.view()).unwrap().values;
            let lower = Mat::from_fn(n, n, |i, j| if j <= i { a.at(i, j) } else { f64::NAN });
            let band = to_band(lower, None);
            let dense = Mat::from_fn(n, n, |i, j| band.at(i.max(j), i.min(j)));
            for i in 0..n {
                for j in 0..n {
                    assert!(i.abs_diff(j) <= WIDTH || dense.at(i, j) == 0.0, "{i} {j}");
                }
            }
            let found = whole(dense.view()).unwrap().values;
            for (f, e) in found.iter().zip(&expected) {
                assert!((f - e).abs() < 1e-12 * n as f64, "{n}: {f} {e}");
            }
        }
    }
}
