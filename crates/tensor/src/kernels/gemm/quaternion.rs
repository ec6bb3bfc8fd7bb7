//! Products of a packed small quaternion matrix with many columns, with half the multiplications of
//! the equivalent real matrix.
//!
//! Four real rows form one row of quaternions `x = x0 + x1 i + x2 j + x3 k`; the matrix multiplies
//! each from the right: `y_i = Σ_k x_k q_ik`. A product of two quaternions takes eight real
//! multiplications instead of sixteen:
//!
//! ```text
//! e = (x1 + x3) (q1 + q2) / 2    y0 = (g + h) - (e + f) + (x3 - x2) (q2 - q3)
//! f = (x1 - x3) (q1 - q2) / 2    y1 = -(g + h) - (e + f) + (x0 + x1) (q0 + q1)
//! g = (x0 + x2) (q0 - q3) / 2    y2 = (e - f) + (g - h) + (x0 - x1) (q2 + q3)
//! h = (x0 - x2) (q0 + q3) / 2    y3 = (e - f) - (g - h) + (x2 + x3) (q0 - q1)
//! ```
//!
//! The sums of `q` are computed when the matrix is packed, those of `x` once for all rows of the
//! matrix, and those of products after the sum over k. Source: Howell and Lafon, *The complexity of
//! the quaternion product*, Cornell TR 75-245 (1975): eight is the minimum.
#![allow(
    unsafe_code,
    reason = "registers are loaded and stored through raw pointers; bounds are checked here"
)]
#![allow(clippy::needless_range_loop, reason = "indices keep sums in registers, iterators do not")]

use super::panels::Columns;
use super::tile::Scaling;
use super::{Arg, Destination, Write};
use crate::kernels::instructions::Instructions;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns};
use crate::{Mat, Scalar, Scratch};

/// Sums of the components of one quaternion that are multiplied.
const SUMS: usize = 8;

/// Order of the quaternion components among the rows of a real matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) enum Components {
    /// The four components of a quaternion are adjacent.
    Inside,
    /// All first components, then all second ones, and so on.
    Outside,
}

/// Positions of the quaternion rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) struct Rows {
    /// Stride from one quaternion to the next.
    pub(super) step: usize,
    /// Offsets of the components within a quaternion.
    pub(super) components: [usize; 4],
}

/// Location of two registers of each component of a row of quaternions.
#[derive(Clone, Copy, Debug)]
struct Place<P> {
    /// The first register of the first quaternion.
    at: P,
    /// Stride from one quaternion to the next.
    step: usize,
    /// Offsets of the components within a quaternion.
    components: [usize; 4],
    /// Distance from the first register to the second.
    register: usize,
}

/// A quaternion matrix, packed for the registers of this machine.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Quaternions {
    /// Rows and columns of quaternions.
    size: usize,
    /// Largest number of quaternion rows in a panel.
    most: usize,
    rows: Rows,
    /// Panels of nearly equal height; index (part, k, row, sum) in each.
    data: Vec<f32>,
}

impl Rows {
    /// Component order in which a matrix of `4 size` rows is a multiplication by quaternions from
    /// the right; none if it is not.
    pub(in crate::kernels) fn of(matrix: &Mat<f32>, components: Components) -> Option<Self> {
        let size = matrix.rows() / 4;
        let (step, next) = if components == Components::Inside { (4, 1) } else { (1, size) };
        // A multiplication from the left is one from the right with two components exchanged.
        [[0, 1, 2, 3], [0, 1, 3, 2]]
            .map(|order| Self { step, components: order.map(|c| c * next) })
            .into_iter()
            .find(|rows| rows.fit(matrix, size))
    }

    /// The quaternion and the component of a row.
    pub(in crate::kernels) fn place(&self, row: usize) -> (usize, usize) {
        let (quaternion, component) = match self.step {
            1 => (row % self.components[1], row - row % self.components[1]),
            step => (row / step, row % step),
        };
        let found = self.components.iter().position(|&place| place == component);
        (quaternion, found.expect("a row of some component"))
    }

    fn fit(&self, matrix: &Mat<f32>, size: usize) -> bool {
        (0..size).flat_map(|i| (0..size).map(move |k| (i, k))).all(|(i, k)| {
            let [a, b, c, d] = self.quaternion(matrix, i, k);
            let rows = [[a, -b, -c, -d], [b, a, d, -c], [c, -d, a, b], [d, c, -b, a]];
            rows.iter().enumerate().all(|(p, row)| {
                let number = |q| matrix.at(self.of_component(i, p), self.of_component(k, q));
                row.iter().enumerate().all(|(q, &of_row)| of_row == number(q))
            })
        })
    }

