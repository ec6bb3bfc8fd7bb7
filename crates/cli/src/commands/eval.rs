//! `linwright eval`: perplexity and accuracy of a model.

use super::{print, print_json};
use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::failure::{Failure, Kind};
use crate::provenance;
use crate::source::{PrecisionArgs, data_file, open_model_as};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use linwright::compress::Monitor;
use linwright::compress::study;
use linwright::measure::data::QuestionSet;
use linwright::measure::evaluate::{
    Bos, Completion, Join, MultipleChoice, Task, TaskOptions, TaskResult, open_task,
};
use linwright::measure::report::{EvaluationRecord, ParameterCounts, result_json};
use linwright::model::checkpoint::LoadedModel;
use linwright::ops::Sites;
use linwright::tensor::atomic::{check_target, write_atomic};
use std::path::PathBuf;

/// Measure perplexity on text and accuracy on questions.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// A checkpoint directory, or `pocket` for the built-in model.
    model: String,
    /// Text for perplexity: a file taken as one document, JSONL with a `text` field, or `pocket`.
    #[arg(long)]
    text: Option<String>,
    /// Questions with choices: JSONL, or `pocket`.
    #[arg(long)]
    questions: Option<String>,
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
    /// Measure this model too, as the dense baseline.
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

pub(crate) fn run(args: &EvalArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if args.max_ppl.is_some() && args.text.is_none() {
        return Err(Failure::usage("--max-ppl needs --text"));
    }
    if let Some(path) = &args.output {
        check_target(path, true)?;
    }
    let tasks = open_tasks(args)?;
    let loaded = open_model_as(&args.model, args.precision.dtype, &mut console)?;
    let began = console.seconds();
    let results = measure(&loaded, &args.model, &tasks, &mut console)?;
    let seconds = console.seconds() - began;
    let baseline = match &args.baseline {
        None => None,
        Some(model) => {
            let dense = open_model_as(model, args.precision.dtype, &mut console)?;
            Some(measure(&dense, model, &tasks, &mut console)?)
        }
    };
    console.finish();
    let provenance = provenance::of_evaluation(&loaded, &results);
    let record = EvaluationRecord {
        model: &args.model,
        results: &results,
        baseline: baseline.as_deref(),
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
    }
    if let Some(path) = &args.output {
        write_atomic(path, format!("{json:#}\n").as_bytes())?;
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
    if tasks.is_empty() {
        return Err(
            Failure::usage("nothing to measure").hint("give --text FILE, --questions FILE or both")
        );
    }
    Ok(tasks)
}

fn measure(
    loaded: &LoadedModel,
    name: &str,
    tasks: &[Box<dyn Task>],
    console: &mut Console,
) -> Result<Vec<TaskResult>, Failure> {
    let tokenizer = loaded.tokenizer.as_ref().ok_or_else(|| {
        Failure::general(format!("{name} has no tokenizer.json"))
            .hint("text can only be scored with the model's tokenizer")
    })?;
    console.stage(&format!("evaluating {name}"));
    study::measure(&loaded.decoder, tokenizer, tasks, console)
        .map_err(|error| Failure::from(error).not_resumable())
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
                .and_then(|b| b.metric(&metric.name));
            let number = |value: f64| format!("{value:.4}");
            rows.push(vec![
                result.task.clone(),
                metric.name.clone(),
                number(metric.value),
                metric.stderr.map_or_else(String::new, |e| format!("± {e:.4}")),
                dense.map_or_else(String::new, |m| number(m.value)),
                result.protocol.clone(),
            ]);
        }
    }
    super::table(&["task", "metric", "value", "error", "dense", "protocol"], &rows)
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
