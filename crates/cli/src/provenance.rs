//! Where a result comes from: versions, hashes, machine, time.

use linwright::measure::evaluate::TaskResult;
use linwright::measure::report::{DataSource, Provenance};
use linwright::model::checkpoint::LoadedModel;
use std::time::{SystemTime, UNIX_EPOCH};

/// The parts that every result shares.
pub(crate) fn base(loaded: &LoadedModel, results: &[TaskResult]) -> Provenance {
    let mut protocols: Vec<String> = results.iter().map(|result| result.protocol.clone()).collect();
    protocols.dedup();
    let mut data: Vec<DataSource> = results
        .iter()
        .map(|result| DataSource {
            purpose: "evaluation".into(),
            path: result.task.clone(),
            sha256: result.data_sha256.clone(),
        })
        .collect();
    data.dedup();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        recipe: String::new(),
        recipe_sha256: String::new(),
        model_sha256: loaded.hash.clone(),
        seeds: Vec::new(),
        device: format!("cpu ({})", instruction_set()),
        dtype: match loaded.decoder.held_in_half() {
            None => "f32".into(),
            Some((_, half)) => format!("f32, weights held in {}", half.name()),
        },
        threads: linwright::tensor::parallel::threads(),
        date_unix_seconds: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |d| d.as_secs_f64()),
        data,
        protocols,
    }
}

/// Of an evaluation from the command line.
pub(crate) fn of_evaluation(loaded: &LoadedModel, results: &[TaskResult]) -> Provenance {
    Provenance { recipe: "linwright eval".into(), ..base(loaded, results) }
}

/// Bits may differ between instruction sets, so a result names its own.
fn instruction_set() -> &'static str {
    linwright::tensor::parallel::instruction_set()
}
