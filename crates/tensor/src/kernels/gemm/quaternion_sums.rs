//! Sums over a batch of quaternion products of columns, `Σ conj(b) a`: the gradient of a quaternion
//! matrix, a quarter of the numbers of the equivalent real sums.
//!
//! With sums of components each product would take eight multiplications instead of sixteen, as in
//! [`super::quaternion`]. Writing and reading these sums takes longer than that saves: here every
//! loaded number serves four products, or eight.
#![allow(
    unsafe_code,
    reason = "registers are loaded through raw pointers; bounds are checked before"
)]
#![allow(clippy::needless_range_loop, reason = "indices keep sums in registers, iterators do not")]

use super::panels::Columns;
use super::quaternion::Rows;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns};
use crate::{MatMut, Scalar, Scratch};

/// Whether component `to` of `conj(x) y` has component c of x times component `c ^ to` of y with a
/// negative sign.
const MINUS: [[bool; 4]; 4] = [
    [false, false, false, false],
    [false, true, false, true],
    [false, true, true, false],
    [false, false, true, true],
];

/// Adds the sums to `sums`, (size, 4 size): entry (i, 4 k + c) is component c of the sum over all
/// columns of conjugate quaternion k of `b` times quaternion i of `a`; both have the same layout.
///
/// # Panics
/// If the columns reach beyond `a` or `b`.
#[track_caller]
pub(in crate::kernels) fn add_products<T: Scalar>(
    a: &[T],
    b: &[T],
    columns: Columns,
    rows: Rows,
    sums: MatMut<'_, T>,
) {
    let size = sums.rows();
    assert_eq!(sums.cols(), 4 * size, "sums of quaternions");
    let end = columns.end(4 * size);
    assert!(a.len() >= end && b.len() >= end, "columns out of bounds");
    dispatch_columns(columns.run, Products { a, b, columns, rows, sums });
}

/// [`add_products`].
struct Products<'a, 's, T> {
    a: &'a [T],
    b: &'a [T],
    columns: Columns,
    rows: Rows,
    sums: MatMut<'s, T>,
}

impl<T: Scalar> Job<T> for Products<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        // Four sums per pair, for two by two quaternions if they fit into the registers.
        if V::LEVELS > 3 && self.sums.rows().is_multiple_of(2) {
            V::run(Tiles::<T, 2>(self));
        } else {
            V::run(Tiles::<T, 1>(self));
        }
    }
}

/// Quaternions of `a`, and of `b`, per register block.
struct Tiles<'a, 's, T, const SIDE: usize>(Products<'a, 's, T>);

impl<V: Lanes, const SIDE: usize> Pass<V> for Tiles<'_, '_, V::Number, SIDE> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let size = self.0.sums.rows();
        let depth = self.0.columns.groups * self.0.columns.run;
        assert!(self.0.columns.run.is_multiple_of(V::WIDTH) && size.is_multiple_of(SIDE));
        let (a, b) = (self.packed::<V>(self.0.a), self.packed::<V>(self.0.b));
        for (i, a) in a.chunks_exact(4 * SIDE * depth).enumerate() {
            for (k, b) in b.chunks_exact(4 * SIDE * depth).enumerate() {
                let products = Self::tile::<V>(a, b);
                for r in 0..SIDE {
                    let sums = self.0.sums.row_mut(i * SIDE + r);
                    let sums = &mut sums[4 * k * SIDE..4 * (k + 1) * SIDE];
                    for s in 0..SIDE {
                        let products = V::sums(products[r][s]);
                        for c in 0..4 {
                            sums[4 * s + c] += products[c];
                        }
                    }
                }
            }
        }
    }
}

impl<T: Scalar, const SIDE: usize> Tiles<'_, '_, T, SIDE> {
    /// Panels: registers of adjacent quaternions, then those of the next columns. Columns are a
    /// power of two apart, and would evict each other from the first-level cache.
    #[inline(always)]
    fn packed<V: Lanes<Number = T>>(&self, data: &[T]) -> Scratch<T> {
        let Products { columns, rows, ref sums, .. } = self.0;
        let mut panels = Scratch::new(4 * sums.rows() * columns.groups * columns.run);
        let mut to = panels.as_mut_ptr();
        for i in (0..sums.rows()).step_by(SIDE) {
            for group in 0..columns.groups {
                for at in (0..columns.run).step_by(V::WIDTH) {
                    for r in 0..SIDE {
                        for c in 0..4 {
                            let row = (i + r) * rows.step + rows.components[c];
                            let at = group * columns.group + row * columns.row + at;
                            // SAFETY: `add_products` found the rows of all groups within bounds;
                            // registers are whole parts of a run, and the panels have one for each.
                            unsafe {
                                V::load(data.as_ptr().add(at)).store(to);
                                to = to.add(V::WIDTH);
                            }
                        }
                    }
                }
            }
        }
        panels
    }

