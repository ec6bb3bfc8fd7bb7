//! `linwright eval`: perplexity and accuracy of a model.

use super::{print, print_json};
use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::failure::{Failure, Kind};
use crate::source::{PrecisionArgs, data_file, open_model_as};
use crate::{interrupt, provenance};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use linwright::compress::Monitor;
use linwright::measure::data::{QuestionSet, sha256_hex};
use linwright::measure::evaluate::{
    Bos, Comparison, Completion, DataFile, EvaluationError, FileJournal, HarnessOptions,
    HarnessTask, Hooks, Join, Journal, Metric, MultipleChoice, NamedProtocol, PROTOCOLS,
    RunOptions, Subject, Task, TaskOptions, TaskResult, TextPerplexity, compare, evaluate,
    open_task,
};
use linwright::measure::report::{EvaluationRecord, ParameterCounts, result_json};
use linwright::model::checkpoint::LoadedModel;
use linwright::ops::Sites;
use linwright::tensor::atomic::{check_target, write_atomic};
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Measure perplexity on text and accuracy on questions.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the hub.
    model: String,
    /// Text for perplexity: a file taken as one document, JSONL with a `text` field, or `pocket`.
    #[arg(long)]
    text: Option<String>,
    /// Questions with choices: JSONL, or `pocket`.
    #[arg(long)]
    questions: Option<String>,
    /// Tasks of the evaluation harness: names (see `linwright ls tasks`) and paths of task files.
    #[arg(short, long, value_delimiter = ',', value_name = "TASK")]
    tasks: Vec<String>,
    /// Rows of a task's data set: `TASK=FILE`, or `TASK:SPLIT=FILE`.
    #[arg(long, value_name = "TASK=FILE", value_parser = data)]
    data: Vec<DataFile>,
    /// Examples before each document of a task [default: as its file says].
    #[arg(short = 'f', long, alias = "num_fewshot", value_name = "K")]
    num_fewshot: Option<usize>,
    /// Seed by which examples are drawn.
    #[arg(long, alias = "fewshot_seed", default_value_t = 1234)]
    fewshot_seed: u64,
    /// Draws for standard errors that have no formula.
    #[arg(long, alias = "bootstrap_iters", default_value_t = 100_000)]
    bootstrap_iters: usize,
    /// Longest input in tokens [default: that of the model].
    #[arg(long, alias = "max_length", value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    max_length: Option<usize>,
    /// Tokens that the model sees at once, in thousands; `auto` is 4. It changes speed and memory, and
    /// no figure.
    #[arg(short, long, alias = "batch_size", default_value = "auto", value_parser = batch)]
    batch_size: usize,
    /// Write what was asked and replied to `samples_TASK.jsonl` in this directory.
    #[arg(long, alias = "log_samples", value_name = "DIR")]
    log_samples: Option<PathBuf>,
    /// Tokens in a window.
    #[arg(long, default_value_t = 512)]
    window: usize,
    /// Tokens from one window to the next [default: the window].
    #[arg(long)]
    stride: Option<usize>,
    /// Whether documents start with the beginning-of-sequence token; `auto` does what the tokenizer
    /// does by itself.
    #[arg(long, default_value = "auto", value_parser = one_of(&Bos::ALL, Bos::name))]
    bos: Bos,
    /// Whether documents are scored one by one, or joined by a space or a blank line.
    #[arg(long, default_value = "separate", value_parser = one_of(&Join::ALL, Join::name))]
    join: Join,
    /// Only this many documents and questions, from the start.
    #[arg(short = 'L', long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    limit: Option<usize>,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// Measure this model too, as the dense baseline; named as MODEL is.
    #[arg(long)]
    baseline: Option<String>,
    /// Fail with exit code 4 if the perplexity is above this.
    #[arg(long, alias = "max_ppl", value_parser = perplexity)]
    max_ppl: Option<f64>,
    /// Write the result JSON to this file too.
    #[arg(short, long)]
    output: Option<PathBuf>,
}

