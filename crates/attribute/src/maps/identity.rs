//! The identity: the gradient as it is.

use super::{Rows, VectorMap, check_adjoint, check_part, check_shapes};
use crate::AttributeError;
use crate::map_file::Parts;
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::{MatMut, MatRef};

/// `y = x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    size: usize,
}

impl Identity {
    pub(super) const KIND: &'static str = "identity";

    /// The identity on vectors of `size` numbers.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { size }
    }

    pub(super) fn read(parts: &Parts) -> Result<Self, AttributeError> {
        Ok(Self { size: parts.inp })
    }
}

impl VectorMap for Identity {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn inp(&self) -> usize {
        self.size
    }

    fn out(&self) -> usize {
        self.size
    }

    fn apply(&self, x: Rows<'_>, mut y: MatMut<'_, f32>) {
        check_shapes(self, &x, &y);
        for i in 0..y.rows() {
            let row = y.row_mut(i);
            row[..x.x.cols()].copy_from_slice(x.x.row(i));
            row[x.x.cols()..].fill(1.0);
        }
    }

    fn add_part(&self, first: usize, part: &[f32], y: &mut [f32]) {
        check_part(self, first, part, y);
        add(&mut y[first..first + part.len()], part);
    }

    fn adjoint(&self, y: MatRef<'_, f32>, mut x: MatMut<'_, f32>) {
        check_adjoint(self, &y, &x);
        for i in 0..x.rows() {
            x.row_mut(i).copy_from_slice(y.row(i));
        }
    }

    fn steps(&self) -> u64 {
        self.size as u64
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn parts(&self) -> Parts {
        Parts::new(Self::KIND, self.size)
    }
}
