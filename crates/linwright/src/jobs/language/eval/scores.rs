//! `linwright eval`: perplexity and accuracy of a model.

use super::scoring::{ModelScored, Scoring, no_room};
use super::{Eval, logits};
use crate::jobs::kit::outcome::table;
use crate::jobs::kit::room::{check_held, check_weights, held_bytes};
use crate::jobs::kit::source::{OpenModel, open_model_as};
use crate::jobs::kit::{
    ByteSize, Failure, FailureKind, Job, Outcome, Session, outputs, shards, store,
};
use crate::jobs::language::tasks::{check_tasks, cost, open_tasks};
use linwright_evaluate::{
    Comparison, EvaluationRecord, LogitsFile, Metric, Sample, Task, TaskGroup, TaskResult,
    add_results, compare, result_json, room,
};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::tokenizer::chat::Date;
use linwright_report::{Block, number};
use linwright_run::Monitor;
use linwright_run::atomic::AtomicFile;
use linwright_run::memory::peak_resident_bytes;
use linwright_run::place::{self, is_result, is_samples};
use linwright_run::store::Unfinished;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Checks before anything is computed that the outputs can be written.
fn check_outputs(job: &Eval, session: &mut Session<'_>) -> Result<(), Failure> {
    if let (false, Some(path)) = (session.shard().is_whole(), &job.output) {
        let inputs = outputs::inputs_of(job, session);
        return shards::check_directory(path, &inputs, session);
    }
    if let Some(path) = job.output.as_deref().filter(|path| path.is_dir()) {
        return Err(Failure::usage(format!("--output {} is a directory", path.display()))
            .hint("give a file; --log-samples takes a directory"));
    }
    if let Some(path) = &job.output {
        let inputs = outputs::inputs_of(job, session);
        outputs::file(path, job.force, &inputs, session, is_result)?;
    }
    if let Some(path) = &job.save_logits {
        let inputs = outputs::inputs_of(job, session);
        outputs::file(path, job.force, &inputs, session, LogitsFile::is_one)?;
    }
    match &job.log_samples {
        Some(folder) if folder.exists() && !folder.is_dir() => {
            Err(Failure::usage(format!("--log-samples {} is not a directory", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Checks that the samples of these tasks can be written.
pub(super) fn check_samples(
    job: &Eval,
    tasks: &[Box<dyn Task>],
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let Some(folder) = job.log_samples.as_deref().filter(|folder| folder.exists()) else {
        return Ok(());
    };
    let inputs = outputs::inputs_of(job, session);
    for task in tasks {
        let path = samples_of(folder, &task.id());
        if let Some(output) = job.output.as_deref().filter(|output| place::is_same(output, &path)) {
            let shown = output.display();
            return Err(Failure::usage(format!("--output {shown} is a file of --log-samples"))
                .hint("choose another place for the output"));
        }
        outputs::file(&path, job.force, &inputs, session, is_samples)?;
    }
    Ok(())
}

/// Path of the samples of a task.
fn samples_of(folder: &Path, task: &str) -> PathBuf {
    folder.join(format!("samples_{task}.jsonl"))
}

/// The cost of the evaluations of so many models.
fn dry_run(job: &Eval, models: u64, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let model = open_model_as(&job.model, job.precision.dtype, session)?;
    let chat = job.evaluation.apply_chat_template.then_some(&model);
    let tasks = open_tasks(&job.evaluation, false, chat, session)?.all;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model, &job.evaluation)?;
    let tasks: Vec<(&dyn Task, u64)> = tasks.iter().map(|task| (task.as_ref(), models)).collect();
    Ok(Outcome::of(cost(&tasks, &model, &job.evaluation, session)?))
}

pub(super) fn run(job: &Eval, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    match logits::of(job, session)? {
        Some((job, file)) => run_with(&job, file, session),
        None => run_with(job, None, session),
    }
}

/// Runs a job; `file` has the log-probabilities of its baseline.
fn run_with(
    job: &Eval,
    file: Option<LogitsFile>,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    if job.max_ppl.is_some() && job.evaluation.text.is_none() {
        return Err(Failure::usage("--max-ppl needs --text"));
    }
    // A file of log-probabilities is no model.
    let baseline = job.baseline.as_ref().filter(|_| file.is_none());
    if job.dry_run {
        return dry_run(job, 1 + u64::from(baseline.is_some()), session);
    }
    shards::output_of(session, job.output.as_deref())?;
    check_outputs(job, session)?;
    let fitted_to: Vec<&Path> = job.overlap_with.iter().map(PathBuf::as_path).collect();
    job.evaluation.check_text_field(&fitted_to)?;
    if let Some(ByteSize(allowed)) = job.max_memory {
        let named = job.evaluation.text.iter();
        let named = named.chain(&job.evaluation.more_texts).map(Path::new);
        let data = job.evaluation.data.iter().map(|data| data.path.as_path());
        let texts = named.chain(data).chain(fitted_to.iter().copied());
        room::check_files(texts, allowed).map_err(no_room)?;
        let models = std::iter::once(&job.model).chain(baseline).map(Path::new);
        let dtype = job.precision.dtype;
        models.clone().try_for_each(|model| check_weights(model, dtype, allowed))?;
        // Both models read a text together.
        if baseline.is_some() && job.evaluation.text.is_some() {
            let held = models.map(|model| held_bytes(model, dtype)).sum();
            check_held("the model and its baseline have", held, allowed)?;
        }
    }
    // Errors in tasks are reported before a model is loaded, unless its chat template writes
    // prompts.
    let plain = (!job.evaluation.apply_chat_template)
        .then(|| open_tasks(&job.evaluation, job.log_samples.is_some(), None, session))
        .transpose()?;
    let mut first = None;
    let dated;
    let job = match plain {
        Some(_) => job,
        None => {
            first = Some(open_model_as(&job.model, job.precision.dtype, session)?);
            dated = with_date(job, first.as_ref(), session);
            &dated
        }
    };
    let unfinished = match session.shard().is_whole() {
        true => store::unfinished(job, job.output.as_deref(), session)?,
        false => Unfinished::none(),
    };
    let mut scoring = Scoring::new(job, first, plain, file, unfinished);
    let done = score_all(&mut scoring, session);
    let unfinished = scoring.unfinished;
    match done {
        Ok((outcome, true)) => unfinished.finish().map(|()| outcome).map_err(Failure::from),
        Ok((outcome, false)) => Ok(outcome),
        // A shard keeps its batches in its output directory.
        Err(failure) if !session.shard().is_whole() => Err(failure),
        Err(failure) => Err(store::tidy(unfinished, failure)),
    }
}

/// The job with the date that the chat template gets, where it asks for one: another day is another
/// job.
fn with_date(job: &Eval, model: Option<&OpenModel>, session: &mut Session<'_>) -> Eval {
    let mut job = job.clone();
    let tokenizer = model.and_then(|model| model.loaded.tokenizer.as_ref());
    if tokenizer.is_some_and(Tokenizer::chat_asks_date) && job.evaluation.template.date.is_none() {
        let today = Date::today();
        job.evaluation.template.date = Some(today);
        session.record_choice(Eval::VERB, "date", today.to_string().into());
        session.note(&format!("note: the chat template asks for the date and gets {today}"));
    }
    // Midnight, where no time is given: results are the same all day, and a run resumes.
    let template = &job.evaluation.template;
    if let Some(note) = tokenizer.and_then(|tokenizer| template.midnight_note(tokenizer)) {
        session.note(&note);
    }
    job
}

/// Scores the model and the baseline; whether all that was asked for is written.
fn score_all(
    scoring: &mut Scoring<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, bool), Failure> {
    let job = scoring.job;
    let scored = scoring.score(session)?;
    session.finish();
    if let (false, Some(output)) = (session.shard().is_whole(), &job.output) {
        let [known, total] = scored.batches;
        return Ok((shards::part(session, output, known, total)?, true));
    }
    let (model, baseline) = scored.complete()?;
    outcome(model, baseline.as_deref(), scoring, session)
}

/// Reports the results of the model and of the baseline; whether all that was asked for is written.
fn outcome(
    model: ModelScored,
    baseline: Option<&[TaskResult]>,
    scoring: &mut Scoring<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, bool), Failure> {
    let job = scoring.job;
    let ModelScored { about, results, seconds } = model;
    let comparisons = compare(&results, baseline.unwrap_or_default());
    let (overlap, calibration) = scoring.overlap.take().unwrap_or_default();
    let mut provenance = about.provenance;
    add_results(&mut provenance, &results);
    provenance.data.extend(calibration);
    print_notes(&results, session);
    let record = EvaluationRecord {
        model: &about.name,
        results: &results,
        baseline,
        comparisons: &comparisons,
        overlap: &overlap,
        groups: &about.groups,
        prompting: &about.prompting,
        max_length: job.evaluation.max_length.unwrap_or(usize::MAX).min(about.positions),
        peak_bytes: peak_resident_bytes(),
        parameters: about.parameters,
        provenance: &provenance,
        seconds,
    };
    let json = result_json(&record);
    let blocks = blocks(&record);
    // The results took long to compute: if a file cannot be written, they are still shown.
    let written = keep(job, &json, &results);
    let is_written = written.is_ok();
    let failure = written.and_then(|()| gate(job, &results)).err();
    Ok((Outcome { failure, ..Outcome::new(json, blocks) }, is_written))
}

/// Results as tables.
fn blocks(record: &EvaluationRecord<'_>) -> Vec<Block> {
    let mut blocks = vec![metric_table(record.results, record.baseline)];
    if !record.groups.is_empty() {
        blocks.push(group_table(record.groups, record.results));
    }
    if !record.comparisons.is_empty() {
        blocks.push(comparison_table(record.comparisons));
    }
    blocks
}

/// Writes the requested files.
fn keep(job: &Eval, json: &Value, results: &[TaskResult]) -> Result<(), Failure> {
    let mut files = match &job.log_samples {
        Some(folder) => samples(folder, job.force, results)?,
        None => Vec::new(),
    };
    if let Some(path) = &job.output {
        let text = format!("{json:#}\n");
        files.push(outputs::prepared(path, text.as_bytes(), job.force, is_result)?);
    }
    outputs::write_all(files)
}

/// Prints notes about the data.
fn print_notes(results: &[TaskResult], session: &Session<'_>) {
    for result in results {
        for note in &result.notes {
            session.note(&format!("note: {}: {note}", result.task));
        }
    }
}

/// Requests and responses, one file per task that logs samples. Each line names its program after
/// the fields of the harness.
fn samples(folder: &Path, force: bool, results: &[TaskResult]) -> Result<Vec<AtomicFile>, Failure> {
    let shown = folder.display().to_string();
    std::fs::create_dir_all(folder).map_err(|error| Failure::io(&shown, &error))?;
    let mut files = Vec::new();
    for result in results.iter().filter(|result| !result.samples.is_empty()) {
        let line = |sample: &Sample| {
            let mut record = sample.record.clone();
            record.insert("linwright".to_owned(), env!("CARGO_PKG_VERSION").into());
            serde_json::to_string(&record)
        };
        let lines: Result<Vec<String>, _> = result.samples.iter().map(line).collect();
        let lines = lines.map_err(|error| Failure::general(format!("{}: {error}", result.task)))?;
        let path = samples_of(folder, &result.task);
        let text = lines.join("\n") + "\n";
        files.push(outputs::prepared(&path, text.as_bytes(), force, is_samples)?);
    }
    Ok(files)
}

/// Metrics of groups.
fn group_table(groups: &[TaskGroup], results: &[TaskResult]) -> Block {
    let rows = groups.iter().flat_map(|group| {
        group.metrics(results).into_iter().map(|metric| {
            vec![
                group.alias.clone(),
                name_of(&metric),
                number::metric(metric.value),
                metric.stderr.map_or_else(String::new, |e| format!("± {}", number::metric(e))),
                group.items(results).to_string(),
            ]
        })
    });
    table(&["group", "metric", "value", "error", "items"], rows.collect())
}

/// Paired differences from the baseline.
pub(in crate::jobs) fn comparison_table(comparisons: &[Comparison]) -> Block {
    let row = |c: &Comparison| {
        let only = c.only_one.map_or_else(String::new, |[own, other]| format!("{own} : {other}"));
        let p = c.mcnemar_p.map_or_else(String::new, |p| format!("{p:.3}"));
        let [difference, interval] = c.difference_and_interval();
        vec![c.task.clone(), c.metric.clone(), difference, interval, only, p]
    };
    let rows: Vec<Vec<String>> = comparisons.iter().map(row).collect();
    let names =
        ["task", "metric", "minus baseline", "95 % interval", "only one right", "McNemar p"];
    table(&names, rows)
}

/// Metrics of tasks, beside those of the dense model.
pub(in crate::jobs) fn metric_table(
    results: &[TaskResult],
    baseline: Option<&[TaskResult]>,
) -> Block {
    let mut rows = Vec::new();
    for result in results {
        for metric in &result.metrics {
            let dense = baseline
                .and_then(|b| b.iter().find(|b| b.task == result.task))
                .and_then(|b| b.metrics.iter().find(|m| name_of(m) == name_of(metric)));
            rows.push(vec![
                result.task.clone(),
                name_of(metric),
                number::metric(metric.value),
                metric.stderr.map_or_else(String::new, |e| format!("± {}", number::metric(e))),
                dense.map_or_else(String::new, |m| number::metric(m.value)),
                result.protocol.clone(),
            ]);
        }
    }
    table(&["task", "metric", "value", "error", "dense", "protocol"], rows)
}

/// A metric with its filter, if it has one.
fn name_of(metric: &Metric) -> String {
    match metric.filter.as_str() {
        "none" => metric.name.clone(),
        filter => format!("{} ({filter})", metric.name),
    }
}

fn gate(job: &Eval, results: &[TaskResult]) -> Result<(), Failure> {
    let Some(limit) = job.max_ppl else {
        return Ok(());
    };
    let perplexity = results.iter().find_map(|result| result.metric("token_perplexity"));
    match perplexity {
        Some(metric) if metric.value <= limit => Ok(()),
        Some(metric) => Err(Failure::new(
            FailureKind::Gate,
            format!("perplexity {} is above {limit}", number::metric(metric.value)),
        )),
        None => Err(Failure::general("the text has no perplexity")),
    }
}
