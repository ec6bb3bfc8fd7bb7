//! The products `R X Sᴴ` on sheets, and the sums over a batch that gradients need.

use super::basis::{Sheet, SpinBasis};
use super::pauli::Pauli;
use super::rotor::{Form, SpinRotor};
use crate::kernels::gemm::panels::Columns;
use crate::kernels::gemm::{Arg, Write, product_on_this_thread as product};
use crate::{Mat, MatMut, MatRef, Scalar, Scratch};

/// The two rotors of `r x reverse(s)`.
#[derive(Clone, Copy, Debug)]
pub struct Sandwich<'a, T> {
    /// `r`.
    pub left: &'a SpinRotor<T>,
    /// `s`.
    pub right: &'a SpinRotor<T>,
}

/// Which way a sandwich is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `r x reverse(s)`.
    Forward,
    /// `reverse(r) x s`: the inverse, which is the transpose.
    Back,
}

/// Gradients of one sandwich product with respect to further small turns: `exp(b) exp(t)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    /// Of the left rotor, n (n - 1) / 2 numbers.
    pub left: Vec<f64>,
    /// Of the right rotor, n (n - 1) / 2 numbers.
    pub right: Vec<f64>,
    /// Sum of `x · dx` over the batch: the gradient of a factor before the product.
    pub scale: f64,
}

