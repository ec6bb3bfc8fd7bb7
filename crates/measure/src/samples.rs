//! Rows of activations, in memory up to a bound, beyond it in a mapped file.

use linwright_tensor::kernels::gemm::{self, Arg, product};
use linwright_tensor::linalg::{Eigh, NoConvergence, eigh, gram};
use linwright_tensor::{MappedFile, Mat, MatRef, little_endian_bytes};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Collects rows with a fixed number of columns.
#[derive(Debug)]
pub struct RowWriter {
    cols: usize,
    rows: usize,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Memory(Vec<f32>),
    /// An unnamed file, whose space is freed when the process ends.
    File(BufWriter<File>),
}

impl RowWriter {
    /// A writer of `expected` rows. If they need more than `max_bytes`, they go to an unnamed file
    /// in `scratch`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn new(cols: usize, expected: usize, max_bytes: usize, scratch: &Path) -> io::Result<Self> {
        let bytes = expected.saturating_mul(cols).saturating_mul(4);
        let target = if bytes <= max_bytes {
            Target::Memory(Vec::with_capacity(expected * cols))
        } else {
            Target::File(BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(scratch)?))
        };
        Ok(Self { cols, rows: 0, target })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// Write errors.
    ///
    /// # Panics
    /// If the rows have another number of columns.
    #[track_caller]
    pub fn push(&mut self, rows: MatRef<'_, f32>) -> io::Result<()> {
        assert_eq!(rows.cols(), self.cols, "columns of a row store");
        for i in 0..rows.rows() {
            match &mut self.target {
                Target::Memory(data) => data.extend_from_slice(rows.row(i)),
                Target::File(writer) => writer.write_all(little_endian_bytes(rows.row(i)))?,
            }
        }
        self.rows += rows.rows();
        Ok(())
    }

    /// The collected rows.
    ///
    /// # Errors
    /// Errors of writing and mapping.
    pub fn finish(self) -> io::Result<Rows> {
        let source = match self.target {
            Target::Memory(data) => Source::Memory(data),
            Target::File(writer) => {
                let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
                Source::File(MappedFile::of(file)?)
            }
        };
        Ok(Rows::new(self.cols, self.rows, source))
    }
}

#[derive(Debug)]
enum Source {
    Memory(Vec<f32>),
    File(MappedFile),
}

/// Rows of activations; clones share the memory.
#[derive(Clone, Debug)]
pub struct Rows {
    cols: usize,
    rows: usize,
    source: Arc<Source>,
    /// Decomposed Gram matrices of samples, plain and with a constant feature, computed on demand.
    grams: Arc<[OnceLock<Eigh>; 2]>,
}

impl Rows {
    fn new(cols: usize, rows: usize, source: Source) -> Self {
        Self { cols, rows, source: Arc::new(source), grams: Arc::default() }
    }

    /// Rows in memory.
    #[must_use]
    pub fn of(rows: Mat<f32>) -> Self {
        let (cols, count) = (rows.cols(), rows.rows());
        Self::new(cols, count, Source::Memory(rows.into_vec()))
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

    /// All rows.
    #[must_use]
    pub fn view(&self) -> MatRef<'_, f32> {
        let data = match self.source.as_ref() {
            Source::Memory(data) => data,
            Source::File(map) => linwright_tensor::floats(map.bytes()),
        };
        MatRef::new(data, self.rows, self.cols)
    }
}

/// Inputs and targets of a site, training samples first.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Inputs (rows, inp).
    pub x: Rows,
    /// Targets without the bias (rows, out).
    pub y: Rows,
    /// Number of training rows.
    pub train: usize,
}

impl Samples {
    /// Training inputs and targets.
    #[must_use]
    pub fn training(&self) -> (MatRef<'_, f32>, MatRef<'_, f32>) {
        (self.x.view().rows_range(0, self.train), self.y.view().rows_range(0, self.train))
    }

    /// Eigenvalues and eigenvectors of [`products`] of the training inputs. They are computed once
    /// for all sites with these inputs.
    ///
    /// # Errors
    /// [`NoConvergence`] if the inputs are not finite or the iteration fails.
    ///
    /// # Panics
    /// If there are more samples than features.
    #[track_caller]
    pub fn gram(&self, with_constant: bool) -> Result<&Eigh, NoConvergence> {
        let known = &self.x.grams[usize::from(with_constant)];
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let found = eigh(products(self.training().0, with_constant).0.view())?;
        Ok(known.get_or_init(|| found))
    }

    /// Validation inputs and targets.
    #[must_use]
    pub fn validation(&self) -> (MatRef<'_, f32>, MatRef<'_, f32>) {
        let rest = self.x.rows() - self.train;
        (self.x.view().rows_range(self.train, rest), self.y.view().rows_range(self.train, rest))
    }
}

/// `X Xᵀ` (n, n) of samples X (n, inp), plain or with one more feature, the same number in all of
/// them; and the square of this number, which is the mean square of a feature, or zero. Lower
/// triangle; the strict upper triangle is unspecified.
///
/// # Panics
/// If there are more samples than features.
#[must_use]
#[track_caller]
pub fn products(x: MatRef<'_, f32>, with_constant: bool) -> (Mat<f64>, f64) {
    assert!(x.rows() <= x.cols(), "{} samples of {} features", x.rows(), x.cols());
    // For a square matrix, the other product would be used.
    let mut products = if x.rows() < x.cols() { gram(x, None) } else { square(x) };
    let trace: f64 = (0..x.rows()).map(|i| products.at(i, i)).sum();
    let constant = match with_constant {
        true => trace / (x.rows() * x.cols()).max(1) as f64,
        false => 0.0,
    };
    products.data_mut().iter_mut().for_each(|product| *product += constant);
    (products, constant)
}

/// `X Xᵀ` for a square X.
fn square(x: MatRef<'_, f32>) -> Mat<f64> {
    let x: Mat<f64> = x.to_mat().cast();
    let mut products = Mat::zeros(x.rows(), x.rows());
    product(1.0, x.view().into(), Arg::Transposed(x.view()), products.view_mut(), gemm::Write::Set);
    products
}

/// Mean over rows of `|y|²`: the squared error of the zero map.
#[must_use]
pub fn power(y: MatRef<'_, f32>) -> f64 {
    let square = |i: usize| y.row(i).iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    (0..y.rows()).map(square).sum::<f64>() / y.rows().max(1) as f64
}

/// Copies the rows with these indices into a matrix.
pub fn gather(rows: MatRef<'_, f32>, order: &[u32], into: &mut Mat<f32>) {
    into.resize(order.len(), rows.cols());
    for (i, &row) in order.iter().enumerate() {
        into.row_mut(i).copy_from_slice(rows.row(row as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_memory_and_in_a_file_read_back_alike() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let rows = Mat::from_fn(10, 3, |i, j| (10 * i + j) as f32);
        for max_bytes in [0, 1 << 20] {
            let mut writer = RowWriter::new(3, 10, max_bytes, dir.path()).expect("creates");
            writer.push(rows.view().rows_range(0, 4)).expect("writes");
            writer.push(rows.view().rows_range(4, 6)).expect("writes");
            let stored = writer.finish().expect("maps");
            assert_eq!(stored.view().to_mat(), rows);
            let files = std::fs::read_dir(dir.path()).expect("lists").count();
            assert_eq!(files, 0, "no file has a name, so none can be left behind");
        }
    }
}
