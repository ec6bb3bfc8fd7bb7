//! Studies: tables of methods on sets of layers.

use crate::jobs::inputs::is_local;
use crate::jobs::measured::{self, PROVENANCE};
use crate::jobs::outcome::{table, text, write_pages};
use crate::jobs::source::{OpenModel, data_file, open_model};
use crate::jobs::sweep::left_nothing;
use crate::jobs::tasks::{self, check_tasks};
use crate::jobs::{EvaluationOptions, Failure, FailureKind, Outcome, Session, shards, to_yaml};
use linwright_compress::Rates;
use linwright_compress::recipe::{Evaluation, Recipe};
use linwright_compress::report::{LayerError, ModelSummary, Report, SCHEMA};
use linwright_compress::study::{self, Findings, TextTrial};
use linwright_data::{Corpus, MAX_FILE_BYTES};
use linwright_evaluate::Outcome as Part;
use linwright_evaluate::{
    Task, TaskOptions, TaskResult, canonical_task, open_task, requests_digest,
};
use linwright_files::MEASURED as MEASURED_FILE;
use linwright_report::ReportError;
use linwright_report::number::grouped;
use linwright_run::atomic::write_atomic;
use linwright_run::{
    DataSource, Monitor, Provenance, RunDirectory, input, sha256_hex, shown_reason,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Where times and machine stand in a report.
const MEASURED: [&str; 6] =
    [PROVENANCE[0], PROVENANCE[1], PROVENANCE[2], PROVENANCE[3], "rows/*/seconds", "rows/*/speed"];

/// Runs a study and writes its report. By default the output directory contains the start of the
/// fingerprint: the same run resumes in it, another recipe or model gets its own.
pub(super) fn run(
    name: &str,
    recipe: &Recipe,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::output_of(session, output)?;
    let model = open_model(&recipe.model, session)?;
    let OpenModel { loaded, place } = &model;
    // Records name the commit of a hub model.
    let recipe = &Recipe { model: place.name.clone(), ..recipe.clone() };
    study::check(recipe, &loaded.decoder)?;
    let mut tasks = open_tasks(recipe, session)?;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model)?;
    let (dataset, field) = (&recipe.calibration.dataset, &recipe.calibration.text_field);
    let path = data_file(dataset, "calibration.jsonl", session)?;
    let calibration = Corpus::open(&path, field.as_deref())?;
    let left_out = study::leave_out_overlap(recipe, &calibration, &mut tasks)?;
    let tokenizer = loaded
        .tokenizer
        .as_ref()
        .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", recipe.model)))?;
    let (source, tasks) = (&recipe.calibration, tasks.as_slice());
    let inputs = TextTrial { model: loaded, tokenizer, calibration: &calibration, source, tasks };
    if dry_run {
        session.finish();
        return costs(recipe, &inputs);
    }
    // Before the directory belongs to this recipe: errors in it can still be corrected.
    for &seed in &recipe.seeds {
        inputs.windows(seed)?;
    }
    let notes = [left_out, study::notes(recipe, &inputs)].concat();
    notes.iter().for_each(|note| session.note(&format!("note: {note}")));
    let read = session.hashes(&read_by(recipe))?;
    // What tasks ask, too: data sets may be named only.
    let asked = tasks.iter().map(|task| requests_digest(task.as_ref()));
    let data: Vec<String> = read.iter().map(|read| read.sha256.clone()).chain(asked).collect();
    let fingerprint = study::fingerprint(recipe, &inputs, &data);
    let own = || Path::new("runs").join(format!("{name}-{}", &fingerprint.0[..8]));
    let output = output.map_or_else(own, Path::to_owned);
    let directory = RunDirectory::open(&output, &fingerprint)?;
    session.record_data([session.data(), &read].concat());
    shards::mark(session, &output)?;
    let directory = directory.reading_also(shards::sources(session, Path::new("")));
    write_atomic(&output.join("recipe.yaml"), recipe_yaml(recipe)?.as_bytes())?;
    let shard = session.shard();
    let findings = study::run(recipe, &inputs, &directory, shard, session);
    session.tell_damage(directory.pieces());
    let findings = match findings.map_err(|error| left_nothing(&directory, error.into()))? {
        Part::Complete(findings) => findings,
        Part::Part { known, total } => {
            session.finish();
            return shards::part(session, &output, known, total);
        }
    };
    for LayerError { site, method, seed, relative_error: error, .. } in &findings.layer_errors {
        session.trace(|| format!("{site}: {method}, seed {seed}, relative error {error:.3e}"));
    }
    session.finish();
    let report = report(name, recipe, &inputs, notes, findings, session)?;
    let (html, measured) = write_report(&report, &output)?;
    let files = session.files_beside(&measured)?.into_iter();
    for (name, bytes) in files.filter(|(name, _)| name == MEASURED_FILE) {
        write_atomic(&output.join(name), &bytes)?;
    }
    let record = json!({
        "schema": 1, "linwright": session.build().version, "name": name, "recipe": recipe,
        "recipe_sha256": report.provenance.recipe_sha256, "seeds": recipe.seeds, "data": read,
    });
    write_atomic(&output.join("reproduce.json"), format!("{record:#}\n").as_bytes())?;
    let result = plain(&report)?;
    let mut document = report.document();
    document.blocks.push(text([format!("report: {}", html.display())]));
    Ok(Outcome { report: document, ..Outcome::new(result, Vec::new()) })
}

