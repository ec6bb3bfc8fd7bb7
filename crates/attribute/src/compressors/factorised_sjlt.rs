//! SJLT of the two factors of a gradient, each to `√size` numbers.

use super::{Compressor, Layer, Role};
use crate::maps::{SparseSigns, VectorMap};
use crate::{AttributeError, LayerMap};

pub(super) struct FactorisedSjlt;

impl Compressor for FactorisedSjlt {
    const NAME: &'static str = "factorised_sjlt";
    const ABOUT: &'static str = "sparse random signs of inputs and gradients of outputs";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let side = layer.side(layer.size()?)?;
        let map = |role| -> Result<Box<dyn VectorMap>, AttributeError> {
            let shape = layer.map_shape(role, side);
            let key = layer.key(role, "sjlt");
            Ok(Box::new(SparseSigns::random(shape, layer.spec.signs, key)?))
        };
        layer.factorised(map(Role::Inp)?, map(Role::Out)?, false)
    }
}
