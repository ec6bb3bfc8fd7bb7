//! Provenance of results: versions, hashes, machine, time.

use crate::{DataUsed, TaskResult};
use linwright_model::checkpoint::LoadedModel;
use linwright_run::{DataSource, Provenance};
use linwright_tensor::parallel;
use std::time::{SystemTime, UNIX_EPOCH};

/// The program that made a result.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// Its version.
    pub version: &'a str,
    /// The commit it was built from; empty if unknown.
    pub commit: &'a str,
}

/// Provenance of the results of tasks on a model; the caller adds recipe and seeds.
#[must_use]
pub fn provenance(build: Build<'_>, loaded: &LoadedModel, results: &[TaskResult]) -> Provenance {
    let dtype = match loaded.decoder.held_in_half() {
        None => "f32".into(),
        Some((_, half)) => format!("f32, weights held in {}", half.name()),
    };
    provenance_of(build, &loaded.hash, dtype, results)
}

/// As [`provenance`], for a network whose weights have this SHA-256 and are held in this data type.
#[must_use]
pub fn provenance_of(
    build: Build<'_>,
    model_sha256: &str,
    dtype: String,
    results: &[TaskResult],
) -> Provenance {
    let mut provenance = Provenance {
        version: build.version.to_owned(),
        commit: (!build.commit.is_empty()).then(|| build.commit.to_owned()).into(),
        recipe: String::new(),
        recipe_sha256: String::new(),
        model_sha256: model_sha256.to_owned(),
        seeds: Vec::new(),
        // Results differ in the last bits between instruction sets.
        device: format!("cpu ({})", parallel::instruction_set()).into(),
        dtype,
        threads: parallel::threads().into(),
        date_unix_seconds: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |d| d.as_secs_f64())
            .into(),
        data: Vec::new(),
        protocols: Vec::new(),
    };
    add_results(&mut provenance, results);
    provenance
}

/// Adds the protocols and the data of results.
pub fn add_results(provenance: &mut Provenance, results: &[TaskResult]) {
    let mut protocols: Vec<String> = results.iter().map(|result| result.protocol.clone()).collect();
    protocols.dedup();
    let mut data: Vec<DataSource> = results.iter().flat_map(data_of).collect();
    data.dedup();
    provenance.protocols.append(&mut protocols);
    provenance.data.append(&mut data);
}

/// Path of the file that [`add_results`] names, if it names one.
#[must_use]
pub fn file_of_task(source: &DataSource) -> Option<&str> {
    let (_, rest) = source.path.split_once(", ")?;
    rest.split_once(": ").map(|(_, path)| path)
}

/// The data files of a task; if it does not list them, the task itself.
fn data_of(result: &TaskResult) -> Vec<DataSource> {
    let source = |path: &str, sha256: &str| DataSource {
        purpose: "evaluation".into(),
        path: path.to_owned(),
        sha256: sha256.to_owned(),
    };
    if result.files.is_empty() {
        return vec![source(&result.task, &result.data_sha256)];
    }
    let of_file = |file: &DataUsed| {
        let task = &result.task;
        source(&format!("{task}, {}: {}", file.split, file.path), &file.sha256)
    };
    result.files.iter().map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tasks_are_found_in_what_names_them() {
        let file =
            |path: &str| DataUsed { split: "test".into(), path: path.into(), sha256: "ab".into() };
        let files = vec![file("rows.jsonl"), file("a, b: c.jsonl")];
        let listed = TaskResult { task: "boats".into(), files, ..TaskResult::default() };
        let own = TaskResult { task: "text".into(), ..TaskResult::default() };
        let named = [listed, own].iter().flat_map(data_of).collect::<Vec<_>>();
        let found: Vec<Option<&str>> = named.iter().map(file_of_task).collect();
        assert_eq!(found, [Some("rows.jsonl"), Some("a, b: c.jsonl"), None]);
    }
}
