//! The builder, to which layers add their steps.

use crate::affine::Affine;
use crate::step::Step;
use crate::{Extent, NetError};
use linwright_ops::archive::Header;
use linwright_ops::{Dense, InputId, LinearSlot, Op, OpSpec, Place, Shape, SiteId, SlotRole};
use linwright_tensor::{Mat, Scalar};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of parameters of a network: descriptions are untrusted input.
const MOST_PARAMETERS: usize = 1 << 31;

/// Source of the numbers of a network.
pub(crate) trait Source<T: Scalar> {
    /// The numbers of a tensor.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>, NetError>;

    /// The operator of a slot, which is not a dense weight.
    fn operator(&mut self, slot: &str, header: &Header) -> Result<Op<T>, NetError>;
}

/// One stage of a network: a step with the number and name of its layer.
#[derive(Debug)]
pub(crate) struct Stage<T: Scalar> {
    pub(crate) label: String,
    pub(crate) step: Box<dyn Step<T>>,
}

impl<T: Scalar> Clone for Stage<T> {
    fn clone(&self) -> Self {
        Self { label: self.label.clone(), step: self.step.clone_step() }
    }
}

/// A slot to be built.
pub(crate) struct SlotPlan<'a> {
    /// Its name.
    pub(crate) id: &'a str,
    /// The input that it reads.
    pub(crate) reads: &'a str,
    pub(crate) role: SlotRole,
    /// Shape of its dense weight in files, features out first.
    pub(crate) shape: Vec<usize>,
    pub(crate) bias: bool,
}

/// Builds the steps of layers whose description was checked.
pub(crate) struct Builder<'a, T: Scalar> {
    /// Extent before the current layer.
    pub(crate) extent: Extent,
    source: &'a mut dyn Source<T>,
    operators: BTreeMap<&'a str, &'a OpSpec>,
    stages: Vec<Stage<T>>,
    layers: usize,
    tensors: BTreeSet<String>,
    numbers: usize,
    /// Number and name of the current layer.
    pub(crate) label: String,
}

impl<'a, T: Scalar> Builder<'a, T> {
    /// Builds nothing yet, from an input of this extent.
    pub(crate) fn new(
        extent: Extent,
        operators: &'a BTreeMap<String, OpSpec>,
        source: &'a mut dyn Source<T>,
    ) -> Self {
        Self {
            extent,
            source,
            operators: operators.iter().map(|(slot, op)| (slot.as_str(), op)).collect(),
            stages: Vec::new(),
            layers: 0,
            tensors: BTreeSet::new(),
            numbers: 0,
            label: String::new(),
        }
    }

    /// The stages, if every operator has its slot.
    pub(crate) fn finish(self) -> Result<Vec<Stage<T>>, NetError> {
        match self.operators.keys().next() {
            Some(slot) => Err(NetError::layer(slot, "an operator", "a slot of this name")),
            None => Ok(self.stages),
        }
    }

    /// Adds a step.
    pub(crate) fn push(&mut self, step: impl Step<T> + 'static) {
        self.layers += usize::from(!step.slots().is_empty());
        self.stages.push(Stage { label: self.label.clone(), step: Box::new(step) });
    }

    /// The numbers of a tensor.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>, NetError> {
        self.count(name, shape)?;
        self.source.tensor(name, shape)
    }

    /// Counts the numbers of a tensor before they are allocated.
    fn count(&mut self, name: &str, shape: &[usize]) -> Result<(), NetError> {
        if !self.tensors.insert(name.to_owned()) {
            let found = format!("a second tensor {name}");
            return Err(NetError::layer(&self.label, found, "another name"));
        }
        let count = shape.iter().try_fold(1usize, |product, side| product.checked_mul(*side));
        let sum = count.and_then(|count| self.numbers.checked_add(count));
        self.numbers = sum.filter(|sum| *sum <= MOST_PARAMETERS).ok_or_else(|| {
            let found = format!("{name} with shape {shape:?}");
            let expected = format!("at most {MOST_PARAMETERS} parameters in all");
            NetError::layer(&self.label, found, expected)
        })?;
        Ok(())
    }

    /// Scale and shift of the channels.
    pub(crate) fn affine(&mut self, name: &str) -> Result<Affine<T>, NetError> {
        let channels = [self.extent.channels];
        let scale = self.tensor(&format!("{name}.weight"), &channels)?;
        let shift = self.tensor(&format!("{name}.bias"), &channels)?;
        Ok(Affine { name: name.into(), scale, shift })
    }

    /// A slot, with the operator in the description, or a dense weight.
    pub(crate) fn slot(&mut self, plan: SlotPlan<'_>) -> Result<LinearSlot<T>, NetError> {
        let SlotPlan { id, reads, role, shape, bias } = plan;
        let (out, inp) = (shape[0], shape[1..].iter().product());
        let weight = format!("{id}.weight");
        let op = match self.operators.remove(id) {
            Some(spec) => {
                let header = Header { spec: spec.clone(), shape: Shape { out, inp } };
                self.count(
                    &weight,
                    &[usize::try_from(spec.numbers(header.shape)).unwrap_or(usize::MAX)],
                )?;
                self.source.operator(id, &header)?
            }
            None => {
                let weight = self.tensor(&weight, &shape)?;
                Op::Linear(Box::new(Dense::new(Mat::from_vec(out, inp, weight))))
            }
        };
        let bias = match bias {
            true => Some(self.tensor(&format!("{id}.bias"), &[out])?),
            false => None,
        };
        let place = Place {
            reads: InputId(format!("{reads}.input")),
            role,
            layer: Some(self.layers),
            stage: Some(self.stages.len()),
        };
        Ok(LinearSlot::new(SiteId(id.into()), place, op, bias))
    }
}
