//! Timed operators: specifications with labels.

use super::BenchError;
use linwright_ops::{Op, OpSpec, Shape};
use linwright_tensor::{RngKey, Scalar};
use serde_json::{Map, Value};

/// Options with which a kind is timed unless others are given; `None` for an unknown kind.
#[must_use]
pub fn standard(kind: &str) -> Option<OpSpec> {
    OpSpec::standard(kind)
}

/// The kind with default options, if all have defaults.
fn defaults(kind: &str) -> Option<OpSpec> {
    serde_json::from_value(serde_json::json!({ "kind": kind })).ok()
}

/// An option value in a label; operators by their own labels.
fn value_label(value: &Value) -> String {
    if let Value::String(text) = value {
        return text.clone();
    }
    let parts = value.as_array().into_iter().flatten().cloned();
    match parts.map(serde_json::from_value).collect::<Result<Vec<OpSpec>, _>>() {
        Ok(parts) if !parts.is_empty() => {
            let labels: Vec<String> = parts.into_iter().map(|s| Subject::new(s).label).collect();
            format!("[{}]", labels.join(", "))
        }
        _ => value.to_string(),
    }
}

/// A timed operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Kind and options that are not its defaults: `block_hadamard depth=2`.
    pub label: String,
    /// The specification.
    pub spec: OpSpec,
}

impl Subject {
    /// A specification with its label.
    #[must_use]
    pub fn new(spec: OpSpec) -> Self {
        let options = |spec: &OpSpec| match serde_json::to_value(spec) {
            Ok(Value::Object(options)) => options,
            // A specification is a tagged enum, so that it always is an object.
            _ => Map::new(),
        };
        let usual = defaults(spec.kind()).map(|spec| options(&spec)).unwrap_or_default();
        let mut label = spec.kind().to_owned();
        for (key, value) in options(&spec) {
            if key != "kind" && !value.is_null() && usual.get(&key) != Some(&value) {
                label.push_str(&format!(" {key}={}", value_label(&value)));
            }
        }
        Self { label, spec }
    }

    /// The operator for a shape, with parameters determined by the seed.
    pub(super) fn build<T: Scalar>(&self, shape: Shape, seed: u64) -> Result<Op<T>, BenchError> {
        let key = RngKey::new(seed).fold("bench").fold(&self.label);
        Ok(self.spec.random(shape, key)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_standard_options() {
        for kind in OpSpec::KINDS {
            let spec = standard(kind).expect("is registered");
            assert_eq!(spec.kind(), *kind);
        }
        assert_eq!(standard("no_such_kind"), None);
    }

    #[test]
    fn labels_name_what_is_not_usual() {
        let label = |kind: &str| Subject::new(standard(kind).unwrap()).label;
        assert_eq!(label("dense"), "dense");
        assert_eq!(label("rotor"), "rotor");
        assert_eq!(label("low_rank"), "low_rank rank=64");
        assert_eq!(label("block_hadamard"), "block_hadamard depth=2");
        assert_eq!(label("sum"), "sum terms=[rotor, low_rank rank=16]");
    }
}
