//! LoGra: dense maps of the two factors of a gradient, each to `√size` numbers.
//!
//! `y = vec(P_outᵀ G P_inp)`, with normal entries or signs divided by the root of the factor's
//! size, or with the leading eigenvectors of the moments of inputs and gradients (PCA), unscaled.
//! Source: Choe et al. 2024, arXiv:2405.13954, which reaches the same numbers through an additional
//! low-rank layer. For a layer with fewer features than `√size`, random maps have more outputs than
//! features, as there, and PCA keeps all eigenvectors.

use super::{Compressor, Layer, Learns, Role};
use crate::maps::{Dense, VectorMap};
use crate::{AttributeError, LayerMap};
use linwright_ops::Shape;
use linwright_tensor::RngKey;

/// Draws the matrix of a factor.
type Draw = fn(Shape, RngKey) -> Result<Dense, AttributeError>;

fn random(layer: &Layer<'_>, kind: &str, draw: Draw) -> Result<LayerMap, AttributeError> {
    let side = layer.side(layer.size()?)?;
    let map = |role| -> Result<Box<dyn VectorMap>, AttributeError> {
        Ok(Box::new(draw(layer.map_shape(role, side), layer.key(role, kind))?))
    };
    layer.factorised(map(Role::Inp)?, map(Role::Out)?, false)
}

pub(super) struct Logra;

impl Compressor for Logra {
    const NAME: &'static str = "logra";
    const ABOUT: &'static str = "dense normal matrices times inputs and gradients of outputs";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        random(layer, "gauss", Dense::normal)
    }
}

pub(super) struct LograRademacher;

impl Compressor for LograRademacher {
    const NAME: &'static str = "logra_rademacher";
    const ABOUT: &'static str = "dense matrices of signs times inputs and gradients of outputs";

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        random(layer, "rademacher", Dense::rademacher)
    }
}

pub(super) struct LograPca;

impl Compressor for LograPca {
    const NAME: &'static str = "logra_pca";
    const ABOUT: &'static str = "principal directions of inputs and gradients of outputs";
    const LEARNS: Learns = Learns::Directions;

    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
        let side = layer.side(layer.size()?)?;
        let learned = layer.learned()?;
        let map = |role: Role, directions: &Option<linwright_tensor::Mat<f32>>| {
            let name = role.name();
            let missing = || layer.refused(format!("no directions {name} were learned"));
            let directions = directions.as_ref().ok_or_else(missing)?;
            let count = side.min(directions.cols());
            let map = Dense::directions(directions.view().columns(0, count).to_mat())?;
            Ok::<Box<dyn VectorMap>, AttributeError>(Box::new(map))
        };
        let inp = map(Role::Inp, &learned.inp_directions)?;
        layer.factorised(inp, map(Role::Out, &learned.out_directions)?, false)
    }
}
