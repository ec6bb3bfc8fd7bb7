//! Failures as exceptions, with the classes in `linwright._errors`.

use linwright::jobs::Failure;
use linwright::run::shown_message;
use pyo3::prelude::*;

/// The exception of a failure: the class follows from the exit code of the command, the message is
/// that of the command.
pub(crate) fn exception(py: Python<'_>, failure: &Failure) -> PyErr {
    let message = shown_message(failure.message());
    let hint = failure.advice().map(shown_message);
    of_kind(py, failure.kind() as u8, &message, hint.as_deref())
}

/// The exception of an exit code.
fn of_kind(py: Python<'_>, code: u8, message: &str, hint: Option<&str>) -> PyErr {
    let made = py
        .import("linwright._errors")
        .and_then(|module| module.call_method1("failure", (code, message, hint)));
    made.map_or_else(|error| error, PyErr::from_value)
}
