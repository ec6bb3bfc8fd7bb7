//! The `linwright` command: parse, call the library, render.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "arms on values of JSON and on errors that are passed on"
)]

mod args;
mod build;
mod command_line;
mod commands;
mod console;
#[cfg(test)]
mod documented;
mod face;
mod failure;
mod host;
mod interrupt;
mod opened;
#[cfg(feature = "mpi")]
mod ranks;
mod stderr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use command_line::{Cli, command_for};
use commands::{Command, Own};
use failure::{Failure, Kind, report};
use linwright::jobs::VERBS;
use linwright::run::{is_plain, shown, shown_message};
use std::io;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let parsed = command_for(&arguments()).try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(said) => return not_run(&renamed(&said).unwrap_or_else(|| readable(said))),
    };
    #[cfg(feature = "mpi")]
    if cli.shared.mpi {
        return ranks::run_all(cli);
    }
    let json = cli.shared.json;
    let asks = cli.command.as_ref().is_none_or(Command::can_stop);
    let installed = interrupt::install(asks, json)
        .map_err(|error| Failure::general(format!("cannot listen to signals: {error}")));
    let done = installed.and_then(|()| run(cli));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, json),
    }
}

/// The arguments, for what only compares them.
fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// Prints help, the version, or an error of the command line.
fn not_run(said: &clap::Error) -> ExitCode {
    if !said.use_stderr() {
        return match said.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                report(&Failure::io("standard output", &error), false)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    // Nothing is parsed yet, but a script still expects JSON.
    if std::env::args_os().any(|arg| arg == "--json") {
        let text = said.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
        let (message, hint) = text.split_once("\n\n").unwrap_or((text, "see --help"));
        return report(&Failure::usage(message).hint(hint), true);
    }
    // clap prints with colours on a terminal; if printing fails, the exit code remains.
    let _ = said.print();
    ExitCode::from(Kind::Usage as u8)
}

/// What to type instead of an option that was renamed, or of an option or a command of another
/// tool.
fn renamed(said: &clap::Error) -> Option<clap::Error> {
    if let Some(ContextValue::String(word)) = said.get(ContextKind::InvalidSubcommand) {
        return command_elsewhere(word);
    }
    let Some(ContextValue::String(flag)) = said.get(ContextKind::InvalidArg) else { return None };
    if said.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let given = arguments().into_iter().filter(|word| !word.starts_with('-'));
    let told = face::renamed(&given.collect::<Vec<_>>(), flag)?;
    Some(clap::Error::raw(ErrorKind::UnknownArgument, format!("{flag} {told}\n")))
}

/// The commands that do what another tool calls by this name.
fn command_elsewhere(word: &str) -> Option<clap::Error> {
    let commands = linwright::jobs::commands_elsewhere(word, VERBS);
    let typed: Vec<String> = commands.iter().map(|words| format!("linwright {words}")).collect();
    let message = format!("{}: see {}\n", shown(word), typed.join(", "));
    (!typed.is_empty()).then(|| clap::Error::raw(ErrorKind::InvalidSubcommand, message))
}

/// The same error with escaped arguments, since clap quotes them verbatim.
fn readable(said: clap::Error) -> clap::Error {
    let given: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if !said.use_stderr() || given.iter().all(|arg| is_plain(arg)) {
        return said;
    }
    let read = Cli::command().try_get_matches_from(given.iter().map(|arg| shown(arg)));
    match read.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Err(shown) if shown.use_stderr() => shown,
        _ => Cli::command().error(said.kind(), shown_message(&said.to_string())),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    cli.shared.check()?;
    // `doctor` reports invalid thread settings itself.
    let is_doctor = |own: &Own| matches!(own, Own::Doctor(_));
    if !matches!(&cli.command, Some(Command::Own(own)) if is_doctor(own)) {
        cli.shared.set_threads()?;
    }
    match cli.command {
        None => commands::main_job::run(&cli.shared),
        Some(command) => command.run(&cli.shared),
    }
}
