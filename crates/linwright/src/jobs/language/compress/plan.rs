//! From options to a plan.

use super::{Compress, Heal, MethodName, pruning};
use crate::jobs::kit::{JobError, flag_of, parse_layers};
use crate::jobs::language::plan_file::read_plan_file;
use linwright_compress::methods::{DenseMethod, How};
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_compress::{MethodSpec, Size, SizeError};
use linwright_model::{Role, Transformer};
use linwright_ops::{OpSpec, SiteId, Sites};
use linwright_study::recipe;
use serde_json::{Map, Value, json};

/// Roles that `--targets` takes: those of a layer.
pub(super) const ROLES: [Role; 11] = [
    Role::Query,
    Role::Key,
    Role::Value,
    Role::QueryKeyValue,
    Role::Output,
    Role::Gate,
    Role::Up,
    Role::GateUp,
    Role::Down,
    Role::FcIn,
    Role::FcOut,
];

pub(super) fn check(job: &Compress) -> Result<(), JobError> {
    super::recovery::check(job)?;
    if job.budget.is_some() {
        layers(job)?;
        return super::budget::check(job);
    }
    if pruning::is_wanted(job) {
        return pruning::check(job);
    }
    match &job.plan {
        Some(path) => read_plan_file(path).map(drop),
        None => {
            layers(job)?;
            super::allocation::check(job)?;
            method(job).map(drop)
        }
    }
}

pub(super) fn plan(job: &Compress, model: &Transformer) -> Result<Plan, JobError> {
    if let Some(path) = &job.plan {
        return read_plan_file(path);
    }
    let sites = slots(job)?;
    let (method, size) = (method(job)?, job.size());
    let replaced = sites.of(model).map_err(|error| JobError::new(error.to_string()))?;
    let heals = healing(model, &replaced, heal(job, &method));
    let mut plan = Plan { seed: job.seed, edits: vec![Edit { sites, method, size, heals: false }] };
    plan.edits.extend(heals);
    Ok(plan)
}

/// The slots that a job replaces.
pub(super) fn slots(job: &Compress) -> Result<SlotSet, JobError> {
    Ok(SlotSet {
        roles: job.targets.iter().map(ToString::to_string).collect(),
        layers: layers(job)?,
        patterns: job.sites.clone(),
        ignore: job.ignore.clone(),
        ..SlotSet::default()
    })
}

/// The plan of an edit, healed as by default.
pub(in crate::jobs) fn standard(model: &Transformer, edit: Edit, seed: u64) -> Plan {
    let replaced = edit.sites.of(model).unwrap_or_default();
    // The random control is healed as what it stands for.
    let is_control = matches!(edit.method, MethodSpec::Random(_));
    let heal = if edit.method.needs_text() || is_control { Heal::Ridge } else { Heal::None };
    let heals = healing(model, &replaced, heal);
    Plan { seed, edits: std::iter::once(edit).chain(heals).collect() }
}

/// How a plan of a method is healed.
pub(super) fn heal(job: &Compress, method: &MethodSpec) -> Heal {
    let standard = if method.needs_text() { Heal::Ridge } else { Heal::None };
    job.heal.unwrap_or(standard)
}

pub(super) fn layers(job: &Compress) -> Result<Option<Vec<usize>>, JobError> {
    job.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()
}

/// Roles, and those that read what they compute.
const NEXT: [(&[Role], Role); 3] = [
    (&[Role::Query, Role::Key, Role::Value, Role::QueryKeyValue], Role::Output),
    (&[Role::Gate, Role::Up, Role::GateUp], Role::Down),
    (&[Role::FcIn], Role::FcOut),
];

/// Edits that refit the slots that stay behind replaced ones.
pub(super) fn healing(model: &Transformer, replaced: &[SiteId], heal: Heal) -> Vec<Edit> {
    let fit = match heal {
        Heal::Ridge => How::Closed,
        Heal::Trained => How::Trained,
        Heal::None => return Vec::new(),
    };
    let slots = model.slots();
    let has = |layer: usize, roles: &[Role], is_replaced: bool| {
        let mut here = slots.iter().filter(|slot| slot.layer() == Some(layer));
        here.any(|slot| {
            roles.contains(&Role::of(slot)) && replaced.contains(slot.id()) == is_replaced
        })
    };
    let edit = |(before, next): &(&[Role], Role)| {
        let heals = |layer: &usize| has(*layer, before, true) && has(*layer, &[*next], false);
        let layers: Vec<usize> = (0..model.config().layers.len()).filter(heals).collect();
        let sites = SlotSet::with_roles(&[*next], Some(layers.clone()));
        let method = MethodSpec::Dense(DenseMethod { fit, ..DenseMethod::default() });
        (!layers.is_empty()).then_some(Edit { sites, method, size: None, heals: true })
    };
    NEXT.iter().filter_map(edit).collect()
}

/// Kinds of operators whose names `--method` accepts: they need no options but a rank, which
/// follows from the size, and no method has the same name.
pub(super) fn kinds() -> Vec<&'static str> {
    let kinds = OpSpec::KINDS.iter().copied().filter(|kind| !MethodSpec::IDS.contains(kind));
    let is_structured = |kind: &&str| {
        let spec = recipe::operator(kind).or_else(|_| recipe::operator(&ranked(kind)));
        spec.is_ok_and(|operator| operator.is_linear())
    };
    kinds.filter(is_structured).collect()
}

