//! The result of one check.

use serde::Serialize;
use serde_json::Value;

/// Status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// No problem.
    Ok,
    /// Absent, but not needed at present.
    Missing,
    /// Present, but it does not work.
    Broken,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Broken => "broken",
        }
    }
}

/// The result of one check, with advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) topic: &'static str,
    pub(super) status: Status,
    /// Description of the result.
    pub(super) found: String,
    /// What the user can do about it.
    pub(super) advice: Option<String>,
    /// The result as JSON.
    pub(super) data: Value,
}

impl Finding {
    pub(super) fn ok(topic: &'static str, found: impl Into<String>, data: Value) -> Self {
        Self { topic, status: Status::Ok, found: found.into(), advice: None, data }
    }

    /// A problem.
    pub(super) fn to_mend(
        status: Status,
        topic: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
        data: Value,
    ) -> Self {
        Self { status, advice: Some(advice.into()), ..Self::ok(topic, found, data) }
    }
}
