//! The products `R X Sᴴ` on sheets, and the sums over a batch for their gradients.

use super::basis::{BlockForms, SpinBasis};
use super::entry::Side;
use super::rotor::SpinRotor;
use crate::kernels::elementwise;
use crate::kernels::gemm::panels::Columns;
use crate::kernels::gemm::quaternion_sums;
use crate::kernels::gemm::sums::add_products;
use crate::kernels::gemm::{Destination, Direction, Write};
use crate::{Mat, Scalar, Scratch};

/// The two rotors of `r x reverse(s)`.
#[derive(Clone, Copy, Debug)]
pub struct Sandwich<'a, T> {
    /// `r`.
    pub left: &'a SpinRotor<T>,
    /// `s`.
    pub right: &'a SpinRotor<T>,
}

/// Sums over a batch of the products of input and gradient, from which the gradients are computed:
/// [`SpinBasis::turn`] and [`SpinBasis::scale`].
#[derive(Clone, Debug)]
pub struct TurnSums<T> {
    /// For each rotor block, (side, side), or their quaternions if rotors are quaternionic: (side /
    /// 4, side).
    left: Vec<Mat<T>>,
    right: Vec<Mat<T>>,
}

impl<T: Scalar> TurnSums<T> {
    /// Adds the sums of other rows.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.left.iter_mut().zip(&other.left);
        for (sums, other) in pairs.chain(self.right.iter_mut().zip(&other.right)) {
            elementwise::add_rows(sums.view_mut(), other.view());
        }
    }
}

impl SpinBasis {
    /// `r x reverse(s)` or the inverse map on sheets of `width` multivectors.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn sandwich<T: Scalar>(
        &self,
        rotors: Sandwich<'_, T>,
        direction: Direction,
        x: &[T],
        Destination { y, scale, write }: Destination<'_, T>,
    ) {
        let width = x.len() / self.dimension();
        let sheet_len = self.sheet_len() * width;
        let mut half = Scratch::new(sheet_len);
        let [of_left, of_right] = self.columns_of_sheet(width);
        let sheets = x.chunks_exact(sheet_len).zip(y.chunks_exact_mut(sheet_len));
        for (sheet, (x, y)) in self.sheets.iter().zip(sheets) {
            let left = &rotors.left.forms[sheet.left];
            let right = &rotors.right.forms[sheet.right];
            let to = Destination { y: &mut half[..], scale: T::ONE, write: Write::Set };
            left.apply(direction, of_left, x, to);
            right.apply(direction, of_right, &half, Destination { y, scale, write });
        }
    }

    /// Columns of a sheet for the left rotor, and for the right one.
    fn columns_of_sheet(&self, width: usize) -> [Columns; 2] {
        let (len, side) = (self.sheet_len() * width, self.side());
        let (run, group) = (len / side, side * width);
        let left = Columns { groups: 1, run, group: 0, row: run };
        [left, Columns { groups: len / group, run: width, group, row: width }]
    }

    /// Adds the sums for the gradients of infinitesimal rotations, from the input `x` of
    /// [`Self::sandwich`] and `dx = reverse(r) dy s`, both as sheets.
    ///
    /// A rotation `t` of the left rotor changes the result by `r t x reverse(s)`, whose inner
    /// product with `dy` is that of `t x` with `dx`; so only `dx xᴴ` and `xᴴ dx` are needed, summed
    /// over the batch.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn add_to_sums<T: Scalar>(&self, x: &[T], dx: &[T], sums: &mut TurnSums<T>) {
        let width = x.len() / self.dimension();
        let sheet_len = self.sheet_len() * width;
        let [of_left, of_right] = self.columns_of_sheet(width);
        let pairs = x.chunks_exact(sheet_len).zip(dx.chunks_exact(sheet_len));
        for (sheet, (x, dx)) in self.sheets.iter().zip(pairs) {
            for (side, columns, sums) in [
                (Side::Left, of_left, &mut sums.left[sheet.left]),
                (Side::Right, of_right, &mut sums.right[sheet.right]),
            ] {
                match self.quaternions(side) {
                    Some(rows) => {
                        quaternion_sums::add_products(dx, x, columns, rows, sums.view_mut());
                    }
                    None => add_products(dx, x, columns, sums.view_mut()),
                }
            }
        }
    }

    /// Rows of the sums of one block, each of [`Self::side`] numbers.
    fn rows_of_sums(&self) -> usize {
        if self.is_quaternionic() { self.side() / 4 } else { self.side() }
    }

    /// Length of all sums.
    #[must_use]
    pub fn numbers_of_sums(&self) -> usize {
        2 * self.bivectors.len() * self.rows_of_sums() * self.side()
    }

    /// Zero sums.
    #[must_use]
    pub fn turn_sums<T: Scalar>(&self) -> TurnSums<T> {
        let one = Mat::zeros(self.rows_of_sums(), self.side());
        let zeros = || vec![one.clone(); self.bivectors.len()];
        TurnSums { left: zeros(), right: zeros() }
    }

    /// The gradient of a factor before the product: the sum of `x · dx` over the batch.
    #[must_use]
    pub fn scale<T: Scalar>(&self, sums: &TurnSums<T>) -> f64 {
        let blocks = sums.left.iter().zip(&self.forms);
        let of_block = |(sums, forms): (&Mat<T>, &BlockForms)| {
            forms.identity.iter().map(|place| place.in_product(sums)).sum::<f64>()
        };
        self.weight * blocks.map(of_block).sum::<f64>()
    }

    /// The gradients of a further infinitesimal rotation of one rotor, `exp(b) exp(t)`: n (n - 1) /
    /// 2 numbers.
    #[must_use]
    pub fn turn<T: Scalar>(&self, side: Side, sums: &TurnSums<T>) -> Vec<f64> {
        let mut turn = vec![0.0; self.bivectors[0].len()];
        let sums = if side == Side::Left { &sums.left } else { &sums.right };
        for (sums, forms) in sums.iter().zip(&self.forms) {
            let forms = if side == Side::Left { &forms.left } else { &forms.right };
            for (turn, form) in turn.iter_mut().zip(forms) {
                let product: f64 = form.iter().map(|place| place.in_product(sums)).sum();
                *turn += self.weight * product;
            }
        }
        turn
    }
}
