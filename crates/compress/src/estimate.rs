//! Estimates of the cost of a plan.

use crate::CompressError;
use crate::methods::{MethodSpec, SampleRows};
use crate::plan::{LayerEdit, Plan};
use crate::rates::{Rates, fastest};
use linwright_measure::calibration::Calibration;
use linwright_measure::capture::{Bounds, Needs};
use linwright_model::{Batch, Transformer};
use linwright_ops::{LinearSlot, NoProbe, SiteId, Sites};
use serde::Serialize;

/// Parameters of a site, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteEstimate {
    /// The site.
    pub site: SiteId,
    /// Whether the edit heals, so the site does not count as replaced.
    pub heals: bool,
    /// Label of the method.
    pub method: String,
    /// Parameters of the dense weight.
    pub dense_parameters: u64,
    /// Parameters of the operator.
    pub parameters: u64,
    /// Requested share of the dense parameters, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// Actual share of the dense parameters.
    pub reached: f64,
    /// Estimated time of the fit, in seconds.
    pub seconds: f64,
}

/// Estimated cost of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Every site, in order.
    pub sites: Vec<SiteEstimate>,
    /// Parameters of the replaced sites, before.
    pub targeted_dense: u64,
    /// Parameters of the replaced sites, after.
    pub targeted: u64,
    /// Memory for weights in `f32`, and for samples and statistics of the largest capture.
    pub memory_bytes: u64,
    /// Estimated time of captures and fits, in seconds.
    pub seconds: f64,
}

/// Estimates the cost of a plan. Times are measured on this machine on smaller layers and kept in
/// `rates`.
///
/// # Errors
/// As [`Plan::sites`], and those of the model and of fits that are timed.
pub fn estimate(
    plan: &Plan,
    model: &Transformer,
    calibration: Option<&Calibration>,
    rates: &mut Rates,
) -> Result<Estimate, CompressError> {
    let train = calibration.map_or(0, Calibration::train_tokens);
    let all = calibration.map_or(0, Calibration::tokens);
    let rows = SampleRows { train, validation: all - train };
    let tokens = all as f64;
    let edits = plan.sites(model)?;
    let mut seconds = match calibration {
        Some(calibration) => {
            let passes = layer_passes(&edits, model, calibration);
            passes * tokens * layer_seconds(model, calibration)?
        }
        None => 0.0,
    };
    let (mut sites, mut largest_capture) = (Vec::new(), 0u64);
    for LayerEdit { edit, sites: ids, .. } in edits {
        let mut capture = 0;
        for (index, id) in ids.iter().enumerate() {
            let slot = model.slot(id).expect("the site was found in the plan");
            let fit = |source| CompressError::Fit { site: id.clone(), source };
            let parameters = edit.method.parameters(edit.size, slot.shape()).map_err(fit)?;
            if calibration.is_some() && edit.method.needs() == Needs::Stats {
                seconds += tokens * rates.sum_seconds(slot.shape(), index == 0);
            }
            let of_fit =
                rates.fit_seconds(&edit.method, edit.size, slot.shape(), rows).map_err(fit)?;
            seconds += of_fit;
            if calibration.is_some() {
                capture += capture_bytes(&edit.method, slot, tokens);
            }
            sites.push(SiteEstimate {
                site: id.clone(),
                heals: edit.heals,
                method: edit.label(),
                dense_parameters: slot.shape().dense_parameters() as u64,
                parameters: parameters as u64,
                asked: edit.size.and_then(|size| size.keep()),
                reached: parameters as f64 / slot.shape().dense_parameters().max(1) as f64,
                seconds: of_fit,
            });
        }
        largest_capture = largest_capture.max(capture);
    }
    let replaced = || sites.iter().filter(|site| !site.heals);
    Ok(Estimate {
        targeted_dense: replaced().map(|site| site.dense_parameters).sum(),
        targeted: replaced().map(|site| site.parameters).sum(),
        memory_bytes: 4 * model.config().parameters() + largest_capture,
        seconds,
        sites,
    })
}

/// Layers that captures run all tokens through, as [`linwright_measure::capture::Lockstep`] does:
/// each capture continues from the layer of the previous one if its hidden states were kept; edited
/// layers run in both models; the last layer stops after the sites.
fn layer_passes(edits: &[LayerEdit<'_>], model: &Transformer, calibration: &Calibration) -> f64 {
    let keeps = Bounds::default().keeps_hidden(calibration.tokens(), model.config().hidden);
    let (mut passes, mut at) = (0.0, 0);
    let mut first_edit = usize::MAX;
    for LayerEdit { layer, sites, .. } in edits {
        let from = if keeps && at <= *layer { at } else { 0 };
        let models = |l: usize| if l < first_edit { 1.0 } else { 2.0 };
        passes += (from..*layer).map(models).sum::<f64>();
        passes += models(*layer) * share_up_to(sites, *layer, model);
        (at, first_edit) = (*layer, first_edit.min(*layer));
    }
    passes
}

/// The share of a layer's multiply-adds up to the last of some sites.
fn share_up_to(sites: &[SiteId], layer: usize, model: &Transformer) -> f64 {
    let slots = model.slots();
    let here = || slots.iter().filter(|slot| slot.layer() == Some(layer));
    let macs = |slot: &&&LinearSlot| slot.op().map().macs_per_row() as f64;
    let last = here().enumerate().filter(|(_, slot)| sites.contains(slot.id())).last();
    let upto = last.map_or(0, |(place, _)| place + 1);
    let all: f64 = here().map(|slot| macs(&slot)).sum();
    here().take(upto).map(|slot| macs(&slot)).sum::<f64>() / all.max(1.0)
}

/// Seconds per token in one layer, measured on the first.
fn layer_seconds(model: &Transformer, calibration: &Calibration) -> Result<f64, CompressError> {
    let window = &calibration.windows()[0];
    let batch = Batch::new(&[window.as_slice()]);
    let hidden = model.embed(&batch)?;
    let seconds = fastest(|| {
        let mut hidden = hidden.clone();
        Ok(model.run_layers(&mut hidden, &batch, 0..1, &mut NoProbe)?)
    })?;
    Ok(seconds / window.len().max(1) as f64)
}

fn capture_bytes(method: &MethodSpec, slot: &LinearSlot, tokens: f64) -> u64 {
    let (out, inp) = (slot.shape().out as u64, slot.shape().inp as u64);
    match method.needs() {
        Needs::Stats => 2 * 8 * (inp * inp + out * inp),
        Needs::Samples => 4 * tokens as u64 * (out + inp),
    }
}
