//! Editing a network: sites in the order of computation, each with earlier edits active.
//!
//! The members of a [`Team`] run a part of the examples each, and every site has an owner, which
//! gets its data, fits it and gives the fit to all. The fits have the same bits for any team.

mod group;

use crate::fit_to::{FitTo, Ridges};
use crate::methods::{Fit, FitReport, MethodSpec, needs_together};
use crate::plan::{Edit, InputEdits, Plan, SlotEdit};
use crate::stored_fit;
use crate::{CompressError, FitError, Size};
use group::{GroupJob, Text};
use linwright_measure::capture::{Bounds, Lockstep, Needs};
use linwright_ops::{Examples, LinearSlot, Network, Shape, SiteId, Sites};
use linwright_run::team::{Alone, Members, Team};
use linwright_run::{Fingerprint, Monitor, Part, Store};
use linwright_tensor::{RngKey, Shelf, parallel};
use linwright_train::{Control, Progress};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

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
    /// The processes that apply the plan together: the first alone has stores, or all share one.
    pub team: &'a dyn Team,
    /// Which examples closed forms are fitted to.
    pub fit_to: FitTo<'a>,
}

impl<'a> Context<'a> {
    /// A context without stores, in which validation examples are held out.
    #[must_use]
    pub fn new(model_hash: &'a str) -> Self {
        Self {
            model_hash,
            bounds: Bounds::default(),
            store: None,
            components: None,
            shelf: None,
            team: &Alone,
            fit_to: FitTo::Training,
        }
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
/// any. With a store, existing fits are reused. See [`FitTo`] for what closed forms are fitted to.
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
    let Some(found) = examples else { return apply_once(original, None, plan, context, monitor) };
    let fit_to = if plan.needs_validation() { FitTo::Training } else { context.fit_to };
    let context = Context { fit_to, ..context.clone() };
    let needed = plan.chooses_ridges();
    let pass = |context: &Context<'_>, monitor: &mut dyn Monitor| {
        apply_once(original, examples, plan, context, monitor)
    };
    in_passes(&context, found, needed, monitor, pass, |edited: &Edited<N>| ridges_of(&edited.sites))
}

