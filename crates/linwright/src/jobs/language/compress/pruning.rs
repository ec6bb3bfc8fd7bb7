//! Options of structured pruning.

use super::{Compress, plan};
use crate::jobs::kit::{JobError, flag_of};
use linwright_lm::prune::{Cut, PruneSpec};
use serde_json::json;

/// Whether layers are narrowed together instead of each by itself.
pub(super) fn is_wanted(job: &Compress) -> bool {
    job.method.is_some_and(super::MethodName::is_pruning)
}

/// Checks options before any work.
pub(super) fn check(job: &Compress) -> Result<(), JobError> {
    let (Some(method), defaults) = (job.method, Compress::default()) else { return Ok(()) };
    let others = [
        ("operator", job.operator.is_some()),
        ("rank", job.rank.is_some()),
        ("rho", job.rho.is_some()),
        ("energy", job.energy.is_some()),
        ("rate", job.rate.is_some()),
        ("marchenko_pastur", job.marchenko_pastur),
        ("allocate", job.allocate.is_some()),
        ("intervention", job.intervention.is_some()),
        ("shrinkage", job.shrinkage.is_some()),
        ("ridge", job.ridge.is_some()),
        ("whitening", job.whitening.is_some()),
        ("alpha", job.alpha.is_some()),
        ("compat", job.compat),
        ("trained", job.trained),
        ("epochs", job.epochs != defaults.epochs),
        ("targets", !job.targets.is_empty()),
        ("sites", !job.sites.is_empty()),
        ("ignore", !job.ignore.is_empty()),
        ("heal", job.heal.is_some()),
        ("offload", job.offload),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let (flag, method) = (flag_of(flag), method.name());
        return Err(JobError::new(format!(
            "--{flag} goes with methods that replace linear layers one by one, {method} narrows \
             them together"
        ))
        .hint("give --keep, --layers and --align; `linwright prune` has the options of a method"));
    }
    if job.keep.is_none() {
        let message = format!("{} needs a size: keep", method.name());
        return Err(JobError::new(message).hint("give --keep SHARE"));
    }
    let spec = spec(job)?;
    plan::layers(job)?;
    spec.check().map_err(|reason| JobError::new(format!("{} {reason}", spec.id())))
}

/// The method with its options.
pub(super) fn spec(job: &Compress) -> Result<PruneSpec, JobError> {
    if let Some(spec) = &job.pruning {
        return Ok(spec.clone());
    }
    let id = job.method.map_or("", super::MethodName::name);
    let spec = serde_json::from_value(json!({"method": id}));
    spec.map_err(|error| JobError::new(error.to_string()))
}

/// How much is kept, and of which layers.
pub(super) fn cut(job: &Compress) -> Result<Cut, JobError> {
    let keep = job.keep.unwrap_or(1.0);
    Ok(Cut { keep, align: job.align, layers: plan::layers(job)? })
}