impl SpinBasis {
    /// `y = scale · (r x reverse(s))` or the inverse map on sheets of `width` multivectors;
    /// `write` says whether `y` is overwritten or added to.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn sandwich<T: Scalar>(
        &self,
        rotors: Sandwich<'_, T>,
        direction: Direction,
        x: &[T],
        (y, scale, write): (&mut [T], T, Write),
    ) {
        let width = x.len() / self.len();
        let sheet_len = self.sheet_len() * width;
        let mut half = Scratch::new(sheet_len);
        let sheets = x.chunks_exact(sheet_len).zip(y.chunks_exact_mut(sheet_len));
        for (sheet, (x, y)) in self.sheets.iter().zip(sheets) {
            let left = (&rotors.left.forms[sheet.left], direction);
            let right = (&rotors.right.forms[sheet.right], direction);
            self.apply_left(left, x, &mut half);
            self.apply_right(right, &half, (y, scale, write));
        }
    }

    /// Rows and columns of a sheet as the left rotor sees it.
    fn left_view(&self, len: usize) -> (usize, usize) {
        let rows = self.unit * self.size;
        (rows, len / rows)
    }

    fn apply_left<T: Scalar>(&self, form: Oriented<'_, T>, x: &[T], y: &mut [T]) {
        let (rows, cols) = self.left_view(x.len());
        let columns = Columns { groups: 1, run: cols, group: 0, row: cols };
        if in_tiles(form, columns, x, (y, T::ONE, Write::Set)) {
            return;
        }
        let x = MatRef::new(x, rows, cols);
        product(T::ONE, oriented(form), x.into(), MatMut::new(y, rows, cols), Write::Set);
    }

    fn apply_right<T: Scalar>(
        &self,
        form: Oriented<'_, T>,
        x: &[T],
        (y, scale, write): (&mut [T], T, Write),
    ) {
        let side = self.unit * self.size;
        let width = x.len() / self.sheet_len();
        let groups = x.len() / (side * width);
        let columns = Columns { groups, run: width, group: side * width, row: width };
        if in_tiles(form, columns, x, (&mut *y, scale, write)) {
            return;
        }
        let form = oriented(form);
        if width == 1 {
            // One multivector: its groups are the rows of one product.
            let (x, y) = (MatRef::new(x, groups, side), MatMut::new(y, groups, side));
            let transposed = match form {
                Arg::Plain(form) => Arg::Transposed(form),
                Arg::Transposed(form) => Arg::Plain(form),
            };
            return product(scale, x.into(), transposed, y, write);
        }
        let group = side * width;
        for (x, y) in x.chunks_exact(group).zip(y.chunks_exact_mut(group)) {
            let (x, y) = (MatRef::new(x, side, width), MatMut::new(y, side, width));
            product(scale, form, x.into(), y, write);
        }
    }

    /// Gradients of small turns and of a scale, given the input `x` of [`Self::sandwich`] and
    /// `dx = reverse(r) dy s`, both as sheets.
    ///
    /// A turn `t` of the left rotor changes the result by `r t x reverse(s)`, whose inner product
    /// with `dy` is that of `t x` with `dx`; so only `dx xᴴ` and `xᴴ dx` are needed, summed over
    /// the batch and projected on the bivectors.
    ///
    /// # Panics
    /// If the lengths do not fit.
    #[must_use]
    pub fn turns<T: Scalar>(&self, x: &[T], dx: &[T]) -> Turns {
        let width = x.len() / self.len();
        let sheet_len = self.sheet_len() * width;
        let side = self.unit * self.size;
        let zero = || vec![0.0; self.bivectors[0].len()];
        let mut turns = Turns { left: zero(), right: zero(), scale: 0.0 };
        let mut sums = Mat::zeros(side, side);
        let pairs = x.chunks_exact(sheet_len).zip(dx.chunks_exact(sheet_len));
        for (sheet, (x, dx)) in self.sheets.iter().zip(pairs) {
            let (rows, cols) = self.left_view(sheet_len);
            let (xs, dxs) = (MatRef::new(x, rows, cols), MatRef::new(dx, rows, cols));
            product(T::ONE, dxs.into(), Arg::Transposed(xs), sums.view_mut(), Write::Set);
            self.project_left(sheet, &sums, &mut turns);
            let mut write = Write::Set;
            for (x, dx) in x.chunks_exact(side * width).zip(dx.chunks_exact(side * width)) {
                let (x, dx) = (MatRef::new(x, side, width), MatRef::new(dx, side, width));
                product(T::ONE, dx.into(), Arg::Transposed(x), sums.view_mut(), write);
                write = Write::Add;
            }
            self.project_right(sheet, &sums, &mut turns.right);
        }
        turns
    }

    fn project_left<T: Scalar>(&self, sheet: &Sheet, sums: &Mat<T>, turns: &mut Turns) {
        let at = |i: usize, j: usize| sums.at(i, j).to_f64();
        let unit = self.unit;
        let entry = |row: usize, column: usize| {
            let (i, j) = (row * unit, column * unit);
            if unit == 1 {
                (at(i, j), 0.0)
            } else {
                (at(i, j) + at(i + 1, j + 1), at(i + 1, j) - at(i, j + 1))
            }
        };
        for (turn, pauli) in turns.left.iter_mut().zip(&self.bivectors[sheet.left]) {
            *turn += self.weight * self.inner(*pauli, entry);
        }
        turns.scale += self.weight * self.inner(Pauli::default(), entry);
    }

    fn project_right<T: Scalar>(&self, sheet: &Sheet, sums: &Mat<T>, turns: &mut [f64]) {
        let (size, at) = (self.size, |i: usize, j: usize| sums.at(i, j).to_f64());
        // Entry (row, column) of a bivector takes column `row` of x to column `column`.
        let entry = |row: usize, column: usize| {
            if self.unit == 1 {
                (at(column, row), 0.0)
            } else {
                let re = at(column, row) + at(column + size, row + size);
                (re, at(column + size, row) - at(column, row + size))
            }
        };
        for (turn, pauli) in turns.iter_mut().zip(&self.bivectors[sheet.right]) {
            // The right rotor stands reversed, hence the sign.
            *turn -= self.weight * self.inner(*pauli, entry);
        }
    }

    /// `Re tr(Pᴴ M)`, entry (i, j) of `M` given as real and imaginary part.
    fn inner(&self, pauli: Pauli, entry: impl Fn(usize, usize) -> (f64, f64)) -> f64 {
        let of_column = |column| {
            let (row, re, im) = pauli.entry(column);
            let (a, b) = entry(row, column);
            re * a + im * b
        };
        (0..self.size).map(of_column).sum()
    }
}

/// A rotor's matrix, and which way it is applied.
type Oriented<'a, T> = (&'a Form<T>, Direction);

fn oriented<T: Scalar>((form, direction): Oriented<'_, T>) -> Arg<'_, T> {
    match direction {
        Direction::Forward => Arg::Plain(form.matrix.view()),
        Direction::Back => Arg::Transposed(form.matrix.view()),
    }
}

/// Multiplies columns by a packed matrix; says no where there is none or the columns do not fit.
fn in_tiles<T: Scalar>(
    (form, direction): Oriented<'_, T>,
    columns: Columns,
    x: &[T],
    (y, scale, write): (&mut [T], T, Write),
) -> bool {
    let Some([forward, back]) = &form.panels else {
        return false;
    };
    let panels = if direction == Direction::Forward { forward } else { back };
    if !panels.fit(columns) {
        return false;
    }
    let y = (bytemuck::cast_slice_mut(y), bytemuck::cast(scale), write);
    panels.apply(columns, bytemuck::cast_slice(x), y);
    true
}
