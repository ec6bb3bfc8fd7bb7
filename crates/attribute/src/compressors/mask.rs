//! Masks of the flat gradient: `y = vec G[index]`, random or learned.
//!
//! Only the masked entries are computed, each a dot product over the rows of the example. Source:
//! GraSS, arXiv:2505.18976; random masks are not scaled, as there.

use super::{Compressor, Layer, Learns, Masked, Role};
use crate::{AttributeError, LayerMap};

pub(super) struct RandomMask;

impl Compressor for RandomMask {
    const NAME: &'static str = "mask";
    const ABOUT: &'static str = "random entries of the gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        layer.flat(vec![layer.random_mask(Role::Flat, layer.size()?)?])
    }
}

pub(super) struct SelectiveMask;

impl Compressor for SelectiveMask {
    const NAME: &'static str = "selective_mask";
    const ABOUT: &'static str = "learned entries of the gradient";
    const LEARNS: Learns = Learns::Positions { of: Masked::Gradient, blown_up: false };

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        layer.flat(vec![layer.selective_mask(Role::Flat, layer.size()?)?])
    }
}
