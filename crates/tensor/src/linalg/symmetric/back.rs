//! Back-transformation: from eigenvectors of the tridiagonal matrix to those of the band and of the
//! matrix.

use super::band::{Panel, triangle};
use crate::kernels::gemm::{Arg, Write, product_on_this_thread};
use crate::kernels::reflections::Sweeps;
use crate::{Mat, Scalar, parallel};

/// Panels whose reflections are applied as one product.
const TOGETHER: usize = 4;
/// Eigenvectors per work item.
const ROWS: usize = 128;

/// A block reflector `I - V T Vᵀ` on the last rows of the matrix.
struct Reflections<T> {
    v: Mat<T>,
    t: Mat<T>,
}

impl<T: Scalar> Reflections<T> {
    /// The product of the reflectors of several panels.
    fn of(panels: &[Panel]) -> Self {
        let height = panels[0].height;
        let width = panels.iter().map(|panel| panel.width).sum();
        let mut v: Mat<f64> = Mat::zeros(height, width);
        let mut taus = Vec::with_capacity(width);
        for panel in panels {
            for c in 0..panel.width {
                for (i, number) in panel.reflection(c).enumerate() {
                    *v.at_mut(height - panel.height + i, taus.len() + c) = number;
                }
            }
            taus.extend_from_slice(&panel.taus);
        }
        let t = triangle(&v, &taus);
        Self { v: v.cast(), t: t.cast() }
    }
}

/// Transforms eigenvectors of the tridiagonal matrix, as rows, back through both reductions.
pub(super) fn carry<T: Scalar>(vectors: &mut Mat<T>, sweeps: Vec<Vec<f64>>, panels: Vec<Panel>) {
    let chains = Sweeps::of(&sweeps);
    drop(sweeps);
    chains.apply(vectors.view_mut());
    drop(chains);
    let n = vectors.cols();
    let groups =
        parallel::map(panels.chunks(TOGETHER).collect(), |_, panels| Reflections::of(panels));
    drop(panels);
    parallel::for_each(vectors.view_mut().row_blocks(ROWS), |_, mut rows| {
        let count = rows.rows();
        for Reflections { v, t } in groups.iter().rev() {
            let (height, width) = (v.rows(), v.cols());
            let mut rows = rows.reborrow().columns(n - height, height);
            let (mut along, mut turned) = (Mat::zeros(count, width), Mat::zeros(count, width));
            let plain = Arg::Plain(rows.as_ref());
            product_on_this_thread(
                T::ONE,
                plain,
                Arg::Plain(v.view()),
                along.view_mut(),
                Write::Set,
            );
            let (plain, t) = (Arg::Plain(along.view()), Arg::Transposed(t.view()));
            product_on_this_thread(T::ONE, plain, t, turned.view_mut(), Write::Set);
            let (plain, v) = (Arg::Plain(turned.view()), Arg::Transposed(v.view()));
            product_on_this_thread(-T::ONE, plain, v, rows.reborrow(), Write::Add);
        }
    });
}
