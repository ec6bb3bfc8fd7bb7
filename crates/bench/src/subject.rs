//! Timed operators: specifications with labels.

use super::BenchError;
use linwright_ops::{Op, OpSpec, Shape};
use linwright_tensor::{RngKey, Scalar};
use serde_json::{Map, Value};

/// Standard options of the kinds that are not timed with their defaults: those without defaults,
/// and block-Hadamard, whose default BH1 mixes no blocks.
const STANDARD: [(&str, &str); 6] = [
    ("low_rank", r#"{"kind": "low_rank", "rank": 64}"#),
    ("diagonal_low_rank", r#"{"kind": "diagonal_low_rank", "rank": 64}"#),
    ("block_hadamard", r#"{"kind": "block_hadamard", "depth": 2}"#),
    ("submatrix", r#"{"kind": "submatrix", "outputs": 64, "inputs": 64}"#),
    ("sum", r#"{"kind": "sum", "terms": [{"kind": "rotor"}, {"kind": "low_rank", "rank": 16}]}"#),
    (
        "product",
        r#"{"kind": "product", "factors": [{"kind": "rotor"}, {"kind": "block_hadamard"}]}"#,
    ),
];

/// Standard options of a kind: rank 64 for low rank, 64 rows and columns of a submatrix, two
/// block-diagonal maps (BH2) for block-Hadamard, a rotor and low rank 16 for a sum, a rotor after
/// BH1 for a product, and the defaults of all other kinds. `None` for an unknown kind.
#[must_use]
pub fn standard(kind: &str) -> Option<OpSpec> {
    match STANDARD.iter().find(|(name, _)| *name == kind) {
        Some((_, text)) => serde_json::from_str(text).ok(),
        None => defaults(kind),
    }
}

/// The kind with default options, if all have defaults.
fn defaults(kind: &str) -> Option<OpSpec> {
    serde_json::from_value(serde_json::json!({ "kind": kind })).ok()
}

/// An option value in a label; operators by their own labels.
fn value_label(value: &Value) -> String {
    let parts = match value {
        Value::String(text) => return text.clone(),
        Value::Array(parts) => parts.iter().cloned().map(serde_json::from_value).collect(),
        _ => Ok(Vec::new()),
    };
    match parts {
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
            let spec = standard(kind).unwrap_or_else(|| {
                panic!("{kind} has options without defaults; name standard ones in `standard`")
            });
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
