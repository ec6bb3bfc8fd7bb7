//! `linwright eval`: perplexity and accuracy of a model.

use super::{Eval, overlap};
use crate::jobs::kit::outcome::table;
use crate::jobs::kit::room::check_weights;
use crate::jobs::kit::source::{OpenModel, find_model, open_model_as};
use crate::jobs::kit::{
    ByteSize, Failure, FailureKind, Job, Outcome, Session, outputs, shards, store,
};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::tasks::{check_tasks, cost, open_tasks};
use linwright_data::Overlap;
use linwright_evaluate::Outcome as Batches;
use linwright_evaluate::room::{self, NoRoom, Texts};
use linwright_evaluate::{
    Comparison, EvaluationError, EvaluationRecord, FileJournal, Hooks, Journal, Metric, OpenTasks,
    ParameterCounts, Prompting, RunOptions, Sample, Subject, Task, TaskGroup, TaskResult, compare,
    evaluate, journal_fingerprint, result_json,
};
use linwright_model::checkpoint::{LoadedModel, configuration};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::tokenizer::chat::Date;
use linwright_ops::{Network, Sites};
use linwright_report::{Block, number};
use linwright_run::atomic::AtomicFile;
use linwright_run::memory::{peak_resident_bytes, resident_bytes};
use linwright_run::place::{self, is_result, is_samples};
use linwright_run::store::Unfinished;
use linwright_run::{DataSource, JournalError, Monitor};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Results of all tasks, or how far a shard brought them.
enum Measured {
    /// The results.
    All {
        /// One for each task.
        results: Vec<TaskResult>,
        /// Batches in the journals.
        batches: usize,
    },
    /// Batches of other shards are missing.
    Part {
        /// Known batches.
        known: usize,
        /// All batches.
        total: usize,
    },
}

/// Results of one model, or how far a shard brought them.
enum Scored {
    /// The results.
    All(Box<AllScored>),
    /// Batches of other shards are missing.
    Part {
        /// Known batches.
        known: usize,
        /// All batches.
        total: usize,
    },
}

impl Scored {
    /// Known and all batches of a shard.
    fn batches(&self) -> [usize; 2] {
        match self {
            Self::All(scored) => [scored.batches; 2],
            Self::Part { known, total } => [*known, *total],
        }
    }
}

