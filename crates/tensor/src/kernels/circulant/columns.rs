//! A chain applied to the columns of a matrix, which already have the layout of a tile: nothing is
//! transposed.
#![allow(unsafe_code, reason = "registers are loaded and stored through raw pointers, in bounds")]

use super::complex::{Complex, numbers_for, numbers_of, registers};
use super::{BLOCK_ROWS, CirculantChain, CyclicTransform, through, up_to_last, values};
use crate::kernels::registers::{Job, Lanes, Pass, dispatch};
use crate::{Mat, MatMut, MatRef, Scalar, Scratch, parallel};
use std::sync::Arc;

/// The dense matrix (n, n) of the chain with diagonals (m, n), d_0 first, and half spectra of the
/// columns c_0 to c_{m-2}. Its first factors, `circ(c_{m-2}) diag(d_{m-1})`, are written
/// explicitly, so that m - 2 circulants are left to transform.
///
/// # Panics
/// If there are not m diagonals, or bins are missing.
#[must_use]
#[track_caller]
pub fn dense<T: Scalar>(
    transform: &Arc<CyclicTransform<T>>,
    diagonals: &[f64],
    spectra: &[Vec<[f64; 2]>],
) -> Mat<T> {
    let n = transform.features();
    assert_eq!(diagonals.len(), (spectra.len() + 1) * n, "{} diagonals", spectra.len() + 1);
    let Some((last, others)) = spectra.split_last() else {
        let mut matrix = Mat::zeros(n, n);
        diagonals.iter().enumerate().for_each(|(i, &d)| *matrix.at_mut(i, i) = T::from_f64(d));
        return matrix;
    };
    let (outer, right) = diagonals.split_at(spectra.len() * n);
    let column = transform.vector(last);
    if others.is_empty() {
        return values::dense(outer, &column, right);
    }
    let mut matrix = values::dense(&vec![1.0; n], &column, right);
    let outer = outer.iter().map(|&d| T::from_f64(d)).collect();
    CirculantChain::new(Arc::clone(transform), outer, others).forward_columns(matrix.view_mut());
    matrix
}

impl<T: Scalar> CirculantChain<T> {
    /// `W m` in place of `m` (n, columns).
    ///
    /// # Panics
    /// If the shape does not fit.
    #[track_caller]
    pub fn forward_columns(&self, m: MatMut<'_, T>) {
        assert_eq!(m.rows(), self.features(), "rows of a matrix");
        in_pieces(self, m);
    }
}

fn in_pieces<T: Scalar>(chain: &CirculantChain<T>, mut m: MatMut<'_, T>) {
    let cols = m.cols();
    if chain.piece(cols) >= cols {
        return dispatch(cols, Columns { chain, m });
    }
    // Matrices split by rows only: the columns of a work item are copied out and back.
    let from = m.as_ref();
    let starts = (0..cols).step_by(BLOCK_ROWS).collect();
    let pieces = parallel::map(starts, |_, start: usize| {
        let mut piece = from.columns(start, BLOCK_ROWS.min(cols - start)).to_mat();
        dispatch(piece.cols(), Columns { chain, m: piece.view_mut() });
        piece
    });
    for (k, piece) in pieces.iter().enumerate() {
        m.reborrow().columns(k * BLOCK_ROWS, piece.cols()).copy_from(piece.view());
    }
}

/// Columns in the state of a chain.
struct Columns<'a, 'b, T> {
    chain: &'a CirculantChain<T>,
    m: MatMut<'b, T>,
}

impl<T: Scalar> Job<T> for Columns<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(mut self) {
        let (width, len) = (2 * V::WIDTH, self.chain.transform.plan.len());
        let mut memory = Scratch::new(numbers_for::<V>(len));
        let tile = registers::<V>(&mut memory, len);
        for start in (0..self.m.cols()).step_by(width) {
            let cols = (self.m.cols() - start).min(width);
            numbers_of(&mut tile[self.m.rows()..]).fill(T::ZERO);
            if cols == width {
                V::run(Load { m: self.m.as_ref(), start, tile: &mut tile[..self.m.rows()] });
                let powers = up_to_last(self.chain, tile);
                let m = self.m.reborrow();
                V::run(Store { m, start, tile, diagonal: self.chain.diagonal(0), powers });
            } else {
                self.part(tile, start);
            }
        }
    }
}

impl<T: Scalar> Columns<'_, '_, T> {
    /// The columns from `start` on, if fewer than a tile: the others are zero.
    fn part<V: Lanes<Number = T>>(&mut self, tile: &mut [Complex<V>], start: usize) {
        let (width, rows, cols) = (2 * V::WIDTH, self.m.rows(), self.m.cols() - start);
        let numbers = numbers_of(&mut tile[..rows]);
        numbers.fill(T::ZERO);
        for (i, numbers) in numbers.chunks_exact_mut(width).enumerate() {
            numbers[..cols].copy_from_slice(&self.m.row(i)[start..]);
        }
        through(self.chain, tile);
        for (i, numbers) in numbers_of(tile).chunks_exact(width).take(rows).enumerate() {
            self.m.row_mut(i)[start..].copy_from_slice(&numbers[..cols]);
        }
    }
}

/// Loads columns of a matrix from `start` on into registers.
struct Load<'a, V: Lanes> {
    m: MatRef<'a, V::Number>,
    start: usize,
    tile: &'a mut [Complex<V>],
}

impl<V: Lanes> Pass<V> for Load<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { m, start, tile } = self;
        for (i, to) in tile.iter_mut().enumerate() {
            let row = &m.row(i)[start..][..2 * V::WIDTH];
            // SAFETY: the row has two registers there.
            *to = unsafe {
                Complex { re: V::load(row.as_ptr()), im: V::load(row[V::WIDTH..].as_ptr()) }
            };
        }
    }
}

/// Stores registers, scaled as by [`super::Scale`], to columns of a matrix from `start` on.
struct Store<'a, 'm, V: Lanes> {
    m: MatMut<'m, V::Number>,
    start: usize,
    tile: &'a [Complex<V>],
    diagonal: &'a [V::Number],
    powers: Complex<V>,
}

impl<V: Lanes> Pass<V> for Store<'_, '_, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { mut m, start, tile, diagonal, powers } = self;
        for (i, (value, &d)) in tile.iter().zip(diagonal).enumerate() {
            let Complex { re, im } = value.each_times_powers(powers).scaled(d);
            let row = &mut m.row_mut(i)[start..][..2 * V::WIDTH];
            // SAFETY: the row has two registers there.
            unsafe {
                re.store(row.as_mut_ptr());
                im.store(row[V::WIDTH..].as_mut_ptr());
            }
        }
    }
}
