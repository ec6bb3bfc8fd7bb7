//! Sums as safetensors files, so that shards and later batches can be merged.
//!
//! Tensors `counts` (K, U64), `sums` and `sums_lost` (K, d), `squares` and `squares_lost` (K), and,
//! with scatter, `scatter` and `scatter_lost` (the lower triangle, row by row), all F64. The parts
//! of a sum are its rounded value and what rounding lost. Metadata hold the type of the least
//! precise features, and the digest of the file.

use crate::sums::{Parts, Scatter};
use crate::{ClassSums, CollapseError, Keep};
use linwright_files::writer::{Planned, sealed_header};
use linwright_files::{StoredType, TensorFile};
use linwright_run::atomic::{AtomicFile, Replace};
use linwright_tensor::dtype::DType;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;

/// Metadata key for the kind of the file.
const KIND: &str = "linwright";
/// What it says.
const SUMS: &str = "class-sums 2";
/// Key of the type of the least precise features.
const PRECISION: &str = "precision";
/// Their names.
const PRECISIONS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::Bf16];
/// Numbers that are encoded at a time.
const PIECE: usize = 1 << 16;
/// Largest size of sums in bytes, beyond any practical use.
const MOST: u128 = 1 << 45;

impl ClassSums {
    /// Writes the sums, settled, to a file, which appears when it is committed.
    ///
    /// # Errors
    /// [`CollapseError::File`] if it cannot be written.
    pub fn written(self, path: &Path, replace: Replace) -> Result<AtomicFile, CollapseError> {
        let sums = self.settled();
        let (classes, d) = (sums.classes(), sums.features);
        let values = |name: &str, shape| Planned::values(name.into(), DType::F64, shape);
        let mut planned = vec![Planned {
            name: "counts".into(),
            dtype: StoredType::U64,
            shape: vec![classes],
            bytes: 8 * classes as u64,
        }];
        for (name, shape) in [("sums", vec![classes, d]), ("squares", vec![classes])] {
            planned.push(values(name, shape.clone()));
            planned.push(values(&format!("{name}_lost"), shape));
        }
        if sums.scatter.is_some() {
            planned.push(values("scatter", vec![triangle(d)]));
            planned.push(values("scatter_lost", vec![triangle(d)]));
        }
        let precision = StoredType::from(sums.precision).name().to_owned();
        let metadata = BTreeMap::from([(KIND.into(), SUMS.into()), (PRECISION.into(), precision)]);
        let header = sealed_header(&planned, metadata, |add| {
            let Ok(()) = sums.content::<Infallible>(&mut |bytes| {
                add(bytes);
                Ok(())
            });
        });
        let failed = |error| CollapseError::File(linwright_files::FileError::Output(error));
        let mut file = AtomicFile::create(path, replace).map_err(failed)?;
        file.write(&header).map_err(failed)?;
        sums.content(&mut |bytes| file.write(bytes)).map_err(failed)?;
        Ok(file)
    }

    /// The bytes of all tensors, in their order.
    fn content<E>(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        for counts in self.counts.chunks(PIECE) {
            let bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
            put(&bytes)?;
        }
        let mut numbers = |numbers: &[f64]| {
            numbers.chunks(PIECE).try_for_each(|piece| {
                let bytes: Vec<u8> = piece.iter().flat_map(|number| number.to_le_bytes()).collect();
                put(&bytes)
            })
        };
        for parts in [&self.sums, &self.squares] {
            numbers(&parts.high)?;
            numbers(&parts.low)?;
        }
        let d = self.features;
        if let Some(scatter) = &self.scatter {
            for part in [&scatter.sums.high, &scatter.sums.low] {
                (0..d).try_for_each(|i| numbers(&part[i * d..=i * d + i]))?;
            }
        }
        Ok(())
    }

    /// Whether the metadata of a file say that it holds sums.
    #[must_use]
    pub fn is_stored(path: &Path) -> bool {
        let file = TensorFile::open(path);
        file.is_ok_and(|file| file.metadata().get(KIND).map(String::as_str) == Some(SUMS))
    }

