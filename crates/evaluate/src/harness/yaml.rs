//! YAML with the tag `!function` of task files.
//!
//! Values are stored as JSON, which has no tags, so a function is stored as a string that begins
//! with [`FUNCTION`]. The tag may precede a bare or a quoted name, or be on a line of its own. Any
//! other tag is an error: ignoring it would keep the bare value.

use linwright_run::{shown, shown_reason};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Tagged;
use std::fmt;

/// Prefix that marks a function in a string value.
pub(super) const FUNCTION: &str = "!function ";
/// Core YAML tags, which change nothing.
const OWN: [&str; 7] = ["str", "int", "float", "bool", "null", "seq", "map"];
/// Prefix of core YAML tags.
const OF_YAML: &str = "tag:yaml.org,2002:";

/// Parses the fields of a file. Errors are the reason only.
pub(super) fn fields(text: &str) -> Result<Map<String, Value>, String> {
    let read: Result<Node, _> = serde_saphyr::from_str(text);
    let first_line = |text: String| shown_reason(text.lines().next().unwrap_or_default());
    match read.map_err(|error| first_line(error.to_string()))?.0 {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(format!("found {}, expected fields with values", shown(&other.to_string()))),
    }
}

/// A value with its tag resolved.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged(Bare(value), tag) = Tagged::deserialize(deserializer)?;
        let is_own =
            |tag: &str| tag == "!" || tag.strip_prefix(OF_YAML).is_some_and(|of| OWN.contains(&of));
        let Some(tag) = tag.filter(|tag| !is_own(tag)) else { return Ok(Self(value)) };
        if tag != FUNCTION.trim_end() {
            return Err(D::Error::custom(format!(
                "the tag {tag} is unknown; the only known tag is !function"
            )));
        }
        match value {
            Value::String(name) if !name.trim().is_empty() => {
                Ok(Self(Value::String(format!("{FUNCTION}{}", name.trim()))))
            }
            other => {
                Err(D::Error::custom(format!("!function {other}: expected the name of a function")))
            }
        }
    }
}

/// A value whose tag is ignored.
struct Bare(Value);

impl<'de> Deserialize<'de> for Bare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BareVisitor).map(Self)
    }
}

struct BareVisitor;

impl<'de> Visitor<'de> for BareVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // JSON has no infinities and NaN; they become null, as in `serde_json`.
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Bare::deserialize(deserializer).map(|bare| bare.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Node(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, Node(value))) = fields.next_entry::<String, Node>()? {
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tag_counts_wherever_it_stands() {
        for text in [
            "a: !function utils.f",
            "a: !function utils.f  # note",
            "a: !function \"utils.f\"",
            "a: !function 'utils.f'",
            "a: !function\n  utils.f",
            "a:\n  !function utils.f",
            "a: &x !function utils.f",
            "{a: !function utils.f}",
            "\"a\": !function >-\n  utils.f\n",
            "? a\n: !function utils.f",
        ] {
            let want = json!({"a": "!function utils.f"});
            assert_eq!(fields(text).map(Value::Object), Ok(want), "{text}");
        }
        let text = "a: [!function f, {b: !function g}]\nc: \"x !function y\"\n";
        let want = json!({"a": ["!function f", {"b": "!function g"}], "c": "x !function y"});
        assert_eq!(fields(text).map(Value::Object), Ok(want));
    }

    #[test]
    fn other_tags_are_faults_that_name_their_line() {
        for (text, want) in [
            ("b: 1\na: !foo utils.f", "the tag !foo is unknown"),
            ("a: !Function utils.f", "the tag !Function is unknown"),
            ("a: !!python/name:os.system x", "unknown"),
            ("a: !<tag:x.org,2000:f> utils.f", "unknown"),
            ("a: !function", "expected the name"),
            ("a: !function [f]", "expected the name"),
            ("a: !foo {b: 1}", "the tag !foo is unknown"),
            ("- 1", "expected fields"),
        ] {
            let error = fields(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
        let error = fields("b: 1\na: !foo utils.f").unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn plain_values_are_those_of_yaml() {
        let text = "a: 1\nb: 2.5\nc: yes\nd: true\ne: ~\nf: '1'\ng: !!str 1\nh: -3\ni: |\n  x\n  y\nj: &k [1]\nl: *k\nm: ! x\n";
        let want = json!({"a": 1, "b": 2.5, "c": true, "d": true, "e": null, "f": "1", "g": "1",
            "h": -3, "i": "x\ny\n", "j": [1], "l": [1], "m": "x"});
        assert_eq!(fields(text).map(Value::Object), Ok(want));
    }
}
