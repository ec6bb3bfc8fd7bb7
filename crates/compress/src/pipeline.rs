//! Editing a model: layers in the given order, each with earlier edits active.

use crate::methods::{Fit, FitProblem, FitReport, MethodSpec};
use crate::stored_fit;
use crate::{CompressError, FitError};
use linwright_measure::calibration::Calibration;
use linwright_measure::capture::{Bounds, Lockstep, SiteCapture};
use linwright_model::Transformer;
use linwright_ops::{LinearSlot, Role, SiteId, Sites};
use linwright_run::{Fingerprint, Monitor, Store};
use linwright_tensor::RngKey;
use linwright_train::{Checkpoint, Control, Progress};
use serde::{Deserialize, Serialize};

/// Roles of a layer in groups with a common input, in the order of computation.
pub const INPUTS: [&[Role]; 8] = [
    &[Role::Query, Role::Key, Role::Value],
    &[Role::QueryKeyValue],
    &[Role::Output],
    &[Role::Gate, Role::Up],
    &[Role::GateUp],
    &[Role::FcIn],
    &[Role::Down],
    &[Role::FcOut],
];

/// Training steps between two checkpoints.
const CHECKPOINT_EVERY: u64 = 500;

/// The edit of some slots of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Roles of the slots, which must have a common input.
    pub roles: Vec<Role>,
    /// The method that replaces them.
    pub method: MethodSpec,
    /// Whether the edit heals, so its slots do not count as replaced.
    #[serde(default)]
    pub heals: bool,
}

/// Layers to edit and their edits, as plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Layers in the order of editing.
    pub layers: Vec<usize>,
    /// Edits of each layer, in order.
    pub edits: Vec<Edit>,
    /// Seed of random numbers.
    pub seed: u64,
}

/// Model hash, memory bounds and store for the application of a plan.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Hash of the original model.
    pub model_hash: &'a str,
    /// Memory bounds.
    pub bounds: Bounds,
    /// Store of finished fits, if they are kept.
    pub store: Option<&'a Store>,
}

/// Result for one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteOutcome {
    /// The site.
    pub site: SiteId,
    /// Its role.
    pub role: Role,
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

/// An edited model.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The model.
    pub model: Transformer,
    /// Results of all edited sites, in order.
    pub sites: Vec<SiteOutcome>,
}

/// One edit of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerEdit<'a> {
    /// The layer.
    pub layer: usize,
    /// The edit.
    pub edit: &'a Edit,
    /// The edited sites.
    pub sites: Vec<SiteId>,
}

impl Plan {
    /// Checks the plan against a model, and returns the sites of every edit of a layer.
    ///
    /// # Errors
    /// [`CompressError`] for a layer out of range, a role that the layer lacks, roles of an edit
    /// with different inputs, invalid options, or an impossible budget for a shape.
    pub fn sites(&self, model: &Transformer) -> Result<Vec<LayerEdit<'_>>, CompressError> {
        for edit in &self.edits {
            check_inputs(&edit.roles)?;
            edit.method
                .check()
                .map_err(|reason| CompressError::Options { method: edit.method.label(), reason })?;
        }
        let last = model.config().layers.len() - 1;
        let mut all = Vec::new();
        for &layer in &self.layers {
            if layer > last {
                return Err(CompressError::Layer { layer, last });
            }
            for edit in &self.edits {
                let mut sites = Vec::new();
                for &role in &edit.roles {
                    let slot = find(model, layer, role)?;
                    let checked = edit.method.parameters(slot.shape());
                    checked
                        .map_err(|source| CompressError::Fit { site: slot.id().clone(), source })?;
                    sites.push(slot.id().clone());
                }
                all.push(LayerEdit { layer, edit, sites });
            }
        }
        Ok(all)
    }
}

fn find(model: &Transformer, layer: usize, role: Role) -> Result<&LinearSlot, CompressError> {
    let slots: Vec<&LinearSlot> =
        model.slots().into_iter().filter(|slot| slot.layer() == Some(layer)).collect();
    slots.iter().copied().find(|slot| slot.role() == role).ok_or_else(|| {
        let has: Vec<Role> = slots.iter().map(|slot| slot.role()).collect();
        CompressError::Role { layer, role: role.to_string(), has: roles(&has) }
    })
}

