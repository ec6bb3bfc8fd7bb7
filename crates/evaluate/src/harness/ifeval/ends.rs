//! Beginning and end of an answer, and its punctuation.

use super::arguments::Arguments;
use super::catalogue::Instruction;
use super::python::strip;

/// The answer ends with a phrase, without regard to case and to quotation marks around it.
pub(super) struct EndPhrase(String);

impl EndPhrase {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self(strip(&strip(arguments.text("end_phrase")?).to_lowercase()).to_owned()))
    }
}

impl Instruction for EndPhrase {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(strip(answer).trim_matches('"').to_lowercase().ends_with(&self.0))
    }
}

/// The answer is in double quotation marks.
pub(super) struct Quotation;

impl Quotation {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for Quotation {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        let answer = strip(answer);
        Ok(answer.len() > 1 && answer.starts_with('"') && answer.ends_with('"'))
    }
}

/// There is no comma.
pub(super) struct NoComma;

impl NoComma {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for NoComma {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(!answer.contains(','))
    }
}
