//! Where a result comes from: versions, hashes, machine, time.

use linwright::evaluate::TaskResult;
use linwright::model::checkpoint::LoadedModel;
use linwright::run::{DataSource, Provenance};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version, and the commit that the program was built from where that is known.
pub(crate) const VERSION: &str = env!("LINWRIGHT_VERSION");
/// The commit; empty where it is not known.
const COMMIT: &str = env!("LINWRIGHT_COMMIT");

/// The parts that every result shares.
pub(crate) fn base(loaded: &LoadedModel, results: &[TaskResult]) -> Provenance {
    let mut protocols: Vec<String> = results.iter().map(|result| result.protocol.clone()).collect();
    protocols.dedup();
    let mut data: Vec<DataSource> = results.iter().flat_map(data_of).collect();
    data.dedup();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: (!COMMIT.is_empty()).then(|| COMMIT.to_owned()),
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

/// The files of a task; the task itself stands for them where it does not tell.
fn data_of(result: &TaskResult) -> Vec<DataSource> {
    let source = |path: &str, sha256: &str| DataSource {
        purpose: "evaluation".into(),
        path: path.to_owned(),
        sha256: sha256.to_owned(),
    };
    if result.files.is_empty() {
        return vec![source(&result.task, &result.data_sha256)];
    }
    let of_file = |file: &linwright::evaluate::DataUsed| {
        let task = &result.task;
        source(&format!("{task}, {}: {}", file.split, file.path), &file.sha256)
    };
    result.files.iter().map(of_file).collect()
}

/// Of an evaluation from the command line.
pub(crate) fn of_evaluation(loaded: &LoadedModel, results: &[TaskResult]) -> Provenance {
    Provenance { recipe: "linwright eval".into(), ..base(loaded, results) }
}

/// Bits may differ between instruction sets, so a result names its own.
fn instruction_set() -> &'static str {
    linwright::tensor::parallel::instruction_set()
}
