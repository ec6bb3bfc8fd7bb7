//! Applying cuts to slots of a model.

use super::store::components_of;
use super::{Cut, CutReport, Done, SlotSet, cut};
use crate::{CompressError, FitError};
use linwright_model::Transformer;
use linwright_ops::{LinearSlot, Role, Shape, SiteId, Sites};
use linwright_run::{Monitor, Store};
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};

/// Edits of a model, as plain data for files. All apply to the original weights; no slot is cut
/// twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edits {
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

/// One cut of a set of slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The slots.
    pub slots: SlotSet,
    /// The cut of each.
    pub cut: Cut,
}

/// Result of an edit for one slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteEdit {
    /// The slot.
    pub site: SiteId,
    /// Its role.
    pub role: Role,
    /// Its layer.
    pub layer: usize,
    /// Shape of the weight.
    pub shape: Shape,
    /// The cut.
    pub cut: Cut,
    /// Result of the cut.
    pub report: CutReport,
}

/// The dense weight of a slot.
pub(super) fn weight_of(slot: &LinearSlot) -> Result<Mat<f32>, CompressError> {
    let dense = slot.op().to_dense();
    dense.map_err(|error| CompressError::Fit {
        site: slot.id().clone(),
        source: FitError::Operator(error),
    })
}

/// Random key of a slot.
pub(super) fn key_of(cut: &Cut, site: &SiteId) -> RngKey {
    RngKey::new(cut.seed).fold(&site.0).fold(cut.intervention.name())
}

/// Cuts the weight of a slot without changing the slot.
pub(super) fn cut_slot(slot: &LinearSlot, how: &Cut, store: &Store) -> Result<Done, CompressError> {
    let weight = weight_of(slot)?;
    let components = match how.needs_components() {
        true => Some(components_of(store, slot.id(), &weight)?),
        false => None,
    };
    cut(&weight, how, components.as_ref(), key_of(how, slot.id()))
        .map_err(|source| CompressError::Fit { site: slot.id().clone(), source })
}

/// Applies edits to a model, and returns the result for each slot. On an error the model is
/// unchanged.
///
/// # Errors
/// [`CompressError`] for a set without slots, a slot that is cut twice, or an impossible cut.
pub fn apply_edits(
    model: &mut Transformer,
    edits: &Edits,
    store: &Store,
    monitor: &mut dyn Monitor,
) -> Result<Vec<SiteEdit>, CompressError> {
    let mut work: Vec<(SiteId, Cut)> = Vec::new();
    for edit in &edits.edits {
        for site in edit.slots.of(model)? {
            if work.iter().any(|(known, _)| *known == site) {
                return Err(CompressError::CutTwice { site });
            }
            work.push((site, edit.cut));
        }
    }
    let (mut ops, mut done) = (Vec::new(), Vec::new());
    for (index, (site, how)) in work.into_iter().enumerate() {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted);
        }
        monitor.step(&format!("{site}: {} at {}", how.intervention.name(), how.size));
        let slot = model.slot(&site).expect("the slot was found in the model");
        let Done { op, report } = cut_slot(slot, &how, store)?;
        let (role, layer, shape) = (slot.role(), slot.layer().unwrap_or(0), slot.shape());
        ops.push((site.clone(), op));
        done.push(SiteEdit { site, role, layer, shape, cut: how, report });
        monitor.progress(index as u64 + 1, index as u64 + 1);
    }
    for (site, op) in ops {
        put(model, &site, op)?;
    }
    Ok(done)
}

/// Replaces the operator of a slot.
pub(super) fn put(
    model: &mut Transformer,
    site: &SiteId,
    op: linwright_ops::Op<f32>,
) -> Result<linwright_ops::Op<f32>, CompressError> {
    let slot = model.slot_mut(site).expect("the slot was found in the model");
    slot.replace(op).map_err(|source| CompressError::Fit {
        site: site.clone(),
        source: FitError::Operator(source),
    })
}
