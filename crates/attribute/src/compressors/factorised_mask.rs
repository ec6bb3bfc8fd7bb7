//! Masks of the two factors of a gradient: a sub-block of it, `√size` rows and columns.
//!
//! Source: GraSS, arXiv:2505.18976.

use super::{Compressor, Layer, Learns, Masked, Role};
use crate::{AttributeError, LayerMap};

pub(super) struct FactorisedMask;

impl Compressor for FactorisedMask {
    const NAME: &'static str = "factorised_mask";
    const ABOUT: &'static str = "random rows and columns of the gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let side = layer.side(layer.size()?)?;
        let (inp, out) = (layer.random_mask(Role::Inp, side)?, layer.random_mask(Role::Out, side)?);
        layer.factorised(inp, out, false)
    }
}

pub(super) struct SelectiveFactorisedMask;

impl Compressor for SelectiveFactorisedMask {
    const NAME: &'static str = "selective_factorised_mask";
    const ABOUT: &'static str = "learned rows and columns of the gradient";
    const LEARNS: Learns = Learns::Positions { of: Masked::Factors, blown_up: false };

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let side = layer.side(layer.size()?)?;
        let (inp, out) =
            (layer.selective_mask(Role::Inp, side)?, layer.selective_mask(Role::Out, side)?);
        layer.factorised(inp, out, false)
    }
}
