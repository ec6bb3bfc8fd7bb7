//! Some entries of a product of matrices, without the others.
//!
//! `c[e] += Σ_t a[i_e, t] b[j_e, t]`: entries `(i_e, j_e)` of `a bᵀ`, one dot product each, which
//! is less work than the product if few entries are wanted.

use super::instructions::vectorised;
use super::lanes::dot;
use crate::MatRef;

/// Adds entries `(i, j)` of `a bᵀ` to `c`; `a`: (m, depth), `b`: (n, depth).
///
/// # Panics
/// If the shapes do not match, or an entry is out of bounds.
#[track_caller]
pub fn add_entries(a: MatRef<'_, f32>, b: MatRef<'_, f32>, pairs: &[(u32, u32)], c: &mut [f32]) {
    assert_eq!(a.cols(), b.cols(), "depths of a product");
    assert_eq!(pairs.len(), c.len(), "entries of a product");
    dots(a, b, pairs, c);
}

vectorised! {
    fn dots<const FUSED: bool>(
        a: MatRef<'_, f32>,
        b: MatRef<'_, f32>,
        pairs: &[(u32, u32)],
        c: &mut [f32],
    ) {
        for (c, &(i, j)) in c.iter_mut().zip(pairs) {
            *c += dot::<FUSED>(a.row(i as usize), b.row(j as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn entries_equal_their_naive_twin() {
        for depth in [0, 1, 7, 40, 513] {
            let draw = |rows, seed| -> Mat<f32> {
                Mat::from_vec(rows, depth, RngKey::new(seed).stream().normals(rows * depth, 1.0))
            };
            let (a, b) = (draw(6, 1), draw(9, 2));
            let pairs = [(0, 0), (5, 8), (3, 2), (3, 2), (0, 8)];
            let mut c = [0.5; 5];
            add_entries(a.view(), b.view(), &pairs, &mut c);
            for (&(i, j), found) in pairs.iter().zip(c) {
                let (a, b) = (a.row(i as usize), b.row(j as usize));
                let want = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                assert!((f64::from(found) - 0.5 - want).abs() < 1e-4, "{depth}: {found}, {want}");
            }
        }
    }
}
