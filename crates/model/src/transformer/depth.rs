//! Structured pruning: a transformer with some of its layers.

use super::Transformer;
use super::weights::{Branch, Layer, NormWeights};
use crate::config::{Linear, NormSite};
use crate::parts::BranchOf;
use linwright_ops::{InputId, LinearSlot, Place, SiteId};

/// An invalid selection of layers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layers {found:?} of a model of {layers}; expected one at least, in ascending order")]
pub struct LayersError {
    /// The layers.
    pub found: Vec<usize>,
    /// Layers of the model.
    pub layers: usize,
}

impl Transformer {
    /// The transformer with only these layers, which get new numbers and names and keep everything
    /// else, including windows and scales; tensors are shared with this one.
    ///
    /// # Errors
    /// [`LayersError`].
    pub fn keep_layers(&self, kept: &[usize]) -> Result<Self, LayersError> {
        let layers = self.config.layers.len();
        let ascending = kept.windows(2).all(|pair| pair[0] < pair[1]);
        if kept.is_empty() || !ascending || kept.iter().any(|layer| *layer >= layers) {
            return Err(LayersError { found: kept.to_vec(), layers });
        }
        let mut model = self.clone();
        model.config.layers = kept.iter().map(|layer| self.config.layers[*layer]).collect();
        let sites = model.config.layout().layers;
        let moved = sites.into_iter().zip(kept).enumerate().map(|(index, (site, from))| {
            let from = &self.weights.layers[*from];
            Layer {
                attention: moved(&from.attention, site.attention, 2 * index),
                mlp: moved(&from.mlp, site.mlp, 2 * index + 1),
            }
        });
        model.weights.layers = moved.collect();
        Ok(model)
    }
}

/// A branch under the names of another layer.
fn moved(
    branch: &Option<Branch>,
    sites: Option<BranchOf<NormSite, Linear>>,
    stage: usize,
) -> Option<Branch> {
    let (branch, sites) = (branch.as_ref()?, sites?);
    let norm =
        |norm: &Option<NormWeights>, site: Option<NormSite>| Some(renamed(norm.as_ref()?, site?));
    let inner = branch.inner.iter().zip(sites.inner).map(|(norm, site)| renamed(norm, site));
    let inputs = branch.inputs.iter().zip(sites.inputs);
    Some(Branch {
        before: norm(&branch.before, sites.before),
        inputs: inputs.map(|(slot, site)| placed(slot, site, stage)).collect(),
        inner: inner.collect(),
        output: placed(&branch.output, sites.output, stage),
        after: norm(&branch.after, sites.after),
        on_sum: norm(&branch.on_sum, sites.on_sum),
    })
}

fn renamed(norm: &NormWeights, site: NormSite) -> NormWeights {
    NormWeights { site, weight: norm.weight.clone(), bias: norm.bias.clone() }
}

fn placed(slot: &LinearSlot, linear: Linear, stage: usize) -> LinearSlot {
    let place = Place {
        reads: InputId(linear.reads),
        role: slot.role(),
        layer: Some(stage / 2),
        stage: Some(stage),
    };
    let bias = slot.bias().map(<[f32]>::to_vec);
    LinearSlot::new(SiteId(linear.site), place, slot.op().clone(), bias)
}
