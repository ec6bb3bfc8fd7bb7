//! The summary of `linwright compress`, and its estimate for `--dry-run`.

use super::edits::Edits;
use super::memory::{Means, Peak};
use super::recovery;
use super::result::{CompressCost, PruneCost, PrunedSizes, PruningChange};
use super::spec::Spec;
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Failure, Outcome};
use linwright_compress::pipeline::SiteOutcome;
use linwright_compress::{Estimate, Rates, estimate};
use linwright_files::RawFile;
use linwright_lm::LmError;
use linwright_lm::prune::{Cut, PruneSpec, SiteSize};
use linwright_model::{Batch, Transformer};
use linwright_ops::Examples;
use linwright_report::Block;
use linwright_report::number::{bytes, grouped};
use std::path::Path;

/// Said of fits that no window was held out of.
const ALL_FITTED: &str = "fit errors are on the calibration windows, all of which were fitted";

/// Whether errors are those of windows that were fitted: they are held out of all fits or of none.
fn fitted_to_all(sites: &[SiteOutcome]) -> bool {
    let any = |held: bool| sites.iter().any(|site| site.fit.held_out == Some(held));
    any(false) && !any(true)
}

/// The table of sites, with what is to be known of its errors before it.
pub(in crate::jobs) fn site_blocks(sites: &[SiteOutcome]) -> Vec<Block> {
    let all_fitted = fitted_to_all(sites).then_some(text([ALL_FITTED]));
    all_fitted.into_iter().chain([site_table(sites)]).collect()
}

/// What became of each site.
pub(in crate::jobs) fn site_table(sites: &[SiteOutcome]) -> Block {
    let row = |site: &SiteOutcome| {
        vec![
            site.site.to_string(),
            site.method.clone(),
            grouped(site.dense_parameters as u64),
            grouped(site.parameters as u64),
            format!("{:.2e}", site.fit.relative_error),
        ]
    };
    table(&["site", "method", "dense", "now", "fit error"], sites.iter().map(row).collect())
}

/// The estimated cost of a plan.
pub(in crate::jobs) fn estimate_blocks(estimate: &Estimate) -> Vec<Block> {
    estimate_with(estimate, estimate.memory_bytes, 0.0)
}

/// As [`estimate_blocks`], with memory and seconds of what is around the fits as well.
pub(super) fn estimate_with(estimate: &Estimate, memory: u64, evaluation: f64) -> Vec<Block> {
    let rows: Vec<Vec<String>> = estimate
        .sites
        .iter()
        .map(|site| {
            vec![
                site.site.to_string(),
                site.method.clone(),
                grouped(site.dense_parameters),
                grouped(site.parameters),
                site.asked.map_or_else(String::new, |keep| format!("{keep:.4}")),
                format!("{:.4}", site.reached),
            ]
        })
        .collect();
    let told = |seconds: f64| match seconds {
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds => format!("{seconds:.0} s"),
    };
    let seconds = told(estimate.seconds);
    let of_tasks = match evaluation {
        0.0 => String::new(),
        evaluation => format!(" of fits, {} of evaluation", told(evaluation)),
    };
    vec![
        text([
            format!(
                "parameters of these layers: {} -> {}",
                grouped(estimate.targeted_dense),
                grouped(estimate.targeted)
            ),
            format!("memory: about {}", bytes(memory)),
            format!("time: about {seconds}{of_tasks}"),
        ]),
        table(&["site", "method", "dense", "then", "asked", "reached"], rows),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    /// A site with equal errors of both kinds.
    fn site(held_out: Option<bool>) -> SiteOutcome {
        let held_out = held_out.map_or(Value::Null, Value::Bool);
        from_value(json!({
            "site": "up", "role": "up", "layer": 0, "heals": false, "method": "svd",
            "parameters": 1, "dense_parameters": 2, "macs_per_row": 1,
            "fit": {
                "relative_error": 0.5, "train_relative_error": 0.5, "target_power": 1.0,
                "held_out": held_out, "ridge": null, "dropped_directions": 0, "curve": [],
                "seconds": 0.0,
            },
        }))
        .unwrap()
    }

    #[test]
    fn fits_know_whether_windows_were_held_out_and_equal_errors_do_not_tell() {
        for (sites, told) in [
            (vec![site(Some(false)), site(None)], true),
            (vec![site(Some(true)), site(None)], false),
            (vec![site(Some(true)), site(Some(false))], false),
            (vec![site(None)], false),
            (Vec::new(), false),
        ] {
            assert_eq!(fitted_to_all(&sites), told, "{sites:?}");
        }
    }
}
