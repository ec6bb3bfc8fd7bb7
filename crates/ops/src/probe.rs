//! Probes: the interface for capturing activations and gradients.

use crate::SiteId;
use linwright_tensor::MatRef;

/// Receives inputs and outputs of the slots of a model.
pub trait Probe {
    /// Whether to show this site; others cost nothing.
    fn wants(&self, site: &SiteId) -> bool;

    /// The input `x` (rows, inp) of a slot and its output `y` (rows, out), bias included.
    fn on_forward(&mut self, site: &SiteId, x: MatRef<'_, f32>, y: MatRef<'_, f32>);

    /// Whether everything needed was captured, so that the pass may end early. Called after the
    /// attention of each layer; the output of the pass is then unspecified.
    fn satisfied(&self) -> bool {
        false
    }

    /// The input `x` (rows, inp) of a slot and the gradient `dy` (rows, out) of its output.
    fn on_backward(&mut self, _site: &SiteId, _x: MatRef<'_, f32>, _dy: MatRef<'_, f32>) {}
}

/// A probe that captures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _x: MatRef<'_, f32>, _y: MatRef<'_, f32>) {}
}
