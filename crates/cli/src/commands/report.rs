//! `linwright report`: renders the saved result of any command again.

use super::print;
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::bench;
use linwright::evaluate::report::{document as evaluation, is_evaluation};
use linwright::files::MEASURED;
use linwright::jobs::{has_kind, saved_result};
use linwright::report::{Block, Document, ReportError, html, markdown, terminal};
use linwright::run::{input, measured};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Largest report or result, in bytes; results with samples of every question are long.
const REPORT_BYTES: u64 = 1 << 30;

/// Render the saved result of any command: a run, an evaluation, a sweep, an inspection, a bench, a
/// simulation.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directory of a job or of a recipe, with its `result.json` or `results.json`; or a file of
    /// results: of `linwright eval --output`, of lm-evaluation-harness, of `sweep`, `compose`,
    /// `search` and `compare`, of `bench --out`, or the output of `inspect --json`.
    run: PathBuf,
    /// Print this form [default: terminal].
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    Terminal,
    Markdown,
    Html,
}

pub(crate) fn run(args: &ReportArgs, shared: &Shared) -> Result<(), Failure> {
    let path = saved_in(&args.run);
    let text = input::read_text(&path, REPORT_BYTES).map_err(|error| {
        Failure::io(&path.display().to_string(), &error)
            .hint("give the directory of a finished run, or a file of results")
    })?;
    if has_kind(&text) {
        let saved = whole(&text, &path, &args.run)?;
        let result = saved_result(saved.clone())?;
        let mut document = result.document();
        let (_, times) = measured::apart(|| result.to_value()).map_err(ReportError::from)?;
        // A file that was separated from its times shows none.
        if times.is_null() || measured::is_in(&Value::Object(saved), &times) {
            document.blocks.extend(result.times());
        }
        return show(&document, &text, args.format, shared);
    }
    if let Some(document) = open(&text) {
        return show(&document?, &text, args.format, shared);
    }
    if let Some(document) = of_jobs(&text, &path)? {
        return show(&document, &text, args.format, shared);
    }
    let message = format!("{} is not a saved result", path.display());
    Err(Failure::general(message).hint(
        "results begin with `kind`, but those of `eval`; files of versions before have none: run \
         the command again",
    ))
}

/// Names of the file of results in a directory.
const NAMES: [&str; 2] = ["result.json", "results.json"];

/// The file of results at a path.
fn saved_in(run: &Path) -> PathBuf {
    let inside = NAMES.map(|name| run.join(name));
    match run.is_file() {
        true => run.to_owned(),
        false => inside.iter().find(|path| path.exists()).unwrap_or(&inside[0]).clone(),
    }
}

/// The results of a recipe of jobs, each with its times; none for another text.
fn of_jobs(text: &str, path: &Path) -> Result<Option<Document>, Failure> {
    #[derive(Deserialize)]
    struct Results {
        title: String,
        jobs: Map<String, Value>,
    }
    let Ok(Results { title, jobs }) = serde_json::from_str(text) else { return Ok(None) };
    let mut times = match times_beside(path)?.remove("jobs") {
        Some(Value::Object(times)) => times,
        _ => Map::new(),
    };
    let mut document = Document { title, ..Document::default() };
    for (name, mut result) in jobs {
        if let Some(times) = times.remove(&name) {
            measured::join(&mut result, times);
        }
        document.blocks.push(Block::Text(vec![name]));
        match result {
            Value::Object(result) if result.contains_key("kind") => {
                let result = saved_result(result)?;
                document.blocks.extend(result.document().blocks);
                document.blocks.extend(result.times());
            }
            other => document.blocks.extend(
                open(&other.to_string()).transpose()?.map(|own| own.blocks).unwrap_or_default(),
            ),
        }
    }
    Ok(Some(document))
}

/// What was measured, from the file of times beside a result; nothing without one.
fn times_beside(path: &Path) -> Result<Map<String, Value>, Failure> {
    #[derive(Deserialize)]
    struct Times {
        measured: Map<String, Value>,
    }
    let beside = path.with_file_name(MEASURED);
    if !beside.exists() {
        return Ok(Map::new());
    }
    let text = input::read_text(&beside, REPORT_BYTES)
        .map_err(|error| Failure::io(&beside.display().to_string(), &error))?;
    let times: Times = serde_json::from_str(&text).map_err(|error| {
        let message = format!("{} is not a file of times: {error}", beside.display());
        Failure::general(message).hint("remove it: the report is then without times")
    })?;
    Ok(times.measured)
}

/// A result with its measurements, which a directory has in a file of their own.
fn whole(text: &str, path: &Path, run: &Path) -> Result<Map<String, Value>, Failure> {
    let mut result: Value = serde_json::from_str(text).map_err(ReportError::from)?;
    if path != run {
        measured::join(&mut result, times_beside(path)?.into());
    }
    match result {
        Value::Object(map) => Ok(map),
        other => unreachable!("{other} has a kind"),
    }
}

/// Results without a `kind`; none for other texts.
fn open(text: &str) -> Option<Result<Document, ReportError>> {
    if is_evaluation(text) {
        return Some(evaluation(text));
    }
    let value: Value = serde_json::from_str(text).ok()?;
    bench::report::saved(&value)
}

/// Prints a report in the requested form.
fn show(
    document: &Document,
    json: &str,
    format: Option<FormatArg>,
    shared: &Shared,
) -> Result<(), Failure> {
    let text = match format {
        _ if shared.json => json.to_owned(),
        None | Some(FormatArg::Terminal) => terminal::render(document),
        Some(FormatArg::Markdown) => markdown::render(document),
        Some(FormatArg::Html) => html::render(document)?,
    };
    print(text.trim_end())
}
