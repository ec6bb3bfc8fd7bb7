//! The summary of `linwright compress`, and its estimate for `--dry-run`.

use super::edits::Edits;
use super::memory::{Means, Peak};
use super::recovery;
use super::run::Done;
use super::spec::Spec;
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Failure, Outcome};
use linwright_compress::pipeline::SiteOutcome;
use linwright_compress::recover::RecoveryReport;
use linwright_compress::{Estimate, Rates, estimate};
use linwright_files::RawFile;
use linwright_lm::LmError;
use linwright_lm::prune::{Cut, PruneSpec, SiteSize};
use linwright_model::{Batch, Transformer};
use linwright_ops::Examples;
use linwright_report::Block;
use linwright_report::number::{bytes, grouped};
use linwright_run::memory::peak_resident_bytes;
use linwright_study as study;
use serde_json::json;
use std::path::Path;

/// Before and after.
#[derive(serde::Serialize)]
pub(super) struct Summary {
    targeted_dense: u64,
    targeted: u64,
    keep: f64,
    model_dense: u64,
    model: u64,
    weight_bytes_before: u64,
    weight_bytes: u64,
    tokens_per_second_before: f64,
    tokens_per_second: f64,
    peak_resident_bytes: Option<u64>,
    max_logit_difference: f64,
    relative_logit_difference: f64,
}

impl Summary {
    pub(super) fn new(done: &Done, original: &Transformer, source: &Path) -> Self {
        let Done { edited, saved, speeds, .. } = done;
        let counts = study::parameter_counts(original, edited);
        Self {
            targeted_dense: counts.targeted_dense,
            targeted: counts.targeted,
            keep: counts.keep(),
            model_dense: counts.model_dense,
            model: counts.model,
            weight_bytes_before: weight_bytes(source),
            weight_bytes: weight_bytes(&saved.saved.dir),
            tokens_per_second_before: speeds[0],
            tokens_per_second: speeds[1],
            peak_resident_bytes: peak_resident_bytes(),
            max_logit_difference: f64::from(saved.saved.gap.largest),
            relative_logit_difference: saved.saved.gap.relative,
        }
    }

    pub(super) fn block(&self, done: &Done, output: &str) -> Block {
        let choice = &done.saved.choice;
        text([
            format!(
                "replaced layers: {} -> {} parameters (keep {:.4})",
                grouped(self.targeted_dense),
                grouped(self.targeted),
                self.keep,
            ),
            format!(
                "model: {} -> {} parameters, {} -> {} bytes of weights",
                grouped(self.model_dense),
                grouped(self.model),
                grouped(self.weight_bytes_before),
                grouped(self.weight_bytes),
            ),
            format!("form {}: {}", choice.form.name(), choice.reason),
            format!("wrote {output}; loaded back, {}", round_trip(self.relative_logit_difference)),
        ])
    }

    /// Speed and memory.
    pub(super) fn measured(&self, recovery: Option<&RecoveryReport>) -> Vec<Block> {
        let speed = format!(
            "scoring text: {:.0} -> {:.0} tokens/s",
            self.tokens_per_second_before, self.tokens_per_second,
        );
        let peak = self.peak_resident_bytes.map(|peak| format!("peak memory: {}", bytes(peak)));
        let recovery = recovery.map(recovery::time);
        vec![text([Some(speed), peak, recovery].into_iter().flatten())]
    }
}

/// How far the logits of a saved model are from those in memory.
fn round_trip(relative: f64) -> String {
    if relative == 0.0 {
        return "logits are the same".to_owned();
    }
    format!("logits differ by {relative:.1e} of their spread (root mean square)")
}

/// Said of fits that no window was held out of.
const ALL_FITTED: &str = "fit errors are on the calibration windows, all of which were fitted";

/// Whether errors are those of windows that were fitted: they are held out of all fits or of none.
fn fitted_to_all(sites: &[SiteOutcome]) -> bool {
    let any = |held: bool| sites.iter().any(|site| site.fit.held_out == Some(held));
    any(false) && !any(true)
}

/// The table of sites, with what is to be known of its errors before it.
pub(super) fn site_blocks(sites: &[SiteOutcome]) -> Vec<Block> {
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
fn estimate_with(estimate: &Estimate, memory: u64, evaluation: f64) -> Vec<Block> {
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
    let mut blocks = estimate_with(&estimate, peak.bytes(), evaluation);
    let recovery = recovery::estimated(spec.recovery.as_ref(), &estimate, model, calibration)?;
    if let Some(recovery) = &recovery {
        // Before the table of all sites.
        blocks.insert(1, recovery::estimate_block(recovery));
    }
    let result = json!({
        "plan": plan, "estimate": estimate, "recovery": recovery, "memory": peak,
        "evaluation_seconds": evaluation,
    });
    Ok(Outcome::new(result, blocks))
}

/// The sizes that a pruning leaves, exactly.
fn pruned_dry_run(
    (spec, cut): (&PruneSpec, &Cut),
    peak: Peak,
    model: &Transformer,
) -> Result<Outcome, Failure> {
    let sizes = spec.sizes(model, cut).map_err(LmError::from)?;
    let row = |size: &SiteSize| {
        let cells = [size.dense, size.kept].map(|count| grouped(count as u64));
        [vec![size.site.to_string(), spec.id().to_owned()], cells.into()].concat()
    };
    let sum = |of: fn(&SiteSize) -> usize| sizes.iter().map(of).sum::<usize>() as u64;
    let (dense, kept) = (sum(|size| size.dense), sum(|size| size.kept));
    let share = kept as f64 / dense.max(1) as f64;
    let blocks = vec![
        text([
            format!(
                "parameters of these layers: {} -> {} (keep {share:.4} of {} asked)",
                grouped(dense),
                grouped(kept),
                cut.keep
            ),
            format!("memory: about {}", bytes(peak.bytes())),
        ]),
        table(&["site", "method", "dense", "then"], sizes.iter().map(row).collect()),
    ];
    let plan = Edits::Pruning(spec.clone(), cut.clone()).summary();
    let estimate = json!({"sites": sizes, "targeted_dense": dense, "targeted": kept});
    Ok(Outcome::new(json!({"plan": plan, "estimate": estimate, "memory": peak}), blocks))
}

/// Size of the weight files in a directory.
fn weight_bytes(path: &Path) -> u64 {
    // The model was loaded from these files, or just written there. Follows links: in the cache of
    // the hub every file is one.
    let files = RawFile::all(path).into_iter().flatten();
    files.filter_map(|file| file.path().metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value};

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
