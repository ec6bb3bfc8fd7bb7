//! Labelled features, in a file or in memory.

use crate::CollapseError;
use linwright_files::{StoredType, TensorFile, TensorInfo};
use linwright_tensor::Mat;
use linwright_tensor::dtype::{self, DType};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Features with their classes, read in blocks.
pub trait Source {
    /// The class of each row.
    fn labels(&self) -> &[u32];

    /// Number of features.
    fn features(&self) -> usize;

    /// The original type of the rows, before they were widened.
    fn precision(&self) -> DType;

    /// Some rows (count, d).
    ///
    /// # Errors
    /// If they cannot be read.
    fn block(&self, start: usize, count: usize) -> Result<Mat<f64>, CollapseError>;

    /// All rows in single precision, if they are stored like that.
    fn narrow(&self, _start: usize, _count: usize) -> Option<Cow<'_, [f32]>> {
        None
    }

    /// Number of rows.
    fn rows(&self) -> usize {
        self.labels().len()
    }
}

/// Features in memory.
#[derive(Clone, Debug)]
pub struct Features {
    x: Mat<f32>,
    labels: Vec<u32>,
}

impl Features {
    /// Rows (n, d) with their classes.
    ///
    /// # Panics
    /// Unless there is one label for each row.
    #[must_use]
    #[track_caller]
    pub fn new(x: Mat<f32>, labels: Vec<u32>) -> Self {
        assert_eq!(x.rows(), labels.len(), "a label for each row");
        Self { x, labels }
    }
}

impl Source for Features {
    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn features(&self) -> usize {
        self.x.cols()
    }

    fn precision(&self) -> DType {
        DType::F32
    }

    fn block(&self, start: usize, count: usize) -> Result<Mat<f64>, CollapseError> {
        Ok(self.x.view().rows_range(start, count).to_mat().cast())
    }

    fn narrow(&self, start: usize, count: usize) -> Option<Cow<'_, [f32]>> {
        let d = self.x.cols();
        Some(Cow::Borrowed(&self.x.data()[start * d..(start + count) * d]))
    }
}

/// A file with `features` (rows, d), `labels` (rows) and, if there is a head, `head` (classes, d)
/// and `bias` (classes). Features, head and bias are floating-point numbers, labels integers.
#[derive(Debug)]
pub struct FeatureFile {
    file: TensorFile,
    path: PathBuf,
    features: TensorInfo,
    labels: Vec<u32>,
    /// Rows of the head, (classes, d).
    pub head: Option<Mat<f64>>,
    /// Bias of the head.
    pub bias: Option<Vec<f64>>,
    /// Number of classes: rows of the head, or one more than the largest label.
    pub classes: usize,
}

