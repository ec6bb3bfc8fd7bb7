//! The one bridge to all jobs: options as JSON in, an outcome out.

use crate::failure::exception;
use crate::monitor::{Receiver, Stop};
use crate::outcome::RawOutcome;
use linwright::evaluate::Build;
use linwright::jobs::source::find_model;
use linwright::jobs::{
    Division, Failure, Field, GROUPS, Host, Kind, Name, STREAMED, Session, VERBS, Verb, message_of,
};
use linwright::run::{Monitor, Shard};
use linwright::tensor::parallel::{self, MAX_THREADS};
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use std::ffi::OsString;

/// This build, as named in results.
const BUILD: Build<'static> =
    Build { version: env!("CARGO_PKG_VERSION"), commit: env!("LINWRIGHT_COMMIT") };

#[allow(clippy::disallowed_methods, reason = "the host of jobs reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The version, with the commit if known.
#[pyfunction]
pub(crate) fn build() -> &'static str {
    env!("LINWRIGHT_VERSION")
}

/// All jobs and their groups, as JSON: names, help and options, from which Python functions are
/// generated.
#[pyfunction]
pub(crate) fn verbs() -> String {
    let groups = GROUPS.iter().map(|group| json!({ "name": group.name, "about": group.about }));
    let verbs: Vec<Value> = VERBS.iter().chain(STREAMED).map(described).collect();
    json!({ "groups": groups.collect::<Vec<_>>(), "verbs": verbs }).to_string()
}

fn described(verb: &Verb) -> Value {
    let (group, name) = match verb.grouped() {
        Some((group, name)) => (Some(group.name), name),
        None => (None, verb.name),
    };
    let schema = (verb.schema)();
    // Defaults of lists are only in the schema.
    let default = |field: &Field| &schema.as_value()["properties"][&field.key]["default"];
    let fields: Vec<Value> =
        (verb.fields)().iter().map(|field| option(field, default(field))).collect();
    json!({
        "verb": verb.name,
        "group": group,
        "name": name,
        "about": verb.about,
        "writes_model": verb.writes_model,
        "has_shards": verb.division.has_shards(),
        "shares_output": verb.division == Division::Shared,
        "waits": verb.division.waits(),
        "options": fields,
    })
}

fn option(field: &Field, default: &Value) -> Value {
    let (kind, names) = match &field.kind {
        Kind::Flag => ("flag", None),
        Kind::Integer { .. } => ("integer", None),
        Kind::Number { .. } => ("number", None),
        Kind::Text | Kind::Term(_) => ("text", None),
        Kind::Named(names) => ("name", Some(names.iter().map(named).collect::<Vec<_>>())),
    };
    json!({
        "key": field.key,
        "help": field.help,
        "kind": kind,
        "names": names,
        "is_list": field.is_list,
        "is_path": field.is_path,
        "is_positional": field.is_positional,
        "is_required": field.is_required,
        "default": if field.is_required { &Value::Null } else { default },
        "aliases": field.aliases,
    })
}

fn named(name: &Name) -> Value {
    json!({ "name": name.name, "others": name.others, "help": name.help })
}

fn named_verb(name: &str) -> PyResult<&'static Verb> {
    let found = VERBS.iter().chain(STREAMED).find(|verb| verb.name == name);
    found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}

/// The JSON schema of a job.
#[pyfunction]
pub(crate) fn schema(verb: &str) -> PyResult<String> {
    let verb = named_verb(verb)?;
    serde_json::to_string(&(verb.schema)())
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Sets the number of threads of all later work, once: 0 means all cores.
#[pyfunction]
pub(crate) fn set_threads(py: Python<'_>, threads: usize) -> PyResult<()> {
    if threads > MAX_THREADS {
        let what = format!("threads is {threads}, expected a whole number from 0 to {MAX_THREADS}");
        return Err(exception(py, &Failure::usage(what)));
    }
    parallel::set_threads(threads).map_err(|error| {
        let what = format!("cannot start {threads} threads: {}", message_of(&error));
        exception(py, &Failure::general(what))
    })
}

/// Runs `work` in a session without the interpreter's lock. A pending Ctrl-C, or an exception of a
/// callback, takes precedence over the result of the work.
pub(crate) fn in_session<T: Send>(
    py: Python<'_>,
    receiver: Option<Py<PyAny>>,
    work: impl FnOnce(Session<'_>) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (done, asked) = py.detach(|| {
        let stop = Stop::new();
        let mut monitor = Receiver::new(receiver, &stop);
        let cancelled = || stop.is_asked();
        let host = Host { variable: &variable, cancelled: &cancelled, build: BUILD };
        let done = work(Session::new(&mut monitor, host));
        monitor.finish();
        (done, stop.take())
    });
    match (done, asked) {
        (Ok(done), None) => Ok(done),
        // Stopped by Ctrl-C: the failure says whether the same call continues.
        (Err(failure), Some(asked)) if asked.is_instance_of::<PyKeyboardInterrupt>(py) => {
            Err(exception(py, &failure))
        }
        (_, Some(asked)) => Err(asked),
        (Err(failure), None) => Err(exception(py, &failure)),
    }
}

/// Runs a job. `options` is a JSON object, `shard` is `i/N`, `receiver` gets progress. Returns the
/// outcome, and the exception of a missed gate.
#[pyfunction]
#[pyo3(signature = (verb, options, shard = None, receiver = None))]
pub(crate) fn run(
    py: Python<'_>,
    verb: &str,
    options: &str,
    shard: Option<&str>,
    receiver: Option<Py<PyAny>>,
) -> PyResult<(RawOutcome, Option<Py<PyAny>>)> {
    let verb = named_verb(verb)?;
    let shard = match shard.map(str::parse::<Shard>).transpose() {
        Ok(shard) => shard.unwrap_or_default(),
        Err(error) => return Err(exception(py, &Failure::usage(format!("shard: {error}")))),
    };
    let (outcome, missed) = in_session(py, receiver, |session| {
        let mut session = session.with_shard(shard);
        let job = (verb.read)(&options_of(options)?)?;
        let mut outcome = job.run(&mut session)?;
        Ok((RawOutcome::new(&mut outcome)?, outcome.failure))
    })?;
    let missed = missed.map(|failure| exception(py, &failure).into_value(py).into_any());
    Ok((outcome, missed))
}

fn options_of(json: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::usage(format!("options: {error}")))
}

/// Finds a model: `pocket`, a path, or `owner/name` on the hub. Returns its path and its name in
/// results.
#[pyfunction]
#[pyo3(signature = (model, receiver = None))]
pub(crate) fn find(
    py: Python<'_>,
    model: &str,
    receiver: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    in_session(py, receiver, |mut session| {
        let place = find_model(model, &mut session)?;
        Ok((place.path.display().to_string(), place.name))
    })
}
