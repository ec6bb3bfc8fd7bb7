//! Jinja templates of tasks.
//!
//! Jinja with the methods of Python's strings, lists and dictionaries, configured as in
//! lm-evaluation-harness: an undefined value is an error, and a trailing newline is kept. Values
//! are printed as in Python where the two differ: `True`, `False`, `None`.

use linwright_model::template::{Engine, Fault, MAX_TEXT};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, UndefinedBehavior, Value as Jinja};
use minijinja_contrib::pycompat::unknown_method_callback;
use regex::Regex;
use serde_json::{Map, Value};

/// Largest number of steps of a template, which may be hostile.
const MAX_STEPS: u64 = 1_000_000;

/// The template engine.
#[derive(Debug)]
pub(super) struct Templates(Engine);

impl Templates {
    pub(super) fn new() -> Result<Self, String> {
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        let syntax = syntax.map_err(|error| error.to_string())?;
        let mut engine = Engine::new(syntax, MAX_STEPS, print, method);
        engine.set_undefined(UndefinedBehavior::Strict);
        engine.add_filter("regex_replace", regex_replace);
        Ok(Self(engine))
    }

    /// Renders a template for a document. Errors are the reason with the line of the template.
    pub(super) fn render(
        &self,
        template: &str,
        fields: &Map<String, Value>,
    ) -> Result<String, String> {
        let context = Jinja::from(Serde(fields));
        self.0.render(template, context.clone()).map_err(|error| {
            let missing = self.0.missing(template, &context, &error);
            with_missing(reason(&error), missing)
        })
    }

    /// Checks the syntax of a template. Errors are the reason only.
    pub(super) fn check(&self, template: &str) -> Result<(), String> {
        self.0.check(template).map_err(|error| reason(&error))
    }

    /// Value of a template that is one `{{ expression }}`; `None` for any other.
    pub(super) fn value(
        &self,
        template: &str,
        fields: &Map<String, Value>,
    ) -> Option<Result<Value, String>> {
        let inner = template.trim().strip_prefix("{{")?.strip_suffix("}}")?;
        if inner.contains("{{") || inner.contains("}}") {
            return None;
        }
        let expression = inner.trim_matches('-');
        let context = Jinja::from(Serde(fields));
        let value = self.0.evaluate(expression, context.clone());
        let value = value.and_then(|value| match value.is_undefined() {
            true => Err(Error::new(ErrorKind::UndefinedError, "the value is undefined").into()),
            false => Ok(value),
        });
        Some(match value {
            Ok(value) => serde_json::to_value(&value).map_err(|error| error.to_string()),
            Err(error) => {
                let missing = self.0.missing_in_expression(expression, &context, &error);
                Err(with_missing(reason(&error), missing))
            }
        })
    }
}

/// The reason of a failure with the field that is missing.
fn with_missing(reason: String, missing: Option<String>) -> String {
    match missing {
        Some(missing) => format!("{reason}; {missing}"),
        None => reason,
    }
}

/// Prints a value as Python does.
fn print(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Jinja) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::None => out.write_str("None"),
        ValueKind::Undefined => {
            return Err(Error::new(ErrorKind::UndefinedError, "an undefined value"));
        }
        _ => write!(out, "{value}"),
    }
    .map_err(Error::from)
}

/// Methods of Python's strings, lists and dictionaries.
fn method(
    state: &mut State<'_, '_>,
    value: &Jinja,
    method: &str,
    args: &[Jinja],
) -> Result<Jinja, Error> {
    match method {
        "index" => index_of(value, args),
        _ => unknown_method_callback(state, value, method, args),
    }
}

fn reason(fault: &Fault) -> String {
    let error = &fault.error;
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => format!("it takes more than {MAX_STEPS} steps"),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match fault.line {
        Some(line) => format!("line {line} of the template: {what}"),
        None => what,
    }
}

/// `index` of lists and strings.
fn index_of(value: &Jinja, args: &[Jinja]) -> Result<Jinja, Error> {
    let [wanted] = args else {
        return Err(Error::new(ErrorKind::InvalidOperation, "index takes one value"));
    };
    let place = match (value.as_str(), wanted.as_str()) {
        (Some(text), Some(part)) => text.find(part).map(|at| text[..at].chars().count()),
        (Some(_), None) => None,
        (None, _) => value.try_iter()?.position(|item| item == *wanted),
    };
    place.map(Jinja::from).ok_or_else(|| {
        let shown = |value: &Jinja| format!("{value:?}").chars().take(200).collect::<String>();
        let reason = format!("{} is not in {}", shown(wanted), shown(value));
        Error::new(ErrorKind::InvalidOperation, reason)
    })
}

/// `re.sub`: groups are `\1`.
fn regex_replace(
    text: &str,
    pattern: &str,
    replacement: &str,
    count: Option<usize>,
) -> Result<String, Error> {
    let wrong = |error: regex::Error| Error::new(ErrorKind::InvalidOperation, error.to_string());
    let pattern = Regex::new(pattern).map_err(wrong)?;
    let replacement = python_replacement(replacement);
    let most = match count {
        None | Some(0) => usize::MAX,
        Some(count) => count,
    };
    let groups = replacement.matches('$').count();
    let mut out = String::new();
    let mut end = 0;
    for found in pattern.captures_iter(text).take(most) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&text[end..whole.start()]);
        let most = groups.saturating_mul(whole.len()).saturating_add(replacement.len());
        if out.len().saturating_add(most) > MAX_TEXT {
            let reason = format!("the result of regex_replace has more than {MAX_TEXT} bytes");
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
        found.expand(&replacement, &mut out);
        end = whole.end();
    }
    out.push_str(&text[end..]);
    Ok(out)
}

