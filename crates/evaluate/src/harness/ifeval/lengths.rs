//! Numbers of sentences, words and paragraphs.

use super::arguments::{Arguments, Relation};
use super::catalogue::Instruction;
use super::python::{is_space, pieces, strip};
use super::sentences::sentences;
use regex::Regex;
use std::sync::LazyLock;

/// The number of sentences is large or small enough.
pub(super) struct Sentences {
    relation: Relation,
    threshold: u64,
}

impl Sentences {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let threshold = arguments.count("num_sentences")?;
        Ok(Self { relation: arguments.relation("relation")?, threshold })
    }
}

impl Instruction for Sentences {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(self.relation.holds(sentences(answer).len(), self.threshold))
    }
}

/// The number of words is large or small enough.
pub(super) struct Words {
    relation: Relation,
    threshold: u64,
}

impl Words {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let threshold = arguments.count("num_words")?;
        Ok(Self { relation: arguments.relation("relation")?, threshold })
    }
}

impl Instruction for Words {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        // With marks and joiners, unlike a word in a keyword: nltk does not use Python's patterns.
        static WORD: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"\w+"));
        Ok(self.relation.holds(WORD.find_iter(answer).count(), self.threshold))
    }
}

/// There is exactly this number of paragraphs, divided by `***`.
pub(super) struct Paragraphs(u64);

impl Paragraphs {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        arguments.count("num_paragraphs").map(Self)
    }
}

impl Instruction for Paragraphs {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        static DIVIDER: LazyLock<Regex> =
            LazyLock::new(|| super::fixed(r"[\s\x1c-\x1f]?\*\*\*[\s\x1c-\x1f]?"));
        let parts: Vec<&str> = DIVIDER.split(answer).collect();
        let mut count = parts.len() as u64;
        for (index, part) in parts.iter().enumerate() {
            if strip(part).is_empty() {
                if index != 0 && index != parts.len() - 1 {
                    return Ok(false);
                }
                count -= 1;
            }
        }
        Ok(count == self.0)
    }
}

/// There is exactly this number of paragraphs, divided by a blank line, and one of them begins with
/// a word.
pub(super) struct FirstWord {
    paragraphs: u64,
    /// Which paragraph, from zero.
    index: usize,
    /// In lower case.
    word: String,
}

impl FirstWord {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let paragraphs = arguments.count("num_paragraphs")?;
        let nth = arguments.count("nth_paragraph")?;
        if nth == 0 || nth > paragraphs {
            return Err(format!("the argument nth_paragraph is {nth}, expected 1 to {paragraphs}"));
        }
        let word = arguments.text("first_word")?.to_lowercase();
        Ok(Self { paragraphs, index: nth as usize - 1, word })
    }
}

impl Instruction for FirstWord {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        let paragraphs: Vec<&str> = answer.split("\n\n").collect();
        let written = paragraphs.iter().filter(|part| !strip(part).is_empty()).count();
        // Blank paragraphs are not counted, but the index is one among all of them.
        let Some(first) = paragraphs.get(self.index).filter(|_| self.index < written) else {
            return Ok(false);
        };
        let Some(first) = pieces(first).next() else { return Ok(false) };
        let first = first.trim_matches(is_space).trim_start_matches('\'').trim_start_matches('"');
        let is_mark = |c: char| ".,?!'\"".contains(c);
        let word: String =
            first.chars().take_while(|c| !is_mark(*c)).flat_map(char::to_lowercase).collect();
        Ok(written as u64 == self.paragraphs && word == self.word)
    }
}
