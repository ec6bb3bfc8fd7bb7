//! Failures for the user: printed, with the exit code.

use crate::stderr::write_stderr;
pub(crate) use linwright::jobs::{Failure, FailureKind as Kind, message_of};
use linwright::run::{is_plain, shown, shown_message};
use serde_json::json;
use std::process::ExitCode;

/// Prints a failure to stderr, as one line of JSON with `--json`, and returns the exit code.
pub(crate) fn report(failure: &Failure, as_json: bool) -> ExitCode {
    let code = failure.kind() as u8;
    // Escapes control characters in quoted parts of the message.
    let message = shown_message(&arguments_shown(failure.message()));
    let hint = failure.advice().map(|hint| shown_message(&arguments_shown(hint)));
    match (as_json, hint) {
        (true, hint) => {
            let error = json!({ "message": message, "hint": hint, "exit_code": code });
            write_stderr(&json!({ "error": error }).to_string());
        }
        (false, None) => write_stderr(&format!("error: {message}")),
        (false, Some(hint)) => write_stderr(&format!("error: {message}\nhint: {hint}")),
    }
    ExitCode::from(code)
}

/// Shortens and escapes the arguments of the command in a message: many messages quote a path.
fn arguments_shown(message: &str) -> String {
    let mut message_of = message.to_owned();
    for arg in std::env::args_os().skip(1) {
        let arg = arg.to_string_lossy();
        let value = arg.split_once('=').filter(|_| arg.starts_with("--")).map_or(&*arg, |(_, v)| v);
        if !is_plain(value) && message_of.contains(value) {
            message_of = message_of.replace(value, &shown(value));
        }
    }
    message_of
}
