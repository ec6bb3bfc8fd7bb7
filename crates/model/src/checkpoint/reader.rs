//! Passes weights and operators of weight files to a transformer.

use super::error::CheckpointError;
use super::native::{self, Headers};
use super::precision::Precision;
use crate::families::Family;
use crate::transformer::{Held, Orientation, TensorSource};
use linwright_files::{CONFIG, Placed, StoredType, Weights};
use linwright_ops::archive::{self, Tensor, Tensors};
use linwright_ops::{Op, OpSpec, Shape, SiteId};
use linwright_tensor::Shelf;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Largest dense size of a site in numbers: ten times the largest known one. An operator without a
/// dense weight is bounded by the contents of its file, see [`archive::load`].
const SITE_NUMBERS: usize = 1 << 33;

/// Type name, shape and digest of a tensor of the model.
pub(super) type Used = BTreeMap<String, (&'static str, Vec<usize>, [u8; 32])>;

/// Passes weights and operators from the weight files to the transformer.
pub(super) struct Reader<'a> {
    dir: &'a Path,
    weights: &'a Weights,
    family: &'static Family,
    headers: Headers,
    pub(super) precision: Precision,
    /// The file for weights that cannot stay in theirs, of a model larger than memory.
    pub(super) shelf: Option<&'a Shelf>,
    used: Used,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        dir: &'a Path,
        weights: &'a Weights,
        family: &'static Family,
        headers: Headers,
    ) -> Self {
        let (precision, used) = (Precision::F32, Used::new());
        Self { dir, weights, family, headers, precision, shelf: None, used }
    }

    /// Whether there is a tensor of this name, or an operator in its place.
    pub(super) fn has(&self, name: &str) -> bool {
        let replaced = |site: &str| self.headers.contains_key(&SiteId(site.into()));
        self.weights.has(&self.stored(name)) || name.strip_suffix(".weight").is_some_and(replaced)
    }

    /// Whether two tensors exist and hold the same numbers in the same type.
    pub(super) fn same(&self, a: &str, b: &str) -> bool {
        self.weights.same(&self.stored(a), &self.stored(b))
    }

    fn stored(&self, name: &str) -> String {
        stored_name(self.family, name, |name| self.weights.has(name))
    }

    /// The used tensors, once every header has been matched to a site.
    pub(super) fn finish(self) -> Result<Used, CheckpointError> {
        match self.headers.into_keys().next() {
            None => Ok(self.used),
            Some(site) => Err(CheckpointError::Native {
                path: self.dir.join(CONFIG),
                place: format!("{}.sites.{site}", native::KEY),
                reason: "names a site that this model does not have".into(),
            }),
        }
    }

    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let stored = self.stored(name);
        let tensor = self.weights.read(&stored, shape)?;
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored, entry);
        Ok(tensor.values)
    }

    /// Some rows of a tensor, which are not recorded as used.
    pub(super) fn some_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        let stored = self.stored(name);
        Ok(self.weights.file_of(&stored, &shape)?.read_rows(&stored, shape, rows)?)
    }

    /// Whether a site holds an operator other than a dense matrix.
    pub(super) fn is_structured(&self, site: &SiteId) -> bool {
        self.headers.get(site).is_some_and(|header| !matches!(header.spec, OpSpec::Dense(_)))
    }

    /// A matrix that stays in its file, or goes to the shelf.
    fn offloaded(
        &mut self,
        stored: &str,
        shape: &[usize],
        shelf: &Shelf,
    ) -> Result<Held, CheckpointError> {
        let Some(tensor) = self.weights.placed(stored, shape)? else {
            let tensor = self.weights.read(stored, shape)?;
            let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
            self.used.insert(stored.into(), entry);
            let mapped = shelf.put(&tensor.values).map_err(unshelved(stored))?;
            return Ok(mapped.map_or(Held::Full(tensor.values), Held::MappedFull));
        };
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored.into(), entry);
        Ok(match tensor.numbers {
            Placed::Full(values) => Held::MappedFull(values),
            Placed::Half(of, bits) => Held::MappedHalf(of, bits),
        })
    }

    /// An operator on the shelf, if there is one.
    fn shelved(&self, site: &SiteId, mut op: Op<f32>) -> Result<Op<f32>, CheckpointError> {
        if let Some(shelf) = self.shelf {
            op.map_mut().shelve(shelf).map_err(unshelved(&site.0))?;
        }
        Ok(op)
    }

    /// Numbers in `f32`, rounded to a 16-bit type if the model is requested in one.
    fn read_rounded(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let Some(half) = self.precision.rounding() else { return self.read(name, shape) };
        let stored = self.stored(name);
        let tensor = self.weights.read_half(&stored, shape, half)?;
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored, entry);
        let mut values = vec![0.0; tensor.bits.len()];
        half.widen(&tensor.bits, &mut values);
        Ok(values)
    }

    fn read_archived(&mut self, name: &str) -> Result<Tensor<f32>, CheckpointError> {
        let file = self.weights.file_of(name, &[])?;
        let info = &file.tensors()[name];
        if info.dtype == StoredType::U32 {
            let (values, digest) = file.read_indices(name)?;
            self.used.insert(name.into(), (info.dtype.name(), info.shape.clone(), digest));
            return Ok(Tensor::Indices(values));
        }
        let shape = info.shape.clone();
        let values = self.read_rounded(name, &shape)?;
        Ok(Tensor::Values(shape, values))
    }
}

