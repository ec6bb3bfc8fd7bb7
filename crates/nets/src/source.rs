//! Sources of the numbers of a network: random keys, files, functions.

use crate::build::Source;
use crate::{NetError, NetSpec};
use linwright_files::{StoredType, Weights, hex};
use linwright_ops::archive::{self, Header, Tensor, Tensors};
use linwright_ops::{Op, OpError};
use linwright_tensor::{RngKey, Scalar};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Draws every tensor from its own stream under a key.
pub(crate) struct Random(pub(crate) RngKey);

impl<T: Scalar> Source<T> for Random {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>, NetError> {
        let count = shape.iter().product();
        let inputs: usize = shape[1..].iter().product();
        Ok(match shape.len() {
            1 if name.ends_with(".weight") || name.ends_with(".running_var") => {
                vec![T::ONE; count]
            }
            1 => vec![T::ZERO; count],
            _ => self.0.fold(name).stream().normals(count, (2.0 / inputs.max(1) as f64).sqrt()),
        })
    }

    fn operator(&mut self, slot: &str, header: &Header) -> Result<Op<T>, NetError> {
        header.spec.random(header.shape, self.0.fold(slot)).map_err(operator_error(slot))
    }
}

fn operator_error(slot: &str) -> impl FnOnce(OpError) -> NetError {
    move |source| NetError::Operator { slot: slot.into(), source }
}

/// Reads every tensor from the files of a network.
pub(crate) struct Stored<'a> {
    weights: &'a Weights,
    /// Digests of the tensors read, by name.
    used: BTreeMap<String, [u8; 32]>,
}

impl<'a> Stored<'a> {
    pub(crate) fn of(weights: &'a Weights) -> Self {
        Self { weights, used: BTreeMap::new() }
    }

    /// SHA-256 of a description and the tensors read, hexadecimal.
    pub(crate) fn hash(&self, spec: &NetSpec) -> String {
        let description = serde_json::to_vec(spec).unwrap_or_default();
        let mut hash = Sha256::new_with_prefix(&description);
        for (name, digest) in &self.used {
            hash.update(format!("{name}\0"));
            hash.update(digest);
        }
        hex(&hash.finalize())
    }

    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, NetError> {
        let tensor = self.weights.read(name, shape)?;
        self.used.insert(name.to_owned(), tensor.digest);
        Ok(tensor.values)
    }

    fn read_archived<T: Scalar>(&mut self, name: &str) -> Result<Tensor<T>, NetError> {
        let file = self.weights.file_of(name, &[])?;
        let info = &file.tensors()[name];
        if info.dtype == StoredType::U32 {
            let (values, digest) = file.read_indices(name)?;
            self.used.insert(name.to_owned(), digest);
            return Ok(Tensor::Indices(values));
        }
        let shape = info.shape.clone();
        let values = cast(self.read(name, &shape)?);
        Ok(Tensor::Values(shape, values))
    }

    /// The first unused tensor; batch counters are ignored.
    pub(crate) fn unused(&self) -> Option<&str> {
        let counted = |name: &str| name.ends_with(".num_batches_tracked");
        self.weights.names().find(|name| !counted(name) && !self.used.contains_key(*name))
    }
}

fn cast<T: Scalar>(values: Vec<f32>) -> Vec<T> {
    values.into_iter().map(|value| T::from_f64(value.into())).collect()
}

impl<T: Scalar> Source<T> for Stored<'_> {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>, NetError> {
        Ok(cast(self.read(name, shape)?))
    }

    fn operator(&mut self, slot: &str, header: &Header) -> Result<Op<T>, NetError> {
        let (prefix, bias) = (format!("{slot}."), format!("{slot}.bias"));
        let mut tensors = Tensors::new();
        for name in self.weights.names_of(slot).into_iter().filter(|name| *name != bias) {
            let tensor = self.read_archived(&name)?;
            tensors.insert(name.trim_start_matches(&prefix).to_owned(), tensor);
        }
        archive::load(header, tensors).map_err(operator_error(slot))
    }
}

/// Asks a function for every tensor; there are no operators.
pub(crate) struct Asked<F>(pub(crate) F);

impl<T: Scalar, F: FnMut(&str, &[usize]) -> Result<Vec<T>, NetError>> Source<T> for Asked<F> {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>, NetError> {
        (self.0)(name, shape)
    }

    fn operator(&mut self, slot: &str, header: &Header) -> Result<Op<T>, NetError> {
        let found = format!("operator {}", header.spec.kind());
        Err(NetError::layer(slot, found, "a dense weight: its numbers come from a function"))
    }
}
