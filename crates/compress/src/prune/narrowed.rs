//! Sites before and after pruning.

use crate::methods::FitReport;
use crate::pipeline::{Edited, SiteOutcome};
use linwright_model::Transformer;
use linwright_ops::{LinearSlot, SiteId, Sites};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters of a pruned site, without biases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteSize {
    /// The site.
    pub site: SiteId,
    /// Parameters of its original weight.
    pub dense: usize,
    /// Parameters afterwards; zero if the site is gone.
    pub kept: usize,
}

/// A pruned model with the outcome of every linear layer of the layers that `selected` names, gone
/// ones included. `reports` says how well a site was fitted, where it was fitted.
pub(super) fn edited(
    original: &Transformer,
    pruned: Transformer,
    method: &str,
    selected: impl Fn(usize) -> bool,
    mut reports: BTreeMap<SiteId, FitReport>,
) -> Edited<Transformer> {
    let outcome = |slot: &LinearSlot| {
        let layer = slot.layer().filter(|layer| selected(*layer))?;
        let now = pruned.slot(slot.id());
        let parameters = now.map_or(0, LinearSlot::parameters);
        let dense = slot.shape().dense_parameters();
        let gone = 1.0 - parameters as f64 / dense as f64;
        Some(SiteOutcome {
            site: slot.id().clone(),
            role: slot.role().to_string(),
            layer,
            heals: false,
            method: method.to_owned(),
            parameters,
            dense_parameters: dense,
            macs_per_row: now.map_or(0, |slot| slot.op().map().macs_per_row()),
            fit: reports.remove(slot.id()).unwrap_or_else(|| FitReport::without_text(gone)),
        })
    };
    let sites = original.slots().into_iter().filter_map(outcome).collect();
    Edited { network: pruned, sites }
}
