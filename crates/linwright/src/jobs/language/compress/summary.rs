//! The summary of `linwright compress`, and its estimate for `--dry-run`.

use super::edits::Edits;
use super::memory::{Means, Peak};
use super::recovery;
use super::result::{CompressCost, PruneCost, PrunedSizes, PruningChange};
use super::site_tables::estimate_table;
use super::spec::Spec;
use crate::jobs::kit::outcome::text;
use crate::jobs::kit::{Failure, Outcome};
use linwright_compress::{Estimate, Rates, estimate};
use linwright_files::RawFile;
use linwright_lm::LmError;
use linwright_lm::prune::{Cut, PruneSpec, SiteSize};
use linwright_model::{Batch, Transformer};
use linwright_ops::Examples;
use linwright_report::Block;
use linwright_report::number::{bytes, grouped, seconds};
use std::path::Path;

/// The estimated cost of a plan.
pub(in crate::jobs) fn estimate_blocks(estimate: &Estimate) -> Vec<Block> {
    estimate_with(estimate, estimate.memory_bytes, 0.0)
}

/// As [`estimate_blocks`], with memory and seconds of what is around the fits as well.
pub(super) fn estimate_with(estimate: &Estimate, memory: u64, evaluation: f64) -> Vec<Block> {
    let whole = seconds(estimate.seconds + evaluation);
    let parts = match evaluation {
        0.0 => String::new(),
        evaluation => {
            format!(
                ": {} of fits, {} of evaluation",
                seconds(estimate.seconds),
                seconds(evaluation)
            )
        }
    };
    let lines = text([
        format!(
            "parameters of these layers: {} -> {}",
            grouped(estimate.targeted_dense),
            grouped(estimate.targeted)
        ),
        format!("memory: about {}", bytes(memory)),
        format!("time: about {whole}{parts}"),
    ]);
    std::iter::once(lines).chain(estimate_table(&estimate.sites)).collect()
}

/// The estimated cost of a plan, and of a recovery after it.
pub(super) fn dry_run(
    spec: &Spec,
    edits: &Edits,
    (peak, evaluation): (Peak, f64),
    means: &Means<'_>,
) -> Result<Outcome, Failure> {
    let (model, calibration) = (&means.model.loaded.decoder, means.windows);
    let plan = match edits {
        Edits::Plan(plan) => plan,
        Edits::Pruning(spec, cut) => return pruned_dry_run((spec, cut), peak, model),
    };
    let examples = calibration.map(|windows| windows as &dyn Examples<Batch>);
    let estimate = estimate(plan, model, examples, &mut Rates::default())?;
    let recovery = recovery::estimated(spec.recovery.as_ref(), &estimate, model, calibration)?;
    Ok(Outcome::of(CompressCost {
        plan: plan.clone(),
        estimate,
        recovery,
        memory: peak,
        evaluation_seconds: evaluation,
    }))
}

/// The sizes that a pruning leaves, exactly.
fn pruned_dry_run(
    (spec, cut): (&PruneSpec, &Cut),
    peak: Peak,
    model: &Transformer,
) -> Result<Outcome, Failure> {
    let sizes = spec.sizes(model, cut).map_err(LmError::from)?;
    let sum = |of: fn(&SiteSize) -> usize| sizes.iter().map(of).sum::<usize>() as u64;
    let estimate = PrunedSizes {
        targeted_dense: sum(|size| size.dense),
        targeted: sum(|size| size.kept),
        sites: sizes,
    };
    let (pruning, cut) = (spec.clone(), cut.clone());
    let plan = PruningChange { pruning, cut };
    Ok(Outcome::of(PruneCost { plan, estimate, memory: peak }))
}

/// Size of the weight files in a directory.
pub(super) fn weight_bytes(path: &Path) -> u64 {
    // The model was loaded from these files, or just written there. Follows links: in the cache of
    // the hub every file is one.
    let files = RawFile::all(path).into_iter().flatten();
    files.filter_map(|file| file.path().metadata().ok()).map(|metadata| metadata.len()).sum()
}
