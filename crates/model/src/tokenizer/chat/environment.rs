//! The template engine with the settings of transformers' Jinja.

use super::date::Date;
use super::{MAX_STEPS, json};
use crate::template::{Engine, Fault};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Error, ErrorKind, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::Value;

/// Reason and location of a template's failure.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) line: usize,
    pub(super) reason: String,
}

/// Renders a template.
pub(super) fn render(template: &str, variables: &Value, date: Date) -> Result<String, Failure> {
    let source = without_generation(template);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let syntax = syntax.map_err(|error| failure(&error.into()))?;
    let mut engine = Engine::new(syntax, MAX_STEPS, escape_formatter, unknown_method_callback);
    engine.add_filter("tojson", to_json);
    engine.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    engine.add_function(super::DATES, move |format: String| date.format(&format));
    let given = minijinja::Value::from(Serde(variables));
    engine.render(&source, given.clone()).map_err(|fault| {
        let mut failure = failure(&fault);
        if let Some(missing) = engine.missing(&source, &given, &fault) {
            failure.reason = format!("{}; {missing}", failure.reason);
        }
        failure
    })
}

/// `tojson` with the options of Python's `json.dumps`.
fn to_json(value: &minijinja::Value, options: Kwargs) -> Result<String, Error> {
    let wrong = |reason: String| Error::new(ErrorKind::InvalidOperation, reason);
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "tojson of an undefined value"));
    }
    let indent: Option<minijinja::Value> = options.get("indent")?;
    let indent = match indent {
        None => None,
        Some(value) if value.is_none() => None,
        Some(value) => match (value.as_usize(), value.as_str()) {
            (Some(spaces), _) if spaces <= 64 => Some(" ".repeat(spaces)),
            (None, Some(text)) => Some(text.to_owned()),
            _ => return Err(wrong("tojson: indent is neither a number up to 64 nor text".into())),
        },
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let style = json::Style {
        separators: match separators.as_deref() {
            None => None,
            Some([item, key]) => Some((item.clone(), key.clone())),
            Some(_) => return Err(wrong("tojson: separators are two texts".into())),
        },
        indent,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let value = serde_json::to_value(value).map_err(|e| wrong(format!("tojson: {e}")))?;
    Ok(json::write(&value, &style))
}

fn failure(fault: &Fault) -> Failure {
    let error = &fault.error;
    let reason = match error.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {MAX_STEPS} steps"),
        // The message of the template's own `raise_exception`.
        ErrorKind::InvalidOperation => error.detail().unwrap_or("invalid operation").to_owned(),
        kind => match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    };
    Failure { line: fault.line.unwrap_or_default(), reason }
}

/// Replaces the tags `generation` and `endgeneration`, which mark model output for training, by an
/// always true condition: both print their body and trim alike.
fn without_generation(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let signed = tag.trim_start_matches(['-', '+']);
        let word_at = tag.len() - signed.trim_start().len();
        let word = signed.trim_start();
        let length = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let word = &word[..length.unwrap_or(word.len())];
        let instead = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => {
                rest = tag;
                continue;
            }
        };
        out.push_str(&tag[..word_at]);
        out.push_str(instead);
        rest = &tag[word_at + word.len()..];
    }
    out.push_str(rest);
    out
}
