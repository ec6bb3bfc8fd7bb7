//! Files of maps: their content, reading and writing.
//!
//! A layer's maps are one safetensors file. Its metadata has the key `maps`: a JSON object with the
//! lists `inp`, `out` and `flat` of maps, each `{"kind", "inp", "options"}`. Tensors are called
//! `ROLE.PLACE.NAME`, such as `flat.0.idx`: indices (`idx`) of any integer type, signs (`sign`) as
//! 1 and -1 in `I8`, matrices (`matrix`) of floating-point numbers. Files of other programs are
//! read if they have this format.

use crate::AttributeError;
use linwright_files::writer::{Planned, header_bytes_with};
use linwright_files::{StoredType, TensorFile, TensorInfo};
use linwright_run::state;
use linwright_tensor::dtype::DType;
use linwright_tensor::{Mat, index_bytes, little_endian_bytes};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Key of the metadata of a file of maps.
const KEY: &str = "maps";

/// One tensor of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Indices of inputs or outputs.
    Indices(Vec<u32>),
    /// Signs, as whether each is minus.
    Signs(Vec<bool>),
    /// A matrix (inp, out).
    Matrix(Mat<f32>),
}

impl Content {
    fn planned(&self, name: String) -> Planned {
        match self {
            Self::Indices(indices) => Planned::indices(name, indices.len()),
            Self::Signs(signs) => {
                let (shape, bytes) = (vec![signs.len()], signs.len() as u64);
                Planned { name, dtype: StoredType::I8, shape, bytes }
            }
            Self::Matrix(matrix) => {
                Planned::values(name, DType::F32, vec![matrix.rows(), matrix.cols()])
            }
        }
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Indices(indices) => Cow::Borrowed(index_bytes(indices)),
            // The bytes of the signed numbers 1 and -1.
            Self::Signs(signs) => {
                Cow::Owned(signs.iter().map(|minus| if *minus { u8::MAX } else { 1 }).collect())
            }
            Self::Matrix(matrix) => Cow::Borrowed(little_endian_bytes(matrix.data())),
        }
    }

    /// Reads a tensor of any integer or floating-point type that such files may have.
    fn read(file: &TensorFile, name: &str, info: &TensorInfo) -> Result<Self, AttributeError> {
        let count: usize = info.shape.iter().product();
        let refused = |found: String, expected: &str| AttributeError::Map {
            kind: name.into(),
            found,
            expected: expected.into(),
        };
        let bytes = || file.stored(info, 0..count);
        let indices = |numbers: Vec<i64>| {
            let indices = numbers.iter().map(|&number| {
                let out_of_range = || refused(format!("index {number}"), "0 to 4294967295");
                u32::try_from(number).map_err(|_| out_of_range())
            });
            Ok(Self::Indices(indices.collect::<Result<_, _>>()?))
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "an unsupported type is an error")]
        match info.dtype {
            StoredType::F32 | StoredType::F16 | StoredType::Bf16 | StoredType::F64 => {
                let &[rows, columns] = info.shape.as_slice() else {
                    return Err(refused(format!("shape {:?}", info.shape), "a matrix (inp, out)"));
                };
                let values = file.read(name, &info.shape)?.values;
                Ok(Self::Matrix(Mat::from_vec(rows, columns, values)))
            }
            StoredType::I8 => {
                let sign = |byte: &u8| match byte {
                    1 => Ok(false),
                    &u8::MAX => Ok(true),
                    other => Err(refused(format!("sign {}", other.cast_signed()), "1 or -1")),
                };
                Ok(Self::Signs(bytes().iter().map(sign).collect::<Result<_, _>>()?))
            }
            StoredType::U16 => indices(
                bytes().as_chunks().0.iter().map(|b| u16::from_le_bytes(*b).into()).collect(),
            ),
            StoredType::I32 => indices(
                bytes().as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect(),
            ),
            StoredType::U32 => indices(
                bytes().as_chunks().0.iter().map(|b| u32::from_le_bytes(*b).into()).collect(),
            ),
            StoredType::I64 => {
                indices(bytes().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect())
            }
            other => Err(refused(
                format!("type {}", other.name()),
                "I64, I32, U32 or U16 for indices, I8 for signs, F32, F16, BF16 or F64 for matrices",
            )),
        }
    }
}

/// A map in a file: its kind, input length, options and tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Kind of the map.
    pub kind: Cow<'static, str>,
    /// Length of its input vectors.
    pub inp: usize,
    /// Its options by name.
    #[serde(default)]
    pub options: BTreeMap<String, usize>,
    /// Its tensors by name.
    #[serde(skip)]
    pub tensors: BTreeMap<String, Content>,
}

impl Parts {
    pub(crate) fn new(kind: &'static str, inp: usize) -> Self {
        let (options, tensors) = (BTreeMap::new(), BTreeMap::new());
        Self { kind: Cow::Borrowed(kind), inp, options, tensors }
    }

    pub(crate) fn with(mut self, name: &str, content: Content) -> Self {
        self.tensors.insert(name.into(), content);
        self
    }

    pub(crate) fn with_option(mut self, name: &str, value: usize) -> Self {
        self.options.insert(name.into(), value);
        self
    }