    /// Reads sums from a file.
    ///
    /// # Errors
    /// [`CollapseError::File`] if it cannot be read, [`CollapseError::State`] if it holds no sums.
    pub fn read(path: &Path) -> Result<Self, CollapseError> {
        let file = TensorFile::open(path)?;
        let wrong = |reason: String| CollapseError::State { path: path.into(), reason };
        if file.metadata().get(KIND).map(String::as_str) != Some(SUMS) {
            return Err(wrong(format!("its metadata do not name {SUMS}")));
        }
        file.check_seal().map_err(wrong)?;
        let wrong = |reason: String| CollapseError::State { path: path.into(), reason };
        let named = |dtype: &DType| Some(StoredType::from(*dtype).name());
        let precision = file.metadata().get(PRECISION).map(String::as_str);
        let Some(precision) = PRECISIONS.into_iter().find(|dtype| named(dtype) == precision) else {
            return Err(wrong(format!("precision {precision:?}, expected F64, F32, F16 or BF16")));
        };
        let shape = |name: &str| -> Result<Vec<usize>, CollapseError> {
            let info = file.tensors().get(name);
            Ok(info.ok_or_else(|| wrong(format!("there is no tensor {name}")))?.shape.clone())
        };
        let [classes, d] = shape("sums")?[..] else {
            return Err(wrong("sums are not two-dimensional".into()));
        };
        if classes == 0 || d == 0 || 16 * (classes as u128 + d as u128) * d as u128 > MOST {
            return Err(wrong(format!("sums of {classes} classes and {d} features")));
        }
        let read = |name: &str, dtype: StoredType, expected: &[usize]| {
            let found = shape(name)?;
            let info = &file.tensors()[name];
            if found != expected || info.dtype != dtype {
                let found = format!("{} {found:?}", info.dtype.name());
                let expected = format!("{} {expected:?}", dtype.name());
                return Err(wrong(format!("tensor {name} is {found}, expected {expected}")));
            }
            Ok(file.stored(info, 0..expected.iter().product()))
        };
        let counts = read("counts", StoredType::U64, &[classes])?;
        let counts: Vec<u64> =
            counts.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        if counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).is_none() {
            return Err(wrong("counts are too large".into()));
        }
        let numbers = |name: &str, shape: &[usize]| -> Result<Vec<f64>, CollapseError> {
            let bytes = read(name, StoredType::F64, shape)?;
            let numbers: Vec<f64> =
                bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            match numbers.iter().position(|number| !number.is_finite()) {
                Some(at) => Err(wrong(format!("number {at} of {name} is {}", numbers[at]))),
                None => Ok(numbers),
            }
        };
        let parts = |name: &str, shape: &[usize]| -> Result<Parts, CollapseError> {
            let (high, low) = (numbers(name, shape)?, numbers(&format!("{name}_lost"), shape)?);
            Ok(Parts { high, low })
        };
        let keep =
            if file.tensors().contains_key("scatter") { Keep::Scatter } else { Keep::Traces };
        let mut sums = Self::new(classes, d, keep);
        sums.precision = precision;
        sums.counts = counts;
        sums.sums = parts("sums", &[classes, d])?;
        sums.squares = parts("squares", &[classes])?;
        if let Some(Scatter { sums, .. }) = &mut sums.scatter {
            let stored = parts("scatter", &[triangle(d)])?;
            let mut next = 0;
            for i in 0..d {
                let own = i * d..=i * d + i;
                sums.high[own.clone()].copy_from_slice(&stored.high[next..=next + i]);
                sums.low[own].copy_from_slice(&stored.low[next..=next + i]);
                next += i + 1;
            }
        }
        Ok(sums)
    }
}

/// Numbers of a lower triangle.
fn triangle(d: usize) -> usize {
    d * (d + 1) / 2
}
