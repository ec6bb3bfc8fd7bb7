//! Matrices held in 16 bits.
//!
//! Half the memory and half the memory traffic of `f32`; computation widens the numbers, which is
//! exact, and sums in `f32`.

use crate::dtype::DType;
use crate::kernels::widen;
use crate::numbers::{Mapped, Numbers, Shelf};
use crate::{Mat, parallel};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use std::io;

/// A type of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfType {
    /// bfloat16: the upper half of an `f32`.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl HalfType {
    /// Every type.
    pub const ALL: [Self; 2] = [Self::Bf16, Self::F16];

    /// The 16-bit type of a storage type, if it has 16 bits.
    #[must_use]
    pub fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::Bf16 => Some(Self::Bf16),
            DType::F16 => Some(Self::F16),
            DType::F32 | DType::F64 => None,
        }
    }

    /// The storage type.
    #[must_use]
    pub fn dtype(self) -> DType {
        match self {
            Self::Bf16 => DType::Bf16,
            Self::F16 => DType::F16,
        }
    }

    /// The name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Whether any number is infinite or NaN: all bits of its exponent are set.
    #[must_use]
    pub fn has_non_finite(self, bits: &[u16]) -> bool {
        let exponent = match self {
            Self::Bf16 => 0x7f80,
            Self::F16 => 0x7c00,
        };
        bits.iter().fold(false, |found, bits| found | (bits & exponent == exponent))
    }

    /// Rounds to nearest; numbers that overflow become infinities.
    ///
    /// # Panics
    /// If the lengths differ.
    #[track_caller]
    pub fn narrow(self, from: &[f32], to: &mut [u16]) {
        assert_eq!(from.len(), to.len(), "numbers of two types");
        match self {
            Self::Bf16 => to.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(from),
            Self::F16 => to.reinterpret_cast_mut::<f16>().convert_from_f32_slice(from),
        }
    }

    /// Widens exactly.
    ///
    /// # Panics
    /// If the lengths differ.
    #[track_caller]
    pub fn widen(self, from: &[u16], to: &mut [f32]) {
        assert_eq!(from.len(), to.len(), "numbers of two types");
        match self {
            Self::Bf16 => widen::widen(widen::Bf16, from, to),
            Self::F16 => widen::widen(widen::F16, from, to),
        }
    }
}

/// Owned, contiguous, row-major matrix of 16-bit numbers, in memory or in a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    of: HalfType,
    rows: usize,
    cols: usize,
    bits: Numbers<u16>,
}

impl Halves {
    /// Takes the bits of numbers in row-major order.
    ///
    /// # Panics
    /// If there are not exactly `rows * cols`.
    #[must_use]
    #[track_caller]
    pub fn new(of: HalfType, rows: usize, cols: usize, bits: Vec<u16>) -> Self {
        assert_eq!(bits.len(), rows * cols, "numbers of a {rows} x {cols} matrix");
        Self { of, rows, cols, bits: Numbers::Owned(bits) }
    }

    /// Numbers of a mapped file, in row-major order.
    ///
    /// # Panics
    /// If they are not exactly `rows * cols`.
    #[must_use]
    #[track_caller]
    pub fn mapped(of: HalfType, rows: usize, cols: usize, bits: Mapped<u16>) -> Self {
        assert_eq!(bits.numbers().len(), rows * cols, "numbers of a {rows} x {cols} matrix");
        Self { of, rows, cols, bits: Numbers::Mapped(bits) }
    }