fn perplexity(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 1.0 => Ok(value),
        _ => Err("expected a number of at least 1".to_owned()),
    }
}

/// `TASK=FILE` or `TASK:SPLIT=FILE`.
fn data(text: &str) -> Result<DataFile, String> {
    let expected = "expected TASK=FILE or TASK:SPLIT=FILE";
    let (name, path) = text.split_once('=').ok_or(expected)?;
    let (task, split) = match name.split_once(':') {
        Some((task, split)) => (task, Some(split.to_owned())),
        None => (name, None),
    };
    if task.is_empty() || path.is_empty() || split.as_deref() == Some("") {
        return Err(expected.to_owned());
    }
    Ok(DataFile { task: task.to_owned(), split, path: PathBuf::from(path) })
}

/// Thousands of tokens in a batch, as tokens.
pub(super) fn batch(text: &str) -> Result<usize, String> {
    if text == "auto" {
        return Ok(RunOptions::default().max_batch_tokens);
    }
    match text.parse::<usize>() {
        Ok(thousands @ 1..=1_000_000) => Ok(thousands * 1000),
        _ => Err("expected auto, or thousands of tokens from 1 to 1000000".to_owned()),
    }
}

pub(crate) fn run(args: &EvalArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if args.max_ppl.is_some() && args.text.is_none() {
        return Err(Failure::usage("--max-ppl needs --text"));
    }
    for path in [&args.output, &args.log_samples].into_iter().flatten() {
        check_target(path, true)?;
    }
    if let Some(path) = args.output.as_deref().filter(|path| path.is_dir()) {
        return Err(Failure::usage(format!("--output {} is a directory", path.display()))
            .hint("name a file; --log-samples takes a directory"));
    }
    let tasks = open_tasks(args)?;
    let (loaded, place) = open_model_as(&args.model, args.precision.dtype, &mut console)?;
    let began = console.seconds();
    let results = measure(args, (&loaded, &place.name), &tasks, &mut console)?;
    let seconds = console.seconds() - began;
    let baseline = match &args.baseline {
        None => None,
        Some(model) => {
            let (dense, place) = open_model_as(model, args.precision.dtype, &mut console)?;
            Some(measure(args, (&dense, &place.name), &tasks, &mut console)?)
        }
    };
    console.finish();
    let comparisons = compare(&results, baseline.as_deref().unwrap_or_default());
    let provenance = provenance::of_evaluation(&loaded, &results);
    let record = EvaluationRecord {
        model: &place.name,
        results: &results,
        baseline: baseline.as_deref(),
        comparisons: &comparisons,
        parameters: parameters(&loaded),
        provenance: &provenance,
        seconds,
    };
    let json = result_json(&record);
    // First what needs no disk: the figures took long.
    if shared.json {
        print_json(&json)?;
    } else {
        print(&render(&results, baseline.as_deref()))?;
        if !comparisons.is_empty() {
            print(&render_comparisons(&comparisons))?;
        }
    }
    if let Some(folder) = &args.log_samples {
        write_samples(folder, &results)?;
    }
    if let Some(path) = &args.output {
        write_atomic(path, format!("{json:#}\n").as_bytes())?;
        // The journals are of no more use.
        let journals = journals(path);
        if journals.is_dir() {
            let shown = journals.display().to_string();
            std::fs::remove_dir_all(&journals).map_err(|error| Failure::io(&shown, &error))?;
        }
    }
    gate(args, &results)
}

