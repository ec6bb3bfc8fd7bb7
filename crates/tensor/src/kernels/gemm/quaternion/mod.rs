//! Products of a small matrix of quaternions, packed once, with many columns: half of the
//! multiplications of the real matrix that it is.
//!
//! Four real rows are one row of quaternions `x = x0 + x1 i + x2 j + x3 k`; the matrix multiplies
//! each from the right: `y_i = Σ_k x_k q_ik`. A product of two quaternions takes eight
//! multiplications of real numbers and not sixteen:
//!
//! ```text
//! e = (x1 + x3) (q1 + q2) / 2    y0 = (g + h) - (e + f) + (x3 - x2) (q2 - q3)
//! f = (x1 - x3) (q1 - q2) / 2    y1 = -(g + h) - (e + f) + (x0 + x1) (q0 + q1)
//! g = (x0 + x2) (q0 - q3) / 2    y2 = (e - f) + (g - h) + (x0 - x1) (q2 + q3)
//! h = (x0 - x2) (q0 + q3) / 2    y3 = (e - f) - (g - h) + (x2 + x3) (q0 - q1)
//! ```
//!
//! The sums of `q` are taken when the matrix is packed, those of `x` once for all rows of the
//! matrix, and those of products after the sum over k. Source: Howell and Lafon, *The complexity of
//! the quaternion product*, Cornell TR 75-245 (1975): eight are the fewest.
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

#[cfg(target_arch = "x86_64")]
mod x86;

use super::panels::Columns;
use super::{Arg, Write};
use crate::{Mat, Scratch};

/// Sums of the components of one quaternion that are multiplied.
const SUMS: usize = 8;

/// How the components of quaternions stand among the rows of a real matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) enum Components {
    /// The four of a quaternion side by side.
    Inside,
    /// All first ones, then all second ones, and so on.
    Outside,
}

/// Where the rows of quaternions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    /// Rows from one quaternion to the next.
    step: usize,
    /// Rows from the start of a quaternion to its components.
    components: [usize; 4],
}

/// Where two registers of each component of quaternions stand.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only tiles look inside"))]
struct Place<P> {
    /// The first register of the first quaternion.
    at: P,
    /// Numbers from one quaternion to the next.
    step: usize,
    /// Numbers from the start of a quaternion to its components.
    components: [usize; 4],
    /// Numbers from the first register to the second.
    register: usize,
}

/// Writes the sums of so many quaternions: first those for e to h, then the others.
type Combine = unsafe fn(usize, Place<*const f32>, *mut f32);

/// Writes or adds `alpha x q`. Arguments: quaternions in a line, the panel, the sums of x, the
/// result, alpha and whether to add.
type Multiply = unsafe fn(usize, *const f32, *const f32, Place<*mut f32>, (f32, bool));

/// What an instruction set brings to the product.
#[derive(Clone, Copy, Debug)]
struct Tile {
    /// Numbers of a register.
    lanes: usize,
    combine: Combine,
    /// For panels of one row of quaternions, two, and so on.
    multiply: &'static [Multiply],
}

impl Tile {
    /// Every one that this machine can run, the best first.
    fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            x86::all()
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Vec::new()
        }
    }
}

/// A matrix of quaternions, packed for the tiles of this machine.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Quaternions {
    tile: Tile,
    /// Rows and columns of quaternions.
    size: usize,
    rows: Rows,
    /// Panels of nearly equal height; number (part, k, row, sum) of each.
    data: Vec<f32>,
}

