//! Violations reported by checks.

use std::fmt;

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    /// Location: a file, a file and line, or a package.
    pub(crate) place: String,
    /// What is wrong, what was expected, and what to do.
    pub(crate) what: String,
}

impl Offence {
    /// A violation without a line.
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    /// The output of a failed program as a violation, if it failed.
    pub(crate) fn from_complaint(place: &str, complaint: Option<String>) -> Vec<Self> {
        let offence = |printed: String| Self::new(place, format!("\n{}", printed.trim_end()));
        complaint.map(offence).into_iter().collect()
    }

    /// A violation at a line, counted from one.
    pub(crate) fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), what)
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
