//! From options to a plan.

use super::MoleculeCompress;
use crate::jobs::kit::sizes::size_of;
use crate::jobs::kit::terms::{Catalogue, Entry, Terms};
use crate::jobs::kit::{JobError, parse_layers};
use crate::jobs::language::compress::plan::method_of;
use crate::jobs::language::compress::{MethodTerm, Methods, Way};
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_compress::{MethodSpec, Size};
use std::sync::LazyLock;

/// Methods that replace linear layers one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMethods;

static METHODS: LazyLock<Catalogue> = LazyLock::new(|| {
    let all = Methods::catalogue();
    let is_of_slots = |entry: &&Entry| {
        MethodTerm::named(entry.name).is_some_and(|method| method.way() == Way::Slots)
    };
    Catalogue::new(all.what, all.entries.iter().filter(is_of_slots).cloned().collect())
});

impl Terms for SlotMethods {
    const NAME: &'static str = "slot_method";

    fn catalogue() -> &'static Catalogue {
        &METHODS
    }
}

/// The edits of a potential.
///
/// # Errors
/// [`JobError`] for a method without a required size, or with one that it does not support, whose
/// operator is not linear, or that does not replace layers one by one.
pub(super) fn plan(job: &MoleculeCompress) -> Result<Plan, JobError> {
    let method = method(job)?;
    let layers = job.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()?;
    let sites = SlotSet {
        roles: job.roles.clone(),
        layers,
        patterns: job.sites.clone(),
        ignore: job.ignore.clone(),
        ..SlotSet::default()
    };
    let edit = Edit { sites, method, size: size(job), heals: false };
    Ok(Plan { seed: job.seed, edits: vec![edit] })
}

fn method(job: &MoleculeCompress) -> Result<MethodSpec, JobError> {
    let term = job.method.as_ref().map(|method| MethodTerm::from(method.0.clone()));
    let method = method_of(term.as_ref(), size(job))?;
    match method.is_linear() {
        true => Ok(method),
        // Of the components of a vector, only linear maps of channels turn with it.
        false => Err(JobError::new(format!(
            "--method {}: its operator is not linear, so energies would depend on the orientation",
            method.id()
        ))
        .hint("choose a linear operator, such as monarch: `linwright ls operators`")),
    }
}

fn size(job: &MoleculeCompress) -> Option<Size> {
    size_of(job.size, job.keep, job.rank)
}
