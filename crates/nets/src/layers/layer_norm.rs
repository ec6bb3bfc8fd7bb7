//! Layer normalisation.

use super::{Layer, yes};
use crate::affine::Affine;
use crate::build::Builder;
use crate::chain::Chain;
use crate::step::{Back, Kept, NetTensor, Pass, Step};
use crate::{Extent, NetError};
use linwright_tensor::kernels::batch_norm::{normalise_rows, rows_backward};
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// Normalisation over the channels of each position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNorm {
    /// Name of its tensors.
    pub name: String,
    /// Added to the variance.
    #[serde(default = "LayerNorm::default_eps")]
    pub eps: f64,
    /// Whether it has scale and shift.
    #[serde(default = "yes")]
    pub affine: bool,
}

impl LayerNorm {
    fn default_eps() -> f64 {
        1e-5
    }
}

impl Layer for LayerNorm {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        chain.below("eps", self.eps, f64::INFINITY).map(|()| input)
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        let affine = if self.affine { Some(builder.affine(&self.name)?) } else { None };
        builder.push(LayerNormStep { affine, eps: self.eps });
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct LayerNormStep<T> {
    affine: Option<Affine<T>>,
    eps: f64,
}

impl<T: Scalar> Step<T> for LayerNormStep<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn vectors(&self) -> Vec<(String, &[T])> {
        self.affine.as_ref().map_or_else(Vec::new, Affine::vectors)
    }

    fn vectors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        self.affine.as_mut().map_or_else(Vec::new, Affine::vectors_mut)
    }

    fn other_parameters(&self) -> usize {
        self.affine.as_ref().map_or(0, |affine| 2 * affine.scale.len())
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let vectors = vec![normalise_rows(x.view_mut(), self.eps)];
        let mats = if pass.keeps() { vec![x.clone()] } else { Vec::new() };
        if let Some(affine) = &self.affine {
            affine.apply(&mut x);
        }
        (x, Kept { mats, vectors, ..Kept::default() })
    }

    fn backward(&self, mut dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let h = &kept.mats[0];
        if let Some(affine) = &self.affine {
            affine.backward(&mut dy, h, back.numbers(0));
        }
        rows_backward(h.view(), &kept.vectors[0], dy.view_mut());
        kept.release(back.ws);
        dy
    }
}
