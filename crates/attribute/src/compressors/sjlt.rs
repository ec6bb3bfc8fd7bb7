//! The sparse Johnson-Lindenstrauss transform of the flat gradient: `y = S vec G`.
//!
//! Every entry of `G` is computed, a block of rows at a time, and added to `signs` random numbers
//! of the result. The codes take `4 signs` bytes for every parameter of the layer.

use super::{Compressor, Layer, Role};
use crate::maps::SparseSigns;
use crate::{AttributeError, LayerMap};

pub(super) struct Sjlt;

impl Compressor for Sjlt {
    const NAME: &'static str = "sjlt";
    const ABOUT: &'static str = "sparse random signs of the gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let (shape, key) =
            (layer.map_shape(Role::Flat, layer.size()?), layer.key(Role::Flat, "sjlt"));
        let map = SparseSigns::random(shape, layer.spec.signs, key)?;
        layer.flat(vec![Box::new(map)])
    }
}
