//! What a plan will cost, before it is carried out.

use crate::CompressError;
use crate::calibration::Calibration;
use crate::methods::{MethodSpec, Needs};
use crate::pipeline::{LayerEdit, Plan};
use linwright_model::Transformer;
use linwright_ops::{LinearSlot, SiteId, Sites};
use serde::Serialize;

/// Arithmetic that one thread is taken to do in a second: a round figure for a current core.
const FLOPS_PER_THREAD: f64 = 5e10;

/// Parameters of a site before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteEstimate {
    /// The site.
    pub site: SiteId,
    /// Whether it heals, and is not counted among the replaced layers.
    pub heals: bool,
    /// The method's label.
    pub method: String,
    /// Parameters of the dense weight.
    pub dense_parameters: u64,
    /// Parameters of the operator.
    pub parameters: u64,
}

/// Cost of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Every site, in order.
    pub sites: Vec<SiteEstimate>,
    /// Parameters of the replaced sites before.
    pub targeted_dense: u64,
    /// Parameters of the replaced sites after.
    pub targeted: u64,
    /// Weights in `f32`, samples and statistics of the largest capture.
    pub memory_bytes: u64,
    /// Capture and fits.
    pub seconds: f64,
}

/// Estimates a plan.
///
/// # Errors
/// As [`Plan::sites`].
pub fn estimate(
    plan: &Plan,
    model: &Transformer,
    calibration: &Calibration,
) -> Result<Estimate, CompressError> {
    let tokens = calibration.tokens() as f64;
    let macs_of = |layer: usize| -> f64 {
        let slots = model.slots();
        let upto = slots.iter().filter(|slot| slot.layer().is_some_and(|l| l <= layer));
        upto.map(|slot| slot.op().map().macs_per_row() as f64).sum()
    };
    let (mut sites, mut flops, mut largest_capture) = (Vec::new(), 0.0, 0u64);
    for LayerEdit { layer, edit, sites: ids } in plan.sites(model)? {
        // Both models, two operations a multiply-add.
        flops += 4.0 * tokens * macs_of(layer);
        let mut capture = 0;
        for id in &ids {
            let slot = model.slot(id).expect("the site was found in the plan");
            let fit = |source| CompressError::Fit { site: id.clone(), source };
            let parameters = edit.method.parameters(slot.shape()).map_err(fit)?;
            flops += fit_flops(&edit.method, slot, tokens);
            capture += capture_bytes(&edit.method, slot, tokens);
            sites.push(SiteEstimate {
                site: id.clone(),
                heals: edit.heals,
                method: edit.method.label(),
                dense_parameters: slot.shape().dense_parameters() as u64,
                parameters: parameters as u64,
            });
        }
        largest_capture = largest_capture.max(capture);
    }
    let threads = linwright_tensor::parallel::threads() as f64;
    let replaced = || sites.iter().filter(|site| !site.heals);
    Ok(Estimate {
        targeted_dense: replaced().map(|site| site.dense_parameters).sum(),
        targeted: replaced().map(|site| site.parameters).sum(),
        memory_bytes: 4 * model.config().parameters() + largest_capture,
        seconds: flops / (FLOPS_PER_THREAD * threads),
        sites,
    })
}

fn fit_flops(method: &MethodSpec, slot: &LinearSlot, tokens: f64) -> f64 {
    let (out, inp) = (slot.shape().out as f64, slot.shape().inp as f64);
    match method.needs() {
        // Sums in double precision cost twice.
        Needs::Stats => 4.0 * tokens * (inp * inp + out * inp) + 30.0 * inp.powi(3),
        // Forward, and twice that backward, at the cost of a dense product: an upper bound.
        Needs::Samples => 6.0 * tokens * out * inp * f64::from(method.epochs()),
    }
}

fn capture_bytes(method: &MethodSpec, slot: &LinearSlot, tokens: f64) -> u64 {
    let (out, inp) = (slot.shape().out as u64, slot.shape().inp as u64);
    match method.needs() {
        Needs::Stats => 2 * 8 * (inp * inp + out * inp),
        Needs::Samples => 4 * tokens as u64 * (out + inp),
    }
}
