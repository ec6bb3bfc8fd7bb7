//! Several ways to divide a budget, carried out and judged on the validation windows.
//!
//! Sums of losses of sites are a model, and a rough one: errors grow from layer to layer, and fits
//! make up for those before. So plans that trust the measured weights fully and by half are
//! tried beside the uniform one, with the first method alone and with all, and the one with the
//! least loss wins. It is never worse than the uniform plan on these windows.

use crate::LmError;
use crate::allocate::loss::{Measured, losses};
use crate::allocate::sensitivity::{Candidates, Sensitivity};
use linwright_compress::allocate::{Allocation, SiteChoices, Unreachable, allocate, uniform};
use linwright_compress::pipeline::{Context, apply};
use linwright_compress::plan::Plan;
use linwright_run::{Fingerprint, Monitor, Store};
use serde::{Deserialize, Serialize};

/// Powers of the measured weights.
const POWERS: [f64; 2] = [1.0, 0.5];
/// Least share of parameters of a site, over the share that is asked for: with less, its error is
/// beyond what was measured.
const LEAST: f64 = 0.5;

/// A plan that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// How the budget was divided.
    pub name: String,
    /// Share of parameters kept.
    pub keep: f64,
    /// Loss on the validation windows, in nats per token.
    pub loss: f64,
    /// The plan.
    pub plan: Plan,
}

/// Tries plans, the best of which comes first; `plan_of` makes a plan of an allocation. None if no
/// plan meets the budget.
///
/// # Errors
/// [`LmError`]: that of [`apply`] and of the store; [`Unreachable`] inside the result.
pub fn judged(
    measured: Measured<'_>,
    found: &Sensitivity,
    candidates: &Candidates,
    context: &Context<'_>,
    plan_of: &dyn Fn(&Allocation, &[SiteChoices]) -> Plan,
    monitor: &mut dyn Monitor,
) -> Result<Result<Vec<Tried>, Unreachable>, LmError> {
    let offers = match offers(found, candidates) {
        Ok(offers) => offers,
        Err(unreachable) => return Ok(Err(unreachable)),
    };
    let none = Store::none();
    let store = context.store.unwrap_or(&none);
    let mut tried: Vec<Tried> = Vec::new();
    for (name, allocation, choices) in offers {
        let plan = plan_of(&allocation, &choices);
        if tried.iter().any(|other| other.plan == plan) {
            continue;
        }
        monitor.step(&format!("trying a plan: {name}"));
        let edited = apply(measured.model, Some(measured.windows), &plan, context, monitor)?;
        let print = Fingerprint::of(&[
            ("model", &context.model_hash),
            ("examples", &linwright_ops::Examples::identity(measured.windows)),
            ("plan", &plan),
        ]);
        let of_edited = Measured { model: &edited.network, ..measured };
        let loss = losses(of_edited, &[], (&print, store), monitor)?.base;
        tried.push(Tried { name, keep: allocation.keep(), loss, plan });
    }
    // Stable: of equal losses, the simpler plan wins.
    tried.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    Ok(Ok(tried))
}

/// Allocations with their names, the uniform one first.
fn offers(
    found: &Sensitivity,
    candidates: &Candidates,
) -> Result<Vec<(String, Allocation, Vec<SiteChoices>)>, Unreachable> {
    let (keep, first) = (candidates.keep, &candidates.methods[0]);
    let same = found.weighed(0.0, Some(first), 0.0);
    let mut offers = vec![("uniform".to_owned(), uniform(&same, keep)?, same)];
    let methods =
        if candidates.methods.len() > 1 { vec![Some(first), None] } else { vec![Some(first)] };
    for power in POWERS {
        for method in &methods {
            let choices = found.weighed(power, *method, LEAST * keep);
            let which = method.map_or("all methods", |method| method.id());
            let name = format!("weights to the power of {power}, {which}");
            offers.push((name, allocate(&choices, keep)?, choices));
        }
    }
    Ok(offers)
}