impl TensorSource for Reader<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        self.read_rounded(name, shape)
    }

    fn matrix(&mut self, name: &str, shape: &[usize]) -> Result<Held, CheckpointError> {
        let stored = self.stored(name);
        // Vectors are always held in f32.
        if let Some(shelf) = self.shelf.filter(|_| shape.len() >= 2) {
            return self.offloaded(&stored, shape, shelf);
        }
        let dtype = self.weights.info(&stored).and_then(|info| info.dtype.float());
        let Some(of) = self.precision.half(shape, dtype) else {
            return self.read(name, shape).map(Held::Full);
        };
        let tensor = self.weights.read_half(&stored, shape, of)?;
        let entry = (StoredType::from(tensor.dtype).name(), shape.to_vec(), tensor.digest);
        self.used.insert(stored, entry);
        Ok(Held::Half(of, tensor.bits))
    }

    fn operator(
        &mut self,
        site: &SiteId,
        shape: Shape,
        orientation: Orientation,
    ) -> Result<Op<f32>, CheckpointError> {
        let Shape { out, inp } = shape;
        let header = match self.headers.remove(site) {
            Some(header) if header.shape != shape || out * inp > SITE_NUMBERS => {
                return Err(CheckpointError::Native {
                    path: self.dir.join(CONFIG),
                    place: format!("{}.sites.{site}", native::KEY),
                    reason: format!(
                        "maps {} to {} features, the configuration requires {inp} to {out}",
                        header.shape.inp, header.shape.out
                    ),
                });
            }
            Some(header) if !matches!(header.spec, OpSpec::Dense(_)) => header,
            _ => {
                let weight = self.matrix(&format!("{site}.weight"), &orientation.stored(shape))?;
                return self.shelved(site, orientation.dense(shape, weight));
            }
        };
        let bias = format!("{site}.bias");
        let mut tensors = Tensors::new();
        for name in self.weights.names_of(&site.0).into_iter().filter(|name| *name != bias) {
            tensors.insert(name[site.0.len() + 1..].to_owned(), self.read_archived(&name)?);
        }
        let op = archive::load(&header, tensors)
            .map_err(|source| CheckpointError::Operator { site: site.clone(), source })?;
        self.shelved(site, op)
    }
}

/// The error for weights that cannot be moved to the shelf.
fn unshelved(name: &str) -> impl FnOnce(std::io::Error) -> CheckpointError {
    move |source| CheckpointError::Shelf { name: name.to_owned(), source }
}

/// The stored name of a tensor: files of the bare model omit its prefix, and some write parts of
/// names differently.
pub(super) fn stored_name(family: &Family, name: &str, has: impl Fn(&str) -> bool) -> String {
    let bare = name.strip_prefix(family.names.prefix);
    for name in [Some(name), bare].into_iter().flatten() {
        if has(name) {
            return name.into();
        }
        for (found, meant) in family.names.variants {
            let variant = name.replace(meant, found);
            if has(&variant) {
                return variant;
            }
        }
    }
    name.into()
}
