//! Comparing what was written with an answer, as the paper's code does.
//!
//! Words are cut as in the Penn Treebank: punctuation, quotes and the parts of contractions stand
//! alone. It follows NLTK's `word_tokenize` but for the end of sentences inside a text, which is
//! here a full stop behind two letters or more, and for joined words such as `gonna`, which stay
//! whole.

use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words that two texts have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overlap {
    pub(super) f1: f64,
    /// Share of the written words that are in the answer.
    pub(super) precision: f64,
    /// Share of the answer's words that were written.
    pub(super) recall: f64,
}

/// Without case and without spaces around it.
pub(super) fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Whether an answer is in a text, both folded.
pub(super) fn contains(text: &str, answer: &str) -> bool {
    folded(text).contains(&folded(answer))
}

/// Overlap of what was written with the answer, as sets of folded words: F1 = 2 p r / (p + r), or
/// with the paper's code (`clamped`) 2 p r / max(1, p + r).
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

/// What is put in place of what, in this order.
const RULES: [(&str, &str); 15] = [
    // Quotes at the beginning of a word, then all others.
    (r#"(^|[ (\[{<])["“]"#, "$1 `` "),
    (r#"["”]"#, " '' "),
    // Commas and colons, but for those in numbers; then those at an end.
    (r"([:,])(\D)", " $1 $2"),
    (r"([:,])$", " $1 "),
    (r"\.{2,}", " $0 "),
    (r"[;@#$%&?!]", " $0 "),
    (r"[\]\[(){}<>]", " $0 "),
    (r"--", " -- "),
    // The full stop at the end.
    (r"([^.])\.([\])}>'’ ]*)$", "$1 . $2 "),
    // The full stop at the end of a sentence inside: behind a word of more than one letter.
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

/// The words of a text.
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
        // Written {a, b, c, d}, answer {b, e}: p = 1/4, r = 1/2.
        let clamped = overlap("A b c d", "b E", true);
        assert_eq!(clamped, Overlap { f1: 0.25, precision: 0.25, recall: 0.5 });
        assert!((overlap("A b c d", "b E", false).f1 - 1.0 / 3.0).abs() < 1e-15);
        // The paper's code and the usual F1 agree once p + r is one or more.
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
