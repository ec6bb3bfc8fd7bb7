//! Filters: extraction of an answer from generated texts.

use super::choice_letter::ChoiceLetter;
use super::description::FilterEntry;
use fancy_regex::{Captures, Regex};
use linwright_data::Fields;
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
    /// Keeps this many answers.
    Take(usize),
    /// Keeps the most frequent answer, of several the first.
    Vote,
    Trim,
    Lower,
    Upper,
    Map {
        table: Map<String, Value>,
        otherwise: Option<String>,
    },
    Find {
        pattern: Regex,
        which: isize,
        otherwise: String,
    },
    Choice(Box<ChoiceLetter>),
}

impl Filter {
    /// The filter chains of a file with this number of answers of each document, or one chain that
    /// takes the first. Errors are the reason only.
    pub(super) fn all(
        entries: Option<&[FilterEntry]>,
        repeats: usize,
    ) -> Result<Vec<Self>, String> {
        let Some(entries) = entries else {
            return Ok(vec![Self { name: "none".into(), steps: vec![Step::TakeFirst] }]);
        };
        let chain = |entry: &FilterEntry| {
            let steps: Vec<Step> = entry.filter.iter().map(step).collect::<Result<_, _>>()?;
            let left = steps.iter().try_fold(repeats, |count, step| step.left(count))?;
            let name = entry.name.clone();
            match left {
                1 => Ok(Self { name, steps }),
                _ => Err(format!(
                    "filter \"{}\" leaves {left} of {repeats} answers of a document; end it with \
                     take_first, or with majority_vote",
                    shown(&name)
                )),
            }
        };
        entries.iter().map(chain).collect()
    }

    /// Extracts the answer from the texts about a document; none without texts. Errors are the
    /// reason only.
    pub(super) fn apply(
        &self,
        texts: Vec<String>,
        document: &Fields,
    ) -> Result<Vec<String>, String> {
        self.steps.iter().try_fold(texts, |texts, step| match step {
            Step::TakeFirst => Ok(texts.into_iter().take(1).collect()),
            Step::Take(count) => Ok(texts.into_iter().take(*count).collect()),
            Step::Vote => Ok(most_frequent(&texts).into_iter().collect()),
            _ => texts.into_iter().map(|text| step.apply(text, document)).collect(),
        })
    }
}

/// The most frequent text, of several the first.
fn most_frequent(texts: &[String]) -> Option<String> {
    let count = |text: &String| texts.iter().filter(|other| *other == text).count();
    // The last of equal ones is taken, so they are counted from the end.
    texts.iter().rev().max_by_key(|text| count(text)).cloned()
}

