//! Choices from the model: how much loss an error at each site costs.
//!
//! All sites are replaced by the first method at the size asked for, each fitted to the original
//! model by itself. Then each in turn gets its original weight back, alone: the fall of the loss on
//! the validation windows of the calibration text, divided by the error of the fit, is the loss per
//! error of the site. Two other ways failed on the built-in model. One site replaced in the
//! original model costs next to nothing, since errors grow from layer to layer. And sites fitted
//! one after the other make up for those before, so a weight restored below them raises the loss.
//! Errors of all methods and sizes are those of their fits to the original model, so a run costs
//! one pass of capture, a fit per method and site, and one pass of the later stages per site,
//! whatever the number of sizes.
//!
//! The windows select; figures of the result must come from other text.

use crate::LmError;
use crate::allocate::loss::{Losses, Measured, losses};
use crate::cuts::Variant;
use linwright_compress::allocate::{Choice, SiteChoices, of_curve};
use linwright_compress::methods::{Fit, FitProblem, MethodSpec};
use linwright_compress::pipeline::{Context, Forward, key_of, put};
use linwright_compress::plan::{Edit, InputEdits, Plan, SlotSet};
use linwright_compress::{CompressError, FitError, Size, stored_fit};
use linwright_measure::capture::{Evidence, Lockstep, Needs, SiteCapture, Wanted};
use linwright_model::Transformer;
use linwright_ops::{Examples, LinearSlot, SiteId, Sites};
use linwright_run::{Fingerprint, Monitor, PieceKey, Store};
use serde::{Deserialize, Serialize};

/// Kind of the pieces.
const CHOICES: &str = "choices";
/// Least loss per error of a site, over the mean of all: a fall of the loss below the noise of the
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

/// What the edit of one site costs where all sites are edited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteLoss {
    /// The site.
    pub site: SiteId,
    /// Method and size of the edit.
    pub method: String,
    /// Relative squared error of its fit.
    pub error: f64,
    /// Fall of the loss with the original weight, in nats per token.
    pub loss: f64,
}

/// Losses of sites, and what each may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Loss of the original model, in nats per token.
    pub dense_loss: f64,
    /// Loss with the same method and size for all sites.
    pub uniform_loss: f64,
    /// Tokens that are predicted.
    pub tokens: usize,
    /// What the edit of each site costs.
    pub losses: Vec<SiteLoss>,
    /// Loss per error of each site, over the mean of all.
    pub weights: Vec<f64>,
    /// What each site may get, with the error of its fit as the loss.
    pub choices: Vec<SiteChoices>,
}

