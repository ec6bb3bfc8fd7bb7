//! Filters: extraction of an answer from a generated text.

use super::description::FilterEntry;
use fancy_regex::{Captures, Regex};
use linwright_run::shown;
use serde_json::{Map, Value};

/// A named chain of steps.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) name: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    TakeFirst,
    Trim,
    Lower,
    Upper,
    Map { table: Map<String, Value>, otherwise: Option<String> },
    Find { pattern: Regex, which: isize, otherwise: String },
}

impl Filter {
    /// The filter chains of a file, or one empty chain. Errors are the reason only.
    pub(super) fn all(entries: Option<&[FilterEntry]>) -> Result<Vec<Self>, String> {
        let Some(entries) = entries else {
            return Ok(vec![Self { name: "none".into(), steps: Vec::new() }]);
        };
        let chain = |entry: &FilterEntry| {
            let steps = entry.filter.iter().map(step).collect::<Result<_, _>>()?;
            Ok(Self { name: entry.name.clone(), steps })
        };
        entries.iter().map(chain).collect()
    }

    /// Extracts the answer from a text. Errors are the reason only.
    pub(super) fn apply(&self, text: &str) -> Result<String, String> {
        self.steps.iter().try_fold(text.to_owned(), |text, step| step.apply(text))
    }
}

fn step(entry: &Map<String, Value>) -> Result<Step, String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let function = text("function").ok_or("a filter has no function")?;
    Ok(match function {
        "take_first" => Step::TakeFirst,
        "remove_whitespace" => Step::Trim,
        "lowercase" => Step::Lower,
        "uppercase" => Step::Upper,
        "map" => {
            let table = entry.get("mapping_dict").and_then(Value::as_object);
            Step::Map {
                table: table.cloned().ok_or("filter map needs a mapping_dict")?,
                otherwise: text("default_value").map(str::to_owned),
            }
        }
        "regex" => {
            let pattern = text("regex_pattern").unwrap_or(r"#### (\-?[0-9\.\,]+)");
            let which = entry.get("group_select").and_then(Value::as_i64).unwrap_or(0);
            Step::Find {
                pattern: pattern_of("regex_pattern", pattern)?,
                which: which as isize,
                otherwise: text("fallback").unwrap_or("[invalid]").to_owned(),
            }
        }
        other => {
            return Err(format!(
                "filter function \"{}\" is unknown; known are take_first, regex, \
                 remove_whitespace, lowercase, uppercase and map",
                shown(other)
            ));
        }
    })
}

/// A pattern of Python's `re`, look-around included. Errors are the reason only.
pub(super) fn pattern_of(field: &str, pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("{field} \"{}\": {error}", shown(pattern)))
}

impl Step {
    fn apply(&self, text: String) -> Result<String, String> {
        Ok(match self {
            Self::TakeFirst => text,
            Self::Trim => text.trim().to_owned(),
            Self::Lower => text.to_lowercase(),
            Self::Upper => text.to_uppercase(),
            Self::Map { table, otherwise } => match table.get(&text) {
                Some(Value::String(other)) => other.clone(),
                Some(other) => other.to_string(),
                None => otherwise.clone().unwrap_or(text),
            },
            Self::Find { pattern, which, otherwise } => {
                found(pattern, &text, *which)?.unwrap_or_else(|| otherwise.clone())
            }
        })
    }
}

/// The match with this index, from the end if negative: its first non-empty group, or the whole
/// match if the pattern has no groups. A search that takes too many steps is an error.
fn found(pattern: &Regex, text: &str, which: isize) -> Result<Option<String>, String> {
    let matches: Result<Vec<Captures<'_>>, _> = pattern.captures_iter(text).collect();
    let matches =
        matches.map_err(|error| format!("the pattern \"{}\": {error}", shown(pattern.as_str())))?;
    Ok(matched(&matches, which))
}

fn matched(matches: &[Captures<'_>], which: isize) -> Option<String> {
    let index = if which < 0 { matches.len().checked_add_signed(which)? } else { which as usize };
    let captures = matches.get(index)?;
    let part = if captures.len() == 1 {
        captures.get(0)
    } else {
        captures.iter().skip(1).flatten().find(|group| !group.as_str().is_empty())
    };
    // A single group may be empty; of several, one must be non-empty.
    match part {
        Some(part) => Some(part.as_str().trim().to_owned()),
        None => (captures.len() == 2).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filter(steps: Value) -> Result<Filter, String> {
        let entry: FilterEntry =
            serde_json::from_value(json!({"name": "f", "filter": steps})).unwrap();
        Filter::all(Some(&[entry])).map(|mut filters| filters.remove(0))
    }

    #[test]
    fn chains_apply_in_order() {
        let last = json!([
            {"function": "regex", "regex_pattern": "is (?:([A-D])|\\((\\d)\\))", "group_select": -1},
            {"function": "lowercase"}, {"function": "take_first"},
        ]);
        let last = filter(last).unwrap();
        assert_eq!(last.apply("it is A, it is C.").unwrap(), "c");
        assert_eq!(last.apply("it is (3)").unwrap(), "3");
        assert_eq!(last.apply("no").unwrap(), "[invalid]");
        let mapped = filter(json!([
            {"function": "remove_whitespace"},
            {"function": "map", "mapping_dict": {"one": "1"}, "default_value": "?"},
        ]));
        let mapped = mapped.unwrap();
        let both = [" one\n", "two"].map(|text| mapped.apply(text).unwrap());
        assert_eq!(both, ["1", "?"]);
        assert_eq!(Filter::all(None).unwrap()[0].apply(" a ").unwrap(), " a ");
    }

    #[test]
    fn patterns_may_look_around_as_in_python() {
        let of = |pattern: &str| {
            filter(json!([{"function": "regex", "regex_pattern": pattern}])).unwrap()
        };
        // Of the prompts with chains of thought of MMLU and BBH, and of the Turkish MMLU.
        let answer = of("(?<=the answer is )(.*)(?=.)");
        assert_eq!(answer.apply("So the answer is (B).").unwrap(), "(B)");
        assert_eq!(answer.apply("So it is (B).").unwrap(), "[invalid]");
        assert_eq!(of("([A-E])(?= şıkkıdır| şıkkı)").apply("Yanıt C şıkkıdır").unwrap(), "C");
        // A search without end is an error, not "no match".
        let error = of(r"^(?:(a+)\1?)+$").apply(&("a".repeat(64) + "c")).unwrap_err();
        assert!(error.contains("pattern"), "{error}");
    }

    #[test]
    fn unknown_steps_are_refused() {
        for (steps, want) in [
            (json!([{"function": "eval"}]), "take_first"),
            (json!([{"name": "x"}]), "has no function"),
            (json!([{"function": "regex", "regex_pattern": "("}]), "regex_pattern"),
            (json!([{"function": "map"}]), "mapping_dict"),
        ] {
            let error = filter(steps).unwrap_err();
            assert!(error.contains(want), "{error:?} lacks {want:?}");
        }
    }
}
