//! The fits that a set of `cdflow` has errors of.

use serde_json::Value;

/// A fit of the reference.
pub(crate) struct Fit {
    /// Its key, with the sweeps.
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) factors: usize,
    /// Sweeps from factors of ones; without, the best of several starts.
    pub(crate) sweeps: Option<usize>,
    pub(crate) error: f64,
}

/// The fits of circulant factors in the description of a set, of keys such as `gauss12_m2_..`.
pub(crate) fn of(about: &Value) -> Vec<Fit> {
    let mut found = Vec::new();
    for (key, value) in about["fit_reference"].as_object().into_iter().flatten() {
        let Some((target, rest)) = key.split_once("_m") else { continue };
        let Some((factors, how)) = rest.split_once('_') else { continue };
        let Ok(factors) = factors.parse() else { continue };
        // What is recovered exactly has no error to compare, and a wrong metric is not an aim.
        if target == "exact" || how.ends_with("ignored") {
            continue;
        }
        let mut push = |name: String, sweeps: Option<usize>, error: f64| {
            found.push(Fit { name, target: target.into(), factors, sweeps, error });
        };
        match value {
            Value::Object(sweeps) => {
                for (count, error) in sweeps {
                    let sweeps = count.parse().expect("a number of sweeps");
                    let error = error.as_f64().expect("an error");
                    push(format!("{key}, {count} sweeps"), Some(sweeps), error);
                }
            }
            Value::Array(starts) => {
                let best = starts.iter().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min);
                push(key.clone(), None, best);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                push(key.clone(), None, value.as_f64().expect("an error"));
            }
        }
    }
    found
}