impl Sensitivity {
    /// What each site may get, with losses: errors times the weight of the site to some power. With
    /// power zero all sites count equally. Of all choices only those of `method` count, if there is
    /// one, and those that keep at least `least` of the parameters of their site.
    #[must_use]
    pub fn weighed(&self, power: f64, method: Option<&MethodSpec>, least: f64) -> Vec<SiteChoices> {
        let is_offered = |choice: &Choice, dense: u64| {
            let has_method = choice.method.is_none()
                || method.is_none_or(|own| choice.method.as_ref() == Some(own));
            has_method && choice.parameters as f64 >= least * dense as f64
        };
        let of = |(site, weight): (&SiteChoices, &f64)| {
            let all =
                site.choices.iter().filter(|choice| is_offered(choice, site.dense_parameters));
            let weigh = |choice: &Choice| Choice {
                loss: weight.powf(power) * choice.error,
                ..choice.clone()
            };
            SiteChoices { choices: all.map(weigh).collect(), ..site.clone() }
        };
        self.choices.iter().zip(&self.weights).map(of).collect()
    }
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
/// [`LmError`]: as [`Plan::sites`], and those of captures, fits and the store.
pub fn sensitivity(
    measured: Measured<'_>,
    candidates: &Candidates,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Sensitivity, LmError> {
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
    let (mut offered, mut edited) = (Vec::new(), model.clone());
    for group in plan.sites(model)? {
        let work = GroupWork { candidates, group: &group, base: &base, store };
        for (site, fit) in work.offered(model, &mut lockstep, monitor)? {
            let id = &site.choices.site;
            let bias = model.slot(id).and_then(LinearSlot::bias);
            put(&mut edited, id, bias, &plan.edits[0], fit)?;
            offered.push(site);
        }
    }
    drop(lockstep);
    let restored: Vec<Variant> = offered
        .iter()
        .map(|site| Variant::of(model, std::iter::once(&site.choices.site)))
        .collect();
    let dense = losses(measured, &[], (&base, store), monitor)?.base;
    let base = Fingerprint::of(&[("base", &base), ("all sites", &plan)]);
    let of_edited = Measured { model: &edited, ..measured };
    let found = losses(of_edited, &restored, (&base, store), monitor)?;
    Ok(weighed(offered, dense, found, &plan.edits[0].label()))
}

/// The plan that measures the sites.
fn reference(candidates: &Candidates) -> Plan {
    let method = candidates.methods[0].clone();
    let (sites, size) = (candidates.sites.clone(), Some(Size::Keep(candidates.keep)));
    Plan { seed: candidates.seed, edits: vec![Edit { sites, method, size, heals: false }] }
}

/// Weights of all sites from the falls of the loss.
fn weighed(offered: Vec<Offered>, dense_loss: f64, found: Losses, label: &str) -> Sensitivity {
    let falls: Vec<f64> = found.variants.iter().map(|loss| found.base - loss).collect();
    let per_error =
        |(site, fall): (&Offered, &f64)| fall.max(0.0) / site.error.max(f64::MIN_POSITIVE);
    let mut weights: Vec<f64> = offered.iter().zip(&falls).map(per_error).collect();
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let relative = |weight: f64| if mean > 0.0 { (weight / mean).max(LEAST) } else { 1.0 };
    weights.iter_mut().for_each(|weight| *weight = relative(*weight));
    let loss = |(site, fall): (&Offered, &f64)| SiteLoss {
        site: site.choices.site.clone(),
        method: label.to_owned(),
        error: site.error,
        loss: *fall,
    };
    let losses = offered.iter().zip(&falls).map(loss).collect();
    let choices = offered.into_iter().map(|site| site.choices).collect();
    let (uniform_loss, tokens) = (found.base, found.tokens);
    Sensitivity { dense_loss, uniform_loss, tokens, losses, weights, choices }
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
    ) -> Result<Vec<(Offered, Fit)>, LmError> {
        if let Some(known) = self.stored()? {
            return Ok(known);
        }
        let (layer, count) = (self.group.layer, self.group.slots.len());
        monitor.step(&format!("layer {layer}: capturing inputs of {count} sites"));
        let methods = &self.candidates.methods;
        let has_targets = methods.iter().any(|method| method.needs() == Needs::Stats);
        let needs = if has_targets { Needs::Stats } else { Needs::Inputs };
        let sites = self.group.slots.iter().map(|slot| &slot.site);
        let wanted: Vec<Wanted<'_>> = sites.map(|site| Wanted { site, needs }).collect();
        let captures = lockstep.capture(model, &wanted, monitor)?;
        captures.iter().map(|capture| self.site(model, capture, monitor)).collect()
    }

    fn print(&self, site: &SiteId) -> Fingerprint {
        Fingerprint::of(&[("base", self.base), ("site", site)])
    }

    /// All sites, if they are in the store.
    fn stored(&self) -> Result<Option<Vec<(Offered, Fit)>>, LmError> {
        let mut known = Vec::new();
        for slot in &self.group.slots {
            let print = self.print(&slot.site);
            let decode = |bytes: Vec<u8>| {
                serde_json::from_slice(&bytes).map_err(|error: serde_json::Error| error.to_string())
            };
            let offered = self.store.decoded(&PieceKey::new(CHOICES, print.clone()), decode)?;
            match (offered, stored_fit::get(self.store, &print)?) {
                (Some(offered), Some(fit)) => known.push((offered, fit)),
                _ => return Ok(None),
            }
        }
        Ok(Some(known))
    }

    fn site(
        &self,
        model: &Transformer,
        SiteCapture { site, evidence, .. }: &SiteCapture,
        monitor: &mut dyn Monitor,
    ) -> Result<(Offered, Fit), LmError> {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted.into());
        }
        monitor.step(&format!("{site}: fitting candidates"));
        let slot = model.slot(site).expect("the site was found in the plan");
        let found = self.choices(slot, evidence, monitor);
        let (offered, fit) =
            found.map_err(|source| CompressError::Fit { site: site.clone(), source })?;
        let json = serde_json::to_vec(&offered).map_err(|error| CompressError::Unstorable {
            site: site.clone(),
            reason: error.to_string(),
        })?;
        self.store.put(&PieceKey::new(CHOICES, self.print(site)), &[&json])?;
        stored_fit::put(self.store, &self.print(site), site, &fit)?;
        Ok((offered, fit))
    }

    fn choices(
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
                    choices.extend(of_curve(slot.shape(), *align, method, &errors)?);
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
                        choices.push(Choice { method, size, parameters, error, loss: error });
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
        ridge: None,
        checkpoint: None,
        part_rows: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::loss::losses_of;
    use crate::tiny;
    use linwright_compress::allocate::allocate;
    use linwright_compress::methods::{LowRankMethod, StructuredMethod};
    use linwright_compress::pipeline::apply;
    use linwright_model::tokenizer::Tokenizer;
    use linwright_ops::{BlockHadamardSpec, OpSpec};
    use linwright_run::{Silent, Stopped};
    use std::path::Path;

    /// A tokenizer, for what encodes no text.
    fn tokenizer() -> Tokenizer {
        let json = r#"{"version": "1.0", "added_tokens": [], "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
        Tokenizer::from_bytes(Path::new("t.json"), json.as_bytes(), None).expect("a tokenizer")
    }

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
        let (model, tokenizer) = (&loaded.decoder, tokenizer());
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
    fn the_loss_of_a_site_is_that_of_the_edited_model_less_that_with_the_site_restored() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let (model, tokenizer) = (&loaded.decoder, tokenizer());
        let windows = tiny::calibration(model, 2000);
        let context = Context::new(&loaded.hash);
        let measured = Measured { model, tokenizer: &tokenizer, windows: &windows };
        let found = sensitivity(measured, &candidates(), &context, &mut Silent).expect("measures");
        let plan = reference(&candidates());
        // Without edits below, each fit is to the original model.
        let mut edited = model.clone();
        for site in plan.sites(model).expect("exist").iter().flat_map(|group| &group.slots) {
            let sites = SlotSet { patterns: vec![site.site.0.clone()], ..SlotSet::default() };
            let alone = reference(&Candidates { sites, ..candidates() });
            let alone = apply(model, Some(&windows), &alone, &context, &mut Silent);
            let alone = alone.expect("applies").network;
            let (from, to) = (alone.slot(&site.site), edited.slot_mut(&site.site));
            let (from, to) = (from.expect("is a slot"), to.expect("is a slot"));
            to.replace(from.op().clone()).expect("suits");
            if let (Some(to), Some(from)) = (to.bias_mut(), from.bias()) {
                to.copy_from_slice(from);
            }
        }
        let of = |model: &Transformer| {
            let measured = Measured { model, ..measured };
            losses_of(measured, &[], &mut Silent).expect("judges").base
        };
        assert_eq!((of(model), of(&edited)), (found.dense_loss, found.uniform_loss));
        let first = &found.losses[0];
        let original = model.slot(&first.site).expect("is a slot");
        let slot = edited.slot_mut(&first.site).expect("is a slot");
        slot.replace(original.op().clone()).expect("suits");
        slot.bias_mut().expect("has one").copy_from_slice(original.bias().expect("has one"));
        let fall = found.uniform_loss - of(&edited);
        assert!((fall - first.loss).abs() < 1e-6, "{fall} and {}", first.loss);
    }
}
