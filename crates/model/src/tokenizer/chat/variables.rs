//! Variables of a chat template in addition to the standard ones.

use super::ChatOptions;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// Standard variables of every chat.
const TAKEN: [&str; 2] = ["messages", "add_generation_prompt"];

/// Variables by name, such as `enable_thinking`; `tools` and `documents` are among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatVariables(Map<String, Value>);

impl ChatVariables {
    /// Variables from an object.
    ///
    /// # Errors
    /// The reason, if one of them is not a variable of the caller.
    pub fn of(variables: Map<String, Value>) -> Result<Self, String> {
        match TAKEN.iter().find(|name| variables.contains_key(**name)) {
            Some(name) => Err(format!("{name} is set by the chat")),
            None => Ok(Self(variables)),
        }
    }

    /// The variables.
    #[must_use]
    pub fn map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// These variables, overridden by those of another object.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn with(&self, others: Map<String, Value>) -> Result<Self, String> {
        let mut all = self.0.clone();
        all.extend(others);
        Self::of(all)
    }

    /// Puts them into the options of a chat.
    pub fn set(&self, options: &mut ChatOptions) {
        for (name, value) in &self.0 {
            match name.as_str() {
                "tools" => options.tools = Some(value.clone()).filter(|value| !value.is_null()),
                "documents" => {
                    options.documents = Some(value.clone()).filter(|value| !value.is_null());
                }
                _ => drop(options.variables.insert(name.clone(), value.clone())),
            }
        }
    }
}

impl fmt::Display for ChatVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::Object(self.0.clone()).fmt(f)
    }
}

impl FromStr for ChatVariables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text) {
            Ok(Value::Object(variables)) => Self::of(variables),
            Ok(_) => Err("expected a JSON object of variables".to_owned()),
            Err(error) => Err(format!("expected a JSON object of variables ({error})")),
        }
    }
}

impl Serialize for ChatVariables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChatVariables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_are_an_object_and_some_are_options() {
        let text = r#"{"enable_thinking": false, "tools": [{"name": "f"}], "documents": null}"#;
        let variables: ChatVariables = text.parse().unwrap();
        assert_eq!(variables.to_string().parse(), Ok(variables.clone()));
        let mut options = ChatOptions::default();
        variables.set(&mut options);
        assert_eq!(options.tools, Some(json!([{"name": "f"}])));
        assert_eq!(options.documents, None);
        assert_eq!(Value::Object(options.variables), json!({"enable_thinking": false}));
        for (text, said) in [
            ("[]", "expected a JSON object"),
            ("{", "expected a JSON object"),
            (r#"{"messages": []}"#, "messages is set by the chat"),
            (r#"{"add_generation_prompt": false}"#, "add_generation_prompt is set by the chat"),
        ] {
            assert!(text.parse::<ChatVariables>().unwrap_err().contains(said), "{text}");
        }
    }
}
