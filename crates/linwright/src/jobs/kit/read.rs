//! Jobs from maps of options.

use super::elsewhere::option_elsewhere;
use super::fields::related_fields;
use super::renamed::renamed;
use super::{Field, JobError, Kind, Options, Pairs, fields, schema, sizes};
use linwright_run::shown;
use linwright_run::spelling::nearest_names;
use serde_json::{Map, Value};

/// A job from its options by key. A hyphen in a key counts as an underscore, a single value is a
/// list of one, and a text is split at commas where a list is expected.
///
/// # Errors
/// [`JobError`] naming the key that is unknown, missing or given twice, or whose value is wrong.
pub fn read<J: Options>(options: &Map<String, Value>) -> Result<J, JobError> {
    read_of("", options)
}

/// The same for the command with these words, which tells the new name of an option that it had.
pub(super) fn read_of<J: Options>(
    words: &str,
    options: &Map<String, Value>,
) -> Result<J, JobError> {
    let fields = fields::<J>();
    let mut job = Map::new();
    for (written, value) in options {
        let Some(field) = fields.iter().find(|field| field.is_called(written)) else {
            let told = renamed(words, written, &fields);
            if let Some(told) = told.or_else(|| option_elsewhere(written, &fields)) {
                return Err(JobError::new(format!("{} {told}", shown(written))));
            }
            let names: Vec<&str> = fields.iter().map(|field| field.key.as_str()).collect();
            let nearest = nearest_names(&written.replace('-', "_"), &names);
            return Err(
                JobError::new(format!("there is no option {}", shown(written))).hint(nearest)
            );
        };
        if job.insert(field.key.clone(), canonical(field, value)).is_some() {
            return Err(JobError::of(&field.key, "is given twice"));
        }
    }
    if let Some(field) = fields.iter().find(|f| f.is_required && !job.contains_key(&f.key)) {
        return Err(JobError::of(&field.key, "is missing"));
    }
    for field in fields.iter().filter(|field| job.contains_key(&field.key)) {
        check(field, &job[&field.key])?;
        contradiction_of(field, &job)?;
    }
    serde_json::from_value(Value::Object(job.clone())).map_err(|error| wrong::<J>(&job, &error))
}

/// Refuses options that exclude each other, and options given without one that they need.
///
/// # Errors
/// [`JobError`] naming both.
pub(crate) fn check_together<J: Options>(job: &Map<String, Value>) -> Result<(), JobError> {
    let schema = schema::<J>();
    let known = schema.get("properties").and_then(Value::as_object);
    related_fields::<J>().iter_mut().try_for_each(|field| {
        // An option outside a group is checked where all options are known.
        field.requires.retain(|key| known.is_some_and(|known| known.contains_key(key)));
        contradiction_of(field, job)
    })
}

/// The same for one option.
fn contradiction_of(field: &Field, job: &Map<String, Value>) -> Result<(), JobError> {
    // A flag that is off, an option that is null and an empty list count as absent.
    let is_given = |key: &String| {
        let absent = [Value::Null, Value::Bool(false), Value::Array(Vec::new())];
        job.get(key).is_some_and(|value| !absent.contains(value))
    };
    if !is_given(&field.key) {
        return Ok(());
    }
    if let Some(other) = field.conflicts.iter().find(|other| is_given(other)) {
        return Err(JobError::of(&field.key, format!("cannot be used with {other}")));
    }
    if let Some(other) = field.requires.iter().find(|other| !is_given(other)) {
        return Err(JobError::of(&field.key, format!("needs {other}")));
    }
    Ok(())
}

