//! The summary of `linwright compress`, and its estimate for `--dry-run`.

use super::Done;
use crate::args::Shared;
use crate::commands::{grouped, print, print_json, table};
use crate::failure::Failure;
use linwright::compress::{Plan, Rates, study};
use linwright::measure::calibration::Calibration;
use linwright::model::Transformer;
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
    max_logit_difference: f64,
}

impl Summary {
    pub(super) fn new(done: &Done, original: &Transformer, source: &Path) -> Self {
        let Done { edited, saved, speeds, .. } = done;
        // Refitted projections are not counted: they keep their size.
        let replaced = || edited.sites.iter().filter(|site| !site.heals);
        let targeted_dense: u64 = replaced().map(|site| site.dense_parameters as u64).sum();
        let targeted: u64 = replaced().map(|site| site.parameters as u64).sum();
        Self {
            targeted_dense,
            targeted,
            keep: targeted as f64 / targeted_dense.max(1) as f64,
            model_dense: original.config().parameters(),
            model: edited.model.parameters(),
            weight_bytes_before: weight_bytes(source),
            weight_bytes: weight_bytes(&saved.saved.dir),
            tokens_per_second_before: speeds[0],
            tokens_per_second: speeds[1],
            max_logit_difference: f64::from(saved.saved.max_difference),
        }
    }

    pub(super) fn render(&self, done: &Done, output: &Path) -> String {
        let choice = &done.saved.choice;
        let rows: Vec<Vec<String>> = done
            .edited
            .sites
            .iter()
            .map(|site| {
                vec![
                    site.site.to_string(),
                    site.method.clone(),
                    grouped(site.dense_parameters as u64),
                    grouped(site.parameters as u64),
                    format!("{:.2e}", site.fit.relative_error),
                ]
            })
            .collect();
        format!(
            "{}\n\nreplaced layers: {} -> {} parameters (keep {:.4})\nmodel: {} -> {} parameters, {} -> {} bytes of weights\nscoring text: {:.0} -> {:.0} tokens/s\nform {}: {}\nwrote {}; loaded back, logits differ by at most {:.1e}",
            table(&["site", "method", "dense", "now", "fit error"], &rows),
            grouped(self.targeted_dense),
            grouped(self.targeted),
            self.keep,
            grouped(self.model_dense),
            grouped(self.model),
            grouped(self.weight_bytes_before),
            grouped(self.weight_bytes),
            self.tokens_per_second_before,
            self.tokens_per_second,
            choice.form.name(),
            choice.reason,
            output.display(),
            self.max_logit_difference,
        )
    }
}

/// The estimated cost of a plan.
pub(super) fn dry_run(
    plan: &Plan,
    model: &Transformer,
    calibration: Option<&Calibration>,
    shared: &Shared,
) -> Result<(), Failure> {
    let estimate = study::estimate(plan, model, calibration, &mut Rates::default())?;
    if shared.json {
        return print_json(&serde_json::json!({"plan": plan, "estimate": estimate}));
    }
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
    print(&format!(
        "{}\n\nparameters of these layers: {} -> {}\nmemory: about {} MB\ntime: about {} s",
        table(&["site", "method", "dense", "then", "asked", "reached"], &rows),
        grouped(estimate.targeted_dense),
        grouped(estimate.targeted),
        grouped(estimate.memory_bytes >> 20),
        if estimate.seconds < 10.0 {
            format!("{:.1}", estimate.seconds)
        } else {
            format!("{:.0}", estimate.seconds)
        },
    ))
}

/// Size of the weight files in a directory.
fn weight_bytes(path: &Path) -> u64 {
    let weights = |name: &str| name.ends_with(".safetensors");
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| weights(&entry.file_name().to_string_lossy()))
        // Follows links: in the cache of the hub every file is one.
        .filter_map(|entry| entry.path().metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}