/// An operator: a kind with its default options, or a specification. With a size a kind needs no
/// rank, which follows from it.
pub(super) fn operator(text: &str, size: Option<Size>) -> Result<OpSpec, JobError> {
    let with_rank = ranked(text);
    let text = match recipe::operator(text).is_err() && recipe::operator(&with_rank).is_ok() {
        true if size.is_none() => {
            let message = format!("{text} needs a size: keep, rank");
            return Err(JobError::new(message).hint("give --keep SHARE or --rank N"));
        }
        true => &with_rank,
        false => text,
    };
    recipe::operator(text).map_err(|error| JobError::new(error.to_string()))
}

/// A kind with a rank, any.
fn ranked(kind: &str) -> String {
    format!("{{kind: {}, rank: 1}}", kind.replace('-', "_"))
}

/// The method, from its options: each is one of those that the method has by itself.
pub(in crate::jobs) fn method(job: &Compress) -> Result<MethodSpec, JobError> {
    let standard = if job.operator.is_some() { "structured" } else { "low_rank" };
    // The first candidate of `auto`.
    let named = job.method.filter(|name| !name.is_auto());
    let chosen = named.map_or(standard, MethodName::name);
    let mut options = Map::new();
    let is_kind = job.method.is_some_and(MethodName::is_kind);
    let id = if is_kind { "structured" } else { chosen };
    options.insert("method".into(), id.into());
    let operator_text = if is_kind { Some(chosen) } else { job.operator.as_deref() };
    if job.operator.is_some() && (is_kind || !has(id, "operator")) {
        return Err(JobError::new("--operator goes with --method structured"));
    }
    match operator_text {
        Some(text) => {
            options.insert("operator".into(), json!(operator(text, job.size())?));
        }
        None if has(id, "operator") => {
            return Err(JobError::new(format!("{id} needs an operator"))
                .hint("give --operator KIND; `linwright ls operators` lists the kinds"));
        }
        None => {}
    }
    let given = [
        ("intervention", "intervention", job.intervention.map(|value| json!(value))),
        ("shrinkage", "shrinkage", job.shrinkage.map(|value| json!(value))),
        ("ridge", "ridge", job.ridge.map(|value| json!(value))),
        ("whitening", "whitening", job.whitening.map(|value| json!(value))),
        ("alpha", "alpha", job.alpha.map(|value| json!(value))),
        ("compat", "compat", job.compat.then(|| json!(true))),
        ("trained", "fit", job.trained.then(|| json!(How::Trained))),
    ];
    for (flag, key, value) in given {
        value.map_or(Ok(()), |value| add(&mut options, flag, key, value))?;
    }
    let mut method = read(&options)?;
    // The options of training that are not given are those of the method.
    if let Ok(Value::Object(mut all)) = serde_json::to_value(&method)
        && let Some(epochs) =
            all.get_mut("training").and_then(|training| training.get_mut("epochs"))
    {
        *epochs = job.epochs.into();
        method = read(&all)?;
    }
    checked(method, job)
}

fn read(options: &Map<String, Value>) -> Result<MethodSpec, JobError> {
    let read = serde_json::from_value(Value::Object(options.clone()));
    read.map_err(|error| JobError::new(error.to_string()))
}

/// Whether the method with this name has an option.
fn has(id: &str, option: &str) -> bool {
    let mut options = Map::new();
    options.insert("method".into(), id.into());
    options.insert(option.into(), Value::Null);
    // An option that it has may be of another type; one that it lacks is unknown.
    !read(&options).is_err_and(|error| error.message.contains("unknown field"))
}

/// Adds the option `key` of a method, which is called `flag` here.
fn add(
    options: &mut Map<String, Value>,
    flag: &str,
    key: &str,
    value: Value,
) -> Result<(), JobError> {
    let id = options.get("method").and_then(Value::as_str).unwrap_or_default();
    if !has(id, key) {
        let with: Vec<&str> = MethodSpec::IDS.iter().copied().filter(|id| has(id, key)).collect();
        let (flag, with) = (flag_of(flag), with.join(" or "));
        return Err(JobError::new(format!("--{flag} goes with --method {with}")));
    }
    options.insert(key.into(), value);
    Ok(())
}

/// The method, if it can have its options and the given size.
fn checked(method: MethodSpec, job: &Compress) -> Result<MethodSpec, JobError> {
    let size = job.size();
    match method.check_size(size) {
        Err(error @ SizeError::Missing { .. }) => {
            let message = error.to_string();
            return Err(
                JobError::new(message).hint("give --keep SHARE or --rank N, or another size")
            );
        }
        Err(error) => return Err(JobError::new(error.to_string())),
        Ok(()) => {}
    }
    let label = method.label(None);
    method.check(size).map_err(|reason| {
        let what = if job.operator.is_some() { "--operator" } else { &label };
        JobError::new(format!("{what} {reason}"))
    })?;
    Ok(method)
}
