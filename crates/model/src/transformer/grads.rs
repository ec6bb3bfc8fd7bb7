//! Gradients of all parameters of a decoder.

use super::Transformer;
use crate::config::LINEARS_OF_ATTENTION;
use linwright_ops::{Grads, LinearSlot};

/// Gradients in the order of [`Transformer::for_each_param`].
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerGrads {
    pub(super) embedding: Vec<f32>,
    pub(super) layers: Vec<LayerGrads>,
    pub(super) norm: Vec<f32>,
    pub(super) head: Option<SlotGrads>,
}

/// Gradients of a layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LayerGrads {
    pub(super) norms: [Vec<f32>; 2],
    pub(super) linears: [SlotGrads; 7],
}

/// Gradients of a slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SlotGrads {
    pub(super) op: Grads<f32>,
    pub(super) bias: Option<Vec<f32>>,
}

impl TransformerGrads {
    /// Zeros for every parameter of a decoder.
    #[must_use]
    pub fn zeros(decoder: &Transformer) -> Self {
        let slot = |slot: &LinearSlot| SlotGrads {
            op: slot.zero_grads(),
            bias: slot.bias().map(|bias| vec![0.0; bias.len()]),
        };
        Self {
            embedding: vec![0.0; decoder.embedding.data().len()],
            layers: decoder
                .layers
                .iter()
                .map(|layer| LayerGrads {
                    norms: layer.norms.each_ref().map(|norm| vec![0.0; norm.len()]),
                    linears: layer.linears.each_ref().map(slot),
                })
                .collect(),
            norm: vec![0.0; decoder.norm.len()],
            head: decoder.head.as_ref().map(slot),
        }
    }

    /// Sets all to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.slices_mut().into_iter().for_each(|slice| slice.fill(0.0));
    }

    /// One slice a parameter.
    #[must_use]
    pub fn slices(&self) -> Vec<&[f32]> {
        let mut all: Vec<&[f32]> = vec![&self.embedding];
        for layer in &self.layers {
            let (attention, mlp) = layer.linears.split_at(LINEARS_OF_ATTENTION);
            for (norm, linears) in layer.norms.iter().zip([attention, mlp]) {
                all.push(norm);
                linears.iter().for_each(|linear| linear.push(&mut all));
            }
        }
        all.push(&self.norm);
        self.head.iter().for_each(|head| head.push(&mut all));
        all
    }

    /// One slice a parameter, mutable.
    pub fn slices_mut(&mut self) -> Vec<&mut [f32]> {
        let mut all: Vec<&mut [f32]> = vec![&mut self.embedding];
        for layer in &mut self.layers {
            let (attention, mlp) = layer.linears.split_at_mut(LINEARS_OF_ATTENTION);
            for (norm, linears) in layer.norms.iter_mut().zip([attention, mlp]) {
                all.push(norm);
                linears.iter_mut().for_each(|linear| linear.push_mut(&mut all));
            }
        }
        all.push(&mut self.norm);
        self.head.iter_mut().for_each(|head| head.push_mut(&mut all));
        all
    }
}

impl SlotGrads {
    fn push<'a>(&'a self, all: &mut Vec<&'a [f32]>) {
        all.extend(self.op.iter());
        all.extend(self.bias.as_deref());
    }

    fn push_mut<'a>(&'a mut self, all: &mut Vec<&'a mut [f32]>) {
        all.extend(self.op.iter_mut());
        all.extend(self.bias.as_deref_mut());
    }
}