/// Converts a replacement of Python's `re` to the syntax of the regex crate.
pub(super) fn python_replacement(replacement: &str) -> String {
    let mut out = String::new();
    let mut rest = replacement.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('$', _) => out.push_str("$$"),
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                out.push_str(&format!("${{{digit}}}"));
                rest.next();
            }
            ('\\', Some('n')) => {
                out.push('\n');
                rest.next();
            }
            ('\\', Some('\\')) => {
                out.push('\\');
                rest.next();
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields() -> Map<String, Value> {
        let value = json!({
            "question": " Why? ",
            "choices": {"text": ["a", "it's \"b\""], "label": ["A", "B"]},
            "answerKey": " B",
            "text": "one two  three",
            "label": 2,
            "truth": true,
            "nothing": null,
        });
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn the_templates_of_the_standard_tasks_render_as_in_jinja() {
        let templates = Templates::new().unwrap();
        for (template, want) in [
            ("Question: {{question.strip()}}\nAnswer:", "Question: Why?\nAnswer:"),
            ("{{choices.label.index(answerKey.lstrip())}}", "1"),
            ("{{choices['text'][0]}}.", "a."),
            ("{{text.split(' ')[:-1]|join(' ')}}", "one two "),
            ("{{' '+text.split(' ')[-1]}}", " three"),
            ("{{ (label|int) - 1 }}", "1"),
            ("{% set p = 'x\n' %}{{p + question}}\n", "x\n Why? \n"),
            ("{{truth}} {{nothing}} {{not truth}}", "True None False"),
            ("{{question|regex_replace('(W)h', '\\\\1.')}}", " W.y? "),
            ("{{ 'yes' if label == 2 else 'no' }}", "yes"),
            ("{{ 'abc'.index('c') }}", "2"),
        ] {
            assert_eq!(templates.render(template, &fields()).as_deref(), Ok(want), "{template}");
        }
    }

    #[test]
    fn one_expression_has_a_value() {
        let templates = Templates::new().unwrap();
        let value = |template| templates.value(template, &fields());
        assert_eq!(value("{{choices.text}}"), Some(Ok(json!(["a", "it's \"b\""]))));
        assert_eq!(value(" {{[label, text]}} "), Some(Ok(json!([2, "one two  three"]))));
        assert_eq!(value("{{label}}{{label}}"), None);
        assert_eq!(value("x {{label}}"), None);
        let error = value("{{absent}}").unwrap().unwrap_err();
        assert!(error.contains("field `absent` is missing; the fields are"), "{error}");
        let error = value("{{choices.absent}}").unwrap().unwrap_err();
        assert!(error.contains("field `choices.absent` is missing"), "{error}");
    }

    #[test]
    fn faults_say_what_and_where() {
        let templates = Templates::new().unwrap();
        for (template, want) in [
            ("a\n{{absent}}", "line 2"),
            (
                "{{absent}}",
                "field `absent` is missing; the fields are [\"question\", \"choices\", \"answerKey\", \
                 \"text\", \"label\", \"truth\", \"nothing\"]",
            ),
            (
                "{{choices.texts}}",
                "field `choices.texts` is missing; the fields of choices are [\"text\", \"label\"]",
            ),
            ("{{choices.texts.more}}", "field `choices.texts` is missing"),
            ("{{text.none}}", "field `text.none` is missing; the fields of text are none"),
            ("{% if a is defined %}{% endif %}{{ b }}", "field `b` is missing"),
            ("{% set a = 1 %}{{ a }}{{ b|default('x') }}{{ c }}", "field `c` is missing"),
            ("{% for a in choices.text %}{{ a.b }}{{ loop.index }}{% endfor %}", "undefined"),
            ("{{ choices.texts[0] }}", "field `choices.texts` is missing"),
            ("{{ range(3)[7] }}", "undefined"),
            ("{{question", "line 1"),
            ("{{choices.label.index('Z')}}", "is not in"),
            ("\n{{ [question] * 100000000 }}", "line 2"),
            ("{% set n = namespace() %}{% set n.a = n %}{{ n }}", "namespace"),
            (
                "{{ ('x' * 1000000)|regex_replace('', 'y' * 1000000) }}",
                "result of regex_replace has more than",
            ),
            (
                "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                "steps",
            ),
        ] {
            let error = templates.render(template, &fields()).unwrap_err();
            assert!(error.contains(want), "{error:?} lacks {want:?}");
        }
        let deep = format!("{{{{ {}1 }}}}", "-".repeat(30_000));
        assert!(templates.render(&deep, &fields()).unwrap_err().contains("operators"));
        assert!(templates.value(&deep, &fields()).unwrap().unwrap_err().contains("operators"));
        let doubled = "{% set n = namespace(x='xy') %}{% for i in range(40) %}\
                       {% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}";
        assert!(templates.render(doubled, &fields()).unwrap_err().contains("a string of more"));
    }
}