    fn of_component(&self, quaternion: usize, component: usize) -> usize {
        quaternion * self.step + self.components[component]
    }

    fn quaternion(&self, matrix: &Mat<f32>, i: usize, k: usize) -> [f32; 4] {
        [0, 1, 2, 3].map(|c| matrix.at(self.of_component(i, c), self.of_component(k, 0)))
    }
}

/// Factors of the sums of `x`, in their order.
fn sums_of([a, b, c, d]: [f32; 4]) -> [[f32; SUMS / 2]; 2] {
    let halves = [b + c, b - c, a - d, a + d].map(|sum| 0.5 * sum);
    [halves, [c - d, a + b, c + d, a - b]]
}

impl Quaternions {
    /// Packs a square quaternion matrix with these positions; none on machines without our own
    /// vector kernels.
    pub(in crate::kernels) fn new(matrix: Arg<'_, f32>, rows: Rows) -> Option<Self> {
        // Two registers of four components each: 24 of 32 registers hold three rows, 8 of 16 hold
        // one.
        let most = match Instructions::here() {
            Instructions::Common => return None,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => 1,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => 3,
        };
        let matrix = match matrix {
            Arg::Plain(matrix) => matrix.to_mat(),
            Arg::Transposed(matrix) => matrix.to_mat().transpose(),
        };
        Some(Self::in_panels(most, &matrix, rows))
    }

    fn in_panels(most: usize, matrix: &Mat<f32>, rows: Rows) -> Self {
        assert_eq!(matrix.rows(), matrix.cols(), "rows and columns of a square matrix");
        let size = matrix.rows() / 4;
        debug_assert!(rows.fit(matrix, size), "a matrix that multiplies quaternions");
        let mut data = Vec::with_capacity(size * size * SUMS);
        for (first, height) in panels(size, most) {
            for (part, k) in (0..2).flat_map(|part| (0..size).map(move |k| (part, k))) {
                for i in first..first + height {
                    data.extend(sums_of(rows.quaternion(matrix, i, k))[part]);
                }
            }
        }
        Self { size, most, rows, data }
    }

    /// Whether [`Self::apply`] supports these columns.
    pub(in crate::kernels) fn fit(&self, columns: Columns) -> bool {
        dispatch_columns(columns.run, Fit(columns))
    }

    /// `y = scale M x` or `y += scale M x` for the columns of `x` and `y`, which have the same
    /// layout.
    ///
    /// # Panics
    /// If the columns do not fit, or reach beyond `x` or `y`.
    pub(in crate::kernels) fn apply(
        &self,
        columns: Columns,
        x: &[f32],
        Destination { y, scale, write }: Destination<'_, f32>,
    ) {
        let scaling = Scaling { alpha: scale, add: write == Write::Add };
        dispatch_columns(columns.run, Apply { matrix: self, columns, x, y, scaling });
    }
}

/// [`Quaternions::fit`].
struct Fit(Columns);

impl Job<f32> for Fit {
    type Output = bool;

    fn run<V: Lanes<Number = f32>>(self) -> bool {
        self.0.fit(V::WIDTH)
    }
}

/// [`Quaternions::apply`].
struct Apply<'a> {
    matrix: &'a Quaternions,
    columns: Columns,
    x: &'a [f32],
    y: &'a mut [f32],
    scaling: Scaling,
}

impl Job<f32> for Apply<'_> {
    type Output = ();

    fn run<V: Lanes<Number = f32>>(self) {
        let Self { matrix, columns, x, y, scaling } = self;
        let Quaternions { size, most, rows, ref data } = *matrix;
        assert!(columns.fit(V::WIDTH), "{columns:?} in registers of {}", V::WIDTH);
        let end = columns.end(4 * size);
        assert!(x.len() >= end && y.len() >= end, "columns out of bounds");
        let (pairs, register) = columns.pairs(V::WIDTH);
        let step = rows.step * columns.row;
        let components = rows.components.map(|row| row * columns.row);
        let mut sums = Scratch::new(2 * SUMS * size * V::WIDTH);
        for start in pairs {
            let from = Place { at: x[start..].as_ptr(), step, components, register };
            // The contract of both passes: `start` is that of two registers in each row of `x` and
            // `y`, whose last numbers the assertions above found within bounds, and `sums` holds
            // two registers of each sum.
            V::run(Combine { size, from, sums: sums.as_mut_ptr() });
            let mut rest = &data[..];
            for (first, height) in panels(size, most) {
                let (panel, others) = rest.split_at(height * size * SUMS);
                let at = y[start + first * step..].as_mut_ptr();
                let into = Place { at, step, components, register };
                let (panel, sums) = (panel.as_ptr(), sums.as_ptr());
                match height {
                    1 => V::run(Multiply::<1> { size, panel, sums, into, scaling }),
                    2 => V::run(Multiply::<2> { size, panel, sums, into, scaling }),
                    _ => V::run(Multiply::<3> { size, panel, sums, into, scaling }),
                }
                rest = others;
            }
        }
    }
}

