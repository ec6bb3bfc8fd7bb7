//! Jobs as shell commands.

use super::{AnyJob, Verb};
use serde_json::Value;

/// A job as a shell command: the options that are not their defaults.
#[must_use]
pub fn command(job: &dyn AnyJob) -> String {
    let verb = Verb::named(job.verb()).map_or_else(|| job.verb().to_owned(), Verb::words);
    let mut words = vec!["linwright".to_owned(), verb];
    words.extend(arguments(job).iter().map(|argument| quoted(argument)));
    words.join(" ")
}

/// The arguments of a job that are not its defaults, positional ones first.
#[must_use]
pub fn arguments(job: &dyn AnyJob) -> Vec<String> {
    let (given, all) = (job.options(), job.all_options());
    let fields = Verb::named(job.verb()).map(|verb| (verb.fields)()).unwrap_or_default();
    let (mut positional, mut flags) = (Vec::new(), Vec::new());
    for field in fields {
        let flag = field.flag();
        if field.is_positional {
            match &all[&field.key] {
                Value::Array(values) => positional.extend(values.iter().map(text)),
                value => positional.push(text(value)),
            }
            continue;
        }
        match given.get(&field.key) {
            None => {}
            Some(Value::Bool(_)) => flags.push(format!("--{flag}")),
            Some(Value::Array(list)) => {
                let list: Vec<String> = list.iter().map(text).collect();
                let list = if field.is_delimited { vec![list.join(",")] } else { list };
                flags.extend(list.iter().map(|value| format!("--{flag}={value}")));
            }
            Some(value) => flags.push(format!("--{flag}={}", text(value))),
        }
    }
    [positional, flags].concat()
}

/// A value as an argument; whole numbers have no point.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        value => value.to_string(),
    }
}

/// An argument for a shell.
#[must_use]
pub fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@".contains(c);
    if argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}
