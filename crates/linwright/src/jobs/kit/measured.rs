//! Times, memory and machine in results of a foreign format, in which no type marks them as
//! `linwright_run::Measured` does.

use serde_json::{Map, Value};

/// Moves measurements out of a result into a value of the same form; null if there are none.
/// `paths` says where they are, see [`Job::MEASURED`](super::Job::MEASURED).
pub(crate) fn split(result: &mut Value, paths: &[&str]) -> Value {
    let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    let all: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    split_below(result, &all)
}

/// As [`split`], with paths from this value on.
fn split_below(value: &mut Value, paths: &[&[&str]]) -> Value {
    let below = |key: &str| -> Vec<&[&str]> {
        let matching = paths.iter().filter_map(|path| path.split_first());
        matching
            .filter(|(first, _)| **first == "*" || **first == key)
            .map(|(_, rest)| rest)
            .collect()
    };
    match value {
        Value::Object(map) => {
            let mut measured = Map::new();
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                let rest = below(&key);
                if rest.iter().any(|rest| rest.is_empty()) {
                    measured.extend(map.shift_remove(&key).map(|value| (key, value)));
                } else if let (false, Some(value)) = (rest.is_empty(), map.get_mut(&key)) {
                    let found = split_below(value, &rest);
                    if !found.is_null() {
                        measured.insert(key, found);
                    }
                }
            }
            if measured.is_empty() { Value::Null } else { Value::Object(measured) }
        }
        Value::Array(list) => {
            let rest = below("*");
            let measured: Vec<Value> =
                list.iter_mut().map(|item| split_below(item, &rest)).collect();
            match measured.iter().all(Value::is_null) {
                true => Value::Null,
                false => Value::Array(measured),
            }
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_measured_has_the_same_form_and_is_gone_from_the_result() {
        let mut result = json!({
            "score": 1.5, "date": 7.0, "plan": {"seconds": "a name"},
            "sites": [{"site": "a", "fit": {"error": 0.1, "seconds": 2.0}}, {"site": "b"}],
        });
        let paths = ["date", "sites/*/fit/seconds", "missing/key", "score/below"];
        let measured = split(&mut result, &paths);
        assert_eq!(measured, json!({"date": 7.0, "sites": [{"fit": {"seconds": 2.0}}, null]}));
        let rest = json!({
            "score": 1.5, "plan": {"seconds": "a name"},
            "sites": [{"site": "a", "fit": {"error": 0.1}}, {"site": "b"}],
        });
        assert_eq!(result, rest);
        assert_eq!(split(&mut result, &paths), Value::Null);
    }
}
