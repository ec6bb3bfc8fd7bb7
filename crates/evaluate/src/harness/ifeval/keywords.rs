//! Keywords and letters.

use super::arguments::{Arguments, Relation};
use super::catalogue::Instruction;
use super::pattern::{compiled, count, occurs};
use super::python::strip;
use fancy_regex::Regex;

/// Every keyword occurs. Keywords are patterns, without regard to case.
pub(super) struct Existence(Vec<Regex>);

impl Existence {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let words = arguments.texts("keywords")?;
        words.iter().map(|word| compiled(word, true, false)).collect::<Result<_, _>>().map(Self)
    }
}

impl Instruction for Existence {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        for pattern in &self.0 {
            if !occurs(pattern, answer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A keyword occurs often or seldom enough.
pub(super) struct Frequency {
    pattern: Regex,
    relation: Relation,
    threshold: u64,
}

impl Frequency {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self {
            pattern: compiled(strip(arguments.text("keyword")?), true, false)?,
            relation: arguments.relation("relation")?,
            threshold: arguments.count("frequency")?,
        })
    }
}

impl Instruction for Frequency {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(self.relation.holds(count(&self.pattern, answer)?, self.threshold))
    }
}

/// None of the words occurs as a word.
pub(super) struct Forbidden(Vec<Regex>);

impl Forbidden {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let words = arguments.texts("forbidden_words")?;
        let pattern = |word: &&str| compiled(&format!(r"\b{word}\b"), true, false);
        words.iter().map(pattern).collect::<Result<_, _>>().map(Self)
    }
}

impl Instruction for Forbidden {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        for pattern in &self.0 {
            if occurs(pattern, answer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A letter occurs often or seldom enough, in either case.
pub(super) struct LetterFrequency {
    /// In lower case.
    letter: String,
    relation: Relation,
    threshold: u64,
}

impl LetterFrequency {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let letter = arguments.text("letter")?;
        if letter.chars().nth(1).is_some() {
            let letter = linwright_run::shown(letter);
            return Err(format!("the argument letter is \"{letter}\", expected one character"));
        }
        Ok(Self {
            letter: letter.to_lowercase(),
            relation: arguments.relation("let_relation")?,
            threshold: arguments.count("let_frequency")?,
        })
    }
}

impl Instruction for LetterFrequency {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        let found = answer.to_lowercase().matches(&self.letter).count();
        Ok(self.relation.holds(found, self.threshold))
    }
}
