//! Choices from the model: how much loss an error at each site costs.
//!
//! Each site in turn is replaced by the first method at the size asked for, alone, and the rise of
//! the loss on the validation windows of the calibration text is divided by the error of that fit:
//! the loss per error of the site. Errors of all methods and sizes are those of their fits to the
//! original model. So a run costs one pass of capture, one fit per method and site, and one pass
//! of the later stages per site, whatever the number of sizes.
//!
//! The windows select; figures of the result must come from other text.

use super::loss::{Losses, Measured, losses};
use super::{Choice, SiteChoices, of_curve};
use crate::intervention::Variant;
use crate::methods::{Fit, FitProblem, MethodSpec};
use crate::pipeline::{Context, Forward, key_of};
use crate::plan::{Edit, InputEdits, Plan, SlotSet};
use crate::{CompressError, FitError, Size, stored_fit};
use linwright_measure::capture::{Evidence, Lockstep, SiteCapture, Wanted};
use linwright_model::Transformer;
use linwright_ops::{Examples, LinearSlot, SiteId, Sites};
use linwright_run::{Fingerprint, Monitor, PieceKey, Store};
use serde::{Deserialize, Serialize};

/// Kind of the pieces.
const CHOICES: &str = "choices";
/// Least loss per error of a site, over the mean of all: a rise of the loss below the noise of the
/// text does not mean that any error is free.
const LEAST: f64 = 0.02;

/// What every site is offered, beside staying dense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    /// The methods, the first of which measures the sites.
    pub methods: Vec<MethodSpec>,
    /// Ranks are multiples of this.
    pub align: usize,
    /// Shares of parameters for methods that are fitted size by size.
    pub keeps: Vec<f64>,
    /// Share of parameters at which sites are measured.
    pub keep: f64,
    /// The sites.
    pub sites: SlotSet,
    /// Seed of random numbers.
    pub seed: u64,
}

/// What an edit of one site costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteLoss {
    /// The site.
    pub site: SiteId,
    /// Method and size of the edit.
    pub method: String,
    /// Relative squared error of its fit.
    pub error: f64,
    /// Rise of the loss, in nats per token.
    pub loss: f64,
}

/// Losses of sites, and what each may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Loss of the original model, in nats per token.
    pub dense_loss: f64,
    /// Tokens that are predicted.
    pub tokens: usize,
    /// What an edit of each site alone costs.
    pub losses: Vec<SiteLoss>,
    /// What each site may get.
    pub choices: Vec<SiteChoices>,
}

/// A site with its choices, whose losses are not known yet.
#[derive(Serialize, Deserialize)]
struct Offered {
    choices: SiteChoices,
    /// Relative error of the fit that measures the site.
    error: f64,
}

/// Measures the sites of a model. Finished parts are taken from the store of the context.
///
/// # Errors
/// [`CompressError`]: as [`Plan::sites`], and those of captures, fits and the store.
pub fn sensitivity(
    measured: Measured<'_>,
    candidates: &Candidates,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Sensitivity, CompressError> {
    let Measured { model, windows, .. } = measured;
    let plan = reference(candidates);
    let none = Store::none();
    let store = context.store.unwrap_or(&none);
    let base = Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("model", &context.model_hash),
        ("examples", &windows.identity()),
        ("candidates", candidates),
    ]);
    let mut lockstep = Lockstep::new(model, windows, context.bounds.clone());
    let (mut offered, mut variants) = (Vec::new(), Vec::new());
    for group in plan.sites(model)? {
        let work = GroupWork { candidates, group: &group, base: &base, store };
        for (site, fit) in work.offered(model, &mut lockstep, monitor)? {
            variants.push(variant_of(model, &site.choices.site, fit));
            offered.push(site);
        }
    }
    let found = losses(measured, &variants, (&base, store), monitor)?;
    let label = plan.edits[0].label();
    Ok(weighed(offered, found, &label))
}

/// The plan whose edits, each alone, measure the sites.
fn reference(candidates: &Candidates) -> Plan {
    let method = candidates.methods[0].clone();
    let (sites, size) = (candidates.sites.clone(), Some(Size::Keep(candidates.keep)));
    Plan { seed: candidates.seed, edits: vec![Edit { sites, method, size, heals: false }] }
}

