//! FactGraSS: masks of the two factors of a gradient, then an SJLT of the flattened sub-block.
//!
//! `√(blow_up · size)` rows and columns are selected, so it is GraSS with a mask that is a product
//! of sets. Only the selected inputs are kept for the backward pass. Source: Hu et al. 2025,
//! arXiv:2505.18976. Layers with fewer rows or columns keep all of them; if the sub-block has at
//! most `size` numbers, there is no second stage.

use super::{Compressor, Layer, Learns, Masked, Role};
use crate::{AttributeError, LayerMap};

pub(super) struct FactGrass;

impl Compressor for FactGrass {
    const NAME: &'static str = "factgrass";
    const ABOUT: &'static str = "random rows and columns of the gradient, then sparse random signs";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let side = layer.side(layer.blown_up()?)?;
        let (inp, out) = (layer.random_mask(Role::Inp, side)?, layer.random_mask(Role::Out, side)?);
        layer.factorised(inp, out, true)
    }
}

pub(super) struct SelectiveFactGrass;

impl Compressor for SelectiveFactGrass {
    const NAME: &'static str = "selective_factgrass";
    const ABOUT: &'static str =
        "learned rows and columns of the gradient, then sparse random signs";
    const LEARNS: Learns = Learns::Positions { of: Masked::Factors, blown_up: true };

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let side = layer.side(layer.blown_up()?)?;
        let (inp, out) =
            (layer.selective_mask(Role::Inp, side)?, layer.selective_mask(Role::Out, side)?);
        layer.factorised(inp, out, true)
    }
}
