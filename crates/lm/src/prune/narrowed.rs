//! Sites before and after pruning.

use crate::LmError;
use linwright_compress::methods::FitReport;
use linwright_compress::pipeline::{Edited, SiteOutcome};
use linwright_compress::{CompressError, FitError};
use linwright_model::Transformer;
use linwright_ops::{LinearSlot, SiteId, Sites};
use linwright_tensor::Mat;
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

/// Groups of `size` inputs of an output projection (out, inp) that are not zero, `count` in all.
pub(super) fn kept_groups(weight: &Mat<f64>, size: usize, count: usize) -> Vec<usize> {
    let is_zero = |group: &usize| {
        let inputs = group * size..(group + 1) * size;
        (0..weight.rows()).all(|o| weight.row(o)[inputs.clone()].iter().all(|w| *w == 0.0))
    };
    let (zero, mut kept): (Vec<usize>, Vec<usize>) = (0..weight.cols() / size).partition(is_zero);
    // Features that never say anything may be zero and stay.
    kept.extend(zero.iter().take(count.saturating_sub(kept.len())));
    kept.sort_unstable();
    kept
}

/// The weight of a slot, dense.
pub(super) fn weight_of(network: &Transformer, site: &SiteId) -> Result<Mat<f64>, LmError> {
    let slot = network.slot(site).expect("it is a slot of the model");
    let failed =
        |error| CompressError::Fit { site: site.clone(), source: FitError::Operator(error) };
    Ok(slot.op().to_dense().map_err(failed)?.cast())
}
