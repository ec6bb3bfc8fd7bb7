//! Editing a network: sites in the order of computation, each with earlier edits active.

use crate::intervention::{components_of, weight_of};
use crate::methods::{Fit, FitProblem, FitReport, MethodSpec, needs_together};
use crate::plan::{Edit, InputEdits, Plan, SlotEdit};
use crate::stored_fit;
use crate::{CompressError, FitError, Size};
use linwright_measure::capture::{Bounds, Evidence, Lockstep, Needs, SiteCapture, Wanted};
use linwright_ops::{Examples, LinearSlot, Network, Shape, SiteId, Sites};
use linwright_run::{Fingerprint, Monitor, Store};
use linwright_tensor::{RngKey, Shelf};
use linwright_train::{Checkpoint, Control, Progress};
use serde::{Deserialize, Serialize};

/// Training steps between two checkpoints.
const CHECKPOINT_EVERY: u64 = 500;

/// Model hash, memory bounds and stores for the application of a plan.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Hash of the original network.
    pub model_hash: &'a str,
    /// Memory bounds.
    pub bounds: Bounds,
    /// Store of finished fits, if they are kept.
    pub store: Option<&'a Store>,
    /// Store of singular components of weights, if they are kept.
    pub components: Option<&'a Store>,
    /// The file for the operators of a network larger than memory: one layer is in memory.
    pub shelf: Option<&'a Shelf>,
}

impl<'a> Context<'a> {
    /// A context without stores.
    #[must_use]
    pub fn new(model_hash: &'a str) -> Self {
        let bounds = Bounds::default();
        Self { model_hash, bounds, store: None, components: None, shelf: None }
    }
}

/// Result for one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteOutcome {
    /// The site.
    pub site: SiteId,
    /// Its role.
    pub role: String,
    /// Its layer.
    pub layer: usize,
    /// Whether it healed, so the site does not count as replaced.
    pub heals: bool,
    /// Label of the method.
    pub method: String,
    /// Number of parameters of the operator.
    pub parameters: usize,
    /// Number of parameters of the dense weight.
    pub dense_parameters: usize,
    /// Multiply-adds per row of the operator.
    pub macs_per_row: u64,
    /// Errors and time of the fit.
    pub fit: FitReport,
}

/// An edited network.
#[derive(Clone, Debug)]
pub struct Edited<N> {
    /// The network.
    pub network: N,
    /// Results of all edited sites, in order.
    pub sites: Vec<SiteOutcome>,
}

/// Applies a plan to a copy of `original`, in the order of computation.
///
/// Inputs are those of a site in the edited network; targets are its outputs in the original one,
/// without the bias. If a slot has a bias, operator and bias are fitted together. Methods that read
/// the weight alone read the original one, and their error is that on the examples if there are
/// any. With a store, existing fits are reused.
///
/// # Errors
/// [`CompressError`]; [`CompressError::NoText`] without examples for a method that is fitted to
/// them.
pub fn apply<N: Network>(
    original: &N,
    examples: Option<&dyn Examples<N::Input>>,
    plan: &Plan,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Edited<N>, CompressError> {
    let work = plan.sites(original)?;
    if examples.is_none() {
        check_needs_no_text(&work)?;
    }
    let mut network = original.clone();
    let mut lockstep = examples.map(|e| {
        let lockstep = Lockstep::new(original, e, context.bounds.clone());
        let mut needs = work.iter().flat_map(|group| needs(group, original, e.training_rows()));
        let has_targets = needs.any(Needs::has_targets);
        if has_targets { lockstep } else { lockstep.without_targets() }
    });
    let mut sites = Vec::new();
    let mut chain = Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("biases", &"fitted along"),
        ("model", &context.model_hash),
        ("examples", &examples.map(Examples::identity)),
        ("seed", &plan.seed),
    ]);
    let total: usize = work.iter().map(|group| group.slots.len()).sum();
    for group in work {
        let prints = prints(&group, &chain);
        let fits = match stored(context.store, &prints)? {
            Some(fits) => fits,
            None => {
                let captures = match &mut lockstep {
                    Some(lockstep) => {
                        let rows = examples.map_or(0, Examples::training_rows);
                        capture(lockstep, &group, (&network, rows), monitor)?
                    }
                    None => Vec::new(),
                };
                let mut fits = Vec::new();
                for (index, (slot_edit, print)) in group.slots.iter().zip(&prints).enumerate() {
                    let SlotEdit { site, edit, .. } = slot_edit;
                    let slot = original.slot(site).expect("the site was found in the plan");
                    let evidence = captures.get(index).map(|capture| &capture.evidence);
                    let place = [sites.len() + index + 1, total];
                    let job = SiteJob { evidence, slot, edit, seed: plan.seed, print, place };
                    fits.push(fit_site(&job, context, monitor)?);
                }
                fits
            }
        };
        for ((SlotEdit { site, stage, edit }, print), fit) in
            group.slots.iter().zip(&prints).zip(fits)
        {
            let bias = original.slot(site).and_then(LinearSlot::bias);
            sites.push(put(&mut network, site, bias, edit, fit)?);
            if let Some(shelf) = context.shelf {
                let slot = network.slot_mut(site).expect("the site was found in the plan");
                shelve(slot, shelf, (context.store, print))?;
                original.slot(site).iter().for_each(|slot| slot.op().map().release());
            }
            if let Some(lockstep) = &mut lockstep {
                lockstep.note_edit(*stage);
            }
        }
        if lockstep.is_none() {
            monitor.progress(sites.len() as u64, total as u64);
        }
        chain = Fingerprint::of(&[("prints", &prints)]);
    }
    original.release_scratch();
    network.release_scratch();
    Ok(Edited { network, sites })
}

