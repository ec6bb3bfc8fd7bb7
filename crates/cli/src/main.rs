//! The `linwright` command: parse, call the library, render.

mod args;
mod build;
mod command_line;
mod commands;
mod console;
#[cfg(test)]
mod documented;
mod face;
mod failure;
mod interrupt;
mod memory;
mod outputs;
mod source;
mod store;

use clap::{CommandFactory, Parser};
use command_line::Cli;
use commands::Command;
use failure::{Failure, Kind};
use linwright::run::{is_plain, shown, shown_message};
use std::io::ErrorKind;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return not_run(&readable(said)),
    };
    let json = cli.shared.json;
    let asks = !matches!(
        cli.command,
        Some(
            Command::Report(_)
                | Command::Export(_)
                | Command::Import(_)
                | Command::Ls(_)
                | Command::Completions(_)
                | Command::Man(_)
                | Command::Doctor(_)
        )
    );
    let installed = interrupt::install(asks)
        .map_err(|error| Failure::general(format!("cannot listen to signals: {error}")));
    let quiet = cli.shared.quiet;
    let done = installed.and_then(|()| run(cli));
    if let Some(note) = source::leave_built_in().filter(|_| !quiet) {
        console::write_stderr(&note);
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Prints help, the version, or an error of the command line.
fn not_run(said: &clap::Error) -> ExitCode {
    if !said.use_stderr() {
        return match said.print() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Failure::io("standard output", &error).report(false)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    // Nothing is parsed yet, but a script still expects JSON.
    if std::env::args_os().any(|arg| arg == "--json") {
        let text = said.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
        let (message, hint) = text.split_once("\n\n").unwrap_or((text, "see --help"));
        return Failure::usage(message).hint(hint).report(true);
    }
    // clap prints with colours on a terminal; if printing fails, the exit code remains.
    let _ = said.print();
    ExitCode::from(Kind::Usage as u8)
}

/// The same error with escaped arguments, since clap quotes them verbatim.
fn readable(said: clap::Error) -> clap::Error {
    let given: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if !said.use_stderr() || given.iter().all(|arg| is_plain(arg)) {
        return said;
    }
    match Cli::try_parse_from(given.iter().map(|arg| shown(arg))) {
        Err(shown) if shown.use_stderr() => shown,
        _ => Cli::command().error(said.kind(), shown_message(&said.to_string())),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    cli.shared.check()?;
    // `doctor` reports invalid thread settings itself.
    if !matches!(cli.command, Some(Command::Doctor(_))) {
        cli.shared.set_threads()?;
    }
    match cli.command {
        None => commands::main_job::run(&cli.shared),
        Some(command) => command.run(&cli.shared),
    }
}
