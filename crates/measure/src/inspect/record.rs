//! What an inspection found, as plain data.

use crate::spectra::Figures;
use serde::{Deserialize, Serialize};

/// Version of the layout of an [`Inspection`] as JSON.
pub const SCHEMA: u32 = 1;

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// Layout of this record, [`SCHEMA`].
    pub schema: u32,
    /// The path as the user gave it.
    pub model: String,
    /// Files read.
    pub files: Vec<WeightFile>,
    /// Sums over all tensors that were looked at.
    pub totals: Totals,
    /// Every tensor that was looked at, in the order of names, numbers within them as numbers.
    pub tensors: Vec<TensorRecord>,
    /// The tensors by name without their numbers.
    pub groups: Vec<Group>,
    /// The tensors by layer, those without one first.
    pub layers: Vec<LayerTotals>,
    /// Tensors with the same type, shape and bytes.
    pub duplicates: Vec<Duplicates>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightFile {
    /// Its path.
    pub path: String,
    /// Tensors in it.
    pub tensors: usize,
    /// Bytes of those tensors.
    pub bytes: u64,
}

/// Sums over tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Tensors.
    pub tensors: usize,
    /// Numbers in them.
    pub parameters: u64,
    /// Bytes in the files.
    pub bytes: u64,
    /// Numbers that are NaN.
    pub nan: u64,
    /// Numbers that are infinite.
    pub infinite: u64,
    /// Rows of zeros.
    pub zero_rows: u64,
    /// Rows of one other number.
    pub constant_rows: u64,
    /// Bytes of tensors that repeat another one.
    pub duplicate_bytes: u64,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Its name.
    pub name: String,
    /// The name with `*` for numbers.
    pub group: String,
    /// The first number in the name.
    pub layer: Option<usize>,
    /// Place of its file in [`Inspection::files`].
    pub file: usize,
    /// How its numbers are stored.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Numbers.
    pub parameters: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// What its numbers are like; none if they are not F64, F32, F16 or BF16.
    pub values: Option<ValueFigures>,
    /// Rows that say nothing; none where there are no rows of two numbers or more.
    pub rows: Option<RowCounts>,
    /// Name of the first tensor with the same type, shape and bytes.
    pub same_as: Option<String>,
    /// What the singular values say, if that was asked for.
    pub spectrum: Option<Box<Figures>>,
    /// Why there are none although they were asked for.
    pub no_spectrum: Option<String>,
}

/// What numbers are like. Mean, deviation and extreme are over the finite ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueFigures {
    /// Numbers that are NaN.
    pub nan: u64,
    /// Numbers that are infinite.
    pub infinite: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Largest absolute number.
    pub abs_max: f32,
}

/// Rows (slices along the first extent) of one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// Rows of zeros.
    pub zero: u64,
    /// Rows of one other number.
    pub constant: u64,
}

/// Tensors that are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    /// Bytes of each.
    pub bytes: u64,
    /// Their names.
    pub names: Vec<String>,
}

/// Tensors whose names differ in numbers only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The name with `*` for numbers.
    pub name: String,
    /// How the numbers are stored, if all tensors agree.
    pub dtype: Option<String>,
    /// The extents, if all tensors agree.
    pub shape: Option<Vec<usize>>,
    /// Sums.
    pub totals: Totals,
    /// Over the numbers of all tensors, if all are of a type that is read.
    pub values: Option<ValueFigures>,
    /// Means over the spectra of its matrices.
    pub spectra: Option<Box<GroupFigures>>,
}

/// Means over the matrices of a group; of a figure that some do not have, over those that do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the figures of the same names, as means")]
pub struct GroupFigures {
    /// Matrices with a spectrum.
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

/// Sums over the tensors of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTotals {
    /// The layer; none for tensors without a number in their name.
    pub layer: Option<usize>,
    /// Sums.
    pub totals: Totals,
}