/// The value in the form of the schema.
fn canonical(field: &Field, value: &Value) -> Value {
    let one = |value: &Value| match (value, &field.kind) {
        (Value::Number(number), Kind::Text | Kind::Named(_)) => Value::String(number.to_string()),
        (Value::String(text), Kind::Named(names)) => {
            let is_called = |text: &str| {
                names.iter().find(|name| name.name == text || name.others.iter().any(|o| o == text))
            };
            let spellings = [text.clone(), text.replace('-', "_"), text.replace('_', "-")];
            let name = spellings.iter().find_map(|text| is_called(text));
            name.map_or_else(|| value.clone(), |name| Value::String(name.name.clone()))
        }
        (Value::Object(pairs), Kind::Text) if field.pairs != Pairs::None && pairs.len() == 1 => {
            let pair = |(key, value): (&String, &Value)| match value {
                Value::String(text) => format!("{key}={text}"),
                Value::Array(values) => {
                    let values: Vec<String> = values.iter().map(Value::to_string).collect();
                    format!("{key}={}", values.join(","))
                }
                value => format!("{key}={value}"),
            };
            pairs.iter().map(pair).collect::<String>().into()
        }
        // Values are checked later, with a message of what is wrong.
        (value, Kind::Term(catalogue)) => {
            catalogue.read_value(value).map_or_else(|_| value.clone(), |t| t.to_string().into())
        }
        _ => value.clone(),
    };
    if !field.is_list {
        return one(value);
    }
    let parts = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    match (&field.kind, value) {
        (Kind::Term(catalogue), _) => {
            let texts = |part: &Value| match part {
                Value::String(text) => catalogue.split(text).into_iter().map(Value::from).collect(),
                other => vec![other.clone()],
            };
            parts.iter().flat_map(texts).map(|part| one(&part)).collect()
        }
        _ if field.pairs != Pairs::None => {
            let texts = |part: &Value| match one(part) {
                // Each entry of a map is a value.
                Value::Object(pairs) if field.pairs == Pairs::Whole => {
                    let pair =
                        |(key, value): (String, Value)| one(&Value::from_iter([(key, value)]));
                    pairs.into_iter().map(pair).collect()
                }
                Value::String(text) if field.pairs == Pairs::Whole => vec![text.into()],
                Value::String(text) => sizes::split(&text).map(Value::from).collect(),
                other => vec![other],
            };
            parts.iter().flat_map(texts).collect()
        }
        (_, Value::String(text)) if field.is_delimited => {
            text.split(',').map(|part| one(&parsed(field, part))).collect()
        }
        _ => parts.iter().map(one).collect(),
    }
}

/// A part of a text that lists values.
fn parsed(field: &Field, text: &str) -> Value {
    let number = match field.kind {
        Kind::Integer { .. } | Kind::Number { .. } => serde_json::from_str(text.trim()).ok(),
        _ => None,
    };
    number.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Refuses a value of another type, or out of bounds.
fn check(field: &Field, value: &Value) -> Result<(), JobError> {
    let values = match value {
        Value::Array(values) if field.is_list => values.iter().collect(),
        value => vec![value],
    };
    for value in values {
        let is_absent = value.is_null() && field.default.is_none() && !field.is_list;
        let is_right = match &field.kind {
            Kind::Term(catalogue) if !is_absent => {
                let read = catalogue.read_value(value);
                read.map_err(|reason| {
                    JobError::of(&field.key, format!("{}: {reason}", quoted(value)))
                })?;
                true
            }
            Kind::Term(_) => true,
            Kind::Flag => value.is_boolean(),
            Kind::Integer { min, max } => {
                value.as_u64().is_some_and(|number| (*min..=*max).contains(&number))
            }
            Kind::Number { min, max } => {
                value.as_f64().is_some_and(|number| (*min..=*max).contains(&number))
            }
            Kind::Text => value.is_string(),
            Kind::Named(names) => {
                value.as_str().is_some_and(|text| names.iter().any(|name| name.name == text))
            }
        };
        if !is_right && !is_absent {
            let (found, expected) = (quoted(value), field.kind.expected());
            return Err(JobError::of(&field.key, format!("is {found}, expected {expected}")));
        }
    }
    Ok(())
}

/// A value for a message.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shown(text)),
        Value::Array(list) if list.len() == 1 => quoted(&list[0]),
        value => shown(&value.to_string()),
    }
}