/// Applies a plan to a copy of `original`.
///
/// Inputs are those of a site in the edited model; targets are its outputs in the original model,
/// without the bias. If a slot has a bias, operator and bias are fitted together. With a store,
/// existing fits are reused.
///
/// # Errors
/// [`CompressError`].
pub fn apply(
    original: &Transformer,
    calibration: &Calibration,
    plan: &Plan,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Edited, CompressError> {
    let mut model = original.clone();
    let mut lockstep = Lockstep::new(original, calibration, context.bounds.clone());
    let mut sites = Vec::new();
    let mut chain = Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("biases", &"fitted along"),
        ("model", &context.model_hash),
        ("windows", &calibration.windows()),
        ("training windows", &calibration.train_tokens()),
        ("seed", &plan.seed),
    ]);
    for LayerEdit { layer, edit, sites: ids } in plan.sites(original)? {
        let prints: Vec<Fingerprint> = ids
            .iter()
            .map(|id| Fingerprint::of(&[("chain", &chain), ("site", id), ("method", &edit.method)]))
            .collect();
        let fits = match stored(context.store, &prints)? {
            Some(fits) => fits,
            None => {
                monitor.step(&format!("layer {layer}: capturing {} inputs", roles(&edit.roles)));
                let captures =
                    lockstep.capture(&model, layer, &ids, edit.method.needs(), monitor)?;
                let work = captures.iter().zip(&prints);
                work.map(|(capture, print)| {
                    let slot =
                        original.slot(&capture.site).expect("the site was found in the plan");
                    let job = SiteJob { capture, slot, edit, seed: plan.seed, print };
                    fit_site(&job, context, monitor)
                })
                .collect::<Result<Vec<_>, _>>()?
            }
        };
        for (id, fit) in ids.iter().zip(fits) {
            let bias = original.slot(id).and_then(LinearSlot::bias);
            sites.push(put(&mut model, id, bias, edit, fit)?);
        }
        lockstep.note_edit(layer);
        chain = Fingerprint::of(&[("prints", &prints)]);
    }
    original.release_scratch();
    model.release_scratch();
    Ok(Edited { model, sites })
}

/// Checks that the roles of an edit, which are captured together, have a common input.
fn check_inputs(roles: &[Role]) -> Result<(), CompressError> {
    let input = |role: Role| INPUTS.iter().position(|group| group.contains(&role));
    for (k, &role) in roles.iter().enumerate() {
        if roles[..k].contains(&role) {
            return Err(CompressError::Twice { role: role.to_string() });
        }
    }
    for pair in roles.windows(2) {
        if input(pair[0]) != input(pair[1]) {
            let [first, second] = [pair[0], pair[1]].map(|role| role.to_string());
            return Err(CompressError::Inputs { first, second });
        }
    }
    Ok(())
}

fn roles(roles: &[Role]) -> String {
    roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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
    /// What goes into it and should come out.
    capture: &'a SiteCapture,
    /// The slot of the original model.
    slot: &'a LinearSlot,
    edit: &'a Edit,
    /// Seed of the plan.
    seed: u64,
    /// Identifies the fit.
    print: &'a Fingerprint,
}

fn fit_site(
    job: &SiteJob<'_>,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Fit, CompressError> {
    let SiteJob { capture, slot, edit, seed, print } = *job;
    if let Some(store) = context.store
        && let Some(fit) = stored_fit::get(store, print)?
    {
        return Ok(fit);
    }
    if monitor.interrupted() {
        return Err(CompressError::Interrupted);
    }
    let site = &capture.site;
    monitor.step(&format!("{site}: fitting {}", edit.method.label()));
    // Checkpoints of the training, for one process at a time.
    let what = format!("fit of {site}: {}", edit.method.label());
    let unfinished = context.store.map(|store| store.unfinished(print, &what)).transpose()?;
    let checkpoint = unfinished.as_ref().and_then(|work| work.file("training"));
    let checkpoint = checkpoint.map(|path| Checkpoint {
        path,
        every: CHECKPOINT_EVERY,
        fingerprint: print.0.clone(),
    });
    let problem = FitProblem {
        site,
        shape: capture.shape,
        original: slot.op(),
        evidence: &capture.evidence,
        biased: slot.bias().is_some(),
        key: RngKey::new(seed).fold(&site.0).fold(&edit.method.label()),
        checkpoint: checkpoint.as_ref(),
    };
    let began = monitor.seconds();
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

/// Passes the progress of a training on to the monitor.
struct Forward<'a>(&'a mut dyn Monitor);

