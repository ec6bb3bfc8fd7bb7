//! Gradients of all parameters of a transformer.

use super::Transformer;
use super::weights::{NormWeights, TableWeights};
use crate::parts::{BranchOf, Convert, LayerOf, Part, Parts};
use linwright_ops::{Grads, LinearSlot};
use std::convert::Infallible;

/// Gradients in the order of [`Transformer::for_each_param`].
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerGrads {
    pub(super) parts: Parts<Vec<f32>, NormGrads, SlotGrads>,
}

/// Gradients of attention or MLP.
pub(super) type BranchGrads = BranchOf<NormGrads, SlotGrads>;
/// Gradients of a layer.
pub(super) type LayerGrads = LayerOf<NormGrads, SlotGrads>;

/// Gradients of a norm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NormGrads {
    pub(super) weight: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
    /// Length of one stored tensor.
    part: usize,
}

/// Gradients of a slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SlotGrads {
    pub(super) op: Grads<f32>,
    pub(super) bias: Option<Vec<f32>>,
}

/// Zero gradients for every parameter.
struct Zeros;

impl Convert<&TableWeights, &NormWeights, &LinearSlot> for Zeros {
    type Table = Vec<f32>;
    type Norm = NormGrads;
    type Slot = SlotGrads;
    type Error = Infallible;

    fn table(&mut self, table: &TableWeights) -> Result<Vec<f32>, Infallible> {
        Ok(vec![0.0; table.trained().map_or(0, |values| values.data().len())])
    }

    fn norm(&mut self, norm: &NormWeights) -> Result<NormGrads, Infallible> {
        let zeros = |values: &Option<Vec<f32>>| values.as_ref().map(|v| vec![0.0; v.len()]);
        let part = norm.site.features / norm.site.parts;
        Ok(NormGrads { weight: zeros(&norm.weight), bias: zeros(&norm.bias), part })
    }

    fn slot(&mut self, slot: &LinearSlot, _: Option<usize>) -> Result<SlotGrads, Infallible> {
        let bias = slot.bias().map(|bias| vec![0.0; bias.len()]);
        Ok(SlotGrads { op: slot.zero_grads(), bias })
    }
}

impl TransformerGrads {
    /// Zero gradients for every parameter of a transformer.
    #[must_use]
    pub fn zeros(model: &Transformer) -> Self {
        match model.weights.as_refs().convert(&mut Zeros) {
            Ok(parts) => Self { parts },
            Err(never) => match never {},
        }
    }

    /// Sets all gradients to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.slices_mut().into_iter().for_each(|slice| slice.fill(0.0));
    }

    /// One slice per parameter.
    #[must_use]
    pub fn slices(&self) -> Vec<&[f32]> {
        let mut slices: Vec<&[f32]> = Vec::new();
        for part in self.parts.each() {
            match part {
                // Weights in 16 bits have no gradients.
                Part::Table(table) if table.is_empty() => {}
                Part::Table(table) => slices.push(table),
                Part::Norm(norm) => {
                    for values in [&norm.weight, &norm.bias].into_iter().flatten() {
                        slices.extend(values.chunks(norm.part));
                    }
                }
                Part::Slot(slot) => {
                    slices.extend(slot.op.iter());
                    slices.extend(slot.bias.as_deref());
                }
            }
        }
        slices
    }

    /// One mutable slice per parameter.
    pub fn slices_mut(&mut self) -> Vec<&mut [f32]> {
        let mut slices: Vec<&mut [f32]> = Vec::new();
        for part in self.parts.each_mut() {
            match part {
                // Weights in 16 bits have no gradients.
                Part::Table(table) if table.is_empty() => {}
                Part::Table(table) if table.is_empty() => {}
                Part::Table(table) => slices.push(table),
                Part::Norm(norm) => {
                    for values in [&mut norm.weight, &mut norm.bias].into_iter().flatten() {
                        slices.extend(values.chunks_mut(norm.part));
                    }
                }
                Part::Slot(slot) => {
                    slices.extend(slot.op.iter_mut());
                    slices.extend(slot.bias.as_deref_mut());
                }
            }
        }
        slices
    }
}
