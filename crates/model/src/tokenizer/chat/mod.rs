//! Chat templates: from messages to the prompt format of a model.
//!
//! A template is Jinja, in the dialect and with the variables of transformers: blocks are trimmed;
//! `messages`, `tools`, `documents`, `add_generation_prompt` and the special tokens by role are
//! defined, and so are `raise_exception`, `tojson` and the methods of Python's strings, lists and
//! dictionaries. Templates come with checkpoints and are not trusted: they cannot access files, and
//! their steps ([`MAX_STEPS`]), output and memory are limited ([`crate::template`]).

mod date;
mod environment;
mod json;
#[cfg(test)]
mod tests;
mod variables;

pub use date::Date;
pub use variables::ChatVariables;

use super::files::{CHAT_JINJA, CHAT_JSON, Files, malformed, shown};
use super::settings::TokenizerSettings;
use super::{Tokenizer, TokenizerError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Largest number of steps of a template; long chats with tools need some ten thousand.
pub const MAX_STEPS: u64 = 2_000_000;
/// Largest template in bytes.
const LARGEST: usize = 1 << 20;

/// Name of the default template.
const DEFAULT: &str = "default";
/// Name of the template for chats with tools.
const TOOL_USE: &str = "tool_use";

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Role: "system", "user", "assistant", "tool", or another that the template knows.
    pub role: String,
    /// Content: a string, or any other value that the template accepts.
    #[serde(default)]
    pub content: Value,
    /// Further fields, such as `tool_calls`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Message {
    /// A message with text content.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Value::String(content.into()), fields: Map::new() }
    }

    /// The message as passed to a template: without null fields, and with its reasoning under the
    /// names that templates use.
    fn plain(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("role".into(), json!(self.role));
        fields.insert("content".into(), self.content.clone());
        fields.extend(self.fields.clone());
        fields.retain(|_, value| !value.is_null());
        let names = ["reasoning_content", "thinking", "reasoning"];
        if let Some(reasoning) = names.iter().find_map(|name| fields.get(*name)).cloned() {
            fields.entry("thinking").or_insert_with(|| reasoning.clone());
            fields.insert("reasoning_content".into(), reasoning);
        }
        Value::Object(fields)
    }
}

/// Variables of a template besides the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatOptions {
    /// Whether to append the start of the assistant's answer.
    pub add_generation_prompt: bool,
    /// Name of the template; by default the tool template if there are tools, else the default one.
    pub template: Option<String>,
    /// A list of tools, each a JSON schema.
    pub tools: Option<Value>,
    /// A list of documents, each an object with a title and a text.
    pub documents: Option<Value>,
    /// The date that a template gets from `strftime_now`, with its time of day; the clock's in UTC
    /// if it is none.
    pub date: Option<Date>,
    /// Further variables, which override those of the tokenizer.
    pub variables: Map<String, Value>,
}

/// The function of templates for dates.
const DATES: &str = "strftime_now";

/// The templates of a tokenizer and the special tokens that they use.
#[derive(Clone, Debug, Default)]
pub(super) struct Templates {
    path: PathBuf,
    named: Vec<(String, String)>,
    /// Special tokens by role.
    tokens: Map<String, Value>,
    /// What is wrong with the files of the templates, for those who ask for one.
    fault: Option<TokenizerError>,
}

impl Templates {
    /// Reads templates: `chat_template.jinja` alone if it exists, else those of the settings, else
    /// `chat_template.json`. `tokens` are special tokens by role. What is wrong with them is an
    /// error where one is used.
    pub(super) fn read(
        files: &Files<'_>,
        settings: &TokenizerSettings,
        tokens: Map<String, Value>,
    ) -> Self {
        let path = files.path(CHAT_JINJA);
        let mut found = Self { path, named: Vec::new(), tokens, fault: None };
        found.fault = found.fill(files, settings).err();
        found
    }

    fn fill(
        &mut self,
        files: &Files<'_>,
        settings: &TokenizerSettings,
    ) -> Result<(), TokenizerError> {
        if let Some(text) = files.text(CHAT_JINJA)? {
            return self.add(DEFAULT, text);
        }
        settings.path().clone_into(&mut self.path);
        let null = Value::Null;
        self.add_field(settings.get("chat_template").unwrap_or(&null))?;
        if self.named.is_empty()
            && let Some(object) = files.object(CHAT_JSON)?
        {
            self.path = files.path(CHAT_JSON);
            self.add_field(object.get("chat_template").unwrap_or(&null))?;
        }
        Ok(())
    }

