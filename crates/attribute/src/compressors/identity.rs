//! No compression: `y = vec G`, all numbers of the gradient. For small networks, and as the
//! reference for the others.

use super::{Compressor, Layer};
use crate::{AttributeError, LayerMap};

pub(super) struct Unchanged;

impl Compressor for Unchanged {
    const NAME: &'static str = "identity";
    const ABOUT: &'static str = "the whole gradient";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        layer.flat(Vec::new())
    }
}
