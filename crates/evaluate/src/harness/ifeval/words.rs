//! Words of an English sentence, by the conventions of the Penn Treebank as nltk has them.
//!
//! Marks are words of their own, a stop only at the end; clitics (`'s`, `n't`) and fused words
//! (`cannot`) are divided. Only words with letters matter to the checks, so quotation marks keep
//! their form here, and a single one at the beginning of a word is not divided from it.

use super::python::{is_space, pieces};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Marks that are words of their own wherever they are.
const MARKS: &str = "\u{ab}\u{bb}\u{2018}\u{2019}\u{201c}\u{201d}\u{201e}`\";@#$%&?!*[](){}<>\
                     \u{2012}\u{2013}\u{2014}\u{2015}";

/// Divisions inside words, in this order: a pattern, and where a space goes.
static DIVISIONS: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    [
        // A trailing apostrophe, and clitics before a space.
        (super::fixed(r"([^' ])('[sSmMdD]|') "), "$1 $2 "),
        (super::fixed(r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) "), "$1 $2 "),
        (super::fixed(r"(?i)\b(can|gim|gon|got|lem)(not|me|na|ta)\b|\b(d|more)('ye|'n)\b"), ""),
        (super::fixed(r"(?i)\b(wan)(na)(\s)"), " $1 $2 $3"),
    ]
});

/// The words of a sentence.
pub(super) fn words(sentence: &str) -> Vec<String> {
    let mut text = divided(&final_stop(sentence));
    text = format!(" {} ", pieces(&text).collect::<Vec<_>>().join(" "));
    let [apostrophe, clitic, fused, wanna] = &*DIVISIONS;
    for (pattern, with) in [apostrophe, clitic] {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    text = fused.0.replace_all(&text, fused_word).into_owned();
    text = wanna.0.replace_all(&text, wanna.1).into_owned();
    pieces(&text).map(str::to_owned).collect()
}

/// A fused word as two words.
fn fused_word(found: &Captures<'_>) -> String {
    const FUSED: [&str; 7] = ["cannot", "gimme", "gonna", "gotta", "lemme", "d'ye", "more'n"];
    let part = |one: usize, other: usize| {
        found.get(one).or(found.get(other)).map_or("", |part| part.as_str())
    };
    match FUSED.contains(&found[0].to_lowercase().as_str()) {
        true => format!(" {} {} ", part(1, 3), part(2, 4)),
        false => found[0].to_owned(),
    }
}

/// Divides the stop at the end of a sentence, also before closing marks, from its word.
fn final_stop(sentence: &str) -> String {
    static STOP: LazyLock<Regex> =
        LazyLock::new(|| super::fixed("([^.])\\.([\\])}>\"' \u{bb}\u{201d}\u{2019}]*)\\s*$"));
    STOP.replace(sentence, "$1 . $2").into_owned()
}

/// Puts spaces around marks.
fn divided(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_double = matches!(c, '.' | '-' | '\'') && chars.peek() == Some(&c);
        let is_digit_next = chars.peek().is_some_and(|next| next.is_numeric());
        if is_double {
            out.extend([' ', c]);
            let all = c == '.';
            while chars.next_if_eq(&c).is_some() {
                out.push(c);
                if !all {
                    break;
                }
            }
            out.push(' ');
        } else if MARKS.contains(c) || (matches!(c, ':' | ',') && !is_digit_next) {
            out.extend([' ', c, ' ']);
        } else if c == '\'' && chars.peek().is_some_and(|next| is_space(*next)) {
            out.extend([' ', c]);
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_divided() {
        for (sentence, want) in [
            ("HE DIDN'T GO.", "HE DID N'T GO ."),
            ("It's NASA's (U.S.) plan", "It 's NASA 's ( U.S. ) plan"),
            ("I CANNOT WANNA go", "I CAN NOT WAN NA go"),
            ("A,B 1,000 C:D 5:30", "A , B 1,000 C : D 5:30"),
            ("WAIT...GO--NOW", "WAIT ... GO -- NOW"),
            ("a \"B\" 'C' D!", "a \" B \" 'C ' D !"),
            ("THE DOGS' BONE", "THE DOGS ' BONE"),
            ("FOO_BAR A/B X-RAY", "FOO_BAR A/B X-RAY"),
            ("They'll we'Ve", "They 'll we'Ve"),
            ("DON\u{2019}T", "DON \u{2019} T"),
        ] {
            assert_eq!(words(sentence).join(" "), want, "{sentence}");
        }
    }
}