/// The error of the option without which there is none.
fn wrong<J: Options>(job: &Map<String, Value>, error: &serde_json::Error) -> JobError {
    let is_culprit = |key: &&String| {
        let mut others = job.clone();
        others.remove(*key);
        serde_json::from_value::<J>(Value::Object(others)).is_ok()
    };
    match job.keys().find(is_culprit) {
        Some(key) => JobError::of(key, format!("is {}: {error}", quoted(&job[key]))),
        None => JobError::new(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::jobs::kit::read;
    use crate::jobs::language::sweep::Sweep;
    use serde_json::{Value, json};

    fn sweep(options: &Value) -> Result<Sweep, String> {
        read(options.as_object().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_have_the_forms_that_people_write() {
        let plain = json!({"model": "m", "size": ["rate=9.9", "rate=8"], "roles": ["q_proj"], "layers": "3"});
        let job = sweep(&plain).unwrap();
        for other in [
            json!({"model": "m", "size": "rate=9.9, 8", "roles": "q-proj", "layers": 3, "task": []}),
            json!({"model": "m", "size": {"rate": [9.9, 8]}, "roles": "q_proj", "layers": "3", "no-share": false}),
            json!({"model": "m", "size": ["rate=9.9,8"], "roles": "q_proj", "layers": "3", "evaluation": "fewshot_as_multiturn=false"}),
        ] {
            assert_eq!(sweep(&other).unwrap(), job, "{other}");
        }
    }

    #[test]
    fn a_flag_that_is_off_conflicts_with_nothing() {
        let job = sweep(&json!({"model": "m", "cache": "a", "no_cache": false})).unwrap();
        assert!(job.cut.cache.is_some() && !job.cut.no_cache);
    }

    #[test]
    fn an_empty_list_needs_nothing() {
        let job = sweep(&json!({"model": "m", "evaluation": {"more_texts": []}})).unwrap();
        assert!(job.evaluation.more_texts.is_empty() && job.evaluation.text.is_none());
        let error =
            sweep(&json!({"model": "m", "evaluation": {"more_texts": ["a.txt"]}})).unwrap_err();
        assert!(error.contains("needs text"), "{error}");
    }

    #[test]
    fn wrong_options_are_named() {
        for (options, expected) in [
            (json!({"rank": 1}), "model is missing"),
            (json!({"model": "m", "lnam": "all"}), "there is no option lnam"),
            (json!({"model": "m", "keep": {"a": 1}}), "keep is {\"a\":1}, expected a number"),
            (
                json!({"model": "m", "rank": [1.5]}),
                "rank is 1.5, expected a whole number from 0 to",
            ),
            (
                json!({"model": "m", "rank": [1u64 << 31]}),
                "rank is 2147483648, expected a whole number",
            ),
            (
                json!({"model": "m", "seed": -1}),
                "seed is -1, expected a whole number from 0 to 184",
            ),
            (json!({"model": "m", "keep": 1.5}), "keep is 1.5, expected a number from 0 to 1"),
            (
                json!({"model": "m", "size": "rate=10.5"}),
                "rate is 10.5, expected a number from 0 to 10",
            ),
            (json!({"model": "m", "evaluation": "max_length=1"}), "expected a whole number from 2"),
            (json!({"model": "m", "no_share": "yes"}), "no_share is \"yes\", expected true or"),
            (
                json!({"model": "m", "intervention": "zero:storage=tape"}),
                "expected one of auto, factored, dense",
            ),
            (json!({"model": "m", "data": "file"}), "data is \"file\": expected TASK=FILE"),
            (json!({"model": "m", "no_share": true, "no-share": true}), "no_share is given twice"),
            (json!({"model": "m", "cache": "a", "no_cache": true}), "cache cannot be used with"),
            (
                json!({"model": "m", "evaluation": {"fewshot_as_multiturn": true}}),
                "needs apply_chat_template",
            ),
        ] {
            let error = sweep(&options).unwrap_err();
            assert!(error.contains(expected), "{options}: {error}");
        }
    }
}
