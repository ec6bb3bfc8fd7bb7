//! The products `R X Sᴴ` on sheets, and the sums over a batch that gradients need.

use super::basis::SpinBasis;
use super::rotor::{Form, Side, SpinRotor};
use crate::kernels::gemm::panels::Columns;
use crate::kernels::gemm::sums::add_products;
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

/// Sums over a batch of the products of input and gradient, from which [`Turns`] follow.
#[derive(Clone, Debug)]
pub struct TurnSums<T> {
    /// For each block of rotors, (side, side).
    left: Vec<Mat<T>>,
    right: Vec<Mat<T>>,
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
        let width = x.len() / self.dimension();
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
        let rows = self.side();
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
        let side = self.side();
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

    /// Adds what the gradients of small turns need, given the input `x` of [`Self::sandwich`] and
    /// `dx = reverse(r) dy s`, both as sheets.
    ///
    /// A turn `t` of the left rotor changes the result by `r t x reverse(s)`, whose inner product
    /// with `dy` is that of `t x` with `dx`; so only `dx xᴴ` and `xᴴ dx` are needed, summed over
    /// the batch.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn add_to_sums<T: Scalar>(&self, x: &[T], dx: &[T], sums: &mut TurnSums<T>) {
        let width = x.len() / self.dimension();
        let (sheet_len, side) = (self.sheet_len() * width, self.side());
        let run = sheet_len / side;
        let rows = Columns { groups: 1, run, group: 0, row: run };
        let groups = sheet_len / (side * width);
        let columns = Columns { groups, run: width, group: side * width, row: width };
        let pairs = x.chunks_exact(sheet_len).zip(dx.chunks_exact(sheet_len));
        for (sheet, (x, dx)) in self.sheets.iter().zip(pairs) {
            add_products((dx, x), rows, &mut sums.left[sheet.left]);
            add_products((dx, x), columns, &mut sums.right[sheet.right]);
        }
    }

    /// No sums yet.
    #[must_use]
    pub fn turn_sums<T: Scalar>(&self) -> TurnSums<T> {
        let zeros = || vec![Mat::zeros(self.side(), self.side()); self.bivectors.len()];
        TurnSums { left: zeros(), right: zeros() }
    }

    /// The gradients of small turns and of a scale.
    #[must_use]
    pub fn turns<T: Scalar>(&self, sums: &TurnSums<T>) -> Turns {
        let scale = sums.left.iter().zip(&self.forms).map(|(sums, forms)| {
            forms.identity.iter().map(|place| place.in_product(sums)).sum::<f64>()
        });
        Turns {
            left: self.project(Side::Left, &sums.left),
            right: self.project(Side::Right, &sums.right),
            scale: self.weight * scale.sum::<f64>(),
        }
    }

    /// Inner products with all bivectors, summed over the blocks.
    fn project<T: Scalar>(&self, side: Side, sums: &[Mat<T>]) -> Vec<f64> {
        let mut turns = vec![0.0; self.bivectors[0].len()];
        for (sums, forms) in sums.iter().zip(&self.forms) {
            let forms = if side == Side::Left { &forms.left } else { &forms.right };
            for (turn, form) in turns.iter_mut().zip(forms) {
                let product: f64 = form.iter().map(|place| place.in_product(sums)).sum();
                *turn += self.weight * product;
            }
        }
        turns
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
