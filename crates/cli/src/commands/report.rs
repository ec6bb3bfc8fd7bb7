//! `linwright report`: renders a finished run again.

use super::print;
use super::run::write_report;
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::measure::report::{Report, render};
use std::path::PathBuf;

/// Render the report of a finished run again.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directory of the run, with its `report.json`.
    run: PathBuf,
    /// Print this form instead of writing `report.html` and `report.md`.
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
    let path = args.run.join("report.json");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::io(&path.display().to_string(), &error)
            .hint("give the directory of a finished run")
    })?;
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