/// Computes the sums of all quaternions: first those for e to h, then the others.
struct Combine {
    size: usize,
    from: Place<*const f32>,
    sums: *mut f32,
}

impl<V: Lanes<Number = f32>> Pass<V> for Combine {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { size, from, sums } = self;
        let half = SUMS / 2;
        for k in 0..size {
            for register in 0..2 {
                // SAFETY: the code that makes this pass states its bounds.
                unsafe {
                    let at = from.at.add(k * from.step + register * from.register);
                    let [a, b, c, d] = from.components;
                    let [a, b, c, d] = [
                        V::load(at.add(a)),
                        V::load(at.add(b)),
                        V::load(at.add(c)),
                        V::load(at.add(d)),
                    ];
                    let first = [b.plus(d), b.minus(d), a.plus(c), a.minus(c)];
                    let second = [d.minus(c), a.plus(b), a.minus(b), c.plus(d)];
                    for place in 0..half {
                        let to = sums.add(((k * half + place) * 2 + register) * V::WIDTH);
                        first[place].store(to);
                        second[place].store(to.add(size * SUMS * V::WIDTH));
                    }
                }
            }
        }
    }
}

/// Writes or adds `alpha x q` for one panel.
struct Multiply<const ROWS: usize> {
    size: usize,
    panel: *const f32,
    sums: *const f32,
    into: Place<*mut f32>,
    scaling: Scaling,
}

impl<V: Lanes<Number = f32>, const ROWS: usize> Pass<V> for Multiply<ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { size, mut panel, mut sums, into, scaling } = self;
        let half = SUMS / 2;
        // Indexed by register, row and component.
        let mut products = [[[V::splat(f32::ZERO); SUMS / 2]; ROWS]; 2];
        for part in 0..2 {
            for _ in 0..size {
                for place in 0..half {
                    // SAFETY: the code that makes this pass states its bounds.
                    unsafe {
                        let at = sums.add(2 * place * V::WIDTH);
                        let (low, high) = (V::load(at), V::load(at.add(V::WIDTH)));
                        for row in 0..ROWS {
                            let factor = V::splat(*panel.add(row * half + place));
                            products[0][row][place] =
                                factor.times_plus(low, products[0][row][place]);
                            products[1][row][place] =
                                factor.times_plus(high, products[1][row][place]);
                        }
                    }
                }
                panel = panel.wrapping_add(ROWS * half);
                sums = sums.wrapping_add(SUMS * V::WIDTH);
            }
            if part == 0 {
                for register in 0..2 {
                    for row in 0..ROWS {
                        products[register][row] = combined(products[register][row]);
                    }
                }
            }
        }
        let alpha = V::splat(scaling.alpha);
        for register in 0..2 {
            for row in 0..ROWS {
                for place in 0..half {
                    // SAFETY: as above.
                    unsafe {
                        let to = into.at.add(row * into.step + register * into.register);
                        let to = to.add(into.components[place]);
                        let scaled = alpha.times(products[register][row][place]);
                        let number = if scaling.add { V::load(to).plus(scaled) } else { scaled };
                        number.store(to);
                    }
                }
            }
        }
    }
}

/// Contributions of e to h to each component.
#[inline(always)]
fn combined<V: Lanes>([e, f, g, h]: [V; 4]) -> [V; 4] {
    let (p, q, r, s) = (e.plus(f), e.minus(f), g.plus(h), g.minus(h));
    let zero = V::splat(V::Number::ZERO);
    [r.minus(p), zero.minus(r.plus(p)), q.plus(s), q.minus(s)]
}

