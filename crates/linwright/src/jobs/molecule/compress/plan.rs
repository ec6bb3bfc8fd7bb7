//! From options to a plan.

use super::MoleculeCompress;
use crate::jobs::kit::fields::Name;
use crate::jobs::kit::named::NameList;
use crate::jobs::kit::{JobError, parse_layers};
use crate::jobs::language::compress;
use crate::jobs::language::compress::{Compress, MethodName};
use linwright_compress::MethodSpec;
use linwright_compress::plan::{Edit, Plan, SlotSet};

/// Methods that replace linear layers one by one.
pub(super) struct SlotMethods;

impl NameList for SlotMethods {
    fn names() -> Vec<Name> {
        let all = MethodName::names().into_iter().zip(MethodName::all());
        all.filter(|(_, method)| method.is_of_slots()).map(|(name, _)| name).collect()
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
        roles: job.targets.clone(),
        layers,
        patterns: job.sites.clone(),
        ignore: job.ignore.clone(),
        ..SlotSet::default()
    };
    let edit = Edit { sites, method, size: sized(job).size(), heals: false };
    Ok(Plan { seed: job.seed, edits: vec![edit] })
}

fn method(job: &MoleculeCompress) -> Result<MethodSpec, JobError> {
    if let Some(name) = job.method.filter(|method| !method.is_of_slots()) {
        let told = format!("--method {} is for language models", name.name());
        return Err(JobError::new(told).hint("`linwright molecule compress --help` lists methods"));
    }
    let method = compress::plan::method(&sized(job))?;
    match method.is_linear() {
        true => Ok(method),
        // Of the components of a vector, only linear maps of channels turn with it.
        false => Err(JobError::new(format!(
            "--method {}: its operator is not linear, so energies would depend on the orientation",
            method.id()
        ))
        .hint("choose a linear operator, such as --operator rotor: `linwright ls operators`")),
    }
}

/// The options that define a method, as in `compress`.
fn sized(job: &MoleculeCompress) -> Compress {
    Compress {
        method: job.method,
        operator: job.operator.clone(),
        keep: job.keep,
        rank: job.rank,
        trained: job.trained,
        epochs: job.epochs,
        ..Compress::default()
    }
}
