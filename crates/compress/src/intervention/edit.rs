//! Cuts of slots of a model, without any text.

use crate::intervention::CutReport;
use crate::methods::{LaserMethod, Method, MethodSpec};
use crate::pipeline::{Context, apply};
use crate::plan::{Plan, SlotEdit};
use crate::{CompressError, FitError, Size};
use linwright_ops::{LinearSlot, Network, Shape, SiteId, Sites};
use linwright_run::{Monitor, Store};
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};

/// Result of a cut of one slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteEdit {
    /// The slot.
    pub site: SiteId,
    /// Its role.
    pub role: String,
    /// Its layer.
    pub layer: usize,
    /// Shape of the weight.
    pub shape: Shape,
    /// The cut.
    pub method: LaserMethod,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Result of the cut.
    pub report: CutReport,
}

/// The dense weight of a slot.
pub fn weight_of(slot: &LinearSlot) -> Result<Mat<f32>, CompressError> {
    let dense = slot.op().to_dense();
    dense.map_err(|error| CompressError::Fit {
        site: slot.id().clone(),
        source: FitError::Operator(error),
    })
}

/// Random key of the cut of a slot.
pub fn key_of(seed: u64, how: &LaserMethod, site: &SiteId) -> RngKey {
    RngKey::new(seed).fold(&site.0).fold(&how.stream(None))
}

/// Applies a plan of cuts to a model, and returns the result for each slot: as
/// [`apply`](crate::pipeline::apply) without calibration text. On an error the model is unchanged.
///
/// # Errors
/// [`CompressError`] for a set without slots, an impossible cut, or a method that is fitted to
/// text.
pub fn apply_edits<N: Network>(
    model: &mut N,
    plan: &Plan,
    store: &Store,
    monitor: &mut dyn Monitor,
) -> Result<Vec<SiteEdit>, CompressError> {
    let context = Context { components: Some(store), ..Context::new("") };
    let edited = apply(model, None, plan, &context, monitor)?;
    let mut cuts = Vec::new();
    for group in plan.sites(model)? {
        for SlotEdit { site, edit, .. } in group.slots {
            let MethodSpec::Laser(method) = &edit.method else { continue };
            let done = edited.sites.iter().find(|outcome| outcome.site == site);
            let slot = model.slot(&site);
            if let (Some(outcome), Some(slot)) = (done, slot)
                && let Some(report) = outcome.fit.cut.clone()
            {
                let (role, layer, shape) = (outcome.role.clone(), outcome.layer, slot.shape());
                let (method, size) = (*method, edit.size);
                cuts.push(SiteEdit { site, role, layer, shape, method, size, report });
            }
        }
    }
    *model = edited.network;
    Ok(cuts)
}

/// Replaces the operator of a slot.
pub fn put(
    model: &mut impl Sites,
    site: &SiteId,
    op: linwright_ops::Op<f32>,
) -> Result<linwright_ops::Op<f32>, CompressError> {
    let slot = model.slot_mut(site).expect("the slot was found in the model");
    slot.replace(op).map_err(|source| CompressError::Fit {
        site: site.clone(),
        source: FitError::Operator(source),
    })
}