/// Puts losses to the choices of all sites.
fn weighed(offered: Vec<Offered>, found: Losses, label: &str) -> Sensitivity {
    let rises: Vec<f64> = found.variants.iter().map(|loss| loss - found.dense).collect();
    let per_error =
        |(site, rise): (&Offered, &f64)| rise.max(0.0) / site.error.max(f64::MIN_POSITIVE);
    let mut weights: Vec<f64> = offered.iter().zip(&rises).map(per_error).collect();
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let least = if mean > 0.0 { LEAST * mean } else { 1.0 };
    weights.iter_mut().for_each(|weight| *weight = weight.max(least));
    let loss = |(site, rise): (&Offered, &f64)| SiteLoss {
        site: site.choices.site.clone(),
        method: label.to_owned(),
        error: site.error,
        loss: *rise,
    };
    let losses = offered.iter().zip(&rises).map(loss).collect();
    let weigh = |(mut site, weight): (Offered, f64)| {
        site.choices.choices.iter_mut().for_each(|choice| choice.loss = weight * choice.error);
        site.choices
    };
    let choices = offered.into_iter().zip(weights).map(weigh).collect();
    Sensitivity { dense_loss: found.dense, tokens: found.tokens, losses, choices }
}

/// The sites that read one input, to be offered choices.
struct GroupWork<'a> {
    candidates: &'a Candidates,
    group: &'a InputEdits<'a>,
    base: &'a Fingerprint,
    store: &'a Store,
}

impl GroupWork<'_> {
    /// The sites with their choices and the fits that measure them, from the store or computed.
    fn offered(
        &self,
        model: &Transformer,
        lockstep: &mut Lockstep<'_, Transformer>,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<(Offered, Fit)>, CompressError> {
        let print = |site: &SiteId| Fingerprint::of(&[("base", self.base), ("site", site)]);
        let mut known = Vec::new();
        for slot in &self.group.slots {
            let (print, decode) = (print(&slot.site), |bytes: Vec<u8>| {
                serde_json::from_slice::<Offered>(&bytes).map_err(|error| error.to_string())
            });
            let key = PieceKey::new(CHOICES, print.clone());
            match (self.store.decoded(&key, decode)?, stored_fit::get(self.store, &print)?) {
                (Some(offered), Some(fit)) => known.push((offered, fit)),
                _ => break,
            }
        }
        if known.len() == self.group.slots.len() {
            return Ok(known);
        }
        monitor.step(&format!(
            "layer {}: capturing inputs of {} sites",
            self.group.layer,
            self.group.slots.len()
        ));
        let slots = self.group.slots.iter();
        let wanted: Vec<Wanted<'_>> = slots
            .map(|slot| Wanted { site: &slot.site, needs: slot.edit.method.needs() })
            .collect();
        let captures = lockstep.capture(model, &wanted, monitor)?;
        let mut found = Vec::new();
        for SiteCapture { site, evidence, .. } in captures {
            if monitor.interrupted() {
                return Err(CompressError::Interrupted);
            }
            monitor.step(&format!("{site}: fitting candidates"));
            let slot = model.slot(&site).expect("the site was found in the plan");
            let (offered, fit) = self
                .site(slot, &evidence, monitor)
                .map_err(|source| CompressError::Fit { site: site.clone(), source })?;
            let json = serde_json::to_vec(&offered).map_err(|error| CompressError::Unstorable {
                site: site.clone(),
                reason: error.to_string(),
            })?;
            self.store.put(&PieceKey::new(CHOICES, print(&site)), &[&json])?;
            stored_fit::put(self.store, &print(&site), &site, &fit)?;
            found.push((offered, fit));
        }
        Ok(found)
    }

    fn site(
        &self,
        slot: &LinearSlot,
        evidence: &Evidence,
        monitor: &mut dyn Monitor,
    ) -> Result<(Offered, Fit), FitError> {
        let Candidates { methods, align, keeps, keep, seed, .. } = self.candidates;
        let fit = |method: &MethodSpec, size: Option<Size>, monitor: &mut dyn Monitor| {
            let problem = problem(slot, evidence, method, size, *seed);
            method.fit(&problem, &mut Forward(monitor))
        };
        let mut choices = Vec::new();
        for method in methods {
            match method.error_curve(&problem(slot, evidence, method, None, *seed))? {
                Some(errors) => {
                    choices.extend(of_curve(slot.shape(), *align, method, &errors, 0.0)?);
                }
                None => {
                    for keep in keeps {
                        let size = Some(Size::Keep(*keep));
                        // Some kinds have no operator of a shape.
                        if method.parameters(size, slot.shape()).is_err() {
                            continue;
                        }
                        let found = fit(method, size, monitor)?;
                        let parameters = found.op.parameters() as u64;
                        let (method, error) =
                            (Some(method.clone()), found.report.train_relative_error);
                        choices.push(Choice { method, size, parameters, error, loss: 0.0 });
                    }
                }
            }
        }
        choices.push(Choice::dense(slot.shape()));
        let found = fit(&methods[0], Some(Size::Keep(*keep)), monitor)?;
        let dense_parameters = slot.shape().dense_parameters() as u64;
        let choices = SiteChoices { site: slot.id().clone(), dense_parameters, choices };
        Ok((Offered { choices, error: found.report.train_relative_error }, found))
    }
}

