//! Methods from their options, and plans with what heals.

use super::Heal;
use super::names::{MethodTerm, ranked};
use crate::jobs::kit::JobError;
use linwright_compress::methods::{DenseMethod, How};
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_compress::{MethodSpec, Size, SizeError, form};
use linwright_model::{Role, Transformer};
use linwright_ops::{OpSpec, SiteId, Sites};
use serde_json::{Value, json};

/// The plan of an edit, healed as by default.
pub(in crate::jobs) fn standard(model: &Transformer, edit: Edit, seed: u64) -> Plan {
    // The random control is healed as what it stands for.
    let is_control = matches!(edit.method, MethodSpec::Random(_));
    let heal = if edit.method.needs_text() || is_control { Heal::Ridge } else { Heal::None };
    healed(model, edit, heal, seed)
}

/// The plan of an edit, healed in this way.
pub(in crate::jobs) fn healed(model: &Transformer, edit: Edit, heal: Heal, seed: u64) -> Plan {
    let replaced = edit.sites.of(model).unwrap_or_default();
    let heals = healing(model, &replaced, heal);
    Plan { seed, edits: std::iter::once(edit).chain(heals).collect() }
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

/// An operator: a kind with its default options, or a specification. With a size a kind needs no
/// rank, which follows from it.
pub(super) fn operator(text: &str, size: Option<Size>) -> Result<OpSpec, JobError> {
    let text = match needs_rank(text) {
        true if size.is_none() => return Err(needs_size(text)),
        true => ranked(text),
        false => text.to_owned(),
    };
    form::operator(&text).map_err(|error| JobError::new(error.to_string()))
}

/// Whether it is a kind of operators that have a rank.
fn needs_rank(kind: &str) -> bool {
    form::operator(kind).is_err() && form::operator(&ranked(kind)).is_ok()
}

fn needs_size(what: &str) -> JobError {
    JobError::new(format!("{what} needs a size: keep, rank"))
        .hint("give --keep SHARE or --rank N, or another --size")
}

/// A method of slots, low rank by default, if it can have its options and the given size.
pub(in crate::jobs) fn method_of(
    term: Option<&MethodTerm>,
    size: Option<Size>,
) -> Result<MethodSpec, JobError> {
    let standard = MethodTerm::named("low_rank");
    let Some(term) = term.or(standard.as_ref()) else { unreachable!("low_rank is a method") };
    let mut options = term.options();
    let operator_of = match options.get("operator") {
        Some(Value::String(kind)) => Some(operator(kind, size)?),
        None if options.get("method").and_then(Value::as_str) == Some("structured") => {
            return Err(JobError::new("structured needs an operator").hint(
                "name the operator itself, --method monarch:blocks=8; `linwright ls operators` \
                 lists the kinds",
            ));
        }
        // Its rank follows from the size.
        Some(_) if size.is_none() && !term.has("rank") && needs_rank(term.name()) => {
            return Err(needs_size(term.name()));
        }
        _ => None,
    };
    if let Some(operator) = operator_of {
        options.insert("operator".into(), json!(operator));
    }
    let method: MethodSpec = serde_json::from_value(Value::Object(options))
        .map_err(|error| JobError::new(format!("--method {}: {error}", term.0)))?;
    checked(method, size)
}

/// The method, if it can have its options and the given size.
fn checked(method: MethodSpec, size: Option<Size>) -> Result<MethodSpec, JobError> {
    match method.check_size(size) {
        Err(error @ SizeError::Missing { .. }) => {
            let message = error.to_string();
            return Err(
                JobError::new(message).hint("give --keep SHARE or --rank N, or another --size")
            );
        }
        Err(error) => return Err(JobError::new(error.to_string())),
        Ok(()) => {}
    }
    let label = method.label(None);
    method.check(size).map_err(|reason| JobError::new(format!("{label} {reason}")))?;
    Ok(method)
}