    /// A field with one template, or with a list of named ones.
    fn add_field(&mut self, field: &Value) -> Result<(), TokenizerError> {
        let path = self.path.clone();
        let wrong = |found: &Value| {
            let expected = "a template, or a list of objects with name and template";
            malformed(&path, "chat_template".into(), shown(found), expected)
        };
        match field {
            Value::Null => Ok(()),
            Value::String(text) => self.add(DEFAULT, text),
            Value::Array(named) => named.iter().try_for_each(|one| {
                match (one["name"].as_str(), one["template"].as_str()) {
                    (Some(name), Some(text)) => self.add(name, text),
                    _ => Err(wrong(one)),
                }
            }),
            Value::Object(named) => named.iter().try_for_each(|(name, text)| match text.as_str() {
                Some(text) => self.add(name, text),
                None => Err(wrong(text)),
            }),
            other => Err(wrong(other)),
        }
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), TokenizerError> {
        if text.len() > LARGEST {
            let found = format!("{} bytes", text.len());
            let place = format!("chat template {name:?}");
            return Err(malformed(&self.path, place, found, format!("at most {LARGEST}")));
        }
        self.named.push((name.to_owned(), text.to_owned()));
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.named.iter().find(|(other, _)| other == name).map(|(_, text)| text.as_str())
    }

    fn render(
        &self,
        messages: &[Message],
        options: &ChatOptions,
    ) -> Result<String, TokenizerError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let name = match &options.template {
            Some(name) => name.as_str(),
            None if options.tools.is_some() && self.get(TOOL_USE).is_some() => TOOL_USE,
            None => DEFAULT,
        };
        let known = || match self.named.len() {
            0 => "none".to_owned(),
            _ => self.named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
        };
        let text = self.get(name).ok_or_else(|| TokenizerError::NoTemplate {
            path: self.path.clone(),
            name: name.to_owned(),
            known: known(),
        })?;
        let failed = |line: usize, reason: String| TokenizerError::Template {
            path: self.path.clone(),
            name: name.to_owned(),
            line,
            reason,
        };
        if messages.is_empty() {
            return Err(failed(0, "a chat without messages; give at least one".into()));
        }
        let mut variables = self.tokens.clone();
        variables.extend(options.variables.clone());
        variables.insert("messages".into(), messages.iter().map(Message::plain).collect());
        variables.insert("tools".into(), options.tools.clone().unwrap_or_default());
        variables.insert("documents".into(), options.documents.clone().unwrap_or_default());
        variables.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        let date = options.date.unwrap_or_else(Date::now);
        environment::render(text, &Value::Object(variables), date)
            .map_err(|failure| failed(failure.line, failure.reason))
    }
}

impl Tokenizer {
    /// Renders a chat with the default template; with `add_generation_prompt` it ends with the
    /// start of an answer. The text contains its own special tokens: encode it without adding
    /// others.
    ///
    /// # Errors
    /// [`TokenizerError::NoTemplate`], [`TokenizerError::Template`].
    pub fn chat(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String, TokenizerError> {
        self.chat_with(messages, &ChatOptions { add_generation_prompt, ..ChatOptions::default() })
    }

    /// Renders a chat, as [`Self::chat`], with tools, documents, a date or another template.
    ///
    /// # Errors
    /// [`TokenizerError::NoTemplate`], [`TokenizerError::Template`].
    pub fn chat_with(
        &self,
        messages: &[Message],
        options: &ChatOptions,
    ) -> Result<String, TokenizerError> {
        self.templates.render(messages, options)
    }

    /// The template of [`Self::chat`], if there is one.
    #[must_use]
    pub fn chat_template(&self) -> Option<&str> {
        self.templates.get(DEFAULT)
    }

    /// Whether there is a template for [`Self::chat`], be it a faulty one.
    #[must_use]
    pub fn has_chat(&self) -> bool {
        self.chat_template().is_some() || self.templates.fault.is_some()
    }

    /// Whether a template of this tokenizer asks for the date.
    #[must_use]
    pub fn chat_asks_date(&self) -> bool {
        self.templates.named.iter().any(|(_, text)| text.contains(DATES))
    }

    /// Whether a template of this tokenizer prints the time of day.
    #[must_use]
    pub fn chat_asks_time(&self) -> bool {
        let asks = |text: &str| text.contains(DATES) && date::prints_time(text);
        self.templates.named.iter().any(|(_, text)| asks(text))
    }
}