/// Moves the operator of a slot to a file: that of its stored fit, or else the shelf.
fn shelve(
    slot: &mut LinearSlot,
    shelf: &Shelf,
    (store, print): (Option<&Store>, &Fingerprint),
) -> Result<(), CompressError> {
    if let Some(store) = store
        && stored_fit::place(store, print, slot.op_mut())?
    {
        return Ok(());
    }
    let moved = slot.op_mut().map_mut().shelve(shelf);
    moved.map_err(|source| CompressError::Shelf { site: slot.id().clone(), source })
}

fn check_needs_no_text(work: &[InputEdits<'_>]) -> Result<(), CompressError> {
    let mut slots = work.iter().flat_map(|group| &group.slots);
    match slots.find(|slot| slot.edit.method.needs_text()) {
        Some(SlotEdit { site, edit, .. }) => {
            Err(CompressError::NoText { site: site.clone(), method: edit.label() })
        }
        None => Ok(()),
    }
}

/// Identifies each fit of a group by everything that it depends on.
fn prints(group: &InputEdits<'_>, chain: &Fingerprint) -> Vec<Fingerprint> {
    let print = |SlotEdit { site, edit, .. }: &SlotEdit<'_>| {
        let (method, size) = (&edit.method, &edit.size);
        Fingerprint::of(&[("chain", chain), ("site", site), ("method", method), ("size", size)])
    };
    group.slots.iter().map(print).collect()
}

/// Form of the data of each site that reads one input.
pub(crate) fn needs<'a>(
    group: &InputEdits<'a>,
    network: &impl Sites,
    training_rows: usize,
) -> Vec<Needs> {
    let with_shape = |SlotEdit { site, edit, .. }: &SlotEdit<'a>| {
        let shape = network.slot(site).expect("the site was found in the plan").shape();
        (&edit.method, shape)
    };
    let methods: Vec<(&MethodSpec, Shape)> = group.slots.iter().map(with_shape).collect();
    needs_together(&methods, training_rows)
}

fn capture<N: Network>(
    lockstep: &mut Lockstep<'_, N>,
    group: &InputEdits<'_>,
    (network, training_rows): (&N, usize),
    monitor: &mut dyn Monitor,
) -> Result<Vec<SiteCapture>, CompressError> {
    let role = |slot: &SlotEdit<'_>| {
        network.slot(&slot.site).map_or_else(String::new, |s| s.role().to_string())
    };
    let roles: Vec<String> = group.slots.iter().map(role).collect();
    monitor.step(&format!("layer {}: capturing {} inputs", group.layer, roles.join(", ")));
    let sites = group.slots.iter().map(|slot| &slot.site);
    let wanted: Vec<Wanted<'_>> = sites
        .zip(needs(group, network, training_rows))
        .map(|(site, needs)| Wanted { site, needs })
        .collect();
    Ok(lockstep.capture(network, &wanted, monitor)?)
}

