//! The letter of the choice that a generated text names: the filter `multi_choice_regex` of
//! lm-evaluation-harness.
//!
//! A text is searched for a pattern, then for the text of a choice of the document, then for a
//! colon with a letter behind it. The last two give `(A)`, `(B)` and so on. Choices are the items
//! of the document's field `choices`, or the keys of an object, as in Python.

use super::filter::{found, pattern_of};
use fancy_regex::Regex;
use linwright_data::Fields;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The filter with its options.
#[derive(Clone, Debug)]
pub(super) struct ChoiceLetter {
    pub(super) pattern: Regex,
    pub(super) which: isize,
    pub(super) otherwise: String,
    ignore_case: bool,
    ignore_punctuation: bool,
    ignored: Vec<Regex>,
}

static PUNCTUATION: LazyLock<regex::Regex> =
    LazyLock::new(|| regex::Regex::new(r"\p{P}").expect("a pattern of this file"));

impl ChoiceLetter {
    /// Options of the filter, besides those of `regex`. Errors are the reason only.
    pub(super) fn new(
        entry: &Map<String, Value>,
        pattern: Regex,
        which: isize,
        otherwise: String,
    ) -> Result<Self, String> {
        let is_set = |name: &str| entry.get(name).and_then(Value::as_bool) == Some(true);
        let field = "regexes_to_ignore";
        let ignored = match entry.get(field) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(patterns)) => patterns
                .iter()
                .map(|one| match one.as_str() {
                    Some(one) => pattern_of(field, one),
                    None => Err(format!("{field} has {one}, expected a pattern")),
                })
                .collect::<Result<_, _>>()?,
            Some(other) => return Err(format!("{field} is {other}, expected a list of patterns")),
        };
        let (ignore_case, ignore_punctuation) =
            (is_set("ignore_case"), is_set("ignore_punctuation"));
        Ok(Self { pattern, which, otherwise, ignore_case, ignore_punctuation, ignored })
    }

    /// The answer in a text about a document. Errors are the reason only.
    pub(super) fn find(&self, text: &str, document: &Fields) -> Result<String, String> {
        let by_pattern = |pattern: &Regex, text: &str| -> Result<Option<String>, String> {
            Ok(found(pattern, text, self.which)?.filter(|found| !found.is_empty()))
        };
        if let Some(found) = by_pattern(&self.pattern, text)? {
            return Ok(found);
        }
        let choices = choices(document)?;
        let plain: Vec<String> =
            choices.iter().map(|choice| self.plain(choice.trim())).collect::<Result<_, _>>()?;
        if let Some(found) = by_pattern(&one_of(&plain, ""), &self.plain(text)?)? {
            // Of equal choices the last one, as in a dictionary.
            let choice = plain.iter().rposition(|choice| *choice == found);
            return Ok(choice.map_or(found, letter));
        }
        let letters: Vec<String> =
            (0..choices.len()).map(|index| letter(index)[1..2].into()).collect();
        if let Some(found) = by_pattern(&one_of(&letters, r":\s*"), text)? {
            return Ok(format!("({found})"));
        }
        Ok(self.otherwise.clone())
    }

    /// A text without what is ignored.
    fn plain(&self, text: &str) -> Result<String, String> {
        let mut text = text.to_owned();
        for pattern in &self.ignored {
            let rest = pattern.try_replacen(&text, 0, "");
            text = rest.map_err(|error| format!("regexes_to_ignore: {error}"))?.into_owned();
        }
        if self.ignore_case {
            text = text.to_lowercase();
        }
        if self.ignore_punctuation {
            text = PUNCTUATION.replace_all(&text, "").into_owned();
        }
        Ok(text)
    }
}

/// The name of a choice: `(A)`.
fn letter(index: usize) -> String {
    // At most 26, which `choices` checks.
    format!("({})", char::from(b'A' + index as u8))
}

/// A pattern for one of these texts behind a pattern, the longest first.
fn one_of(texts: &[String], behind: &str) -> Regex {
    let mut texts: Vec<String> =
        texts.iter().map(|text| fancy_regex::escape(text).into_owned()).collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.chars().count()));
    Regex::new(&format!("{behind}({})", texts.join("|"))).expect("escaped texts are a pattern")
}

fn choices(document: &Fields) -> Result<Vec<String>, String> {
    let choices: Option<Vec<String>> = match document.get("choices") {
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        }
        Some(Value::Object(fields)) => Some(fields.keys().cloned().collect()),
        _ => None,
    };
    let choices = choices.filter(|choices| choices.len() <= 26);
    choices
        .ok_or_else(|| "multi_choice_regex needs a field choices with at most 26 texts".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn letters_are_those_of_the_harness() {
        let document = json!({"choices": ["Guilty", "Guilty of Romance", "the sea."]});
        let document = document.as_object().unwrap();
        let options = json!({"ignore_case": true, "ignore_punctuation": true});
        let pattern = Regex::new(r"(\([A-Z]\))").unwrap();
        let of = |which| {
            let options = options.as_object().unwrap();
            ChoiceLetter::new(options, pattern.clone(), which, "[invalid]".into()).unwrap()
        };
        // lm_eval 0.4.13: MultiChoiceRegexFilter with these options.
        for (text, first, last) in [
            ("(B) rather than (C)", "(B)", "(C)"),
            ("It is guilty of romance, or guilty.", "(B)", "(A)"),
            ("THE SEA", "(C)", "(C)"),
            ("so the answer: B", "(B)", "(B)"),
            ("none", "[invalid]", "[invalid]"),
            ("", "[invalid]", "[invalid]"),
        ] {
            assert_eq!(of(0).find(text, document).unwrap(), first, "{text}");
            assert_eq!(of(-1).find(text, document).unwrap(), last, "{text}");
        }
        let error = of(0).find("x", &Fields::new()).unwrap_err();
        assert!(error.contains("a field choices"), "{error}");
    }
}
