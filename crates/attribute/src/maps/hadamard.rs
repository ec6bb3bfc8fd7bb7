//! The subsampled randomised Hadamard transform (SRHT): random signs, a Walsh-Hadamard transform,
//! some of its outputs.
//!
//! `y = (H D x)[rows] / √out`, with `D` the signs, `H` the unnormalised transform of the next power
//! of two `n ≥ inp`, on `x` and zeros, and `out ≤ n` rows drawn without replacement. Inner products
//! are unbiased.
//!
//! | | |
//! |---|---|
//! | stored | `inp` signs, `out` rows |
//! | time | `n log₂ n` additions |
//!
//! Source: Ailon and Chazelle 2009, doi:10.1137/060673096; Tropp 2011, arXiv:1011.1595. The `fjlt`
//! of some attribution libraries is another map: a dense Rademacher product without its factor.
//! A vector is transformed as a whole, in `n` numbers of scratch memory.

use super::sparse_signs::random_signs;
use super::{Rows, VectorMap, check_adjoint, check_part, check_shapes, check_size};
use crate::AttributeError;
use crate::map_file::{Content, Parts};
use crate::maps::Mask;
use linwright_ops::Shape;
use linwright_tensor::kernels::hadamard;
use linwright_tensor::{MatMut, MatRef, RngKey, Scratch, parallel};

/// Random signs, a Walsh-Hadamard transform, some of its outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hadamard {
    is_minus: Vec<bool>,
    rows: Vec<u32>,
}

impl Hadamard {
    pub(super) const KIND: &'static str = "hadamard";

    /// The map with these signs of inputs and these rows of the transform.
    ///
    /// # Errors
    /// [`AttributeError::Map`] if there are no rows, one is beyond the transform or occurs twice.
    pub fn new(is_minus: Vec<bool>, rows: Vec<u32>) -> Result<Self, AttributeError> {
        let size = check_size(Self::KIND, is_minus.len().checked_next_power_of_two())?;
        Mask::new(size, rows.clone())?;
        Ok(Self { is_minus, rows })
    }

    /// Random signs and rows: `out` of them, or all of the transform.
    ///
    /// # Errors
    /// As [`Self::new`], and [`AttributeError::MapTooLarge`].
    pub fn random(Shape { out, inp }: Shape, key: RngKey) -> Result<Self, AttributeError> {
        let size = check_size(Self::KIND, inp.checked_next_power_of_two())?;
        let rows = Mask::random(size, out, key.fold("rows"))?;
        let rows = rows.picks().unwrap_or_default().to_vec();
        Self::new(random_signs(inp, key.fold("signs")), rows)
    }

    pub(super) fn read(parts: &Parts) -> Result<Self, AttributeError> {
        let signs = parts.signs("sign")?;
        if signs.len() != parts.inp {
            let found = format!("{} signs", signs.len());
            return Err(parts.refused(found, format!("{} inputs", parts.inp)));
        }
        Self::new(signs, parts.indices("idx")?)
    }

    fn size(&self) -> usize {
        self.is_minus.len().next_power_of_two()
    }

    fn scale(&self) -> f32 {
        1.0 / (self.rows.len() as f32).sqrt()
    }

    /// Adds the image of numbers from `first` on to `y`.
    fn add(&self, first: usize, x: impl Iterator<Item = f32>, y: &mut [f32]) {
        let (size, scale) = (self.size(), self.scale());
        let mut all = Scratch::zeros(size);
        for ((place, x), is_minus) in all[first..].iter_mut().zip(x).zip(&self.is_minus[first..]) {
            *place = if *is_minus { -x } else { x };
        }
        hadamard::rows(MatMut::new(&mut all, 1, size));
        for (y, &row) in y.iter_mut().zip(&self.rows) {
            *y += scale * all[row as usize];
        }
    }
}

impl VectorMap for Hadamard {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn inp(&self) -> usize {
        self.is_minus.len()
    }

    fn out(&self) -> usize {
        self.rows.len()
    }

    fn apply(&self, x: Rows<'_>, y: MatMut<'_, f32>) {
        check_shapes(self, &x, &y);
        parallel::for_each(y.row_blocks(parallel::ROW_BLOCK), |block, mut y| {
            for i in 0..y.rows() {
                let (of_x, row) = (x.x.row(block * parallel::ROW_BLOCK + i), y.row_mut(i));
                row.fill(0.0);
                self.add(0, of_x.iter().copied().chain(x.one.then_some(1.0)), row);
            }
        });
    }

    fn add_part(&self, first: usize, part: &[f32], y: &mut [f32]) {
        check_part(self, first, part, y);
        self.add(first, part.iter().copied(), y);
    }

    fn takes_parts(&self) -> bool {
        false
    }

    fn adjoint(&self, y: MatRef<'_, f32>, mut x: MatMut<'_, f32>) {
        check_adjoint(self, &y, &x);
        let (size, scale) = (self.size(), self.scale());
        for i in 0..x.rows() {
            let mut all = Scratch::zeros(size);
            for (&row, y) in self.rows.iter().zip(y.row(i)) {
                all[row as usize] = scale * y;
            }
            hadamard::rows(MatMut::new(&mut all, 1, size));
            for ((x, all), is_minus) in x.row_mut(i).iter_mut().zip(&*all).zip(&self.is_minus) {
                *x = if *is_minus { -all } else { *all };
            }
        }
    }

    fn steps(&self) -> u64 {
        self.size() as u64 * u64::from(self.size().trailing_zeros().max(1))
    }

    fn bytes(&self) -> u64 {
        (self.is_minus.len() + 4 * self.rows.len()) as u64
    }

    fn parts(&self) -> Parts {
        Parts::new(Self::KIND, self.inp())
            .with("sign", Content::Signs(self.is_minus.clone()))
            .with("idx", Content::Indices(self.rows.clone()))
    }
}