fn step(entry: &Map<String, Value>) -> Result<Step, String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let function = text("function").ok_or("a filter has no function")?;
    Ok(match function {
        "take_first" => Step::TakeFirst,
        "take_first_k" => {
            let count = entry.get("k").and_then(Value::as_u64).filter(|&count| count > 0);
            Step::Take(count.ok_or("filter take_first_k needs a number k above 0")? as usize)
        }
        "majority_vote" => Step::Vote,
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
        "regex" | "multi_choice_regex" => {
            let pattern = text("regex_pattern").unwrap_or(r"#### (\-?[0-9\.\,]+)");
            let which = entry.get("group_select").and_then(Value::as_i64).unwrap_or(0) as isize;
            let pattern = pattern_of("regex_pattern", pattern)?;
            let otherwise = text("fallback").unwrap_or("[invalid]").to_owned();
            match function {
                "regex" => Step::Find { pattern, which, otherwise },
                _ => {
                    let choice = ChoiceLetter::new(entry, pattern, which, otherwise)?;
                    Step::Choice(Box::new(choice))
                }
            }
        }
        other => {
            return Err(format!(
                "filter function \"{}\" is unknown; known are take_first, take_first_k, \
                 majority_vote, regex, multi_choice_regex, remove_whitespace, lowercase, \
                 uppercase and map",
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
    /// Number of answers that it leaves of this many. Errors are the reason only.
    fn left(&self, count: usize) -> Result<usize, String> {
        match self {
            Self::TakeFirst | Self::Vote => Ok(1),
            Self::Take(wanted) if *wanted > count => Err(format!(
                "filter take_first_k takes {wanted} answers of each document, and there are \
                 {count}; raise repeats"
            )),
            Self::Take(wanted) => Ok(*wanted),
            _ => Ok(count),
        }
    }

    /// The answer in one text.
    fn apply(&self, text: String, document: &Fields) -> Result<String, String> {
        Ok(match self {
            Self::TakeFirst | Self::Take(_) | Self::Vote => text,
            Self::Choice(choice) => choice.find(&text, document)?,
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
pub(super) fn found(pattern: &Regex, text: &str, which: isize) -> Result<Option<String>, String> {
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
        Filter::all(Some(&[entry]), 1).map(|mut filters| filters.remove(0))
    }

    impl Filter {
        /// The answer in one text.
        fn of(&self, text: &str) -> Result<String, String> {
            self.apply(vec![text.to_owned()], &Fields::new()).map(|mut texts| texts.remove(0))
        }
    }

    #[test]
    fn chains_apply_in_order() {
        let last = json!([
            {"function": "regex", "regex_pattern": "is (?:([A-D])|\\((\\d)\\))", "group_select": -1},
            {"function": "lowercase"}, {"function": "take_first"},
        ]);
        let last = filter(last).unwrap();
        assert_eq!(last.of("it is A, it is C.").unwrap(), "c");
        assert_eq!(last.of("it is (3)").unwrap(), "3");
        assert_eq!(last.of("no").unwrap(), "[invalid]");
        let mapped = filter(json!([
            {"function": "remove_whitespace"},
            {"function": "map", "mapping_dict": {"one": "1"}, "default_value": "?"},
        ]));
        let mapped = mapped.unwrap();
        let both = [" one\n", "two"].map(|text| mapped.of(text).unwrap());
        assert_eq!(both, ["1", "?"]);
        assert_eq!(Filter::all(None, 1).unwrap()[0].of(" a ").unwrap(), " a ");
    }

    #[test]
    fn patterns_may_look_around_as_in_python() {
        let of = |pattern: &str| {
            filter(json!([{"function": "regex", "regex_pattern": pattern}])).unwrap()
        };
        // Of the prompts with chains of thought of MMLU and BBH, and of the Turkish MMLU.
        let answer = of("(?<=the answer is )(.*)(?=.)");
        assert_eq!(answer.of("So the answer is (B).").unwrap(), "(B)");
        assert_eq!(answer.of("So it is (B).").unwrap(), "[invalid]");
        assert_eq!(of("([A-E])(?= şıkkıdır| şıkkı)").of("Yanıt C şıkkıdır").unwrap(), "C");
        // A search without end is an error, not "no match".
        let error = of(r"^(?:(a+)\1?)+$").of(&("a".repeat(64) + "c")).unwrap_err();
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

    #[test]
    fn of_several_answers_one_is_left() {
        let chain = |steps: Value, repeats| {
            let entry = serde_json::from_value(json!({"name": "f", "filter": steps})).unwrap();
            Filter::all(Some(&[entry]), repeats).map(|mut filters| filters.remove(0))
        };
        let first = json!({"function": "take_first"});
        let few = json!({"function": "take_first_k", "k": 2});
        let number = json!({"function": "regex", "regex_pattern": "([0-9]+)"});
        let vote = json!({"function": "majority_vote"});
        let texts = ["is 7", "is 8", "or 8", "or 7", "no"].map(str::to_owned).to_vec();
        for (steps, want) in [
            (json!([number, first]), "7"),
            (json!([number, vote, first]), "7"),
            (json!([few, number, vote]), "7"),
            (json!([vote]), "is 7"),
        ] {
            let found = chain(steps, 5).unwrap().apply(texts.clone(), &Fields::new()).unwrap();
            assert_eq!(found, [want]);
        }
        let most = chain(json!([number, vote]), 5).unwrap();
        let texts = ["1", "2", "3", "2", "1", "2"].map(str::to_owned).to_vec();
        assert_eq!(most.apply(texts, &Fields::new()).unwrap(), ["2"]);
        assert_eq!(most.apply(Vec::new(), &Fields::new()).unwrap(), [""; 0]);
        for (steps, want) in [
            (json!([number]), "leaves 5 of 5 answers"),
            (json!([few]), "leaves 2 of 5 answers"),
            (json!([{"function": "take_first_k", "k": 6}]), "takes 6 answers of each document"),
            (json!([{"function": "take_first_k"}]), "needs a number k above 0"),
        ] {
            let error = chain(steps, 5).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