/// Fits of all sites of an edit, if all are in the store.
fn stored(
    store: Option<&Store>,
    prints: &[Fingerprint],
) -> Result<Option<Vec<Fit>>, CompressError> {
    let Some(store) = store else { return Ok(None) };
    let mut fits = Vec::new();
    for print in prints {
        match stored_fit::get(store, print)? {
            Some(fit) => fits.push(fit),
            None => return Ok(None),
        }
    }
    Ok(Some(fits))
}

/// A site that an edit changes.
struct SiteJob<'a> {
    /// What goes into it and should come out, if there is calibration text.
    evidence: Option<&'a Evidence>,
    /// The slot of the original model.
    slot: &'a LinearSlot,
    edit: &'a Edit,
    /// Seed of the plan.
    seed: u64,
    /// Identifies the fit.
    print: &'a Fingerprint,
    /// Its number among all sites, from one, and how many there are.
    place: [usize; 2],
}

fn fit_site(
    job: &SiteJob<'_>,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Fit, CompressError> {
    let SiteJob { evidence, slot, edit, seed, print, place: [number, total] } = *job;
    if let Some(store) = context.store
        && let Some(fit) = stored_fit::get(store, print)?
    {
        return Ok(fit);
    }
    if monitor.interrupted() {
        return Err(CompressError::Interrupted);
    }
    let site = slot.id();
    monitor.step(&format!("{site}: fitting {} ({number} of {total})", edit.label()));
    // Checkpoints of the training, for one process at a time.
    let what = format!("fit of {site}: {}", edit.label());
    let unfinished = context.store.map(|store| store.unfinished(print, &what)).transpose()?;
    let checkpoint = unfinished.as_ref().and_then(|work| work.file("training"));
    let checkpoint = checkpoint.map(|path| Checkpoint {
        path,
        every: CHECKPOINT_EVERY,
        fingerprint: print.0.clone(),
    });
    let began = monitor.seconds();
    let components = match context.components {
        Some(store) if edit.method.needs_components(edit.size) => {
            Some(components_of(store, site, &weight_of(slot)?)?)
        }
        _ => None,
    };
    let problem = FitProblem {
        site,
        shape: slot.shape(),
        original: slot.op(),
        size: edit.size,
        evidence,
        components: components.as_ref(),
        bias: slot.bias(),
        key: key_of(seed, site, &edit.method, edit.size),
        checkpoint: checkpoint.as_ref(),
    };
    let mut fit = edit
        .method
        .fit(&problem, &mut Forward(monitor))
        .map_err(|source| CompressError::Fit { site: site.clone(), source })?;
    fit.report.seconds = monitor.seconds() - began;
    if let Some(store) = context.store {
        stored_fit::put(store, print, site, &fit)?;
    }
    if let Some(unfinished) = unfinished {
        unfinished.finish()?;
    }
    Ok(fit)
}

/// Random key of a fit.
pub(crate) fn key_of(seed: u64, site: &SiteId, method: &MethodSpec, size: Option<Size>) -> RngKey {
    RngKey::new(seed).fold(&site.0).fold(&method.stream(size))
}

/// Passes the progress of a training on to the monitor.
pub(crate) struct Forward<'a>(pub(crate) &'a mut dyn Monitor);

impl Control for Forward<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.0.progress(progress.step, progress.steps);
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// Puts a fit into its slot; its bias is the original one, shifted.
pub(crate) fn put(
    network: &mut impl Sites,
    id: &SiteId,
    original_bias: Option<&[f32]>,
    edit: &Edit,
    fit: Fit,
) -> Result<SiteOutcome, CompressError> {
    let slot = network.slot_mut(id).expect("the site was found in the plan");
    let dense_parameters = slot.shape().dense_parameters();
    let report = put_fit(slot, original_bias, fit)?;
    Ok(SiteOutcome {
        site: id.clone(),
        role: slot.role().to_string(),
        layer: slot.layer().unwrap_or_default(),
        heals: edit.heals,
        method: edit.label(),
        parameters: slot.parameters(),
        dense_parameters,
        macs_per_row: slot.op().map().macs_per_row(),
        fit: report,
    })
}