/// Edits a network in one pass or in two, as the context says; `needed` tells whether a ridge is to
/// be chosen, and `ridges` lists what a pass chose.
pub fn in_passes<T, I, E>(
    context: &Context<'_>,
    examples: &dyn Examples<I>,
    needed: bool,
    monitor: &mut dyn Monitor,
    mut pass: impl FnMut(&Context<'_>, &mut dyn Monitor) -> Result<T, E>,
    ridges: impl Fn(&T) -> Vec<(SiteId, f64)>,
) -> Result<T, E> {
    if context.fit_to != FitTo::All {
        return pass(context, monitor);
    }
    let mut chosen = Ridges::new();
    if needed {
        monitor.step("choosing ridges, with validation windows held out");
        let first = Context { fit_to: FitTo::Training, ..context.clone() };
        let edited = pass(&first, &mut Part::new(monitor, 0, 2))?;
        let share = examples.training_rows() as f64 / examples.all_rows().max(1) as f64;
        chosen.extend(ridges(&edited).into_iter().map(|(site, ridge)| (site, ridge * share)));
        drop(edited);
        monitor.step("fitting to all windows, with these ridges");
    }
    let whole = Context { fit_to: FitTo::With(&chosen), ..context.clone() };
    match needed {
        true => pass(&whole, &mut Part::new(monitor, 1, 2)),
        false => pass(&whole, monitor),
    }
}

/// The ridges of regressions.
pub(crate) fn ridges_of(sites: &[SiteOutcome]) -> Vec<(SiteId, f64)> {
    let ridge = |site: &SiteOutcome| Some((site.site.clone(), site.fit.ridge?));
    sites.iter().filter_map(ridge).collect()
}

fn apply_once<N: Network>(
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
        let lockstep = Lockstep::new(original, e, context.bounds.clone()).divided(context.team);
        let lockstep = if context.fit_to.holds_out() { lockstep } else { lockstep.whole() };
        let mut needs =
            work.iter().flat_map(|group| needs(group, original, context.fit_to.rows(e)));
        let has_targets = needs.any(Needs::has_targets);
        if has_targets { lockstep } else { lockstep.without_targets() }
    });
    let jobs = GroupJob::all(work, plan.seed, context, examples.map(Examples::identity));
    let what = jobs.iter().flat_map(|job| &job.prints).map(|print| &print.0);
    let what = Fingerprint::of(&[("fits", &what.collect::<Vec<_>>())]);
    // What is said here stands: no piece of work of an earlier pass, of which members may be past.
    context.team.begin(&Fingerprint::of(&[("agreement", &what.0)]));
    context.team.agree(&format!("{} with {}", what.0, parallel::instruction_set()))?;
    // Without text no fit waits for an earlier one: members find as many groups ahead as they are.
    let at_once = if lockstep.is_none() { context.team.size() } else { 1 };
    let rows = examples.map_or(0, |examples| context.fit_to.rows(examples));
    let (mut sites, mut ahead, mut next) = (Vec::new(), VecDeque::new(), 0);
    for (index, job) in jobs.iter().enumerate() {
        while next < jobs.len().min(index + at_once) {
            let text = lockstep.as_mut();
            let text = text.map(|lockstep| Text { lockstep, edited: &network, rows });
            ahead.push_back(jobs[next].find(original, text, context, monitor)?);
            next += 1;
        }
        let found = ahead.pop_front().expect("a group was found");
        let fits = job.shared(found, context)?;
        let GroupJob { group, prints, places: [_, total], .. } = job;
        for ((SlotEdit { site, stage, edit }, print), fit) in
            group.slots.iter().zip(prints).zip(fits)
        {
            let bias = original.slot(site).and_then(LinearSlot::bias);
            sites.push(put(&mut network, site, bias, edit, fit)?);
            if let Some(shelf) = context.shelf {
                let slot = network.slot_mut(site).expect("the site was found in the plan");
                shelve(slot, shelf, (context.store, print))?;
                original.slot(site).iter().for_each(|slot| slot.op().map().release());
            }
            if let Some(lockstep) = &mut lockstep {
                lockstep.note_edit_of(site, *stage);
            }
        }
        match lockstep {
            None => monitor.progress(sites.len() as u64, *total as u64),
            Some(_) => monitor.whole(sites.len() as f64 / (*total).max(1) as f64),
        }
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

/// Form of the data of each site that reads one input.
pub(crate) fn needs<'a>(group: &InputEdits<'a>, network: &impl Sites, rows: usize) -> Vec<Needs> {
    let with_shape = |SlotEdit { site, edit, .. }: &SlotEdit<'a>| {
        let shape = network.slot(site).expect("the site was found in the plan").shape();
        (&edit.method, shape)
    };
    let methods: Vec<(&MethodSpec, Shape)> = group.slots.iter().map(with_shape).collect();
    needs_together(&methods, rows)
}

/// Random key of a fit.
pub fn key_of(seed: u64, site: &SiteId, method: &MethodSpec, size: Option<Size>) -> RngKey {
    RngKey::new(seed).fold(&site.0).fold(&method.stream(size))
}

/// Passes the progress of a training on to the monitor.
pub struct Forward<'a>(pub &'a mut dyn Monitor);

