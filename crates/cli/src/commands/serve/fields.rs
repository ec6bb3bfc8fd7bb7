//! The fields of a request, each read once; unread fields are rejected at the end.

use super::error::ApiError;
use linwright::run::{shown, shown_reason};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The JSON object of a request.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Parses a body.
    ///
    /// # Errors
    /// If it is not JSON, or not an object.
    pub(super) fn of(body: &[u8]) -> Result<Self, ApiError> {
        let value = serde_json::from_slice(body).map_err(|error| {
            ApiError::new(
                400,
                format!("the body is not JSON: {}", shown_reason(&error.to_string())),
            )
        })?;
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(ApiError::field("the body", &other, "an object")),
        }
    }

    /// An optional field; null counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// A required field.
    pub(super) fn required(&mut self, name: &str, expected: &str) -> Result<Value, ApiError> {
        self.take(name).ok_or_else(|| {
            ApiError::new(400, format!("{name} is missing; expected {expected}")).param(name)
        })
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(ApiError::field(name, &other, "true or false")),
        }
    }

    /// A whole number.
    pub(super) fn count(
        &mut self,
        name: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        match count.filter(|count| range.contains(count)) {
            Some(count) => Ok(Some(count)),
            None => {
                let (least, most) = range.into_inner();
                let expected = format!("a whole number from {least} to {most}");
                Err(ApiError::field(name, &value, expected))
            }
        }
    }

    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_f64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = range.into_inner();
                Err(ApiError::field(name, &value, format!("a number from {least} to {most}")))
            }
        }
    }

    /// A field of the API that this server does not support, which must have a neutral value.
    pub(super) fn neutral(
        &mut self,
        name: &str,
        is: impl Fn(&Value) -> bool,
        expected: impl Display,
    ) -> Result<(), ApiError> {
        match self.take(name) {
            Some(value) if !is(&value) => {
                let expected = format!("{expected}, since this server does not support it");
                Err(ApiError::field(name, &value, expected))
            }
            _ => Ok(()),
        }
    }

    /// Rejects unread fields.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.0.into_iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => {
                let short = shown(&name);
                Err(ApiError::new(400, format!("{short} is not a supported field")).param(&short))
            }
            None => Ok(()),
        }
    }
}
