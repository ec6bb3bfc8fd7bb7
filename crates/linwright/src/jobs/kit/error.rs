//! What can be wrong with the options of a job.

/// Options that contradict each other, or a value that is none of theirs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", option.as_ref().map_or_else(String::new, |option| format!("{option} ")))]
pub struct JobError {
    /// Key of the option, where one alone is wrong.
    pub option: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl JobError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { option: None, message: message.into(), hint: None }
    }

    /// An error of one option; the message continues its name.
    pub(crate) fn of(option: &str, message: impl Into<String>) -> Self {
        Self { option: Some(option.to_owned()), ..Self::new(message) }
    }

    /// The error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
