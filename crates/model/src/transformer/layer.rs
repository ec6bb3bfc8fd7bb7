//! The weights of one layer.

use super::{Part, PartMut};
use crate::config::{LINEARS_OF_ATTENTION, NORMS};
use linwright_ops::LinearSlot;

/// Norms and linears of one layer.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// From zero.
    pub(super) index: usize,
    /// Weights of the norms before attention and before the MLP (hidden).
    pub(super) norms: [Vec<f32>; 2],
    /// Query, key, value, output, gate, up, down.
    pub(super) linears: [LinearSlot; 7],
}

impl Layer {
    pub(super) fn walk<'a>(&'a self, visit: &mut dyn FnMut(Part<'a, '_>)) {
        let mut norms = NORMS.iter().zip(&self.norms);
        for (index, slot) in self.linears.iter().enumerate() {
            if index % LINEARS_OF_ATTENTION == 0
                && let Some((name, norm)) = norms.next()
            {
                let name = format!("model.layers.{}.{name}", self.index);
                visit(Part::Tensor(&name, &[norm.len()], norm));
            }
            visit(Part::Slot(slot));
        }
    }

    pub(super) fn walk_mut<'a>(&'a mut self, visit: &mut dyn FnMut(PartMut<'a, '_>)) {
        let mut norms = NORMS.iter().zip(&mut self.norms);
        for (index, slot) in self.linears.iter_mut().enumerate() {
            if index % LINEARS_OF_ATTENTION == 0
                && let Some((name, norm)) = norms.next()
            {
                let name = format!("model.layers.{}.{name}", self.index);
                visit(PartMut::Tensor(&name, norm));
            }
            visit(PartMut::Slot(slot));
        }
    }
}
