//! Error responses to clients.

use crate::failure::message_of;
use linwright::model::ModelError;
use linwright::model::tokenizer::TokenizerError;
use linwright::run::shown_message;
use serde_json::{Value, json};

/// Retry-After of a refused client, in seconds.
const RETRY_SECONDS: u32 = 1;

/// An error response in the shape of OpenAI's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    message: String,
    /// The invalid field of the request.
    param: Option<String>,
    code: Option<&'static str>,
    /// Additional headers of the response.
    pub(super) headers: Vec<(&'static str, String)>,
}

impl ApiError {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, headers: Vec::new() }
    }

    /// An invalid field of the request.
    pub(super) fn field(
        name: impl Into<String>,
        found: &Value,
        expected: impl std::fmt::Display,
    ) -> Self {
        let name = name.into();
        let message = format!("{name} is {}; expected {expected}", shown(found));
        Self { param: Some(name), ..Self::new(400, message) }
    }

    /// Sets the invalid field.
    pub(super) fn param(mut self, name: &str) -> Self {
        self.param = Some(name.to_owned());
        self
    }

    pub(super) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(super) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The server is busy.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(503, message).code("overloaded").header("Retry-After", RETRY_SECONDS.to_string())
    }

    /// The server is shutting down.
    pub(super) fn stopping() -> Self {
        Self::new(503, "the server is shutting down").code("shutting_down")
    }

    /// The body of the response.
    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": {
            "message": shown_message(&self.message), "type": kind,
            "param": self.param.as_deref().map(linwright::run::shown), "code": self.code,
        }})
    }
}

impl From<TokenizerError> for ApiError {
    fn from(error: TokenizerError) -> Self {
        Self::new(500, message_of(&error)).code("tokenizer")
    }
}

impl From<ModelError> for ApiError {
    fn from(error: ModelError) -> Self {
        let code = match error {
            ModelError::NonFinite { .. } => "non_finite",
            ModelError::TokenOutOfRange { .. }
            | ModelError::SequenceTooLong { .. }
            | ModelError::EmptySequence { .. }
            | ModelError::TypeOutOfRange { .. }
            | ModelError::LayersOutOfRange { .. }
            | ModelError::HeldInHalf { .. }
            | ModelError::NoTargets
            | ModelError::NoHead => "model",
        };
        Self::new(500, message_of(&error)).code(code)
    }
}

/// A value of a request, shortened for a message.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value {
        Value::Array(list) => format!("a list of {} values", list.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > LONGEST => {
            format!("a string of {} characters", text.chars().count())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
