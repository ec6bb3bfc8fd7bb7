//! `linwright report`: renders a finished run or an evaluation again.

use super::print;
use super::run::write_report;
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::measure::report::{EvaluationView, Report, render};
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
    if EvaluationView::is_one(&text) {
        return evaluation(&text, args.format, shared);
    }
    let report = Report::from_json(&text)?;
    match args.format {
        _ if shared.json => print(&report.to_json()?),
        Some(FormatArg::Terminal) => print(&render::terminal(&report)),
        Some(FormatArg::Markdown) => print(&render::markdown(&report)),
        Some(FormatArg::Html) => print(&render::html(&report)?),
        None => {
            let html = write_report(&report, &args.run)?;
            print(&format!("{}\nreport: {}", render::terminal(&report), html.display()))
        }
    }
}

fn evaluation(text: &str, format: Option<FormatArg>, shared: &Shared) -> Result<(), Failure> {
    let view = EvaluationView::from_json(text)?;
    match format {
        _ if shared.json => print(text.trim_end()),
        None | Some(FormatArg::Terminal) => print(render::evaluation_terminal(&view).trim_end()),
        Some(FormatArg::Markdown) => print(render::evaluation_markdown(&view).trim_end()),
        Some(FormatArg::Html) => print(render::evaluation_html(&view).trim_end()),
    }
}