    /// An error about this map.
    pub(crate) fn refused(&self, found: String, expected: String) -> AttributeError {
        AttributeError::Map { kind: self.kind.to_string(), found, expected }
    }

    pub(crate) fn option(&self, name: &str) -> Result<usize, AttributeError> {
        let missing = || self.refused("none".into(), format!("option {name}"));
        self.options.get(name).copied().ok_or_else(missing)
    }

    pub(crate) fn indices(&self, name: &str) -> Result<Vec<u32>, AttributeError> {
        match self.tensors.get(name) {
            Some(Content::Indices(indices)) => Ok(indices.clone()),
            other => Err(self.lacking(name, "indices", other)),
        }
    }

    pub(crate) fn signs(&self, name: &str) -> Result<Vec<bool>, AttributeError> {
        match self.tensors.get(name) {
            Some(Content::Signs(signs)) => Ok(signs.clone()),
            other => Err(self.lacking(name, "signs", other)),
        }
    }

    /// A matrix with this number of rows.
    pub(crate) fn matrix(&self, name: &str, rows: usize) -> Result<Mat<f32>, AttributeError> {
        match self.tensors.get(name) {
            Some(Content::Matrix(matrix)) if matrix.rows() == rows => Ok(matrix.clone()),
            Some(Content::Matrix(matrix)) => {
                let found = format!("a matrix of {} rows", matrix.rows());
                Err(self.refused(found, format!("{rows} rows, one for each input")))
            }
            other => Err(self.lacking(name, "a matrix", other)),
        }
    }

    fn lacking(&self, name: &str, what: &str, found: Option<&Content>) -> AttributeError {
        let found = match found {
            None => "no tensor",
            Some(Content::Indices(_)) => "indices",
            Some(Content::Signs(_)) => "signs",
            Some(Content::Matrix(_)) => "a matrix",
        };
        self.refused(found.into(), format!("{what} called {name}"))
    }
}

/// The maps of a layer by role, in the order in which they are applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerParts {
    /// Of inputs.
    pub inp: Vec<Parts>,
    /// Of gradients of outputs.
    pub out: Vec<Parts>,
    /// Of the flattened product.
    pub flat: Vec<Parts>,
}

impl LayerParts {
    fn by_role(&mut self) -> [(&'static str, &mut Vec<Parts>); 3] {
        [("inp", &mut self.inp), ("out", &mut self.out), ("flat", &mut self.flat)]
    }

    /// The bytes of a file of these maps, in parts.
    pub(crate) fn encode(mut self) -> Result<Vec<Vec<u8>>, AttributeError> {
        let described =
            serde_json::to_string(&self).map_err(|source| AttributeError::Json { source })?;
        let (mut planned, mut contents) = (Vec::new(), Vec::new());
        for (role, maps) in self.by_role() {
            for (place, map) in maps.iter().enumerate() {
                for (name, content) in &map.tensors {
                    planned.push(content.planned(format!("{role}.{place}.{name}")));
                    contents.push(content.bytes().into_owned());
                }
            }
        }
        let metadata = BTreeMap::from([(KEY.to_owned(), described)]);
        contents.insert(0, header_bytes_with(&planned, &metadata));
        Ok(contents)
    }

    /// Writes a file of these maps.
    ///
    /// # Errors
    /// [`AttributeError::Output`].
    pub fn write(self, path: &Path) -> Result<(), AttributeError> {
        let contents = self.encode()?;
        let parts: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        Ok(state::write_parts(path, &parts)?)
    }

    /// Reads a file of maps.
    ///
    /// # Errors
    /// [`AttributeError::File`], or [`AttributeError::InFile`] for a file in another format.
    pub fn read(path: &Path) -> Result<Self, AttributeError> {
        let file = TensorFile::open_state(path)?;
        Self::of(&file).map_err(|error| error.in_file(path))
    }

    fn of(file: &TensorFile) -> Result<Self, AttributeError> {
        let Some(described) = file.metadata().get(KEY) else {
            return Err(AttributeError::Map {
                kind: "file".into(),
                found: "no description of maps".into(),
                expected: format!("metadata {KEY:?}, as `linwright attribute` writes"),
            });
        };
        let mut parts: Self =
            serde_json::from_str(described).map_err(|source| AttributeError::Json { source })?;
        let mut names = file.tensors().iter();
        names.try_for_each(|(name, info)| parts.place(name, Content::read(file, name, info)?))?;
        Ok(parts)
    }

    /// Assigns a tensor by its name.
    fn place(&mut self, name: &str, content: Content) -> Result<(), AttributeError> {
        let mut words = name.splitn(3, '.');
        let (role, place, tensor) = (words.next(), words.next(), words.next());
        let place: Option<usize> = place.and_then(|place| place.parse().ok());
        let maps = self.by_role().into_iter().find(|(of, _)| Some(*of) == role);
        let map = maps.zip(place).and_then(|((_, maps), place)| maps.get_mut(place));
        match map.zip(tensor) {
            Some((map, tensor)) => {
                map.tensors.insert(tensor.into(), content);
                Ok(())
            }
            None => Err(AttributeError::Map {
                kind: "file".into(),
                found: format!("tensor {:?}", linwright_run::shown(name)),
                expected: "ROLE.PLACE.NAME of a described map, such as flat.0.idx".into(),
            }),
        }
    }
}
