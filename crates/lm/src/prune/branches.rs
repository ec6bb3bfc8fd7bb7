//! Attention and MLPs of a model as groups of features that are kept or removed together.

use super::{Cut, PruneError};
use linwright_compress::methods::FitProblem;
use linwright_measure::capture::Evidence;
use linwright_model::{AttentionConfig, MlpConfig, Role, Transformer};
use linwright_ops::{LinearSlot, Shape, SiteId, Sites};
use linwright_tensor::RngKey;

/// Attention or the MLP of a layer.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// Index of the layer.
    pub(super) layer: usize,
    /// Which of the two.
    pub(super) part: Part,
    /// Groups of features: key-value heads with their query heads, or single features of an MLP.
    pub(super) groups: usize,
    /// Its linear layers with their shapes, the output projection last.
    pub(super) slots: Vec<(SiteId, Shape)>,
}

/// Attention or an MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Attention,
    Mlp,
}

impl Branch {
    /// Branches of the layers of a cut, in the order of computation. Layers with a single linear
    /// layer for attention or MLP have none.
    pub(super) fn all(model: &Transformer, cut: &Cut) -> Vec<Self> {
        let layers = model.config().layers.iter().enumerate().filter(|(layer, _)| cut.has(*layer));
        let mut all = Vec::new();
        for (layer, config) in layers {
            if let AttentionConfig::Heads(heads) = config.attention {
                all.push(Self::of(model, layer, Part::Attention, heads.kv_heads));
            }
            if let MlpConfig::Inner(inner) = config.mlp {
                all.push(Self::of(model, layer, Part::Mlp, inner));
            }
        }
        all
    }

    fn of(model: &Transformer, layer: usize, part: Part, groups: usize) -> Self {
        let is_part =
            |slot: &LinearSlot| (part == Part::Attention) == Role::of(slot).is_in_attention();
        let slots = model.slots().into_iter().filter(|s| s.layer() == Some(layer) && is_part(s));
        let slots = slots.map(|slot| (slot.id().clone(), slot.shape())).collect();
        Self { layer, part, groups, slots }
    }

    /// The output projection.
    pub(super) fn output(&self) -> &(SiteId, Shape) {
        self.slots.last().expect("a branch has an output projection")
    }

    /// The problem of refitting the output projection to captured data.
    pub(super) fn problem<'a>(
        &'a self,
        original: &'a Transformer,
        evidence: &'a Evidence,
        ridge: Option<f64>,
    ) -> FitProblem<'a> {
        let (site, shape) = self.output();
        let slot = original.slot(site).expect("it is a slot of the model");
        FitProblem {
            site,
            shape: *shape,
            original: slot.op(),
            size: None,
            evidence: Some(evidence),
            components: None,
            bias: slot.bias(),
            key: RngKey::new(0),
            ridge,
            checkpoint: None,
            part_rows: None,
        }
    }

    /// Consecutive inputs of the output projection that make a group.
    pub(super) fn group_size(&self) -> usize {
        self.output().1.inp / self.groups
    }

    /// Parameters of all its linear layers.
    pub(super) fn parameters(&self) -> usize {
        self.slots.iter().map(|(_, shape)| shape.dense_parameters()).sum()
    }
}

/// Refuses a model with an operator in the place of a weight.
pub(super) fn check_dense(model: &Transformer, branches: &[Branch]) -> Result<(), PruneError> {
    let sites = branches.iter().flat_map(|branch| &branch.slots);
    for (site, _) in sites {
        let slot = model.slot(site).expect("it is a slot of the model");
        let kind = slot.op().map().spec().kind();
        if kind != "dense" {
            return Err(PruneError::Operator { site: site.clone(), kind });
        }
    }
    Ok(())
}