impl Control for Forward<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.0.progress(progress.step, progress.steps);
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

fn put(
    model: &mut Transformer,
    id: &SiteId,
    original_bias: Option<&[f32]>,
    edit: &Edit,
    fit: Fit,
) -> Result<SiteOutcome, CompressError> {
    let slot = model.slot_mut(id).expect("the site was found in the plan");
    let dense_parameters = slot.shape().dense_parameters();
    slot.replace(fit.op).map_err(|source| CompressError::Fit {
        site: id.clone(),
        source: FitError::Operator(source),
    })?;
    if let (Some(bias), Some(original), Some(shift)) =
        (slot.bias_mut(), original_bias, fit.bias_shift)
    {
        let sums = original.iter().zip(shift);
        bias.iter_mut().zip(sums).for_each(|(bias, (original, shift))| *bias = original + shift);
    }
    Ok(SiteOutcome {
        site: id.clone(),
        role: slot.role(),
        layer: slot.layer().unwrap_or_default(),
        heals: edit.heals,
        method: edit.method.label(),
        parameters: slot.parameters(),
        dense_parameters,
        macs_per_row: slot.op().map().macs_per_row(),
        fit: fit.report,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::regression::multiply;
    use crate::methods::{LowRankMethod, reduced_rank_regression};
    use linwright_measure::calibration::Split;
    use linwright_measure::capture::Evidence;
    use linwright_measure::capture::Needs;
    use linwright_model::checkpoint::{Form, LoadedModel, SaveOptions, load, save};
    use linwright_run::Silent;
    use std::path::Path;

    /// A checkpoint of `testdata` in the layout of a model directory.
    fn checkpoint(stem: &str) -> LoadedModel {
        let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/decoder");
        let record = std::fs::read(sets.join(format!("{stem}.json"))).expect("a record");
        let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
        let weights = std::fs::read(sets.join(format!("{stem}.safetensors"))).expect("weights");
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("config.json"), record["config"].to_string())
            .expect("writes");
        std::fs::write(dir.path().join("model.safetensors"), weights).expect("writes");
        load(dir.path()).expect("loads")
    }

    #[test]
    fn biases_are_fitted_with_the_operators_and_saved() {
        let loaded = checkpoint("qwen2-biases");
        let original = &loaded.decoder;
        let mut stream = RngKey::new(6).stream();
        let vocab = original.config().vocab;
        let text: Vec<u32> = (0..4000).map(|_| stream.below(vocab) as u32).collect();
        let calibration = Calibration::new(&[text], 32, 4000, Split::Contiguous).expect("enough");
        let rank = |rank| LowRankMethod {
            rank: Some(rank),
            keep: None,
            fit: crate::methods::How::Closed,
            training: crate::methods::Training::default(),
        };
        let method = MethodSpec::LowRank(rank(2));
        let targets = vec![Role::Query, Role::Key, Role::Value];
        let edits = vec![Edit { roles: targets, method, heals: false }];
        let plan = Plan { layers: vec![0], edits, seed: 0 };
        let context = Context { model_hash: &loaded.hash, bounds: Bounds::default(), store: None };
        let edited = apply(original, &calibration, &plan, &context, &mut Silent).expect("applies");

        let sites: Vec<SiteId> = edited.sites.iter().map(|site| site.site.clone()).collect();
        let mut lockstep = Lockstep::new(original, &calibration, Bounds::default());
        let captured = lockstep.capture(original, 0, &sites, Needs::Stats, &mut Silent);
        for (capture, outcome) in captured.expect("captures").iter().zip(&edited.sites) {
            let Evidence::Stats { train, .. } = &capture.evidence else {
                panic!("sums were asked for")
            };
            let slot = |model: &Transformer| model.slot(&capture.site).expect("is a slot").clone();
            let (old, new) = (slot(original), slot(&edited.model));
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
        save(&edited.model, &loaded.source, &SaveOptions::new(Form::Native), &out).expect("saves");
        let read = load(&out).expect("loads").decoder;
        for site in &sites {
            let bias = |model: &Transformer| {
                model.slot(site).and_then(LinearSlot::bias).map(<[f32]>::to_vec)
            };
            assert_eq!(bias(&read), bias(&edited.model), "{site}");
            assert_ne!(bias(&read), bias(original), "{site}");
        }
    }
}
