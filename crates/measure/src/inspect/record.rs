//! Result of an inspection, as plain data.

use crate::spectra::SpectralStatistics;
use serde::{Deserialize, Serialize};

/// Result of an inspection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// The path as given by the user.
    pub model: String,
    /// Files read.
    pub files: Vec<WeightFile>,
    /// Totals over all selected tensors.
    pub totals: Totals,
    /// Selected tensors, in the natural order of names.
    pub tensors: Vec<TensorRecord>,
    /// Tensors grouped by name pattern.
    pub groups: Vec<Group>,
    /// Totals by layer, tensors without a layer first.
    pub layers: Vec<LayerTotals>,
    /// Tensors with the same type, shape and bytes.
    pub duplicates: Vec<Duplicates>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightFile {
    /// Its path.
    pub path: String,
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of those tensors.
    pub bytes: u64,
}

/// Totals over tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of tensors.
    pub tensors: usize,
    /// Number of parameters.
    pub parameters: u64,
    /// Bytes in the files.
    pub bytes: u64,
    /// Number of NaN values.
    pub nan: u64,
    /// Number of infinite values.
    pub infinite: u64,
    /// Number of rows of zeros.
    pub zero_rows: u64,
    /// Number of rows of one other number.
    pub constant_rows: u64,
    /// Bytes of tensors that duplicate another one.
    pub duplicate_bytes: u64,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Its name.
    pub name: String,
    /// The name with `*` for numbers.
    pub group: String,
    /// Layer: the first number in the name.
    pub layer: Option<usize>,
    /// Index of its file in [`Inspection::files`].
    pub file: usize,
    /// Storage type.
    pub dtype: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Number of parameters.
    pub parameters: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Statistics of its numbers; `None` if they are not F64, F32, F16 or BF16.
    pub values: Option<ValueStatistics>,
    /// Constant rows; `None` without rows of two numbers or more.
    pub rows: Option<RowCounts>,
    /// Name of the first tensor with the same type, shape and bytes.
    pub same_as: Option<String>,
    /// Statistics of its singular values, if requested.
    pub spectrum: Option<Box<SpectralStatistics>>,
    /// The reason why a requested spectrum is missing.
    pub no_spectrum: Option<String>,
}

/// Statistics of numbers. Mean, standard deviation and maximum are over the finite ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueStatistics {
    /// Number of NaN values.
    pub nan: u64,
    /// Number of infinite values.
    pub infinite: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Largest absolute value.
    pub abs_max: f32,
}

/// Constant rows (slices along the first dimension).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// Number of rows of zeros.
    pub zero: u64,
    /// Number of rows of one other number.
    pub constant: u64,
}

/// Duplicate tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    /// Bytes of each.
    pub bytes: u64,
    /// Their names.
    pub names: Vec<String>,
}

/// Tensors whose names differ only in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The name with `*` for numbers.
    pub name: String,
    /// Storage type, if the same for all tensors.
    pub dtype: Option<String>,
    /// Shape, if the same for all tensors.
    pub shape: Option<Vec<usize>>,
    /// Totals.
    pub totals: Totals,
    /// Statistics over the numbers of all tensors, if all have a supported type.
    pub values: Option<ValueStatistics>,
    /// Means over the spectra of its matrices.
    pub spectra: Option<Box<SpectralMeans>>,
}

/// Means over the matrices of a group; a statistic missing for some is averaged over the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "means of the statistics of the same names")]
pub struct SpectralMeans {
    /// Number of matrices with a spectrum.
    pub matrices: usize,
    pub frobenius_norm: f64,
    pub largest: f64,
    pub stable_rank: f64,
    pub effective_rank: f64,
    pub rank_90: f64,
    pub rank_95: f64,
    pub rank_99: f64,
    pub break_even_rank: f64,
    pub condition_number: Option<f64>,
    pub above_edge: Option<f64>,
    pub alpha: Option<f64>,
    pub vendi_score: f64,
}

/// Totals of the tensors of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTotals {
    /// The layer; `None` for tensors without a number in their name.
    pub layer: Option<usize>,
    /// Totals.
    pub totals: Totals,
}