impl Rows {
    /// Where components stand in which a matrix of `4 size` rows multiplies quaternions from the
    /// right; none if it does something else.
    fn of(matrix: &Mat<f32>, components: Components) -> Option<Self> {
        let size = matrix.rows() / 4;
        let (step, next) = if components == Components::Inside { (4, 1) } else { (1, size) };
        // What multiplies from the left does so from the right with two components exchanged.
        [[0, 1, 2, 3], [0, 1, 3, 2]]
            .map(|order| Self { step, components: order.map(|c| c * next) })
            .into_iter()
            .find(|rows| rows.fit(matrix, size))
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

/// What the sums of `x` are multiplied by, in their order.
fn sums_of([a, b, c, d]: [f32; 4]) -> [[f32; SUMS / 2]; 2] {
    let halves = [b + c, b - c, a - d, a + d].map(|sum| 0.5 * sum);
    [halves, [c - d, a + b, c + d, a - b]]
}

impl Quaternions {
    /// None if the square `matrix` does not multiply quaternions, or on machines without tiles.
    pub(in crate::kernels) fn new(matrix: Arg<'_, f32>, components: Components) -> Option<Self> {
        let matrix = match matrix {
            Arg::Plain(matrix) => matrix.to_mat(),
            Arg::Transposed(matrix) => matrix.to_mat().transpose(),
        };
        Tile::all().first().and_then(|&tile| Self::of_tile(tile, &matrix, components))
    }

    fn of_tile(tile: Tile, matrix: &Mat<f32>, components: Components) -> Option<Self> {
        assert_eq!(matrix.rows(), matrix.cols(), "rows and columns of a square matrix");
        let rows = Rows::of(matrix, components).filter(|_| matrix.rows() >= 4)?;
        let size = matrix.rows() / 4;
        let mut data = Vec::with_capacity(size * size * SUMS);
        for (first, height) in panels(size, tile) {
            for (part, k) in (0..2).flat_map(|part| (0..size).map(move |k| (part, k))) {
                for i in first..first + height {
                    data.extend(sums_of(rows.quaternion(matrix, i, k))[part]);
                }
            }
        }
        Some(Self { tile, size, rows, data })
    }

    /// Whether [`Self::apply`] can do these columns.
    pub(in crate::kernels) fn fit(&self, columns: Columns) -> bool {
        columns.fit(self.tile.lanes)
    }

    /// `y = alpha M x` or `y += alpha M x` for the columns of `x` and `y`, which lie alike.
    ///
    /// # Panics
    /// If the columns do not fit, or reach beyond `x` or `y`.
    pub(in crate::kernels) fn apply(
        &self,
        columns: Columns,
        x: &[f32],
        (y, alpha, write): (&mut [f32], f32, Write),
    ) {
        let Self { tile, size, .. } = *self;
        assert!(self.fit(columns), "{columns:?} in registers of {}", tile.lanes);
        let end = columns.end(4 * size);
        assert!(x.len() >= end && y.len() >= end, "columns out of bounds");
        let (pairs, register) = columns.pairs(tile.lanes);
        let step = self.rows.step * columns.row;
        let components = self.rows.components.map(|row| row * columns.row);
        let mut sums = Scratch::new(2 * SUMS * size * tile.lanes);
        for start in pairs {
            // SAFETY: `start` is that of two registers in each row of `x` and `y`, whose last
            // numbers the assertions above found within bounds; `sums` holds as many registers as
            // two of each sum need.
            unsafe {
                let from = Place { at: x.as_ptr().add(start), step, components, register };
                (tile.combine)(size, from, sums.as_mut_ptr());
            }
            let mut panel = &self.data[..];
            for (first, height) in panels(size, tile) {
                let (here, rest) = panel.split_at(height * size * SUMS);
                // SAFETY: as above; the panel is whole.
                unsafe {
                    let at = y.as_mut_ptr().add(start + first * step);
                    let into = Place { at, step, components, register };
                    let scale = (alpha, write == Write::Add);
                    (tile.multiply[height - 1])(size, here.as_ptr(), sums.as_ptr(), into, scale);
                }
                panel = rest;
            }
        }
    }
}

/// First row and height of panels that differ in height by one row at most.
fn panels(size: usize, tile: Tile) -> impl Iterator<Item = (usize, usize)> {
    let count = size.div_ceil(tile.multiply.len());
    (0..count).map(move |k| {
        let [first, end] = [k, k + 1].map(|k| k * size / count);
        (first, end - first)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;

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
        for tile in Tile::all() {
            for size in [1, 2, 3, 5, 16] {
                for components in [Components::Inside, Components::Outside] {
                    for left in [false, true] {
                        let matrix = matrix(size, components, left);
                        let packed = Quaternions::of_tile(tile, &matrix, components).unwrap();
                        for (groups, run) in [(1, 64), (3, 32), (4, tile.lanes), (2, tile.lanes)] {
                            in_runs(&packed, &matrix, groups, run);
                        }
                    }
                }
            }
        }
    }

    fn in_runs(packed: &Quaternions, matrix: &Mat<f32>, groups: usize, run: usize) {
        let rows = matrix.rows();
        let columns = Columns { groups, run, group: rows * run, row: run };
        let x: Mat<f32> = random(groups * rows, run, 2);
        for write in [Write::Set, Write::Add] {
            let mut y = x.clone();
            packed.apply(columns, x.data(), (y.data_mut(), 2.0, write));
            let places =
                (0..groups * rows * run).map(|k| (k / run / rows, k / run % rows, k % run));
            for (g, i, b) in places {
                let term = |k| matrix.at(i, k) * x.at(g * rows + k, b);
                let sum: f32 = (0..rows).map(term).sum();
                let before = if write == Write::Add { x.at(g * rows + i, b) } else { 0.0 };
                let (want, found) = (before + 2.0 * sum, y.at(g * rows + i, b));
                assert!((found - want).abs() < 1e-4, "{rows} rows: {found} is not {want}");
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
        for tile in Tile::all() {
            for size in 1..40 {
                let mut next = 0;
                for (first, height) in panels(size, tile) {
                    assert_eq!(first, next);
                    assert!((1..=tile.multiply.len()).contains(&height), "{size}: {height}");
                    next += height;
                }
                assert_eq!(next, size);
            }
        }
    }
}
