//! Options of structured pruning.

use super::Compress;
use super::spec::What;
use crate::jobs::kit::JobError;
use linwright_compress::allocate::Allocator;
use linwright_lm::prune::{Cut, PruneSpec};
use serde_json::Value;

/// The method and how much it keeps.
pub(super) fn resolved(job: &Compress) -> Result<What, JobError> {
    let Some(method) = &job.method else { unreachable!("pruning is a method") };
    let (slots, size) = (&job.slots, job.size());
    let keep = size.and_then(|size| size.keep());
    // They belong to layers that are replaced one by one.
    let others = [
        ("size", job.size.is_some() && keep.is_none()),
        ("rank", job.rank.is_some()),
        ("allocate", job.allocate.as_ref().is_some_and(|own| own.allocator != Allocator::Uniform)),
        ("roles", !slots.roles.is_empty()),
        ("sites", !slots.sites.is_empty()),
        ("ignore", !slots.ignore.is_empty()),
        ("heal", job.heal.is_some()),
        ("offload", job.offload),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        return Err(JobError::new(format!(
            "--{flag} goes with methods that replace linear layers one by one, {} narrows them \
             together",
            method.name()
        ))
        .hint(format!(
            "give --keep, --layers and --allocate uniform:align=N; `linwright ls methods {}` lists the options of the \
             method",
            method.name()
        )));
    }
    if keep.is_none() && !method.has("ratio") {
        let message = format!("{} needs a size: keep", method.name());
        return Err(JobError::new(message).hint("give --keep SHARE"));
    }
    let spec: PruneSpec = serde_json::from_value(Value::Object(method.options()))
        .map_err(|error| JobError::new(format!("--method {}: {error}", method.0)))?;
    let align = job.allocate.as_ref().and_then(|own| own.align);
    let cut = Cut { keep: keep.unwrap_or(1.0), align, layers: slots.layers()? };
    spec.check().map_err(|reason| JobError::new(format!("{} {reason}", spec.id())))?;
    Ok(What::Pruning(spec, cut))
}
