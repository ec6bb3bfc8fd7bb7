//! Bounds of the numbers in recipes, plans and options.

use super::{RecipeError, form};
use serde_json::Value;
use std::path::Path;

/// Largest number of a recipe, a plan or an option in them; seeds have no bound.
const MOST: f64 = 1e9;

/// Checks every number of a text in YAML or JSON, which was read already; `path` is its name in
/// messages.
///
/// # Errors
/// [`RecipeError::Value`] naming the number that is out of bounds.
pub fn check_text(path: &Path, text: &str) -> Result<(), RecipeError> {
    // JSON may have what YAML has not, such as tabs.
    let read = serde_json::from_str(text).or_else(|_| serde_saphyr::from_str(text));
    let value = read.map_err(|error| form(path, &error.to_string()))?;
    check_numbers("", &value).map_err(|(key, reason)| RecipeError::Value {
        path: path.to_owned(),
        key,
        reason,
    })
}

/// Checks every number of a value below `key`, such as `tables[0].methods[1]`. The error is the key
/// of the first wrong one, and what is wrong.
///
/// # Errors
/// For a number that is out of bounds.
fn check_numbers(key: &str, value: &Value) -> Result<(), (String, String)> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(name, value)| {
            let dot = if key.is_empty() { "" } else { "." };
            check_numbers(&format!("{key}{dot}{name}"), value)
        }),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| check_numbers(&format!("{key}[{index}]"), value)),
        Value::Number(number) => {
            let name = key.rsplit('.').next().unwrap_or(key);
            let is_seed = name.starts_with("seed") && number.is_u64();
            match number.as_f64() {
                Some(size) if is_seed || size.abs() <= MOST => Ok(()),
                _ => {
                    let reason = format!("is {number}, expected a number from -{MOST} to {MOST}");
                    Err((key.to_owned(), reason))
                }
            }
        }
        Value::String(_) | Value::Bool(_) | Value::Null => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), (String, String)> {
        check_numbers("", &serde_saphyr::from_str(text).unwrap())
    }

    #[test]
    fn numbers_out_of_bounds_are_named() {
        let fine =
            "{seeds: [0, 18446744073709551615], calibration: {seed: 9000000000}, a: [1, -2.5]}";
        assert_eq!(checked(fine), Ok(()));
        for (text, key, found) in [
            ("{a: {b: 18446744073709551616}}", "a.b", "is 1.8446744073709552e+19, expected"),
            ("{a: [{rank: 1}, {rank: 4294967296}]}", "a[1].rank", "is 4294967296, expected"),
            ("{seed: -9223372036854775808}", "seed", "is -9223372036854775808"),
            ("{a: 1e300}", "a", "is 1e+300"),
        ] {
            let (at, reason) = checked(text).unwrap_err();
            assert_eq!(at, key, "{text}");
            assert!(reason.starts_with(found), "{text}: {reason}");
        }
    }
}
