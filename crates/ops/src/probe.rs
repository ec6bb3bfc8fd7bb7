//! The one way to see activations.

use crate::SiteId;
use linwright_tensor::MatRef;

/// Sees what goes through the slots of a model.
pub trait Probe {
    /// Whether this site is of interest; others cost nothing.
    fn wants(&self, site: &SiteId) -> bool;

    /// The input `x` (rows, inp) of a slot and its output `y` (rows, out), bias included.
    fn on_forward(&mut self, site: &SiteId, x: MatRef<'_, f32>, y: MatRef<'_, f32>);

    /// Whether everything of interest was seen, so that the pass may end early. Asked after the
    /// attention of each layer; what the pass would have left behind is then unspecified.
    fn satisfied(&self) -> bool {
        false
    }

    /// The input `x` (rows, inp) of a slot and the gradient `dy` (rows, out) of its output.
    fn on_backward(&mut self, _site: &SiteId, _x: MatRef<'_, f32>, _dy: MatRef<'_, f32>) {}
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _x: MatRef<'_, f32>, _y: MatRef<'_, f32>) {}
}