    /// Whether the numbers are in a mapped file.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.bits.is_mapped()
    }

    /// Moves the numbers to a file, unless they are in one.
    ///
    /// # Errors
    /// Errors of writing and mapping; the matrix is then unchanged.
    pub fn shelve(&mut self, shelf: &Shelf) -> io::Result<()> {
        self.bits.shelve(shelf)
    }

    /// Lets the system reclaim the memory of numbers in a file.
    pub fn release(&self) {
        self.bits.release();
    }

    /// Rounds a matrix to nearest; numbers that overflow become infinities.
    #[must_use]
    pub fn rounded(of: HalfType, mat: &Mat<f32>) -> Self {
        let mut bits = vec![0; mat.data().len()];
        of.narrow(mat.data(), &mut bits);
        Self { of, rows: mat.rows(), cols: mat.cols(), bits: Numbers::Owned(bits) }
    }

    /// The type of the numbers.
    #[must_use]
    pub fn half_type(&self) -> HalfType {
        self.of
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The bits of all numbers in row-major order.
    #[must_use]
    pub fn bits(&self) -> &[u16] {
        self.bits.as_slice()
    }

    /// The bits of one row.
    #[must_use]
    pub fn row(&self, i: usize) -> &[u16] {
        &self.bits()[i * self.cols..(i + 1) * self.cols]
    }

    /// Widens one row.
    ///
    /// # Panics
    /// Unless `into` has one number for each column.
    #[track_caller]
    pub fn widen_row(&self, i: usize, into: &mut [f32]) {
        self.of.widen(self.row(i), into);
    }

    /// The same numbers in `f32`.
    #[must_use]
    pub fn to_mat(&self) -> Mat<f32> {
        const PIECE: usize = 1 << 16;
        let (mut wide, bits) = (Mat::zeros(self.rows, self.cols), self.bits());
        parallel::for_each_chunk(wide.data_mut(), PIECE, |piece, wide| {
            let first = piece * PIECE;
            self.of.widen(&bits[first..first + wide.len()], wide);
        });
        wide
    }

    /// A transposed copy.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let (mut bits, all) = (Vec::with_capacity(self.bits().len()), self.bits());
        for j in 0..if self.rows > 0 { self.cols } else { 0 } {
            bits.extend((0..self.rows).map(|i| all[i * self.cols + j]));
        }
        Self { of: self.of, rows: self.cols, cols: self.rows, bits: Numbers::Owned(bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_widens_as_the_definition_says_and_narrows_back() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for of in HalfType::ALL {
            let mut wide = vec![0.0; all.len()];
            of.widen(&all, &mut wide);
            for (&bits, &wide) in all.iter().zip(&wide) {
                let want = match of {
                    HalfType::Bf16 => bf16::from_bits(bits).to_f32(),
                    HalfType::F16 => f16::from_bits(bits).to_f32(),
                };
                let same = wide.to_bits() == want.to_bits() || (wide.is_nan() && want.is_nan());
                assert!(same, "{of:?} {bits:#x}: {wide}, not {want}");
                assert_eq!(of.has_non_finite(&[0, bits]), !want.is_finite(), "{of:?} {bits:#x}");
            }
            let mut back = vec![0; all.len()];
            of.narrow(&wide, &mut back);
            for ((&bits, &back), wide) in all.iter().zip(&back).zip(&wide) {
                assert!(bits == back || wide.is_nan(), "{of:?}: {bits:#x} became {back:#x}");
            }
        }
    }

    #[test]
    fn rounding_goes_to_the_nearest_and_of_two_to_the_even_one() {
        let mat = Mat::from_vec(1, 4, vec![1.0 + 0.003_906_25, 1.0 + 0.011_718_75, -2.5, 1e30]);
        let wide = |of| Halves::rounded(of, &mat).to_mat().into_vec();
        assert_eq!(wide(HalfType::Bf16)[..3], [1.0, 1.015_625, -2.5]);
        assert_eq!(wide(HalfType::F16)[2..], [-2.5, f32::INFINITY]);
    }

    #[test]
    fn a_transpose_has_columns_for_rows() {
        let mat = Mat::from_fn(3, 5, |i, j| (10 * i + j) as f32);
        let turned = Halves::rounded(HalfType::Bf16, &mat).transpose();
        assert_eq!((turned.rows(), turned.cols()), (5, 3));
        assert_eq!(turned.to_mat(), mat.transpose());
        let mut row = [0.0; 3];
        turned.widen_row(4, &mut row);
        assert_eq!(row, [4.0, 14.0, 24.0]);
    }
}
