//! Comparison of a generated text with an answer, as in the paper's code.
//!
//! Words are tokenized as in the Penn Treebank: punctuation, quotes and the parts of contractions
//! are separate words. This follows NLTK's `word_tokenize` with two exceptions: a sentence inside a
//! text ends at a full stop after two or more letters, and words such as `gonna` are not split.

use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words common to two texts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overlap {
    pub(super) f1: f64,
    /// Share of the generated words that occur in the answer.
    pub(super) precision: f64,
    /// Share of the answer's words that were generated.
    pub(super) recall: f64,
}

/// Trimmed and in lower case.
pub(super) fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Whether a text contains an answer, both in lower case.
pub(super) fn contains(text: &str, answer: &str) -> bool {
    folded(text).contains(&folded(answer))
}

/// Overlap of a generated text with the answer, as sets of folded words: F1 = 2 p r / (p + r), or
/// as in the paper's code (`clamped`) 2 p r / max(1, p + r).
pub(super) fn overlap(written: &str, answer: &str, clamped: bool) -> Overlap {
    let set = |text: &str| words(&folded(text)).into_iter().collect::<BTreeSet<String>>();
    let (written, answer) = (set(written), set(answer));
    let common = written.intersection(&answer).count() as f64;
    if common == 0.0 {
        return Overlap::default();
    }
    let (precision, recall) = (common / written.len() as f64, common / answer.len() as f64);
    let sum = precision + recall;
    let f1 = 2.0 * precision * recall / if clamped { sum.max(1.0) } else { sum };
    Overlap { f1, precision, recall }
}

/// Patterns and replacements, in the order of application.
const RULES: [(&str, &str); 15] = [
    // Quotes at the start of a word, then all others.
    (r#"(^|[ (\[{<])["“]"#, "$1 `` "),
    (r#"["”]"#, " '' "),
    // Commas and colons, except in numbers; then those at the end of the text.
    (r"([:,])(\D)", " $1 $2"),
    (r"([:,])$", " $1 "),
    (r"\.{2,}", " $0 "),
    (r"[;@#$%&?!]", " $0 "),
    (r"[\]\[(){}<>]", " $0 "),
    (r"--", " -- "),
    // A full stop at the end of the text.
    (r"([^.])\.([\])}>'’ ]*)$", "$1 . $2 "),
    // A full stop at the end of a sentence inside: after a word of more than one letter.
    (r"(\w\w)\.(\s+)", "$1 . $2"),
    (r"([^' ])('ll|'re|'ve|n't) ", "$1 $2 "),
    (r"([^' ])('ll|'re|'ve|n't)$", "$1 $2 "),
    (r"([^' ])('s|'m|'d|') ", "$1 $2 "),
    (r"([^' ])('s|'m|'d|')$", "$1 $2 "),
    (r"\s+", " "),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compile = |(pattern, to): (&str, &'static str)| {
        (Regex::new(pattern).expect("a rule of this file is a regular expression"), to)
    };
    RULES.map(compile).into()
});

/// Words of a text.
fn words(text: &str) -> Vec<String> {
    let mut text = text.to_owned();
    for (pattern, to) in COMPILED.iter() {
        text = pattern.replace_all(&text, *to).into_owned();
    }
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_apart_from_punctuation() {
        for (text, want) in [
            ("greenwich village, new york city", "greenwich village , new york city"),
            ("3,677 seated", "3,677 seated"),
            ("it's a \"test\". he doesn't.", "it 's a `` test '' . he does n't ."),
            ("(one) two: three; 10:30?", "( one ) two : three ; 10:30 ?"),
            ("u.s. army... yes!", "u.s. army ... yes !"),
            ("the dogs' home", "the dogs ' home"),
            ("", ""),
        ] {
            assert_eq!(words(text).join(" "), want, "{text}");
        }
    }

    #[test]
    fn overlaps_by_hand() {
        // Generated {a, b, c, d}, answer {b, e}: p = 1/4, r = 1/2.
        let clamped = overlap("A b c d", "b E", true);
        assert_eq!(clamped, Overlap { f1: 0.25, precision: 0.25, recall: 0.5 });
        assert!((overlap("A b c d", "b E", false).f1 - 1.0 / 3.0).abs() < 1e-15);
        // Both F1 formulas agree if p + r is at least 1.
        assert_eq!(overlap("blue", " Blue ", true), overlap("blue", "Blue", false));
        assert_eq!(overlap("", "a", false), Overlap::default());
        assert_eq!(overlap("x y", "q", true), Overlap::default());
    }

    #[test]
    fn answers_are_found_without_case() {
        assert!(contains("the PARIS of", " Paris "));
        assert!(!contains("the Pari s", "Paris"));
    }
}
