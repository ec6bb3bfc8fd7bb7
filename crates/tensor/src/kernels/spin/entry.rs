//! Sides of a multivector, and entries of the real matrices that act on them.

use crate::kernels::gemm::quaternion::{Components, Rows};
use crate::{Mat, Scalar};

/// Side of the multivector on which a rotor acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `r` in `r x reverse(s)`.
    Left,
    /// `s` in `r x reverse(s)`.
    Right,
}

impl Side {
    /// Order of the quaternion components among the rows that a rotor acts on.
    pub(super) fn components(self) -> Components {
        match self {
            Self::Left => Components::Inside,
            Self::Right => Components::Outside,
        }
    }
}

/// One entry of a sparse real matrix: one or minus one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) row: u16,
    pub(super) column: u16,
    pub(super) value: f32,
}

impl Entry {
    /// Adds a multiple of this entry to a matrix.
    pub(super) fn add_to(self, matrix: &mut Mat<f32>, times: f32) {
        *matrix.at_mut(self.row.into(), self.column.into()) += times * self.value;
    }

    /// Whether the entry is one of a quaternion's own components, which its first column holds:
    /// quaternion (i, k) has component c at (i, 4 k + c).
    pub(super) fn of_first_component(self, rows: Rows) -> Option<Self> {
        let (i, component) = rows.place(self.row.into());
        let (k, of_column) = rows.place(self.column.into());
        let (row, column) = (i as u16, (4 * k + component) as u16);
        (of_column == 0).then_some(Self { row, column, ..self })
    }

    /// Its term of an inner product of matrices.
    #[inline]
    pub(super) fn in_product<T: Scalar>(self, matrix: &Mat<T>) -> f64 {
        f64::from(self.value) * matrix.at(self.row.into(), self.column.into()).to_f64()
    }
}

/// One entry of a real form: a multiple of a complex entry's real or imaginary part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) re: f64,
    pub(super) im: f64,
}
