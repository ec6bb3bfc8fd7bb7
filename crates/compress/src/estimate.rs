//! Estimates of the cost of a plan.

use crate::CompressError;
use crate::memory;
use crate::methods::SampleRows;
use crate::passes::{CaptureForm, Passes};
use crate::pipeline::needs;
use crate::plan::{Plan, SlotEdit};
use crate::rates::Rates;
use linwright_measure::capture::Needs;
use linwright_ops::{Examples, LinearSlot, Network, Shape, SiteId};
use serde::{Deserialize, Serialize};

/// Parameters of a site, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Every site, in order.
    pub sites: Vec<SiteEstimate>,
    /// Parameters of the replaced sites, before.
    pub targeted_dense: u64,
    /// Parameters of the replaced sites, after.
    pub targeted: u64,
    /// Memory for weights and operators in `f32`, and for the largest capture with its fits.
    pub memory_bytes: u64,
    /// Estimated time of captures and fits, in seconds.
    pub seconds: f64,
}

/// Estimates the cost of a plan. Times are measured on this machine, of fits on smaller layers,
/// which are kept in `rates`.
///
/// # Errors
/// As [`Plan::sites`], and those of the network and of fits that are timed.
pub fn estimate<N: Network>(
    plan: &Plan,
    network: &N,
    examples: Option<&dyn Examples<N::Input>>,
    rates: &mut Rates,
) -> Result<Estimate, CompressError> {
    let edits = plan.sites(network)?;
    let passes = examples.map(|examples| Passes::measure(network, examples, &edits)).transpose()?;
    let (mut sites, mut largest_fit) = (Vec::new(), 0u64);
    let (mut seconds, mut has_targets, mut forms) = (0.0, false, Vec::new());
    for group in &edits {
        let mut has_sums = false;
        let training_rows = group.slots.first().map_or(0, |first| {
            let slot = network.slot(&first.site).expect("the site was found in the plan");
            passes.as_ref().map_or(0, |passes| passes.rows_of(slot).train)
        });
        let all_needs = needs(group, network, training_rows);
        let found = |slot: &SlotEdit<'_>| network.slot(&slot.site);
        let slots: Vec<&LinearSlot> = group.slots.iter().filter_map(found).collect();
        let form = CaptureForm::of(network, &slots, &all_needs);
        forms.push(form);
        for (SlotEdit { site, edit, .. }, needs) in group.slots.iter().zip(all_needs) {
            let slot = network.slot(site).expect("the site was found in the plan");
            let (fit, shape) =
                (|source| CompressError::Fit { site: site.clone(), source }, slot.shape());
            let parameters = edit.method.parameters(edit.size, shape).map_err(fit)?;
            let rows = passes.as_ref().map_or(SampleRows::default(), |passes| passes.rows_of(slot));
            let all = (rows.train + rows.validation) as f64;
            has_targets |= needs.has_targets();
            if passes.is_some() && needs == Needs::Outputs {
                let of_outputs = rates.input_sum_seconds(shape.out);
                seconds += all * (of_outputs + rates.target_sum_seconds(shape));
            } else if passes.is_some() && needs != Needs::Samples {
                if !std::mem::replace(&mut has_sums, true) {
                    seconds += all * rates.input_sum_seconds(shape.inp);
                    if form.from_inputs {
                        let square = Shape { out: shape.inp, inp: shape.inp };
                        let both =
                            [rates.input_sum_seconds(shape.inp), rates.target_sum_seconds(square)];
                        seconds += all * both.iter().sum::<f64>();
                    }
                }
                if needs == Needs::Stats && !form.from_inputs {
                    seconds += all * rates.target_sum_seconds(shape);
                }
            }
            let of_fit = rates.fit_seconds(&edit.method, edit.size, shape, rows).map_err(fit)?;
            seconds += of_fit;
            sites.push(SiteEstimate {
                site: site.clone(),
                heals: edit.heals,
                method: edit.label(),
                dense_parameters: shape.dense_parameters() as u64,
                parameters: parameters as u64,
                asked: edit.size.and_then(|size| size.keep()),
                reached: parameters as f64 / shape.dense_parameters().max(1) as f64,
                seconds: of_fit,
            });
        }
        let of_group =
            memory::of_group(group, network, |slot| Some(passes.as_ref()?.rows_of(slot)));
        largest_fit = largest_fit.max(of_group);
    }
    seconds += passes.as_ref().map_or(0.0, |passes| passes.seconds_of(&edits, &forms, has_targets));
    // Ridges are chosen in a pass of their own.
    let chooses = passes.is_some() && plan.chooses_ridges();
    seconds *= if chooses { 2.0 } else { 1.0 };
    let operators: u64 = sites.iter().map(|site| site.parameters).sum();
    let replaced = || sites.iter().filter(|site| !site.heals);
    Ok(Estimate {
        targeted_dense: replaced().map(|site| site.dense_parameters).sum(),
        targeted: replaced().map(|site| site.parameters).sum(),
        memory_bytes: size_of::<f32>() as u64 * (network.dense_parameters() + operators)
            + largest_fit,
        seconds,
        sites,
    })
}