impl FeatureFile {
    /// Opens features with labels; a head is read from `head`, or from the same file.
    ///
    /// # Errors
    /// [`CollapseError`] for missing tensors, wrong types and shapes, and labels that are not
    /// classes.
    pub fn open(
        path: &Path,
        head: Option<&Path>,
        classes: Option<usize>,
    ) -> Result<Self, CollapseError> {
        let file = TensorFile::open(path)?;
        let features = floats(&file, path, "features")?;
        let [rows, d] = features.shape[..] else {
            return Err(shape("features", &features.shape, "(rows, d)"));
        };
        if rows == 0 || d == 0 || u32::try_from(rows).is_err() {
            return Err(shape("features", &features.shape, "1 to 4294967295 rows, and a column"));
        }
        let labels = integers(&file, path, rows)?;
        let other = head.map(TensorFile::open).transpose()?;
        let from = match (&other, head) {
            (Some(other), Some(head)) => Some((other, head)),
            _ => file.tensors().contains_key("head").then_some((&file, path)),
        };
        let (head, bias) = match from {
            Some((file, path)) => {
                let head = matrix(file, path, "head")?;
                if head.cols() != d {
                    let expected = format!("(classes, {d}): a column for each feature");
                    return Err(shape("head", &[head.rows(), head.cols()], &expected));
                }
                let bias = bias(file, path, head.rows())?;
                (Some(head), bias)
            }
            None => (None, None),
        };
        let largest = labels.iter().copied().max().unwrap_or(0);
        let of_labels = usize::try_from(largest).unwrap_or(usize::MAX).saturating_add(1);
        let classes = match (&head, classes) {
            (Some(head), Some(classes)) if head.rows() != classes => {
                let expected = format!("({classes}, {d}): a row for each class");
                return Err(shape("head", &[head.rows(), head.cols()], &expected));
            }
            (Some(head), _) => head.rows(),
            (None, Some(classes)) => classes,
            // Every class has sums, so labels that are identifiers would use too much memory.
            (None, None) if of_labels <= rows.max(1 << 16) => of_labels,
            (None, None) => {
                let row = labels.iter().position(|label| *label == largest).unwrap_or(0) as u64;
                let label = largest.to_string();
                return Err(CollapseError::Label { label, row, last: rows.max(1 << 16) - 1 });
            }
        };
        if let Some(row) = labels.iter().position(|label| *label >= classes as u64) {
            let (label, row) = (labels[row].to_string(), row as u64);
            return Err(CollapseError::Label { label, row, last: classes.saturating_sub(1) });
        }
        let labels = labels.into_iter().map(|label| label as u32).collect();
        Ok(Self { file, path: path.into(), features, labels, head, bias, classes })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Source for FeatureFile {
    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn features(&self) -> usize {
        self.features.shape[1]
    }

    fn precision(&self) -> DType {
        // Checked when opened: a floating-point type.
        self.features.dtype.float().unwrap_or(DType::F32)
    }

    fn block(&self, start: usize, count: usize) -> Result<Mat<f64>, CollapseError> {
        let d = self.features();
        let numbers = decode(&self.file, &self.features, start * d..(start + count) * d);
        Ok(Mat::from_vec(count, d, numbers))
    }

    fn narrow(&self, start: usize, count: usize) -> Option<Cow<'_, [f32]>> {
        let d = self.features();
        let dtype = self.features.dtype.float().filter(|_| self.features.dtype != StoredType::F64);
        Some(match (dtype?, self.file.stored(&self.features, start * d..(start + count) * d)) {
            (DType::F32, Cow::Borrowed(bytes)) if bytes.as_ptr().cast::<f32>().is_aligned() => {
                Cow::Borrowed(dtype::floats(bytes))
            }
            (dtype, bytes) => Cow::Owned(dtype.decode(&bytes)),
        })
    }
}

/// Reads only a matrix (rows, d) of a file, such as out-of-distribution features.
///
/// # Errors
/// As [`FeatureFile::open`].
pub(crate) fn matrix(
    file: &TensorFile,
    path: &Path,
    name: &'static str,
) -> Result<Mat<f64>, CollapseError> {
    let info = floats(file, path, name)?;
    let [rows, cols] = info.shape[..] else {
        return Err(shape(name, &info.shape, "two dimensions"));
    };
    let x = Mat::from_vec(rows, cols, decode(file, &info, 0..rows * cols));
    crate::sums::check_finite(name, x.view(), 0)?;
    Ok(x)
}

impl FeatureFile {
    /// Head and bias of a file without features.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn head_alone(path: &Path) -> Result<(Mat<f64>, Option<Vec<f64>>), CollapseError> {
        let file = TensorFile::open(path)?;
        let head = matrix(&file, path, "head")?;
        let bias = bias(&file, path, head.rows())?;
        Ok((head, bias))
    }

    /// The features of a file without labels.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn unlabelled(path: &Path) -> Result<Mat<f64>, CollapseError> {
        matrix(&TensorFile::open(path)?, path, "features")
    }
}