/// Puts a fit into a slot, with the original bias, shifted.
pub(crate) fn put_fit(
    slot: &mut LinearSlot,
    original_bias: Option<&[f32]>,
    fit: Fit,
) -> Result<FitReport, CompressError> {
    let site = slot.id().clone();
    let replaced = slot.replace(fit.op).map_err(FitError::Operator);
    replaced.map_err(|source| CompressError::Fit { site, source })?;
    if let (Some(bias), Some(original), Some(shift)) =
        (slot.bias_mut(), original_bias, fit.bias_shift)
    {
        let sums = original.iter().zip(shift);
        bias.iter_mut().zip(sums).for_each(|(bias, (original, shift))| *bias = original + shift);
    }
    Ok(fit.report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::regression::multiply;
    use crate::methods::{LowRankMethod, reduced_rank_regression};
    use crate::plan::SlotSet;
    use crate::tiny;
    use linwright_measure::capture::Needs;
    use linwright_model::checkpoint::{Form, SaveOptions, load, save};
    use linwright_model::{Role, Transformer};
    use linwright_run::Silent;

    #[test]
    fn biases_are_fitted_with_the_operators_and_saved() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let calibration = tiny::calibration(original, 4000);
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let sites = SlotSet::with_roles(&[Role::Query, Role::Key, Role::Value], Some(vec![0]));
        let edits = vec![Edit { sites, method, size: Some(Size::Rank(2)), heals: false }];
        let plan = Plan { edits, seed: 0 };
        let context = Context::new(&loaded.hash);
        let edited = apply(original, Some(&calibration), &plan, &context, &mut Silent);
        let edited = edited.expect("applies");

        let sites: Vec<SiteId> = edited.sites.iter().map(|site| site.site.clone()).collect();
        let mut lockstep = Lockstep::new(original, &calibration, Bounds::default());
        let wanted: Vec<Wanted<'_>> =
            sites.iter().map(|site| Wanted { site, needs: Needs::Stats }).collect();
        let captured = lockstep.capture(original, &wanted, &mut Silent);
        for (capture, outcome) in captured.expect("captures").iter().zip(&edited.sites) {
            let Evidence::Stats { train, .. } = &capture.evidence else {
                panic!("sums were asked for")
            };
            let slot = |model: &Transformer| model.slot(&capture.site).expect("is a slot").clone();
            let (old, new) = (slot(original), slot(&edited.network));
            let weight = new.op().to_dense().expect("is linear").cast();
            let biases = old.bias().zip(new.bias()).expect("qwen2 has biases here");
            let shift: Vec<f64> =
                biases.0.iter().zip(biases.1).map(|(old, new)| f64::from(new - old)).collect();
            for (found, best) in shift.iter().zip(train.mean_residual(&weight)) {
                assert!((found - best).abs() < 1e-5, "{}: {found}, best is {best}", capture.site);
            }
            let (u, v, _) = reduced_rank_regression(train, 2).expect("fits");
            let without = train.squared_error(&multiply(u.view().into(), v.view().into()))
                / train.target_power();
            let with = outcome.fit.train_relative_error;
            assert!(with < 0.999 * without, "{}: {with}, {without} before", capture.site);
        }

        let out = tempfile::tempdir().expect("a folder");
        let out = out.path().join("saved");
        save(&edited.network, &loaded.source, &SaveOptions::new(Form::Native), &out)
            .expect("saves");
        let read = load(&out).expect("loads").decoder;
        for site in &sites {
            let bias = |model: &Transformer| {
                model.slot(site).and_then(LinearSlot::bias).map(<[f32]>::to_vec)
            };
            assert_eq!(bias(&read), bias(&edited.network), "{site}");
            assert_ne!(bias(&read), bias(original), "{site}");
        }
    }
}
