//! Operators of slots in files: their specification in the metadata, their numbers as tensors under
//! the name of the slot.

use super::{Checkpoint, Numbers, Weight};
use crate::error::MoleculeError;
use crate::tensornet::of_slot;
use linwright_ops::archive::{self, Header, Tensor, Tensors};
use linwright_ops::{LinearSlot, Op, OpSpec, Shape};
use linwright_tensor::Scalar;

impl Checkpoint {
    /// The operator of a slot of this shape; none if it has a dense weight.
    ///
    /// # Errors
    /// [`MoleculeError::Operator`] for tensors that do not fit its specification.
    pub fn operator<T: Scalar>(
        &self,
        site: &str,
        shape: Shape,
    ) -> Result<Option<Op<T>>, MoleculeError> {
        let Some(spec) = self.operators.get(site) else { return Ok(None) };
        let (prefix, bias) = (format!("{site}."), format!("{site}.bias"));
        let own = self.tensors.range(prefix.clone()..);
        let own = own.take_while(|(name, _)| name.starts_with(&prefix));
        let own = own.filter(|(name, _)| **name != bias);
        let tensors: Tensors<T> =
            own.map(|(name, weight)| (name[prefix.len()..].to_owned(), archived(weight))).collect();
        let header = Header { spec: spec.clone(), shape };
        archive::load(&header, tensors).map(Some).map_err(of_slot(site))
    }

    /// Replaces the tensors of a slot in the file by those of the slot.
    ///
    /// # Errors
    /// [`MoleculeError::Operator`] for an operator that cannot be stored.
    pub fn put_slot(&mut self, slot: &LinearSlot) -> Result<(), MoleculeError> {
        let site = &slot.id().0;
        let (header, tensors) = archive::save(slot.op()).map_err(of_slot(site))?;
        let prefix = format!("{site}.");
        self.tensors.retain(|name, _| !name.starts_with(&prefix));
        self.operators.remove(site);
        if !matches!(header.spec, OpSpec::Dense(_)) {
            self.operators.insert(site.clone(), header.spec);
        }
        let bias = slot.bias().map(|bias| (vec![bias.len()], bias.to_vec()));
        let bias = bias.map(|(shape, bias)| ("bias".to_owned(), Tensor::Values(shape, bias)));
        for (name, tensor) in tensors.into_iter().chain(bias) {
            let (shape, numbers) = match tensor {
                Tensor::Values(shape, values) => (shape, Numbers::F32(values)),
                Tensor::Indices(values) => (vec![values.len()], Numbers::U32(values)),
            };
            self.tensors.insert(format!("{prefix}{name}"), Weight { shape, numbers });
        }
        Ok(())
    }
}

/// A tensor of a file as a tensor of an archive.
fn archived<T: Scalar>(weight: &Weight) -> Tensor<T> {
    match &weight.numbers {
        Numbers::U32(values) => Tensor::Indices(values.clone()),
        Numbers::F32(_) | Numbers::F64(_) => {
            let values = weight.to_f64().into_iter().map(T::from_f64);
            Tensor::Values(weight.shape.clone(), values.collect())
        }
    }
}