impl Control for Forward<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.0.progress(progress.step, progress.steps);
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// Puts a fit into its slot; its bias is the original one, shifted.
pub fn put(
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
pub fn put_fit(
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
    use crate::Unit;
    use crate::fit::Ridge;
    use crate::fit::regression::multiply;
    use crate::fit_to::Ridges;
    use crate::methods::{
        FeatureMethod, LowRankMethod, RotorMethod, SvdMethod, Training, reduced_rank_regression,
    };
    use crate::plan::SlotSet;
    use crate::tiny;
    use linwright_measure::capture::{Evidence, SiteCapture, Wanted};
    use linwright_measure::stats::SiteStats;
    use linwright_model::checkpoint::{Form, SaveOptions, load, save};
    use linwright_model::{Batch, Role, Transformer};
    use linwright_ops::{LowRankSpec, OpSpec};
    use linwright_run::Silent;
    use linwright_run::team::ThreadTeam;

    #[test]
    fn biases_are_fitted_with_the_operators_and_saved() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let calibration = tiny::calibration(original, 4000);
        let method =
            MethodSpec::LowRank(LowRankMethod { ridge: Ridge::Share(0.0), ..Default::default() });
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

    /// Weights of all slots, with biases.
    fn numbers(network: &Transformer) -> Vec<Vec<f32>> {
        let of = |slot: &LinearSlot| -> Vec<f32> {
            let params = slot.op().map().params().into_iter();
            let own = params.flat_map(|param| param.values.to_vec());
            own.chain(slot.bias().unwrap_or_default().iter().copied()).collect()
        };
        network.slots().into_iter().map(of).collect()
    }

    #[test]
    fn ridges_are_chosen_with_windows_held_out_and_then_all_windows_are_fitted() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let roles = [Role::Query, Role::Value, Role::Down];
        let plan_of = |method: MethodSpec| {
            let sites = SlotSet::with_roles(&roles, None);
            let edits = vec![Edit { sites, method, size: Some(Size::Rank(2)), heals: false }];
            Plan { edits, seed: 0 }
        };
        let plan = plan_of(MethodSpec::LowRank(LowRankMethod::default()));
        // Samples in the first case, sums in the second.
        for tokens in [160, 4000] {
            let text = tiny::calibration(original, tokens);
            let apply = |plan: &Plan, fit_to: FitTo<'_>| {
                let context = Context { fit_to, ..Context::new(&loaded.hash) };
                apply(original, Some(&text), plan, &context, &mut Silent).expect("applies")
            };
            let held_out = apply(&plan, FitTo::Training);
            let chosen = ridges_of(&held_out.sites);
            assert_eq!(chosen.len(), held_out.sites.len(), "each site has a ridge");
            let share = text.training_rows() as f64 / text.all_rows() as f64;
            assert!(share < 1.0);
            let scaled: Ridges =
                chosen.iter().map(|(site, ridge)| (site.clone(), ridge * share)).collect();
            let all = apply(&plan, FitTo::All);
            assert_eq!(scaled, ridges_of(&all.sites).into_iter().collect(), "{tokens}");
            assert!(numbers(&all.network) == numbers(&apply(&plan, FitTo::With(&scaled)).network));
            assert!(numbers(&all.network) != numbers(&held_out.network), "{tokens}");
        }
    }

    #[test]
    fn validation_windows_are_fitted_as_well() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let text = tiny::calibration(original, 4000);
        let method = LowRankMethod { ridge: Ridge::Share(1e-3), ..Default::default() };
        let method = MethodSpec::LowRank(method);
        // Nothing below is edited, so that the inputs are those of the original network.
        let sites = SlotSet::with_roles(&[Role::Query], Some(vec![0]));
        let edits = vec![Edit { sites, method, size: Some(Size::Rank(2)), heals: false }];
        let plan = Plan { edits, seed: 0 };
        let site = plan.sites(original).expect("has sites")[0].slots[0].site.clone();
        let wanted = [Wanted { site: &site, needs: Needs::Stats }];
        let mut lockstep = Lockstep::new(original, &text, Bounds::default());
        let captured = lockstep.capture(original, &wanted, &mut Silent).expect("captures");
        let Evidence::Stats { validation, .. } = &captured[0].evidence else {
            panic!("sums were asked for")
        };
        let error = |fit_to: FitTo<'_>| {
            let context = Context { fit_to, ..Context::new(&loaded.hash) };
            let edited = apply(original, Some(&text), &plan, &context, &mut Silent);
            let edited = edited.expect("applies");
            let slot = edited.network.slot(&site).expect("is a slot");
            let before = original.slot(&site).and_then(LinearSlot::bias).expect("has a bias");
            let after = slot.bias().expect("has a bias");
            let shift = before.iter().zip(after).map(|(b, a)| f64::from(a - b));
            let weight = slot.op().to_dense().expect("is linear").cast();
            validation.squared_error_with(&weight, &shift.collect::<Vec<_>>())
        };
        let [with, without] = [FitTo::All, FitTo::Training].map(error);
        assert!(with < without, "{with} with all windows, {without} with these held out");
    }

    /// Sums over targets that follow from inputs of both networks are those over samples, before
    /// any edit and after one below, however states are kept between captures.
    #[test]
    fn sums_over_targets_from_inputs_are_those_over_outputs() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let text = tiny::calibration(original, 4000);
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let sites = SlotSet::with_roles(&[Role::Down], Some(vec![0]));
        let edits = vec![Edit { sites, method, size: Some(Size::Rank(2)), heals: false }];
        let plan = Plan { edits, seed: 0 };
        let context = Context::new(&loaded.hash);
        let edited = apply(original, Some(&text), &plan, &context, &mut Silent);
        let edited = edited.expect("applies").network;
        let stage = |site: &SiteId| original.slot(site).and_then(LinearSlot::stage);
        let roles = [[Role::Gate, Role::Up], [Role::Query, Role::Value], [Role::Down, Role::Down]];
        for (bounds, is_edited) in [(400 << 20, false), (400 << 20, true), (0, true)] {
            let network = if is_edited { &edited } else { original };
            let bounds = Bounds { state_bytes: bounds, ..Bounds::default() };
            let [mut sums, mut samples] =
                [(); 2].map(|()| Lockstep::new(original, &text, bounds.clone()));
            if is_edited {
                let site = plan.sites(original).expect("has sites")[0].slots[0].site.clone();
                sums.note_edit(stage(&site).expect("a stage"));
                samples.note_edit(stage(&site).expect("a stage"));
            }
            for (layer, roles) in [0, 1].into_iter().flat_map(|layer| roles.map(|r| (layer, r))) {
                let set = SlotSet::with_roles(&roles, Some(vec![layer]));
                for site in set.of(original).expect("has sites").chunks(2) {
                    let capture = |lockstep: &mut Lockstep<'_, Transformer>, needs| {
                        let wanted: Vec<Wanted<'_>> =
                            site.iter().map(|site| Wanted { site, needs }).collect();
                        lockstep.capture(network, &wanted, &mut Silent).expect("captures")
                    };
                    let own = capture(&mut sums, Needs::Stats);
                    let rows = capture(&mut samples, Needs::Samples);
                    for (own, rows) in own.iter().zip(&rows) {
                        assert_same_sums(own, rows);
                    }
                }
            }
        }
    }

    /// A stage that goes on from the input of its last slot gives the bits of one that runs whole,
    /// with states in memory and in files, and not where another of its slots was edited as well.
    #[test]
    fn a_stage_goes_on_from_the_input_of_its_last_slot() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let text = tiny::calibration(original, 4000);
        let of = |role: Role| {
            let found = SlotSet::with_roles(&[role], Some(vec![0])).of(original);
            found.expect("has sites")[0].clone()
        };
        let [query, output, gate] = [Role::Query, Role::Output, Role::Gate].map(of);
        let stage = |site: &SiteId| original.slot(site).and_then(LinearSlot::stage);
        let (attention, down) = (stage(&output).expect("a stage"), of(Role::Down));
        for (state_bytes, with_query) in [(400 << 20, false), (0, false), (400 << 20, true)] {
            let inputs = |goes_on: bool| {
                let edited = &mut original.clone();
                let bounds = Bounds { state_bytes, ..Bounds::default() };
                let mut lockstep = Lockstep::new(original, &text, bounds);
                let capture = |lockstep: &mut Lockstep<'_, Transformer>, model: &_, site| {
                    let wanted = [Wanted { site, needs: Needs::Stats }];
                    let captured = lockstep.capture(model, &wanted, &mut Silent);
                    let evidence = captured.expect("captures").remove(0).evidence;
                    let Evidence::Stats { train, .. } = evidence else { panic!("not sums") };
                    train
                };
                capture(&mut lockstep, edited, &output);
                let sites = if with_query { vec![&output, &query] } else { vec![&output] };
                for site in sites {
                    let slot = edited.slot_mut(site).expect("a slot");
                    let spec = OpSpec::LowRank(LowRankSpec { rank: 2 });
                    let op = spec.random(slot.shape(), RngKey::new(9)).expect("exists");
                    slot.replace(op).expect("fits");
                    match goes_on {
                        true => lockstep.note_edit_of(site, attention),
                        false => lockstep.note_edit(attention),
                    }
                }
                let first = capture(&mut lockstep, edited, &gate);
                (first, capture(&mut lockstep, edited, &down))
            };
            let [goes_on, whole] = [true, false].map(inputs);
            assert_eq!(goes_on, whole, "{state_bytes} bytes, query edited: {with_query}");
        }
    }

    /// Training and validation sums are those of samples, up to rounding in `f32`.
    fn assert_same_sums(own: &SiteCapture, rows: &SiteCapture) {
        let (Evidence::Stats { train, validation }, Evidence::Samples(samples)) =
            (&own.evidence, &rows.evidence)
        else {
            panic!("sums and samples were asked for")
        };
        for (own, (x, y)) in [(train, samples.training()), (validation, samples.validation())] {
            let want = SiteStats::of(x, y);
            assert!(own.inputs.count > 0 && own.inputs == want.inputs, "{}", rows.site);
            let near = |a: f64, b: f64, size: f64| (a - b).abs() <= 2e-6 * size;
            assert!(near(own.syy, want.syy, want.syy), "{} and {}", own.syy, want.syy);
            let count = want.inputs.count as f64;
            for (o, (a, b)) in own.sy.iter().zip(&want.sy).enumerate() {
                assert!(near(*a, *b, (want.syy * count).sqrt()), "{}", rows.site);
                for j in 0..want.inputs.features() {
                    let size = (want.syy * want.inputs.sxx.at(j, j)).sqrt();
                    assert!(near(own.syx.at(o, j), want.syx.at(o, j), size), "{}", rows.site);
                }
            }
        }
    }

    /// What one member of a team of threads makes of a plan.
    fn by_team(size: usize, apply: &(dyn Fn(&dyn Team) -> Vec<Vec<f32>> + Sync)) -> Vec<Vec<f32>> {
        let members = ThreadTeam::of(size);
        std::thread::scope(|scope| {
            let work = members.into_iter().map(|team| scope.spawn(move || apply(&team)));
            let threads: Vec<_> = work.collect();
            let mut found =
                threads.into_iter().map(|thread| thread.join().expect("a member works"));
            let first = found.next().expect("a member");
            assert!(found.all(|other| other == first), "members of {size} have different networks");
            first
        })
    }

    #[test]
    fn a_team_of_any_size_makes_the_same_network() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let calibration = tiny::calibration(original, 12_000);
        let batches = calibration.batches();
        assert!(batches > 4, "{batches} batches say little");
        let few = tiny::calibration(original, 64);
        let sites = |roles: &[Role]| SlotSet::with_roles(roles, None);
        let edit = |method: MethodSpec, roles: &[Role]| {
            let size = method.units().contains(&Unit::Rank).then_some(Size::Rank(2));
            Edit { sites: sites(roles), method, size, heals: false }
        };
        let training = Training { epochs: 1, ..Training::default() };
        let rotor = RotorMethod { training, ..RotorMethod::default() };
        let low_rank = || MethodSpec::LowRank(LowRankMethod::default());
        // Sums, samples, weights alone, and sums over outputs.
        let plan = Plan {
            edits: vec![
                edit(low_rank(), &[Role::Query, Role::Key, Role::Value]),
                edit(MethodSpec::Rotor(rotor), &[Role::Up, Role::Gate]),
                edit(MethodSpec::Svd(SvdMethod::default()), &[Role::Output]),
                edit(MethodSpec::Feature(FeatureMethod::default()), &[Role::Down]),
            ],
            seed: 3,
        };
        let of_weights = Plan {
            edits: vec![edit(
                MethodSpec::Svd(SvdMethod::default()),
                &[Role::Query, Role::Key, Role::Output, Role::Up, Role::Down],
            )],
            seed: 3,
        };
        for (examples, plan) in
            [(Some(&calibration), &plan), (Some(&few), &plan), (None, &of_weights)]
        {
            let with = |team: &dyn Team| {
                let context = Context { team, fit_to: FitTo::All, ..Context::new(&loaded.hash) };
                let examples = examples.map(|text| text as &dyn Examples<Batch>);
                let edited = apply(original, examples, plan, &context, &mut Silent);
                numbers(&edited.expect("applies").network)
            };
            let alone = with(&Alone);
            for size in 1..=5 {
                assert!(by_team(size, &with) == alone, "{size} members");
            }
        }
    }

    #[test]
    fn members_with_other_texts_stop() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let texts = [4000, 4032].map(|tokens| tiny::calibration(&loaded.decoder, tokens));
        let sites = SlotSet::with_roles(&[Role::Query], None);
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let edits = vec![Edit { sites, method, size: Some(Size::Rank(2)), heals: false }];
        let plan = Plan { edits, seed: 0 };
        let members = ThreadTeam::of(2);
        let errors: Vec<String> = std::thread::scope(|scope| {
            let work = members.into_iter().map(|team| {
                let (loaded, plan, text) = (&loaded, &plan, &texts[team.rank()]);
                scope.spawn(move || {
                    let context = Context { team: &team, ..Context::new(&loaded.hash) };
                    let edited = apply(&loaded.decoder, Some(text), plan, &context, &mut Silent);
                    edited.expect_err("they differ").to_string()
                })
            });
            let threads: Vec<_> = work.collect();
            threads.into_iter().map(|thread| thread.join().expect("a member ends")).collect()
        });
        assert!(errors[0].contains("rank 1 of the team: it has ended"), "{errors:?}");
        assert!(errors[1].contains("works on something else"), "{errors:?}");
    }

    #[test]
    fn the_first_member_keeps_the_fits_of_all() {
        let loaded = tiny::checkpoint("qwen2-biases");
        let calibration = tiny::calibration(&loaded.decoder, 4000);
        let sites = SlotSet::with_roles(&[Role::Query, Role::Key, Role::Value], None);
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let edits = vec![Edit { sites, method, size: Some(Size::Rank(2)), heals: false }];
        let (plan, folder) = (Plan { edits, seed: 0 }, tempfile::tempdir().expect("a folder"));
        let store = Store::at(folder.path());
        let outcomes = |team: &dyn Team| {
            let kept = (team.rank() == 0).then_some(&store);
            let context = Context { store: kept, team, ..Context::new(&loaded.hash) };
            let edited = apply(&loaded.decoder, Some(&calibration), &plan, &context, &mut Silent);
            let outcomes = edited.expect("applies").sites.into_iter();
            outcomes.map(|site| vec![site.fit.relative_error as f32]).collect::<Vec<_>>()
        };
        let first = by_team(3, &outcomes);
        let pieces = store.entries().expect("a store").len();
        assert!(pieces >= first.len(), "{pieces} pieces of {} fits", first.len());
        // Again: nothing new is kept, and all members get what was.
        assert_eq!(by_team(2, &outcomes), first);
        assert_eq!(store.entries().expect("a store").len(), pieces);
        // Killed before the last fit, and gone on with by more.
        let all = store.entries().expect("a store");
        let fit = all.iter().rfind(|piece| piece.kind == "fit").expect("a fit");
        assert!(store.remove(fit).expect("removes"));
        assert_eq!(by_team(4, &outcomes), first);
        assert_eq!(store.entries().expect("a store").len(), pieces);
    }
}