fn bias(file: &TensorFile, path: &Path, classes: usize) -> Result<Option<Vec<f64>>, CollapseError> {
    if !file.tensors().contains_key("bias") {
        return Ok(None);
    }
    let info = floats(file, path, "bias")?;
    if info.shape != [classes] {
        return Err(shape("bias", &info.shape, &format!("({classes}): one for each class")));
    }
    let bias = decode(file, &info, 0..classes);
    let row = Mat::from_vec(1, classes, bias.clone());
    crate::sums::check_finite("bias", row.view(), 0)?;
    Ok(Some(bias))
}

fn shape(what: &str, found: &[usize], expected: &str) -> CollapseError {
    CollapseError::Shape { what: what.into(), found: found.into(), expected: expected.into() }
}

fn tensor(file: &TensorFile, path: &Path, name: &'static str) -> Result<TensorInfo, CollapseError> {
    file.tensors().get(name).cloned().ok_or_else(|| CollapseError::NoTensor {
        path: path.into(),
        name,
        found: match file.tensors().keys().take(8).cloned().collect::<Vec<_>>() {
            names if names.is_empty() => "none".into(),
            names => names.join(", "),
        },
    })
}

fn floats(file: &TensorFile, path: &Path, name: &'static str) -> Result<TensorInfo, CollapseError> {
    let info = tensor(file, path, name)?;
    match info.dtype.float() {
        Some(_) => Ok(info),
        None => Err(CollapseError::Type {
            path: path.into(),
            name,
            found: info.dtype.name(),
            expected: "F64, F32, F16 or BF16",
        }),
    }
}

/// Some numbers of a tensor of floating-point numbers.
fn decode(file: &TensorFile, info: &TensorInfo, numbers: std::ops::Range<usize>) -> Vec<f64> {
    let bytes = file.stored(info, numbers);
    if info.dtype == StoredType::F64 {
        return bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    }
    let values = info.dtype.float().map(|dtype| dtype.decode(&bytes)).unwrap_or_default();
    values.into_iter().map(f64::from).collect()
}

/// Labels of any integer type, or floating-point numbers that are integers.
fn integers(file: &TensorFile, path: &Path, rows: usize) -> Result<Vec<u64>, CollapseError> {
    let info = tensor(file, path, "labels")?;
    if info.shape != [rows] {
        let expected = format!("({rows}): one for each row of features");
        return Err(shape("labels", &info.shape, &expected));
    }
    let bytes = file.stored(&info, 0..rows);
    let wrong = |row: usize, label: String| CollapseError::Label {
        label,
        row: row as u64,
        last: u32::MAX as usize,
    };
    macro_rules! of {
        ($type:ty) => {{
            let numbers = bytes.as_chunks::<{ size_of::<$type>() }>().0.iter();
            let numbers = numbers.map(|bytes| <$type>::from_le_bytes(*bytes)).enumerate();
            numbers
                .map(|(row, label)| {
                    let known = u32::try_from(label).ok().filter(|label| *label != u32::MAX);
                    known.map(u64::from).ok_or_else(|| wrong(row, label.to_string()))
                })
                .collect()
        }};
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "an unsupported type is an error")]
    match info.dtype {
        StoredType::I64 => of!(i64),
        StoredType::U64 => of!(u64),
        StoredType::I32 => of!(i32),
        StoredType::U32 => of!(u32),
        StoredType::I16 => of!(i16),
        StoredType::U16 => of!(u16),
        StoredType::I8 => of!(i8),
        StoredType::U8 => of!(u8),
        other if other.float().is_some() => {
            let numbers = decode(file, &info, 0..rows).into_iter().enumerate();
            numbers
                .map(|(row, label)| {
                    let fits = label.fract() == 0.0 && (0.0..f64::from(u32::MAX)).contains(&label);
                    if fits { Ok(label as u64) } else { Err(wrong(row, label.to_string())) }
                })
                .collect()
        }
        other => Err(CollapseError::Type {
            path: path.into(),
            name: "labels",
            found: other.name(),
            expected: "integers",
        }),
    }
}