    /// The sums, lane by lane, of the quaternions of two panels of one length.
    #[inline(always)]
    fn tile<V: Lanes<Number = T>>(a: &[T], b: &[T]) -> [[[V; 4]; SIDE]; SIDE] {
        let mut sums = [[[V::splat(T::ZERO); 4]; SIDE]; SIDE];
        let step = 4 * SIDE * V::WIDTH;
        for at in (0..a.len().min(b.len()) / step).map(|k| k * step) {
            // SAFETY: at most the last register of either panel is reached.
            let load = |data: &[T], quaternion: usize, c: usize| unsafe {
                V::load(data.as_ptr().add(at + (4 * quaternion + c) * V::WIDTH))
            };
            let mut left = [[V::splat(T::ZERO); 4]; SIDE];
            for r in 0..SIDE {
                for c in 0..4 {
                    left[r][c] = load(a, r, c);
                }
            }
            // In this order consecutive sums are independent.
            for c in 0..4 {
                for s in 0..SIDE {
                    let right = load(b, s, c);
                    for r in 0..SIDE {
                        for to in 0..4 {
                            let (left, sum) = (left[r][c ^ to], sums[r][s][to]);
                            sums[r][s][to] = if MINUS[c][to] {
                                right.times_from(left, sum)
                            } else {
                                right.times_plus(left, sum)
                            };
                        }
                    }
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;
    use crate::Mat;
    use crate::kernels::instructions::Instructions;
    use crate::kernels::registers::Plain;

    /// The quaternion `conj(x) y`, by the table of i, j and k.
    fn conjugate_times([a, b, c, d]: [f64; 4], [p, q, r, s]: [f64; 4]) -> [f64; 4] {
        [
            a * p + b * q + c * r + d * s,
            a * q - b * p - c * s + d * r,
            a * r + b * s - c * p - d * q,
            a * s - b * r + c * q - d * p,
        ]
    }

    fn equal_the_definition<T: Scalar>(size: usize, rows: Rows, groups: usize, run: usize) {
        let columns = Columns { groups, run, group: 4 * size * run, row: run };
        let [a, b] = [1, 2].map(|seed| -> Mat<T> { random(groups * 4 * size, run, seed) });
        let before: Mat<T> = random(size, 4 * size, 3);
        let quaternion = |of: &Mat<T>, g: usize, i: usize, at: usize| {
            rows.components.map(|c| of.at(g * 4 * size + i * rows.step + c, at).to_f64())
        };
        let check = |what: &str, work: &dyn Fn(Products<'_, '_, T>)| {
            let mut sums = before.clone();
            work(Products { a: a.data(), b: b.data(), columns, rows, sums: sums.view_mut() });
            for (i, k) in (0..size * size).map(|pair| (pair / size, pair % size)) {
                let mut want = [0, 1, 2, 3].map(|c| before.at(i, 4 * k + c).to_f64());
                for (g, at) in (0..groups * run).map(|column| (column / run, column % run)) {
                    let product =
                        conjugate_times(quaternion(&b, g, k, at), quaternion(&a, g, i, at));
                    want.iter_mut().zip(product).for_each(|(want, term)| *want += term);
                }
                for c in 0..4 {
                    let found = sums.at(i, 4 * k + c).to_f64();
                    assert!((found - want[c]).abs() < 1e-4, "{what}, {size} and {rows:?}");
                }
            }
        };
        check("this machine", &|p| add_products(p.a, p.b, p.columns, p.rows, p.sums));
        check("lanes of one number", &|products| products.run::<Plain<T, 1>>());
        #[cfg(target_arch = "x86_64")]
        if Instructions::here() >= Instructions::Avx2 && run.is_multiple_of(T::Avx2::WIDTH) {
            check("AVX2", &|products| products.run::<T::Avx2>());
        }
    }

    #[test]
    fn sums_equal_the_definition_and_are_added() {
        for size in [1, 2, 3, 16] {
            for order in [[0, 1, 2, 3], [0, 1, 3, 2]] {
                for (step, next) in [(4, 1), (1, size)] {
                    let rows = Rows { step, components: order.map(|c| c * next) };
                    for (groups, run) in [(1, 32), (3, 16), (2, 5)] {
                        equal_the_definition::<f32>(size, rows, groups, run);
                        equal_the_definition::<f64>(size, rows, groups, run);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "columns out of bounds")]
    fn columns_out_of_bounds_are_refused() {
        let rows = Rows { step: 4, components: [0, 1, 2, 3] };
        let columns = Columns { groups: 2, run: 16, group: 64, row: 16 };
        let (numbers, mut sums) = (vec![0.0f32; 127], Mat::zeros(1, 4));
        add_products(&numbers, &numbers, columns, rows, sums.view_mut());
    }
}
