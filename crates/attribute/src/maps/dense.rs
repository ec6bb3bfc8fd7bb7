//! Dense matrices: normal or Rademacher entries, or principal directions.
//!
//! `y = scale · x P` with `P`: (inp, out). For independent entries of variance 1 and
//! `scale = 1/√out`, inner products are unbiased; principal directions have `scale = 1`.
//!
//! | | |
//! |---|---|
//! | stored | `inp out` numbers |
//! | time | `inp out` multiply-adds |
//!
//! The matrix is drawn once and kept: one on a flat gradient of `p` numbers has `p out`, so this is
//! for small layers. Sources: Johnson and Lindenstrauss 1984; as factors of a gradient LoGra, Choe
//! et al. 2024, arXiv:2405.13954.

use super::sparse_signs::random_signs;
use super::{Rows, VectorMap, check_adjoint, check_part, check_shapes, check_size};
use crate::AttributeError;
use crate::map_file::{Content, Parts};
use linwright_ops::Shape;
use linwright_tensor::kernels::gemm::{Arg, PackedRight, Write, product, product_on_this_thread};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, parallel};
use std::sync::{Arc, OnceLock};

/// Largest number of columns of a matrix that is packed for products with rows: with more, packing
/// the rows is better.
const NARROW: usize = 256;

/// `y = scale · x P`.
#[derive(Clone, Debug)]
pub struct Dense {
    matrix: Mat<f32>,
    /// Whether entries have variance 1, so that the product is divided by `√out`.
    is_random: bool,
    /// The rows of the scaled matrix for inputs without and with a bias, packed on first use.
    packed: [OnceLock<Arc<PackedRight>>; 2],
}

impl PartialEq for Dense {
    fn eq(&self, other: &Self) -> bool {
        (&self.matrix, self.is_random) == (&other.matrix, other.is_random)
    }
}

impl Dense {
    pub(super) const KIND: &'static str = "dense";

    /// The map of a matrix (inp, out) whose entries have variance 1: `y = x P / √out`.
    ///
    /// # Errors
    /// As [`Self::directions`].
    pub fn of_entries(matrix: Mat<f32>) -> Result<Self, AttributeError> {
        Self::new(matrix, true)
    }

    /// The map to coordinates along the columns of a matrix (inp, out): `y = x P`.
    ///
    /// # Errors
    /// [`AttributeError::Map`] for a matrix without columns, or with a number that is not finite.
    pub fn directions(matrix: Mat<f32>) -> Result<Self, AttributeError> {
        Self::new(matrix, false)
    }

    fn new(matrix: Mat<f32>, is_random: bool) -> Result<Self, AttributeError> {
        let parts = Parts::new(Self::KIND, matrix.rows());
        if matrix.cols() == 0 {
            return Err(parts.refused("no columns".into(), "at least one".into()));
        }
        match matrix.data().iter().position(|number| !number.is_finite()) {
            None => Ok(Self { matrix, is_random, packed: Default::default() }),
            Some(at) => {
                let (row, column) = (at / matrix.cols(), at % matrix.cols());
                let found = format!("{} in row {row}, column {column}", matrix.data()[at]);
                Err(parts.refused(found, "finite numbers".into()))
            }
        }
    }

    /// Standard normal entries.
    ///
    /// # Errors
    /// [`AttributeError::MapTooLarge`], or [`AttributeError::Map`] for no outputs.
    pub fn normal(Shape { out, inp }: Shape, key: RngKey) -> Result<Self, AttributeError> {
        let count = check_size(Self::KIND, inp.checked_mul(out))?;
        Self::of_entries(Mat::from_vec(inp, out, key.stream().normals(count, 1.0)))
    }

    /// Entries 1 and -1.
    ///
    /// # Errors
    /// As [`Self::normal`].
    pub fn rademacher(Shape { out, inp }: Shape, key: RngKey) -> Result<Self, AttributeError> {
        let count = check_size(Self::KIND, inp.checked_mul(out))?;
        let signs = random_signs(count, key).into_iter();
        let entries = signs.map(|is_minus| if is_minus { -1.0 } else { 1.0 }).collect();
        Self::of_entries(Mat::from_vec(inp, out, entries))
    }

    pub(super) fn read(parts: &Parts) -> Result<Self, AttributeError> {
        Self::new(parts.matrix("matrix", parts.inp)?, parts.option("random")? != 0)
    }

    /// The rows of the scaled matrix for inputs, without the one for a bias.
    fn packed(&self, has_bias: bool) -> &PackedRight {
        self.packed[usize::from(has_bias)].get_or_init(|| {
            let (scale, inp) = (self.scale(), self.inp() - usize::from(has_bias));
            let scaled = Mat::from_fn(inp, self.out(), |i, j| scale * self.matrix.at(i, j));
            Arc::new(PackedRight::new(Arg::Plain(scaled.view())))
        })
    }

    fn scale(&self) -> f32 {
        if self.is_random { 1.0 / (self.matrix.cols() as f32).sqrt() } else { 1.0 }
    }
}

impl VectorMap for Dense {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn inp(&self) -> usize {
        self.matrix.rows()
    }

    fn out(&self) -> usize {
        self.matrix.cols()
    }

    fn apply(&self, x: Rows<'_>, mut y: MatMut<'_, f32>) {
        check_shapes(self, &x, &y);
        let (scale, inp) = (self.scale(), x.x.cols());
        if self.matrix.cols() <= NARROW && inp > 0 {
            let packed = self.packed(x.one);
            let height = packed.rows_of_block();
            parallel::for_each(y.reborrow().row_blocks(height), |block, y| {
                let rows = y.rows();
                packed.apply(1, x.x.rows_range(block * height, rows), y);
            });
        } else {
            let weight = self.matrix.view().rows_range(0, inp);
            product(scale, Arg::Plain(x.x), Arg::Plain(weight), y.reborrow(), Write::Set);
        }
        if x.one {
            for i in 0..y.rows() {
                let terms = y.row_mut(i).iter_mut().zip(self.matrix.row(inp));
                terms.for_each(|(y, p)| *y += scale * p);
            }
        }
    }

    fn add_part(&self, first: usize, part: &[f32], y: &mut [f32]) {
        check_part(self, first, part, y);
        let rows = self.matrix.view().rows_range(first, part.len());
        let (part, out) = (MatRef::new(part, 1, part.len()), y.len());
        let y = MatMut::new(y, 1, out);
        product_on_this_thread(self.scale(), Arg::Plain(part), Arg::Plain(rows), y, Write::Add);
    }

    fn adjoint(&self, y: MatRef<'_, f32>, x: MatMut<'_, f32>) {
        check_adjoint(self, &y, &x);
        let matrix = Arg::Transposed(self.matrix.view());
        product(self.scale(), Arg::Plain(y), matrix, x, Write::Set);
    }

    fn steps(&self) -> u64 {
        (self.inp() * self.out()) as u64
    }

    fn bytes(&self) -> u64 {
        4 * self.steps()
    }

    fn parts(&self) -> Parts {
        Parts::new(Self::KIND, self.inp())
            .with_option("random", usize::from(self.is_random))
            .with("matrix", Content::Matrix(self.matrix.clone()))
    }
}
