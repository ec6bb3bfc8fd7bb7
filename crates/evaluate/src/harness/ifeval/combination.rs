//! Two responses; the prompt, repeated.

use super::arguments::Arguments;
use super::catalogue::Instruction;
use super::python::strip;

/// Exactly two different responses, divided by six asterisks.
pub(super) struct TwoResponses;

impl TwoResponses {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for TwoResponses {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        let parts: Vec<&str> = answer.split("******").map(strip).collect();
        let inside = parts.get(1..parts.len() - 1).unwrap_or_default();
        let written: Vec<&&str> = parts.iter().filter(|part| !part.is_empty()).collect();
        let are_two = matches!(written.as_slice(), [one, other] if one != other);
        Ok(are_two && inside.iter().all(|part| !part.is_empty()))
    }
}

/// The answer begins with the request, without regard to case.
pub(super) struct RepeatPrompt(String);

impl RepeatPrompt {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self(strip(arguments.text("prompt_to_repeat")?).to_lowercase()))
    }
}

impl Instruction for RepeatPrompt {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(strip(answer).to_lowercase().starts_with(&self.0))
    }
}
