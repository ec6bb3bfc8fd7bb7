//! Sums over targets that follow from sums over inputs of the original network.
//!
//! A target is W x0, the original weight times the input in the original network. So with the input
//! x in the edited network `Σ y xᵀ = W Σ x0 xᵀ`, whose sum is (inp, inp) for all sites that read
//! the input, and the original network need not compute their outputs.

use super::exchange::merged;
use super::{CaptureError, check_finite};
use crate::stats::{InputStats, InputSums, SiteStats, TargetSums};
use linwright_ops::LinearSlot;
use linwright_run::team::Team;
use linwright_tensor::Mat;
use std::sync::Arc;

/// Training and validation sums over inputs of the original network, with those of the edited one.
pub(super) struct Originals {
    inputs: [InputSums; 2],
    cross: [TargetSums; 2],
}

/// Finished sums.
#[derive(Clone)]
pub(super) struct OriginalStats {
    /// Over x0.
    inputs: InputStats,
    /// Over x with x0 as targets.
    cross: SiteStats,
}

impl Originals {
    pub(super) fn new(inp: usize) -> Self {
        let inputs = || InputSums::new(inp);
        let cross = || TargetSums::new(inp, inp);
        Self { inputs: [inputs(), inputs()], cross: [cross(), cross()] }
    }

    /// Adds a batch of inputs in the original and in the edited network to a part.
    pub(super) fn add(
        &mut self,
        part: usize,
        original: &Mat<f32>,
        edited: &Mat<f32>,
        slot: &LinearSlot,
    ) -> Result<(), CaptureError> {
        check_finite("the input in the original network", slot.id(), original)?;
        self.inputs[part].add(original.view());
        self.cross[part].add(edited.view(), original.view());
        Ok(())
    }

    /// The sums of all members, on those that `gets` names, with the sums over x.
    pub(super) fn finish(
        self,
        team: &dyn Team,
        gets: &dyn Fn(usize) -> bool,
        edited: Option<&[Arc<InputStats>; 2]>,
    ) -> Result<Option<[OriginalStats; 2]>, CaptureError> {
        let inputs = merged(self.inputs, team, gets)?;
        let cross = merged(self.cross, team, gets)?;
        let all = inputs.zip(cross).zip(edited);
        Ok(all.map(|(([a, b], [first, second]), [train, validation])| {
            let whole = |inputs: InputSums, cross: TargetSums, edited: &Arc<InputStats>| {
                OriginalStats { inputs: inputs.finish(), cross: cross.finish(Arc::clone(edited)) }
            };
            [whole(a, first, train), whole(b, second, validation)]
        }))
    }
}

impl OriginalStats {
    /// Sums over the inputs and targets of a site.
    pub(super) fn of_site(&self, slot: &LinearSlot) -> Result<SiteStats, CaptureError> {
        targets_of(slot, |weight| self.cross.mapped(&self.inputs, weight.view()))
    }
}

/// Sums over inputs that are the same in both networks, with the targets of a site.
pub(super) fn of_equal(
    inputs: &Arc<InputStats>,
    slot: &LinearSlot,
) -> Result<SiteStats, CaptureError> {
    targets_of(slot, |weight| SiteStats::of_map(inputs, weight.view()))
}

fn targets_of(
    slot: &LinearSlot,
    sums: impl Fn(&Mat<f64>) -> SiteStats,
) -> Result<SiteStats, CaptureError> {
    let weight = slot.op().to_dense().map_err(super::network_error)?;
    let sums = sums(&weight.cast());
    match sums.syx.data().iter().chain(&sums.sy).all(|v| v.is_finite()) {
        true => Ok(sums),
        false => Err(CaptureError::NonFinite { what: "the target", site: slot.id().clone() }),
    }
}
