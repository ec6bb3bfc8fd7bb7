//! What a chat template gets beside the messages.

use crate::jobs::kit::Failure;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::tokenizer::chat::{ChatOptions, ChatVariables, Date};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of everything that renders chat templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChatTemplateOptions {
    /// Date that the chat template gets, as YYYY-MM-DD, or with a time as YYYY-MM-DDTHH:MM
    /// [default: today in UTC, where it asks for one].
    #[schemars(with = "Option<String>", extend("examples" = ["2026-11-27"]))]
    pub date: Option<Date>,
    /// Variables of the chat template, as a JSON object: `{"enable_thinking": false}`; `tools` and
    /// `documents` are among them.
    #[schemars(with = "Option<String>", extend(
        "x-value" = "JSON", "examples" = ["{\"enable_thinking\":false}"]
    ))]
    pub chat_template_args: Option<ChatVariables>,
}

impl ChatTemplateOptions {
    /// The options of a chat that ends at the start of an answer.
    #[must_use]
    pub fn chat(&self) -> ChatOptions {
        let mut options =
            ChatOptions { add_generation_prompt: true, date: self.date, ..ChatOptions::default() };
        if let Some(variables) = &self.chat_template_args {
            variables.set(&mut options);
        }
        options
    }

    /// What to say of a template that prints the time of day and gets none; nothing if it gets one.
    #[must_use]
    pub fn midnight_note(&self, tokenizer: &Tokenizer) -> Option<String> {
        let date = self.date.filter(|date| date.is_midnight() && tokenizer.chat_asks_time())?;
        Some(format!(
            "note: the chat template prints the time of day and gets 00:00; --date {date}T14:05 sets another"
        ))
    }

    /// Refuses options that no template reads.
    pub(crate) fn check(&self, is_used: bool) -> Result<(), Failure> {
        let given = [
            ("--date", self.date.is_some()),
            ("--chat-template-args", self.chat_template_args.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given && !is_used) {
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} goes with --apply-chat-template, which is not given"
            ))),
            None => Ok(()),
        }
    }
}