fn open_tasks(recipe: &Recipe, session: &mut Session<'_>) -> Result<Vec<Box<dyn Task>>, Failure> {
    let eval = &recipe.eval;
    let options = TaskOptions {
        window: eval.window,
        stride: eval.stride.unwrap_or(eval.window),
        bos: eval.bos,
        join: eval.join,
        limit: eval.limit,
        text_field: eval.text_field.clone(),
    };
    let mut tasks =
        vec![open_task("text", &data_file(&eval.text, "stories-test.jsonl", session)?, &options)?];
    if let Some(questions) = &eval.questions {
        tasks.push(open_task(
            "multiple_choice",
            &data_file(questions, "facts.jsonl", session)?,
            &options,
        )?);
    }
    tasks.extend(named_tasks(recipe, session)?);
    let ids: Vec<String> = tasks.iter().map(|task| task.id()).collect();
    match (1..ids.len()).find(|&index| ids[..index].contains(&ids[index])) {
        None => Ok(tasks),
        Some(index) => Err(Failure::new(
            FailureKind::Recipe,
            format!("eval.tasks: there is a task {} already", ids[index]),
        )),
    }
}

/// The further tasks of a recipe.
fn named_tasks(recipe: &Recipe, session: &mut Session<'_>) -> Result<Vec<Box<dyn Task>>, Failure> {
    let Evaluation { tasks, data, num_fewshot, limit, bos, .. } = recipe.eval.clone();
    if tasks.is_empty() && (!data.is_empty() || num_fewshot.is_some()) {
        return Err(Failure::new(
            FailureKind::Recipe,
            "eval.data and eval.num_fewshot are of eval.tasks, which names none",
        ));
    }
    let tasks = tasks.iter().map(|name| canonical_task(name).to_owned()).collect();
    let options =
        EvaluationOptions { tasks, data, num_fewshot, limit, bos, ..EvaluationOptions::default() };
    tasks::open_tasks_if_any(&options, session)
}

fn report(
    name: &str,
    recipe: &Recipe,
    inputs: &TextTrial<'_>,
    notes: Vec<String>,
    findings: Findings,
    session: &Session<'_>,
) -> Result<Report, Failure> {
    let Findings { baseline, rows, curves, layer_errors } = findings;
    let config = inputs.model.decoder.config();
    Ok(Report {
        schema: SCHEMA,
        title: recipe.title.clone(),
        model: ModelSummary {
            name: recipe.model.clone(),
            family: config.family.model_type.to_owned(),
            parameters: config.parameters(),
            layers: config.layers.len(),
            hidden: Some(config.hidden),
        },
        provenance: provenance(name, recipe, inputs, &baseline, session)?,
        baseline,
        rows,
        curves,
        layer_errors,
        notes: [inputs.model.notes.clone(), notes].concat(),
    })
}

fn provenance(
    name: &str,
    recipe: &Recipe,
    inputs: &TextTrial<'_>,
    baseline: &[TaskResult],
    session: &Session<'_>,
) -> Result<Provenance, Failure> {
    let text = recipe_yaml(recipe)?;
    let mut provenance = session.provenance(name, inputs.model, baseline);
    provenance.recipe_sha256 = sha256_hex(text.as_bytes());
    provenance.seeds.clone_from(&recipe.seeds);
    provenance.data.push(DataSource {
        purpose: "calibration".into(),
        path: recipe.calibration.dataset.clone(),
        sha256: inputs.calibration.sha256.clone(),
    });
    Ok(provenance)
}

/// The recipe with all defaults written out.
fn recipe_yaml(recipe: &Recipe) -> Result<String, Failure> {
    let value = serde_json::to_value(recipe)
        .map_err(|error| Failure::general(format!("cannot write the recipe as JSON: {error}")))?;
    to_yaml(&value)
}

/// What a study reads by path.
fn read_by(recipe: &Recipe) -> Vec<PathBuf> {
    let texts = [&recipe.model, &recipe.calibration.dataset, &recipe.eval.text];
    let named = texts.into_iter().chain(&recipe.eval.questions).chain(&recipe.eval.tasks);
    let data = recipe.eval.data.iter().map(|data| data.path.clone());
    let all = named.map(PathBuf::from).chain(data);
    all.filter(|path| is_local(path)).collect()
}

fn plain(report: &Report) -> Result<Value, Failure> {
    serde_json::to_value(report)
        .map_err(|error| Failure::general(format!("cannot write the report as JSON: {error}")))
}