fn open_tasks(args: &EvalArgs) -> Result<Vec<Box<dyn Task>>, Failure> {
    let options = TaskOptions {
        window: args.window,
        stride: args.stride.unwrap_or(args.window),
        bos: args.bos,
        join: args.join,
        limit: args.limit,
    };
    let mut tasks = Vec::new();
    if let Some(text) = &args.text {
        tasks.push(open_task("text", &data_file(text, "stories-test.jsonl")?, &options)?);
    }
    if let Some(questions) = &args.questions {
        let path = data_file(questions, "facts.jsonl")?;
        let mut set = QuestionSet::open(&path)?;
        set.questions.truncate(args.limit.unwrap_or(usize::MAX));
        tasks.push(Box::new(MultipleChoice::new(set.clone(), args.bos)));
        if set.has_completions() {
            tasks.push(Box::new(Completion::new(set, args.bos)));
        }
    }
    let options = HarnessOptions {
        shots: args.num_fewshot,
        limit: args.limit,
        bos: args.bos,
        data: args.data.clone(),
        shots_seed: Some(args.fewshot_seed),
        bootstrap: Some(args.bootstrap_iters),
    };
    for name in &args.tasks {
        tasks.push(match PROTOCOLS.iter().find(|named| named.name == name) {
            Some(named) => Box::new(text_task(named, args)?),
            None => Box::new(HarnessTask::open(name, &options)?),
        });
    }
    let mut names: Vec<String> = tasks.iter().map(|task| task.id()).collect();
    if let Some(data) = args.data.iter().find(|data| !names.contains(&data.task)) {
        return Err(Failure::usage(format!("--data names {}, which is no task here", data.task)));
    }
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::usage(format!("there are two tasks of the name {}", twice[0])));
    }
    if tasks.is_empty() {
        return Err(Failure::usage("nothing to measure")
            .hint("give --tasks NAME,..., --text FILE or --questions FILE"));
    }
    Ok(tasks)
}

/// The task of a named protocol.
fn text_task(named: &NamedProtocol, args: &EvalArgs) -> Result<TextPerplexity, Failure> {
    let name = named.name;
    let data = args.data.iter().find(|data| data.task == name).ok_or_else(|| {
        Failure::usage(format!("{name} has no text")).hint(format!("give --data {name}=FILE"))
    })?;
    Ok(TextPerplexity::named(named, &data.path, (args.bos, args.limit))?)
}

/// Where the replies of an evaluation are kept until its result is written.
fn journals(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    output.with_file_name(name)
}

