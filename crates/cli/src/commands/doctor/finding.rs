//! One thing that was looked at.

use serde::Serialize;
use serde_json::Value;

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// Not there, and nothing that is asked for now needs it.
    Missing,
    /// What is there does not work.
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

/// One thing, how it stands, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) topic: &'static str,
    pub(super) status: Status,
    /// In words.
    pub(super) found: String,
    /// What to do, where something can be done.
    pub(super) advice: Option<String>,
    /// In numbers and names, for programs.
    pub(super) data: Value,
}

impl Finding {
    pub(super) fn ok(topic: &'static str, found: impl Into<String>, data: Value) -> Self {
        Self { topic, status: Status::Ok, found: found.into(), advice: None, data }
    }

    /// What is not as it should be.
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
