//! What differs when the same job is run again: times, speeds, memory and machine.
//!
//! A result holds both what was computed and how long that took. Directories keep them apart:
//! `measured.json` has what was measured, and no other file depends on it, so that a directory that
//! is made again has the same bytes.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

/// A time, a speed, memory or a name of the machine. It is written as the plain value; [`apart`]
/// takes it out of a result. Fields of this type have `#[serde(default)]`, since a file without
/// measurements has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(transparent)]
pub struct Measured<T>(pub T);

impl<T> Deref for Measured<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Display> fmt::Display for Measured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> From<T> for Measured<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

/// Key of a measurement while a value is taken apart. No field has this name.
const MARK: &str = "\0measured";

thread_local! {
    /// Whether measurements are marked. `serde` has no other way to tell a type what it is
    /// serialised for.
    static MARKS: Cell<bool> = const { Cell::new(false) };
}

impl<T: Serialize> Serialize for Measured<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !MARKS.get() {
            return self.0.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        // What stands inside is measured as a whole.
        marking(false, || map.serialize_entry(MARK, &self.0))?;
        map.end()
    }
}

/// A result without its measurements, and these in the same form; null if there are none.
///
/// # Errors
/// Those of `write`, which serialises the result.
pub fn apart<E>(write: impl FnOnce() -> Result<Value, E>) -> Result<(Value, Value), E> {
    let mut value = marking(true, write)?;
    let measured = taken(&mut value);
    Ok((value, measured))
}

/// Puts measurements back into the result from which they were taken.
pub fn join(result: &mut Value, measured: Value) {
    match (result, measured) {
        (Value::Object(map), Value::Object(measured)) => {
            for (key, measured) in measured {
                match map.get_mut(&key) {
                    Some(value) => join(value, measured),
                    None => drop(map.insert(key, measured)),
                }
            }
        }
        (Value::Array(list), Value::Array(measured)) => {
            list.iter_mut().zip(measured).for_each(|(value, measured)| join(value, measured));
        }
        (result @ Value::Null, measured) => *result = measured,
        _ => {}
    }
}

/// Whether a saved result has any of these measurements: its file may be without.
#[must_use]
pub fn is_in(result: &Value, measured: &Value) -> bool {
    match (result, measured) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Object(map), Value::Object(measured)) => measured
            .iter()
            .any(|(key, measured)| map.get(key).is_some_and(|value| is_in(value, measured))),
        (Value::Array(list), Value::Array(measured)) => {
            list.iter().zip(measured).any(|(value, measured)| is_in(value, measured))
        }
        _ => true,
    }
}

/// Calls `work` while measurements are marked or not.
fn marking<R>(marks: bool, work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MARKS.set(self.0);
        }
    }
    let _before = Before(MARKS.replace(marks));
    work()
}

/// Takes marked values out of a value.
fn taken(value: &mut Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut measured = Map::new();
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                let Some(value) = map.get_mut(&key) else { continue };
                let found = match marked(value) {
                    Some(found) => {
                        map.shift_remove(&key);
                        found
                    }
                    None => taken(value),
                };
                if !found.is_null() {
                    measured.insert(key, found);
                }
            }
            if measured.is_empty() { Value::Null } else { Value::Object(measured) }
        }
        Value::Array(list) => {
            // An item leaves null, so that the others keep their places.
            let of = |item: &mut Value| match marked(item) {
                Some(found) => {
                    *item = Value::Null;
                    found
                }
                None => taken(item),
            };
            let measured: Vec<Value> = list.iter_mut().map(of).collect();
            match measured.iter().all(Value::is_null) {
                true => Value::Null,
                false => Value::Array(measured),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::Null,
    }
}

/// The measurement that a value is, if it is one.
fn marked(value: &mut Value) -> Option<Value> {
    value.as_object_mut()?.shift_remove(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Serialize)]
    struct Fit {
        error: f64,
        seconds: Measured<f64>,
    }

    #[derive(Serialize)]
    struct Found {
        score: f64,
        date: Measured<Option<f64>>,
        machine: Measured<Option<Fit>>,
        sites: Vec<(u8, Option<Fit>)>,
    }

    #[test]
    fn measurements_have_the_same_form_and_are_gone_from_the_result() {
        let fit = |seconds| Fit { error: 0.1, seconds: Measured(seconds) };
        let found = Found {
            score: 1.5,
            date: Measured(None),
            machine: Measured(Some(fit(3.0))),
            sites: vec![(1, Some(fit(2.0))), (2, None)],
        };
        let whole = serde_json::to_value(&found).unwrap();
        let expected = json!({
            "score": 1.5, "date": null, "machine": {"error": 0.1, "seconds": 3.0},
            "sites": [[1, {"error": 0.1, "seconds": 2.0}], [2, null]],
        });
        assert_eq!(whole, expected);
        let (mut rest, measured) = apart(|| serde_json::to_value(&found)).unwrap();
        assert_eq!(
            measured,
            json!({
                "machine": {"error": 0.1, "seconds": 3.0},
                "sites": [[null, {"seconds": 2.0}], null],
            })
        );
        assert_eq!(rest, json!({"score": 1.5, "sites": [[1, {"error": 0.1}], [2, null]]}));
        assert!(is_in(&whole, &measured) && !is_in(&rest, &measured));
        join(&mut rest, measured);
        let mut without_nulls = whole;
        without_nulls.as_object_mut().unwrap().shift_remove("date");
        assert_eq!(rest, without_nulls);
    }

    #[test]
    fn a_measurement_in_a_list_leaves_its_place() {
        let found = (1, Measured(2.5), [Measured(0), Measured(7)]);
        let (mut rest, measured) = apart(|| serde_json::to_value(found)).unwrap();
        assert_eq!(rest, json!([1, null, [null, null]]));
        assert_eq!(measured, json!([null, 2.5, [0, 7]]));
        join(&mut rest, measured);
        assert_eq!(rest, json!([1, 2.5, [0, 7]]));
    }

    #[test]
    fn an_error_while_a_value_is_taken_apart_leaves_no_marks() {
        let failed = apart(|| Err::<Value, _>("no"));
        assert_eq!(failed, Err("no"));
        assert_eq!(serde_json::to_value(Measured(1)).unwrap(), json!(1));
    }
}
