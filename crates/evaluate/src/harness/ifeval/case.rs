//! Capital and lower-case letters.

use super::arguments::{Arguments, Relation};
use super::catalogue::Instruction;
use super::language::may_be;
use super::python::{is_lower, is_upper};
use super::sentences::sentences;
use super::words::words;

/// The number of words in capital letters is large or small enough.
pub(super) struct CapitalWords {
    relation: Relation,
    threshold: u64,
}

impl CapitalWords {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let threshold = arguments.count("capital_frequency")?;
        Ok(Self { relation: arguments.relation("capital_relation")?, threshold })
    }
}

impl Instruction for CapitalWords {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        let words = sentences(answer).into_iter().flat_map(words);
        let found = words.filter(|word| is_upper(word)).count();
        Ok(self.relation.holds(found, self.threshold))
    }
}

/// The answer is English, in capital letters.
pub(super) struct AllCapital;

impl AllCapital {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for AllCapital {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(is_upper(answer) && may_be(answer, "en")?)
    }
}

/// The answer is English, in lower-case letters.
pub(super) struct AllLower;

impl AllLower {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for AllLower {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(is_lower(answer) && may_be(answer, "en")?)
    }
}
