//! The subsampled randomised Hadamard transform of the flat gradient.
//!
//! The whole gradient of one example and layer is in memory, with zeros up to a power of two.

use super::{Compressor, Layer, Role};
use crate::maps::Hadamard;
use crate::{AttributeError, LayerMap};

pub(super) struct Srht;

impl Compressor for Srht {
    const NAME: &'static str = "srht";
    const ABOUT: &'static str = "a subsampled randomised Hadamard transform of the gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let shape = layer.map_shape(Role::Flat, layer.size()?);
        layer.flat(vec![Box::new(Hadamard::random(shape, layer.key(Role::Flat, "srht"))?)])
    }
}
