//! GraSS: a mask of the flat gradient, then an SJLT: `y = S vec G[index]`.
//!
//! The mask selects `blow_up · size` entries; only these entries of the gradient are computed.
//! Source: Hu et al. 2025, arXiv:2505.18976. If the mask selects at most `size` entries, there is
//! no second stage.

use super::{Compressor, Layer, Learns, Masked, Role};
use crate::maps::VectorMap;
use crate::{AttributeError, LayerMap};

/// A mask, then an SJLT.
fn sketched(layer: &Layer<'_>, mask: Box<dyn VectorMap>) -> Result<LayerMap, AttributeError> {
    let second = layer.second_stage(mask.out())?;
    layer.flat([mask].into_iter().chain(second).collect())
}

pub(super) struct Grass;

impl Compressor for Grass {
    const NAME: &'static str = "grass";
    const ABOUT: &'static str = "random entries of the gradient, then sparse random signs";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        sketched(layer, layer.random_mask(Role::Flat, layer.blown_up()?)?)
    }
}

pub(super) struct SelectiveGrass;

impl Compressor for SelectiveGrass {
    const NAME: &'static str = "selective_grass";
    const ABOUT: &'static str = "learned entries of the gradient, then sparse random signs";
    const LEARNS: Learns = Learns::Positions { of: Masked::Gradient, blown_up: true };

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        sketched(layer, layer.selective_mask(Role::Flat, layer.blown_up()?)?)
    }
}