/// Results of one model.
struct AllScored {
    model: OpenModel,
    results: Vec<TaskResult>,
    /// Batches that a shard keeps.
    batches: usize,
    groups: Vec<TaskGroup>,
    seconds: f64,
}

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
    match &job.log_samples {
        Some(folder) if folder.exists() && !folder.is_dir() => {
            Err(Failure::usage(format!("--log-samples {} is not a directory", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Checks that the samples of these tasks can be written.
fn check_samples(
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

/// The cost of the evaluations.
fn dry_run(job: &Eval, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let model = open_model_as(&job.model, job.precision.dtype, session)?;
    let chat = job.evaluation.apply_chat_template.then_some(&model);
    let tasks = open_tasks(&job.evaluation, false, chat, session)?.all;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model, &job.evaluation)?;
    let models = 1 + u64::from(job.baseline.is_some());
    let tasks: Vec<(&dyn Task, u64)> = tasks.iter().map(|task| (task.as_ref(), models)).collect();
    Ok(Outcome::of(cost(&tasks, &model, &job.evaluation, session)?))
}

pub(super) fn run(job: &Eval, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if job.max_ppl.is_some() && job.evaluation.text.is_none() {
        return Err(Failure::usage("--max-ppl needs --text"));
    }
    if job.dry_run {
        return dry_run(job, session);
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
        let models = std::iter::once(&job.model).chain(&job.baseline);
        let dtype = job.precision.dtype;
        models.map(Path::new).try_for_each(|model| check_weights(model, dtype, allowed))?;
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
    let mut scoring = Scoring { job, first, positions: None, plain, unfinished, overlap: None };
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

/// Positions of a model that is loaded later: that it is there and can be read is known now.
fn positions(model: &str, session: &mut Session<'_>) -> Result<usize, Failure> {
    let place = find_model(model, session)?;
    Ok(configuration(&place.path)?.max_positions)
}

/// Scores the model and the baseline; whether all that was asked for is written.
fn score_all(
    scoring: &mut Scoring<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, bool), Failure> {
    let job = scoring.job;
    scoring.positions = job.baseline.as_deref().map(|b| positions(b, session)).transpose()?;
    let first = scoring.score(&job.model, session)?;
    if let (false, Some(output)) = (session.shard().is_whole(), &job.output) {
        let second = match &job.baseline {
            Some(baseline) => Some(scoring.score(baseline, session)?),
            None => None,
        };
        let parts = [Some(first), second];
        let counts = || parts.iter().flatten().map(Scored::batches);
        session.finish();
        let (known, total) = (counts().map(|all| all[0]).sum(), counts().map(|all| all[1]).sum());
        return Ok((shards::part(session, output, known, total)?, true));
    }
    let Scored::All(first) = first else { return Err(incomplete()) };
    outcome(*first, scoring, session)
}

/// Scores models on the tasks of a job, one after the other.
struct Scoring<'a> {
    job: &'a Eval,
    /// The model, where it was needed before.
    first: Option<OpenModel>,
    /// Positions of the baseline.
    positions: Option<usize>,
    /// The tasks, unless the chat template of the model writes their prompts.
    plain: Option<OpenTasks>,
    /// The responses until the result is written.
    unfinished: Unfinished,
    /// Overlap of the tasks with calibration text, once it is known, and the files of that text.
    overlap: Option<(Vec<Overlap>, Vec<DataSource>)>,
}

impl Scoring<'_> {
    fn score(&mut self, model: &str, session: &mut Session<'_>) -> Result<Scored, Failure> {
        let job = self.job;
        let model = match self.first.take() {
            Some(opened) => opened,
            None => open_model_as(model, job.precision.dtype, session)?,
        };
        let own;
        let tasks = match &self.plain {
            Some(tasks) => tasks,
            None => {
                let whole_texts = job.log_samples.is_some();
                own = open_tasks(&job.evaluation, whole_texts, Some(&model), session)?;
                &own
            }
        };
        // What the baseline cannot answer is said before the model is scored.
        let shorter = [job.evaluation.max_length, self.positions].into_iter().flatten().min();
        let asked = EvaluationOptions { max_length: shorter, ..job.evaluation.clone() };
        check_tasks(tasks.all.iter().map(AsRef::as_ref), &model, &asked)?;
        check_samples(job, &tasks.all, session)?;
        if self.overlap.is_none() {
            self.overlap = Some(overlap::find_overlap(job, &tasks.all, session)?);
        }
        let began = session.seconds();
        let (results, batches) = match measure(job, &model, &tasks.all, &self.unfinished, session)?
        {
            Measured::All { results, batches } => (results, batches),
            Measured::Part { known, total } => return Ok(Scored::Part { known, total }),
        };
        results.iter().try_for_each(TaskResult::check_finite)?;
        let (groups, seconds) = (tasks.groups.clone(), session.seconds() - began);
        Ok(Scored::All(Box::new(AllScored { model, results, batches, groups, seconds })))
    }
}

/// Scores the baseline, and reports both models; whether all that was asked for is written.
fn outcome(
    first: AllScored,
    scoring: &mut Scoring<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, bool), Failure> {
    let job = scoring.job;
    let AllScored { model, results, groups, seconds, .. } = first;
    let OpenModel { loaded, place } = model;
    let mut provenance = session.provenance("linwright eval", &loaded, &results);
    let (prompting, parameters) = (prompting(job, &loaded), parameters(&loaded));
    let positions = loaded.decoder.config().max_positions;
    // One model at a time is in memory.
    drop(loaded);
    let baseline = match job.baseline.as_deref().map(|model| scoring.score(model, session)) {
        Some(scored) => match scored? {
            Scored::All(scored) => Some(scored.results),
            Scored::Part { .. } => return Err(incomplete()),
        },
        None => None,
    };
    session.finish();
    let comparisons = compare(&results, baseline.as_deref().unwrap_or_default());
    let (overlap, calibration) = scoring.overlap.take().unwrap_or_default();
    provenance.data.extend(calibration);
    print_notes(&results, session);
    let record = EvaluationRecord {
        model: &place.name,
        results: &results,
        baseline: baseline.as_deref(),
        comparisons: &comparisons,
        overlap: &overlap,
        groups: &groups,
        prompting: &prompting,
        max_length: job.evaluation.max_length.unwrap_or(usize::MAX).min(positions),
        peak_bytes: peak_resident_bytes(),
        parameters,
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

/// Batches are missing where only a shard leaves some out.
fn incomplete() -> Failure {
    Failure::general("the evaluation is incomplete, though it is not divided into shards")
}

/// Where the responses of one model are kept.
struct Journals<'a> {
    job: &'a Eval,
    loaded: &'a LoadedModel,
    folder: &'a Path,
}

impl Journals<'_> {
    /// The journal of one task. One of the store that is of another evaluation begins anew. Where
    /// the size of batches follows the free memory, a journal that
    /// is already there determines it.
    fn open(
        &self,
        task: &dyn Task,
        subject: &Subject<'_>,
        options: &mut RunOptions,
        session: &Session<'_>,
    ) -> Result<Option<FileJournal>, Failure> {
        let Self { job, loaded, folder } = *self;
        let shown = folder.display().to_string();
        std::fs::create_dir_all(folder).map_err(|error| Failure::io(&shown, &error))?;
        shards::mark(session, folder)?;
        let dtype = job.precision.dtype.name();
        let name = format!("{}-{}.jsonl", task.id(), &loaded.hash[..loaded.hash.len().min(12)]);
        let path = folder.join(&name);
        if let (Some(room), Some(tokens)) = (options.longest, FileJournal::batch_tokens_of(&path)) {
            let fits = tokens <= room.min(job.evaluation.batch_size.tokens());
            options.max_batch_tokens = if fits { tokens } else { options.max_batch_tokens };
        }
        let fingerprint = journal_fingerprint(loaded, dtype, task, subject, options);
        let mut opened = FileJournal::open(&path, &fingerprint);
        if let Err(EvaluationError::Journal(JournalError::OtherRun { difference, .. })) = &opened
            && session.shard().is_whole()
        {
            // The model's other files were changed since. Nobody but this command keeps it.
            session.note(&format!(
                "note: {}: what an earlier try computed is left out, {difference}",
                task.id()
            ));
            std::fs::remove_file(&path).map_err(|error| Failure::io(&shown, &error))?;
            opened = FileJournal::open(&path, &fingerprint);
        }
        match opened {
            Ok(mut journal) => {
                for source in shards::sources(session, Path::new(&name))? {
                    journal.merge(&source)?;
                }
                for damage in journal.damages() {
                    session.note(&format!("note: {damage}"));
                }
                if !journal.is_empty() {
                    let (known, id) = (journal.len(), task.id());
                    session.note(&format!("note: {id}: {known} batches are already computed"));
                }
                Ok(Some(journal))
            }
            // A failing journal must not stop the evaluation.
            Err(EvaluationError::Journal(JournalError::Io { source, .. })) => {
                session.note(&format!(
                    "note: {}: {source}; if this evaluation is stopped, it cannot be resumed",
                    path.display()
                ));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn measure(
    job: &Eval,
    model: &OpenModel,
    tasks: &[Box<dyn Task>],
    unfinished: &Unfinished,
    session: &mut Session<'_>,
) -> Result<Measured, Failure> {
    let (loaded, tokenizer) = (&model.loaded, model.tokenizer()?);
    let of_all = run_options(job, loaded, tasks)?;
    let cancelled = session.cancelled();
    // A shard keeps them in its output directory.
    let folder = match session.shard().is_whole() {
        true => unfinished.path(),
        false => job.output.as_deref(),
    };
    let journals = folder.map(|folder| Journals { job, loaded, folder });
    let (mut results, mut batches) = (Vec::new(), [0, 0]);
    for (index, task) in tasks.iter().enumerate() {
        let (name, id) = (&model.place.name, task.id());
        session.step(&format!("evaluating {name}: {id} ({} of {})", index + 1, tasks.len()));
        let mut options = RunOptions { shard: session.shard(), ..of_all };
        let subject = Subject::new(&loaded.decoder, tokenizer)
            .with_max_length(job.evaluation.max_length)
            .with_sentence(model.sentence());
        let (task, subject) = (task.as_ref(), &subject);
        let journal = journals.as_ref().map(|all| all.open(task, subject, &mut options, session));
        let mut journal = journal.transpose()?.flatten();
        let mut hooks = Hooks {
            progress: &mut |p| session.progress(p.done_tokens, p.total_tokens),
            cancelled,
            journal: journal.as_mut().map(|journal| journal as &mut dyn Journal),
        };
        match evaluate(task, subject, &options, &mut hooks)? {
            Batches::Complete(result) => {
                batches = batches.map(|count| count + journal.as_ref().map_or(0, FileJournal::len));
                results.push(result);
            }
            Batches::Part { known, total } => batches = [batches[0] + known, batches[1] + total],
        }
    }
    Ok(match results.len() == tasks.len() {
        true => Measured::All { results, batches: batches[0] },
        false => Measured::Part { known: batches[0], total: batches[1] },
    })
}

fn no_room(error: NoRoom) -> Failure {
    let NoRoom { what, allowed, needed } = error;
    let least = needed / 1_000_000 + 1;
    let reason = format!("{what}: more than --max-memory {allowed} allows");
    Failure::new(FailureKind::Resources, reason)
        .hint(format!("allow {least}MB, cut the text into documents (JSONL), or take a part of it"))
}

/// The size of batches, within the memory allowed.
fn run_options(
    job: &Eval,
    loaded: &LoadedModel,
    tasks: &[Box<dyn Task>],
) -> Result<RunOptions, Failure> {
    let max_batch_tokens = job.evaluation.batch_size.tokens();
    let Some(ByteSize(allowed)) = job.max_memory else {
        return Ok(RunOptions { max_batch_tokens, ..RunOptions::default() });
    };
    let resident = resident_bytes().ok_or_else(|| {
        Failure::usage("this system does not report how much memory is used")
            .hint("leave --max-memory out and choose --batch-size")
    })?;
    let bytes_per_token = loaded.decoder.bytes_per_token();
    let tokens = room::batch_tokens(Texts::of(tasks), allowed, resident, bytes_per_token);
    let tokens = tokens.map_err(no_room)?;
    let max_batch_tokens = max_batch_tokens.min(tokens);
    Ok(RunOptions { max_batch_tokens, longest: Some(tokens), ..RunOptions::default() })
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

/// The prompt settings that the tasks do not record themselves.
fn prompting(job: &Eval, loaded: &LoadedModel) -> Prompting {
    let asked = &job.evaluation;
    let template = loaded.tokenizer.as_ref().and_then(|tokenizer| tokenizer.chat_template());
    Prompting {
        system_instruction: asked.system_instruction.clone(),
        chat_template: template.filter(|_| asked.apply_chat_template).map(str::to_owned),
        multiturn: asked.fewshot_as_multiturn,
        date: asked.template.date.map(|date| date.to_string()),
        template_args: asked.template.chat_template_args.as_ref().map(ToString::to_string),
    }
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

fn parameters(loaded: &LoadedModel) -> ParameterCounts {
    let slots = loaded.decoder.slots();
    let targeted = slots.iter().map(|slot| slot.parameters() as u64).sum();
    let targeted_dense =
        slots.iter().map(|slot| slot.shape().dense_parameters() as u64).sum::<u64>();
    ParameterCounts {
        targeted,
        targeted_dense,
        model: loaded.decoder.parameters(),
        model_dense: loaded.decoder.config().parameters(),
    }
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
