//! YAML with the tag `!function` of task files.
//!
//! Values are stored as JSON, which has no tags, so a function is stored as a string that begins
//! with [`FUNCTION`]. The tag may precede a bare or a quoted name, or be on a line of its own. Any
//! other tag is an error: ignoring it would keep the bare value.
//!
//! Files are read as by PyYAML, which the harness uses, where it differs from our parser: of equal
//! keys the last one applies, a quoted scalar may continue at any column and after a tab, numbers
//! that begin with 0 are octal, and a block scalar at the end of the file keeps the line ends of
//! the file.

use linwright_run::{shown, shown_reason};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Tagged};
use std::borrow::Cow;
use std::fmt;

/// Prefix that marks a function in a string value.
pub(super) const FUNCTION: &str = "!function ";
/// Core YAML tags, which change nothing.
const OWN: [&str; 7] = ["str", "int", "float", "bool", "null", "seq", "map"];
/// Prefix of core YAML tags.
const OF_YAML: &str = "tag:yaml.org,2002:";

/// The parser's message for a quoted scalar that continues left of its key, or with a tab. Tabs
/// elsewhere have other messages.
const QUOTED_INDENT: [&str; 2] =
    ["invalid indentation in multiline quoted scalar", "tab cannot be used as indentation"];
/// A letter without a meaning in YAML.
const PROBE: char = '\u{e000}';
/// Largest number of bytes that are parsed until all such scalars are indented.
const MAX_PARSED: usize = 1 << 26;

/// Parses the fields of a file. Errors are the reason only.
pub(super) fn fields(text: &str) -> Result<Map<String, Value>, String> {
    match parse(text).map_err(|error| shown_reason(&reason(&error)))?.0 {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(format!("found {}, expected fields with values", shown(&other.to_string()))),
    }
}

/// Parses a file; lines of quoted scalars that start too far left for the parser are indented,
/// which changes no value, since leading white space of such lines is ignored.
fn parse(text: &str) -> Result<Node, serde_saphyr::Error> {
    let mut text = Cow::Borrowed(text);
    let mut parsed = text.len();
    loop {
        let error = match parse_as_it_is(&text) {
            Ok(node) => return Ok(without_added_line_end(&text, node)),
            Err(error) => error,
        };
        let line = error.location().map_or(0, |place| place.line() as usize);
        let Some((before, rest)) = split_before(&text, line) else { return Err(error) };
        // A line that ends the document does not end a quoted scalar.
        let is_mark = ["---", "..."].iter().any(|mark| {
            rest.strip_prefix(mark)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        });
        let reason = reason(&error);
        let is_quoted = !is_mark && QUOTED_INDENT.iter().any(|words| reason.contains(words));
        parsed = parsed.saturating_add(text.len());
        if !is_quoted || parsed > MAX_PARSED {
            return Err(error);
        }
        let widest = before.lines().map(|line| line.len() - line.trim_start().len()).max();
        let indent = " ".repeat(widest.unwrap_or(0) + 1);
        text = Cow::Owned(format!("{before}{indent}{rest}"));
    }
}

fn parse_as_it_is(text: &str) -> Result<Node, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// The value without the line end that our parser adds to a block scalar whose last line has none
/// in the file. Such a scalar is recognised by appending a letter to the file: only then does the
/// line end follow the letter.
fn without_added_line_end(text: &str, Node(mut value): Node) -> Node {
    let is_candidate = text.contains(['|', '>']) && !text.ends_with(['\n', '\r', '\u{85}']);
    if is_candidate && let Ok(Node(longer)) = parse_as_it_is(&format!("{text}{PROBE}")) {
        cut_line_end(&mut value, &longer);
    }
    Node(value)
}

/// Removes the line end of the string that has an additional letter before it in `longer`.
fn cut_line_end(value: &mut Value, longer: &Value) {
    match (value, longer) {
        (Value::String(text), Value::String(longer)) => {
            if let Some(own) = text.strip_suffix('\n')
                && longer.strip_prefix(own).and_then(|end| end.strip_prefix(PROBE)) == Some("\n")
            {
                text.pop();
            }
        }
        (Value::Array(items), Value::Array(longer)) => {
            items.iter_mut().zip(longer).for_each(|(item, longer)| cut_line_end(item, longer));
        }
        (Value::Object(fields), Value::Object(longer)) => {
            for (name, value) in fields {
                longer.get(name).into_iter().for_each(|longer| cut_line_end(value, longer));
            }
        }
        _ => {}
    }
}