fn problem<'a>(
    slot: &'a LinearSlot,
    evidence: &'a Evidence,
    method: &MethodSpec,
    size: Option<Size>,
    seed: u64,
) -> FitProblem<'a> {
    let site = slot.id();
    FitProblem {
        site,
        shape: slot.shape(),
        original: slot.op(),
        size,
        evidence: Some(evidence),
        components: None,
        bias: slot.bias(),
        key: key_of(seed, site, method, size),
        checkpoint: None,
    }
}

fn variant_of(model: &Transformer, site: &SiteId, fit: Fit) -> Variant {
    let bias = model.slot(site).and_then(LinearSlot::bias);
    let shifted = bias.zip(fit.bias_shift).map(|(bias, shift)| {
        (site.clone(), bias.iter().zip(shift).map(|(bias, shift)| bias + shift).collect())
    });
    Variant { ops: vec![(site.clone(), fit.op)], biases: shifted.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::super::loss::losses_of;
    use super::*;
    use crate::allocate::allocate;
    use crate::methods::{LowRankMethod, StructuredMethod};
    use crate::pipeline::apply;
    use crate::tiny;
    use linwright_ops::{BlockHadamardSpec, OpSpec};
    use linwright_run::{Silent, Stopped};

    fn candidates() -> Candidates {
        let blocks = BlockHadamardSpec { depth: 1, block: 1, blocks: None };
        let blocks = StructuredMethod::new(OpSpec::BlockHadamard(blocks));
        Candidates {
            methods: vec![
                MethodSpec::LowRank(LowRankMethod::default()),
                MethodSpec::Structured(blocks),
            ],
            align: 1,
            keeps: vec![0.5, 0.25],
            keep: 0.4,
            sites: SlotSet::default(),
            seed: 0,
        }
    }

    #[test]
    fn sites_are_measured_once_and_the_plan_meets_the_budget() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let (model, tokenizer) = (&loaded.decoder, tiny::tokenizer());
        let windows = tiny::calibration(model, 3000);
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::open(dir.path()).expect("opens");
        let context = Context { store: Some(&store), ..Context::new(&loaded.hash) };
        let measured = Measured { model, tokenizer: &tokenizer, windows: &windows };
        let candidates = candidates();
        let stopped = sensitivity(measured, &candidates, &context, &mut Stopped);
        assert!(matches!(stopped, Err(error) if error.is_interruption()));
        let found = sensitivity(measured, &candidates, &context, &mut Silent).expect("measures");
        assert_eq!(
            found.losses.len(),
            model.slots().iter().filter(|s| s.layer().is_some()).count()
        );
        assert!(found.dense_loss > 0.0 && found.tokens > 300);
        let again = sensitivity(measured, &candidates, &context, &mut Silent).expect("reads");
        assert_eq!(again, found, "from the store");
        let fresh = sensitivity(measured, &candidates, &Context::new(&loaded.hash), &mut Silent);
        assert_eq!(fresh.expect("measures"), found, "without a store");
        for site in &found.choices {
            assert!(site.choices.iter().all(|c| c.loss >= 0.0 && c.error < 1.0), "{site:?}");
            let dense = site.choices.last().expect("stays dense");
            assert_eq!((dense.parameters, dense.loss), (site.dense_parameters, 0.0));
        }
        let allocation = allocate(&found.choices, 0.5).expect("fits");
        let plan = allocation.plan(&found.choices, 0, true);
        let edited = apply(model, Some(&windows), &plan, &context, &mut Silent).expect("applies");
        let kept: usize = edited.sites.iter().map(|site| site.parameters).sum();
        assert_eq!(kept as u64, allocation.parameters);
    }

    #[test]
    fn the_loss_of_a_site_is_that_of_the_model_with_the_site_replaced() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let (model, tokenizer) = (&loaded.decoder, tiny::tokenizer());
        let windows = tiny::calibration(model, 2000);
        let context = Context::new(&loaded.hash);
        let measured = Measured { model, tokenizer: &tokenizer, windows: &windows };
        let found = sensitivity(measured, &candidates(), &context, &mut Silent).expect("measures");
        let last = found.losses.last().expect("a site");
        let sites = SlotSet { patterns: vec![last.site.0.clone()], ..SlotSet::default() };
        let plan = reference(&Candidates { sites, ..candidates() });
        let edited = apply(model, Some(&windows), &plan, &context, &mut Silent).expect("applies");
        let of = |model: &Transformer| {
            let measured = Measured { model, ..measured };
            losses_of(measured, &[], &mut Silent).expect("judges").dense
        };
        let rise = of(&edited.network) - of(model);
        assert!((rise - last.loss).abs() < 1e-6, "{rise} and {}", last.loss);
    }
}