/// The journal of one task, if the result goes to a file.
fn journal(
    args: &EvalArgs,
    loaded: &LoadedModel,
    task: &dyn Task,
    console: &Console,
) -> Result<Option<FileJournal>, Failure> {
    let Some(output) = &args.output else { return Ok(None) };
    let folder = journals(output);
    let shown = folder.display().to_string();
    std::fs::create_dir_all(&folder).map_err(|error| Failure::io(&shown, &error))?;
    let requests: Vec<String> = task
        .items()
        .iter()
        .flat_map(|item| item.requests.clone())
        .map(|r| format!("{r:?}"))
        .collect();
    let fingerprint = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model_sha256": loaded.hash,
        "dtype": args.precision.dtype.name(),
        "task": task.id(),
        "requests_sha256": sha256_hex(requests.join("\n").as_bytes()),
        "bos": task.bos().name(),
        "max_length": args.max_length,
    });
    let name = format!("{}-{}.jsonl", task.id(), &loaded.hash[..loaded.hash.len().min(12)]);
    let path = folder.join(name);
    match FileJournal::open(&path, &fingerprint) {
        Ok(journal) => Ok(Some(journal)),
        // The figures are worth more than the journal.
        Err(EvaluationError::Journal { source, .. }) if source.kind() != ErrorKind::InvalidData => {
            console.note(&format!(
                "note: {}: {source}; if this evaluation is stopped, it begins anew",
                path.display()
            ));
            // Whatever of it is there, it is no journal.
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir(&folder);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn measure(
    args: &EvalArgs,
    (loaded, name): (&LoadedModel, &str),
    tasks: &[Box<dyn Task>],
    console: &mut Console,
) -> Result<Vec<TaskResult>, Failure> {
    let tokenizer = loaded.tokenizer.as_ref().ok_or_else(|| {
        Failure::general(format!("{name} has no tokenizer.json"))
            .hint("text can only be scored with the model's tokenizer")
    })?;
    console.stage(&format!("evaluating {name}"));
    let model = Subject::new(&loaded.decoder, tokenizer).with_max_length(args.max_length);
    let options = RunOptions { max_batch_tokens: args.batch_size };
    let mut results = Vec::new();
    for task in tasks {
        let mut journal = journal(args, loaded, task.as_ref(), console)?;
        let mut hooks = Hooks {
            progress: &mut |p| console.progress(p.done_tokens, p.total_tokens),
            cancelled: &interrupt::asked,
            journal: journal.as_mut().map(|journal| journal as &mut dyn Journal),
        };
        let result = evaluate(task.as_ref(), &model, &options, &mut hooks);
        results.push(result.map_err(|error| match args.output {
            Some(_) => Failure::from(error),
            None => Failure::from(error).not_resumable(),
        })?);
    }
    Ok(results)
}

/// What was asked and replied, one file for each task that tells.
fn write_samples(folder: &Path, results: &[TaskResult]) -> Result<(), Failure> {
    let shown = folder.display().to_string();
    std::fs::create_dir_all(folder).map_err(|error| Failure::io(&shown, &error))?;
    for result in results.iter().filter(|result| !result.samples.is_empty()) {
        let records = result.samples.iter().map(|sample| serde_json::to_string(&sample.record));
        let lines: Result<Vec<String>, _> = records.collect();
        let lines = lines.map_err(|error| Failure::general(format!("{}: {error}", result.task)))?;
        let path = folder.join(format!("samples_{}.jsonl", result.task));
        write_atomic(&path, (lines.join("\n") + "\n").as_bytes())?;
    }
    Ok(())
}

/// Differences from the baseline, item by item.
fn render_comparisons(comparisons: &[Comparison]) -> String {
    let row = |c: &Comparison| {
        let only = c.only_one.map_or_else(String::new, |[own, other]| format!("{own} : {other}"));
        let p = c.mcnemar_p.map_or_else(String::new, |p| format!("{p:.3}"));
        vec![
            c.task.clone(),
            c.metric.clone(),
            format!("{:+.4}", c.difference),
            format!("{:+.4} to {:+.4}", c.interval[0], c.interval[1]),
            only,
            p,
        ]
    };
    let rows: Vec<Vec<String>> = comparisons.iter().map(row).collect();
    let names =
        ["task", "metric", "less the baseline", "95 % interval", "only one right", "McNemar p"];
    super::table(&names, &rows)
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

fn render(results: &[TaskResult], baseline: Option<&[TaskResult]>) -> String {
    let mut rows = Vec::new();
    for result in results {
        for metric in &result.metrics {
            let dense = baseline
                .and_then(|b| b.iter().find(|b| b.task == result.task))
                .and_then(|b| b.metrics.iter().find(|m| name_of(m) == name_of(metric)));
            let number = |value: f64| format!("{value:.4}");
            rows.push(vec![
                result.task.clone(),
                name_of(metric),
                number(metric.value),
                metric.stderr.map_or_else(String::new, |e| format!("± {e:.4}")),
                dense.map_or_else(String::new, |m| number(m.value)),
                result.protocol.clone(),
            ]);
        }
    }
    super::table(&["task", "metric", "value", "error", "dense", "protocol"], &rows)
}

/// A figure, and the filter where there is one.
fn name_of(metric: &Metric) -> String {
    match metric.filter.as_str() {
        "none" => metric.name.clone(),
        filter => format!("{} ({filter})", metric.name),
    }
}

fn gate(args: &EvalArgs, results: &[TaskResult]) -> Result<(), Failure> {
    let Some(limit) = args.max_ppl else {
        return Ok(());
    };
    let perplexity = results.iter().find_map(|result| result.metric("token_perplexity"));
    match perplexity {
        Some(metric) if metric.value <= limit => Ok(()),
        Some(metric) => Err(Failure::new(
            Kind::Gate,
            format!("perplexity {:.4} is above {limit}", metric.value),
        )),
        None => Err(Failure::general("the text gave no perplexity")),
    }
}
