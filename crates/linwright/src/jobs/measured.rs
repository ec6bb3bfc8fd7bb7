//! What differs when the same job is run again: times, memory and machine.
//!
//! Results of a job hold both what it found and how long it took. Directories keep them apart:
//! `measured.json` has what was measured, and no other file depends on it, so that a reproduced
//! directory has the same bytes.

use serde_json::{Map, Value};

/// Keys of measurements, wherever they stand in a result.
const KEYS: [&str; 20] = [
    "date",
    "date_unix_seconds",
    "device",
    "evaluate_seconds",
    "git_hash",
    "commit",
    "memory_bytes",
    "peak_resident_bytes",
    "seconds",
    "speed",
    "speeds",
    "stages",
    "threads",
    "timing",
    "tokens_per_second",
    "tokens_per_second_before",
    "peak_bytes",
    "total_evaluation_time_seconds",
    "milliseconds",
    "milliseconds_dense",
];

/// Moves measurements out of a result into a value of the same form; null if there are none.
pub(crate) fn split(result: &mut Value) -> Value {
    match result {
        Value::Object(map) => {
            let mut measured = Map::new();
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                if KEYS.contains(&key.as_str()) {
                    measured.extend(map.shift_remove(&key).map(|value| (key, value)));
                } else if let Some(value) = map.get_mut(&key) {
                    let below = split(value);
                    if !below.is_null() {
                        measured.insert(key, below);
                    }
                }
            }
            if measured.is_empty() { Value::Null } else { Value::Object(measured) }
        }
        Value::Array(list) => {
            let measured: Vec<Value> = list.iter_mut().map(split).collect();
            match measured.iter().all(Value::is_null) {
                true => Value::Null,
                false => Value::Array(measured),
            }
        }
        _ => Value::Null,
    }
}

/// Replaces paths below a folder by their ends, so that a result does not depend on its place.
pub(crate) fn without_folder(value: &mut Value, folder: &str) {
    match value {
        Value::String(text) => {
            if let Some(end) = text.strip_prefix(folder).and_then(|end| end.strip_prefix('/')) {
                *text = end.to_owned();
            } else if text.contains(&format!("{folder}/")) {
                *text = text.replace(&format!("{folder}/"), "");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| without_folder(value, folder)),
        Value::Object(map) => map.values_mut().for_each(|value| without_folder(value, folder)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_measured_has_the_same_form_and_is_gone_from_the_result() {
        let mut result = json!({
            "score": 1.5, "date": 7.0,
            "sites": [{"site": "a", "fit": {"error": 0.1, "seconds": 2.0}}, {"site": "b"}],
        });
        let measured = split(&mut result);
        assert_eq!(measured, json!({"date": 7.0, "sites": [{"fit": {"seconds": 2.0}}, null]}));
        let rest = json!({
            "score": 1.5, "sites": [{"site": "a", "fit": {"error": 0.1}}, {"site": "b"}],
        });
        assert_eq!(result, rest);
        assert_eq!(split(&mut result), Value::Null);
    }

    #[test]
    fn places_are_left_out() {
        let mut result =
            json!({"output": "runs/a/b", "notes": ["wrote runs/a/c; runs/ab", "runs/a"]});
        without_folder(&mut result, "runs/a");
        assert_eq!(result, json!({"output": "b", "notes": ["wrote c; runs/ab", "runs/a"]}));
    }
}