/// The message of an error, without the quoted lines of the file.
fn reason(error: &serde_saphyr::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A text split before one of its lines, counted from one.
fn split_before(text: &str, line: usize) -> Option<(&str, &str)> {
    let lines = text.split_inclusive('\n').take(line.checked_sub(1)?);
    Some(text.split_at(lines.map(str::len).sum()))
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
    fn files_are_judged_as_their_own_program_does() {
        // What PyYAML 6.0.4 reads.
        for (text, want) in [
            ("a: 'x But\n\"y\"]'\nb: 1\n", json!({"a": "x But \"y\"]", "b": 1})),
            ("a: \"x\ny\n\nz\"\n", json!({"a": "x y\nz"})),
            ("a:\n  - 'x\n\n y\nz'\n  - b: \"u\nv\"\n", json!({"a": ["x\ny z", {"b": "u v"}]})),
            ("a: ['x\ny',\n'z']\n", json!({"a": ["x y", "z"]})),
            ("a: 'x\n\ty'\n", json!({"a": "x y"})),
            ("a: \"x\n\t\n \t y\n\tz\"\nb: 1\n", json!({"a": "x\ny z", "b": 1})),
            ("a:\n    - 'x\n  \ty'\n", json!({"a": ["x y"]})),
            ("b: {a: 'x\n\ty'}\n", json!({"b": {"a": "x y"}})),
            ("'a\nb': 1\n", json!(null)),
            ("a: |\n  'x\nb: 'y\nz'\n", json!({"a": "'x\n", "b": "y z"})),
            ("a: 1\na: 2\n", json!({"a": 2})),
            ("a: {b: 1, b: [2]}\na: {b: 1, c: 2, b: 3}\n", json!({"a": {"b": 3, "c": 2}})),
            ("a: 010\nb: 0x1F\nc: .inf\n", json!({"a": 8, "b": 31, "c": null})),
        ] {
            let found = fields(text);
            match want.is_null() {
                true => assert!(found.is_err(), "{text}"),
                false => assert_eq!(found.map(Value::Object), Ok(want), "{text}"),
            }
        }
        for text in
            ["a: 'x\n---\ny'\n", "a: 'x\ny\n", "a:\n\t- b\n", "a: 'x'\n\tb: 1\n", "a: x\n\ty\n"]
        {
            assert!(fields(text).is_err(), "{text}");
        }
        for (text, want) in [
            ("a: |\n  x\n  y", "x\ny"),
            ("a: >\n  x\n  y", "x y"),
            ("a: |+\n  x\n  y", "x\ny"),
            ("a: >+\n  x\n  y", "x y"),
            ("a: |-\n  x", "x"),
            ("a: >-\n  x", "x"),
            ("a: |\n  x\n  ", "x\n"),
            ("a: |\n  x\n   ", "x\n "),
            ("a: |\n  x\n\n", "x\n"),
            ("a: |+\n  x\n ", "x\n"),
            ("a: |+\n  x\n  ", "x\n"),
            ("a: >\n  x\n   y", "x\n y"),
            ("a: |\n  x\n# c", "x\n"),
            ("a: |\n  x\n  # not", "x\n# not"),
            ("a: |\n  x # c", "x # c"),
            ("a: |\r\n  x", "x"),
            ("a: |\n  x\n...", "x\n"),
            ("a: &k |\n  x", "x"),
            ("b: [1]\na: |2\n   x", " x"),
            ("a: |\n  x\n  b   ", "x\nb   "),
            ("a: |", ""),
            ("b: |\n  y\na: x", "x"),
            ("a: \"|\\n\"", "|\n"),
        ] {
            assert_eq!(fields(text).unwrap()["a"], want, "{text:?}");
        }
        let nested = json!({"a": [{"b": "x"}, "y\nz"], "c": {"d": "e\n"}});
        let text = "c:\n  d: |\n    e\na:\n  - b: x\n  - |\n    y\n    z";
        assert_eq!(fields(text).map(Value::Object), Ok(nested));
        let long = format!("a: '{}'\n", "x\n".repeat(300));
        assert_eq!(fields(&long).unwrap()["a"].as_str().unwrap().len(), 600);
    }

    #[test]
    fn plain_values_are_those_of_yaml() {
        let text = "a: 1\nb: 2.5\nc: yes\nd: true\ne: ~\nf: '1'\ng: !!str 1\nh: -3\ni: |\n  x\n  y\nj: &k [1]\nl: *k\nm: ! x\n";
        let want = json!({"a": 1, "b": 2.5, "c": true, "d": true, "e": null, "f": "1", "g": "1",
            "h": -3, "i": "x\ny\n", "j": [1], "l": [1], "m": "x"});
        assert_eq!(fields(text).map(Value::Object), Ok(want));
    }
}
