//! All pairs of rows of two matrices, in tiles of their products without forming the whole matrix.
//!
//! Up to [`EXACT_ROWS`] rows products are in double precision, beyond in single precision with sums
//! in double: `2 K² d` operations are seconds for 30,000 rows.

use linwright_tensor::kernels::gemm::{Arg, Write, product, product_on_this_thread};
use linwright_tensor::{Mat, MatRef, parallel};

/// Largest number of rows with products in double precision.
pub(crate) const EXACT_ROWS: usize = 4096;
/// Rows of a tile.
const TILE: usize = 128;
/// Columns of a tile.
const WIDTH: usize = 1024;

/// Which pairs are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// All pairs of rows i and j with i < j.
    Unordered,
    /// All.
    All,
}

/// Two matrices whose rows are compared.
pub(crate) struct Rows<'a> {
    a: &'a Mat<f64>,
    b: &'a Mat<f64>,
    narrow: Option<(Mat<f32>, Mat<f32>)>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(a: &'a Mat<f64>, b: &'a Mat<f64>) -> Self {
        let narrow = a.rows() > EXACT_ROWS;
        Self { a, b, narrow: narrow.then(|| (a.cast(), b.cast())) }
    }

    /// Visits pairs with the product of their rows; one result for each tile of rows, in order.
    pub(crate) fn visit<S: Default + Send>(
        &self,
        pairs: Pairs,
        visit: impl Fn(&mut S, usize, usize, f64) + Sync,
    ) -> Vec<S> {
        let starts: Vec<usize> = (0..self.a.rows()).step_by(TILE).collect();
        parallel::map(starts, |_, start| {
            let count = TILE.min(self.a.rows() - start);
            let mut sums = S::default();
            let from = if pairs == Pairs::Unordered { start } else { 0 };
            for first in (from..self.b.rows()).step_by(WIDTH) {
                let width = WIDTH.min(self.b.rows() - first);
                let mut each = |products: &dyn Fn(usize, usize) -> f64| {
                    for i in 0..count {
                        let least = if pairs == Pairs::Unordered { start + i + 1 } else { 0 };
                        for j in least.max(first)..first + width {
                            visit(&mut sums, start + i, j, products(i, j - first));
                        }
                    }
                };
                match &self.narrow {
                    Some((a, b)) => {
                        let tile = tile(
                            a.view().rows_range(start, count),
                            b.view().rows_range(first, width),
                        );
                        each(&|i, j| f64::from(tile.at(i, j)));
                    }
                    None => {
                        let tile = tile(
                            self.a.view().rows_range(start, count),
                            self.b.view().rows_range(first, width),
                        );
                        each(&|i, j| tile.at(i, j));
                    }
                }
            }
            sums
        })
    }

    /// Sum of the squares of all products: `|A Bᵀ|²`.
    pub(crate) fn squares(&self) -> f64 {
        if self.narrow.is_none() {
            let add = |sum: &mut f64, _: usize, _: usize, product: f64| *sum += product * product;
            return self.visit(Pairs::All, add).into_iter().sum();
        }
        // tr(A Bᵀ B Aᵀ) = ⟨Aᵀ A, Bᵀ B⟩.
        let (left, right) = (gram_of_columns(self.a), gram_of_columns(self.b));
        left.data().iter().zip(right.data()).map(|(left, right)| left * right).sum()
    }
}

/// `A Bᵀ`.
fn tile<T: linwright_tensor::Scalar>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Mat<T> {
    let mut tile = Mat::zeros(a.rows(), b.rows());
    let (left, right) = (Arg::Plain(a), Arg::Transposed(b));
    product_on_this_thread(T::ONE, left, right, tile.view_mut(), Write::Set);
    tile
}

/// `Aᵀ A`.
pub(crate) fn gram_of_columns(a: &Mat<f64>) -> Mat<f64> {
    let mut gram = Mat::zeros(a.cols(), a.cols());
    let (left, right) = (Arg::Transposed(a.view()), Arg::Plain(a.view()));
    product(1.0, left, right, gram.view_mut(), Write::Set);
    gram
}

/// Inner product of two rows.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Length of a row.
pub(crate) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// Squared distance of two rows.
pub(crate) fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}
