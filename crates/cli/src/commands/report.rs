//! `linwright report`: renders a finished run or an evaluation again.

use super::print;
use super::run::write_report;
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::compress::report::Report;
use linwright::evaluate::report::{document as evaluation, is_evaluation};
use linwright::report::{Document, html, markdown, terminal};
use linwright::run::input;
use std::path::PathBuf;

/// Bytes of a report or result: one with samples of every question is long.
const REPORT_BYTES: u64 = 1 << 30;

/// Render the report of a finished run, or the result of an evaluation.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directory of the run, with its `report.json`; or the result of `linwright eval --output`, or
    /// of the evaluation harness.
    run: PathBuf,
    /// Print this form [default: of a run write `report.html` and `report.md`, of an evaluation
    /// print the tables].
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
    let path = if args.run.is_file() { args.run.clone() } else { args.run.join("report.json") };
    let text = input::read_text(&path, REPORT_BYTES).map_err(|error| {
        Failure::io(&path.display().to_string(), &error)
            .hint("give the directory of a finished run, or the result of an evaluation")
    })?;
    if is_evaluation(&text) {
        return show(&evaluation(&text)?, &text, args.format, shared);
    }
    let report = Report::from_json(&text)?;
    match args.format {
        None if !shared.json => {
            let page = write_report(&report, &args.run)?;
            let text = terminal::render(&report.document());
            print(&format!("{text}\nreport: {}", page.display()))
        }
        format => show(&report.document(), &report.to_json()?, format, shared),
    }
}

/// Prints a report in the form that was asked for.
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
