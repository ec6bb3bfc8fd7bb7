//! Dense random matrices of the flat gradient: `y = vec G P / √size`, with normal entries or signs.
//!
//! The reference of quality, for small layers: `P` has `size` numbers for every parameter.

use super::{Compressor, Layer, Role};
use crate::maps::Dense;
use crate::{AttributeError, LayerMap};

pub(super) struct Gauss;

impl Compressor for Gauss {
    const NAME: &'static str = "gauss";
    const ABOUT: &'static str = "a dense normal matrix times the gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let shape = layer.map_shape(Role::Flat, layer.size()?);
        layer.flat(vec![Box::new(Dense::normal(shape, layer.key(Role::Flat, "gauss"))?)])
    }
}

pub(super) struct Rademacher;

impl Compressor for Rademacher {
    const NAME: &'static str = "rademacher";
    const ABOUT: &'static str = "a dense matrix of signs times the gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let shape = layer.map_shape(Role::Flat, layer.size()?);
        layer.flat(vec![Box::new(Dense::rademacher(shape, layer.key(Role::Flat, "rademacher"))?)])
    }
}