/// Writes `report.json`, `report.md` and `report.html`, which have no times; gives the path of the
/// last, and the times.
///
/// # Errors
/// [`Failure`] if a file cannot be written.
pub fn write_report(report: &Report, directory: &Path) -> Result<(PathBuf, Value), Failure> {
    let mut value = plain(report)?;
    let measured = measured::split(&mut value, &MEASURED);
    let text = format!("{value:#}");
    write_atomic(&directory.join("report.json"), text.as_bytes())?;
    Ok((write_pages(&Report::from_json(&text)?.document(), directory)?, measured))
}

/// A saved report, with the times that stand beside it if they do.
///
/// # Errors
/// [`Failure`] if the text is no report, or the times cannot be read.
pub fn read_report(text: &str, path: &Path) -> Result<Report, Failure> {
    let report = Report::from_json(text)?;
    let beside = path.with_file_name(MEASURED_FILE);
    if !beside.exists() {
        return Ok(report);
    }
    let shown = beside.display().to_string();
    let times = input::read_text(&beside, MAX_FILE_BYTES);
    let times = times.map_err(|error| Failure::io(&shown, &error))?;
    let mut times: Value = serde_json::from_str(&times).map_err(|error| {
        let reason = shown_reason(&error.to_string());
        Failure::general(format!("{shown} is no file of times: {reason}"))
            .hint("remove it to see the results without times")
    })?;
    // As it is saved: a report in memory has places for times.
    let mut value: Value = serde_json::from_str(text).map_err(ReportError::from)?;
    measured::join(&mut value, times["measured"].take());
    Ok(Report::from_json(&value.to_string())?)
}

fn costs(recipe: &Recipe, inputs: &TextTrial<'_>) -> Result<Outcome, Failure> {
    let windows = inputs.windows(recipe.seeds[0])?;
    let mut lines = Vec::new();
    let mut costs = Vec::new();
    let mut rates = Rates::default();
    let mut seconds = 0.0;
    for table in &recipe.tables {
        for layers in &table.layers {
            for row in &table.methods {
                let plan = table.plan(row, layers, recipe.seeds[0]);
                let cost =
                    study::estimate(&plan, &inputs.model.decoder, Some(&windows), &mut rates)?;
                seconds += cost.seconds * recipe.seeds.len() as f64;
                lines.push(vec![
                    table.title.clone(),
                    row.label(),
                    format!("{layers:?}"),
                    grouped(cost.targeted),
                    grouped(cost.targeted_dense),
                    grouped(cost.memory_bytes >> 20),
                    format!("{:.1}", cost.seconds),
                ]);
                costs.push(json!({"table": table.title, "method": row.label(), "layers": layers, "estimate": cost}));
            }
        }
    }
    let header = ["table", "method", "layers", "parameters", "dense", "MB", "seconds"];
    let all = text([format!("fits of all seeds: about {seconds:.0} s, evaluation apart")]);
    let result = json!({"recipe": recipe, "cells": costs, "seconds": seconds});
    Ok(Outcome::new(result, vec![table(&header, lines), all]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Host;
    use crate::recipes::PRESETS;
    use linwright_compress::recipe::parse;
    use linwright_data::CalibrationText;
    use linwright_evaluate::{Build, overlap};
    use linwright_run::Silent;

    #[test]
    fn what_runs_first_asks_nothing_that_its_calibration_text_holds() {
        let host = Host {
            variable: &|_| None,
            cancelled: &|| false,
            build: Build { version: "0", commit: "" },
        };
        let mut silent = Silent;
        let mut session = Session::new(&mut silent, host);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
        let file = |name: &str| folder.join(name).display().to_string();
        for name in ["main-job", "equal-parameters-pocket"] {
            let preset = PRESETS.iter().find(|preset| preset.name == name).unwrap();
            let mut recipe = parse(Path::new(name), preset.text).unwrap();
            recipe.eval.text = file("stories-test.jsonl");
            recipe.eval.questions = Some(file("facts.jsonl"));
            let calibration = Corpus::open(Path::new(&file("calibration.jsonl")), None).unwrap();
            let mut tasks = open_tasks(&recipe, &mut session).unwrap();
            let counts = |tasks: &[Box<dyn Task>]| -> Vec<usize> {
                tasks.iter().map(|task| task.items().len()).collect()
            };
            assert_eq!(counts(&tasks), [400, 1064]);
            let notes = study::leave_out_overlap(&recipe, &calibration, &mut tasks).unwrap();
            assert_eq!(counts(&tasks), [279, 871]);
            assert!(
                notes[0].starts_with("279 of 400 documents of task text are scored"),
                "{notes:?}"
            );
            let text = CalibrationText::new(&[calibration]);
            for task in &tasks {
                assert_eq!(overlap(task.as_ref(), &text).overlapping, 0, "{name}: {}", task.id());
            }
        }
    }
}