/// First row and height of panels whose heights differ by at most one row.
fn panels(size: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = size.div_ceil(most);
    (0..count).map(move |k| {
        let [first, end] = [k, k + 1].map(|k| k * size / count);
        (first, end - first)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;
    use crate::kernels::registers::Plain;

    /// A matrix that multiplies quaternions from the right, or from the left.
    fn matrix(size: usize, components: Components, left: bool) -> Mat<f32> {
        let numbers: Mat<f32> = random(size * size, 4, 1);
        let mut matrix = Mat::zeros(4 * size, 4 * size);
        let place = |quaternion: usize, component: usize| match components {
            Components::Inside => 4 * quaternion + component,
            Components::Outside => component * size + quaternion,
        };
        for (i, k) in (0..size).flat_map(|i| (0..size).map(move |k| (i, k))) {
            for unit in 0..4 {
                let mut one = [0.0; 4];
                one[unit] = 1.0;
                let q = std::array::from_fn(|c| numbers.at(i * size + k, c));
                let product = if left { product(q, one) } else { product(one, q) };
                for (c, number) in product.into_iter().enumerate() {
                    *matrix.at_mut(place(i, c), place(k, unit)) = number;
                }
            }
        }
        matrix
    }

    /// The product of two quaternions, by the table of `i² = j² = k² = ijk = -1`.
    fn product(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        let units = |sign: [(f32, usize); 4]| -> f32 {
            sign.iter().enumerate().map(|(k, &(sign, other))| sign * a[k] * b[other]).sum()
        };
        [
            units([(1.0, 0), (-1.0, 1), (-1.0, 2), (-1.0, 3)]),
            units([(1.0, 1), (1.0, 0), (1.0, 3), (-1.0, 2)]),
            units([(1.0, 2), (-1.0, 3), (1.0, 0), (1.0, 1)]),
            units([(1.0, 3), (1.0, 2), (-1.0, 1), (1.0, 0)]),
        ]
    }

    #[test]
    fn columns_equal_those_of_the_real_matrix() {
        for (size, most) in [1, 2, 3, 5, 16].iter().flat_map(|size| [1, 3].map(|m| (*size, m))) {
            for components in [Components::Inside, Components::Outside] {
                for left in [false, true] {
                    let matrix = matrix(size, components, left);
                    let rows = Rows::of(&matrix, components).unwrap();
                    let packed = Quaternions::in_panels(most, &matrix, rows);
                    // Pairs of registers along a row or across groups, of every machine's width.
                    for (groups, run) in [(1, 64), (3, 32), (4, 16), (2, 8), (4, 4), (2, 1)] {
                        in_runs(&packed, &matrix, groups, run);
                    }
                }
            }
        }
    }

    fn in_runs(packed: &Quaternions, matrix: &Mat<f32>, groups: usize, run: usize) {
        let rows = matrix.rows();
        let columns = Columns { groups, run, group: rows * run, row: run };
        let x: Mat<f32> = random(groups * rows, run, 2);
        let check = |y: &Mat<f32>, add: bool| {
            let places =
                (0..groups * rows * run).map(|k| (k / run / rows, k / run % rows, k % run));
            for (g, i, b) in places {
                let term = |k| matrix.at(i, k) * x.at(g * rows + k, b);
                let sum: f32 = (0..rows).map(term).sum();
                let before = if add { x.at(g * rows + i, b) } else { 0.0 };
                let (want, found) = (before + 2.0 * sum, y.at(g * rows + i, b));
                assert!((found - want).abs() < 1e-4, "{rows} rows: {found} is not {want}");
            }
        };
        for write in [Write::Set, Write::Add] {
            assert!(packed.fit(columns), "{columns:?}");
            let mut y = x.clone();
            packed.apply(columns, x.data(), Destination { y: y.data_mut(), scale: 2.0, write });
            check(&y, write == Write::Add);
            // What another machine would do.
            let mut y = x.clone();
            let (x, scaling) = (x.data(), Scaling { alpha: 2.0, add: write == Write::Add });
            let apply = Apply { matrix: packed, columns, x, y: y.data_mut(), scaling };
            apply.run::<Plain<f32, 1>>();
            check(&y, write == Write::Add);
            #[cfg(target_arch = "x86_64")]
            if Instructions::here() >= Instructions::Avx2 && columns.fit(8) {
                let mut y = x.to_vec();
                Apply { matrix: packed, columns, x, y: &mut y, scaling }
                    .run::<<f32 as Scalar>::Avx2>();
                check(&Mat::from_vec(groups * rows, run, y), write == Write::Add);
            }
        }
    }

    #[test]
    fn other_matrices_are_none_of_quaternions() {
        let mut other = matrix(2, Components::Inside, false);
        assert!(Rows::of(&other, Components::Outside).is_none());
        assert!(Rows::of(&other, Components::Inside).is_some());
        *other.at_mut(5, 2) += 1.0;
        assert!(Rows::of(&other, Components::Inside).is_none());
        *other.at_mut(5, 2) = f32::NAN;
        assert!(Rows::of(&other, Components::Inside).is_none());
    }

    #[test]
    fn panels_hold_every_row_once() {
        for (size, most) in (1..40).flat_map(|size| (1..4).map(move |most| (size, most))) {
            let mut next = 0;
            for (first, height) in panels(size, most) {
                assert_eq!(first, next);
                assert!((1..=most).contains(&height), "{size}: {height}");
                next += height;
            }
            assert_eq!(next, size);
        }
    }
}
