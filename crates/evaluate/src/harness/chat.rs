//! Prompts as conversations.
//!
//! A prompt is a list of turns: the system message, questions and answers of the examples, the
//! question of the document, and possibly the beginning of its answer. Without a chat template they
//! become one text, each turn followed by its delimiter; with one, the messages of a conversation,
//! or one user message.

use linwright_model::tokenizer::Tokenizer;
use linwright_model::tokenizer::chat::{ChatOptions, Message};
use std::cell::Cell;

/// Use of a tokenizer's chat template for prompts.
#[derive(Clone, Copy, Debug)]
pub struct ChatPrompts<'a> {
    /// The tokenizer with the template.
    pub tokenizer: &'a Tokenizer,
    /// Whether each example is a separate question and answer, and not part of one message.
    pub multiturn: bool,
    /// The date and the variables that the template gets.
    pub options: &'a ChatOptions,
}

/// Role of a speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) role: Role,
    pub(super) text: String,
    /// Delimiter after it in a prompt without a chat template.
    pub(super) after: String,
}

impl Turn {
    fn new(role: Role, text: impl Into<String>, after: &str) -> Self {
        Self { role, text: text.into(), after: after.to_owned() }
    }

    /// System message: the instruction of the caller, then the description of the task.
    pub(super) fn system(instruction: &str, description: &str, delimiter: &str) -> Option<Self> {
        let text = joined(instruction, description, delimiter);
        (!text.is_empty()).then(|| Self::new(Role::System, text, ""))
    }

    /// A question with its answer, or with the beginning `prefix` of its answer; `delimiter` is
    /// between the two, `end` after the answer.
    pub(super) fn question(
        text: &str,
        answer: Option<&str>,
        prefix: &str,
        delimiter: &str,
        end: &str,
    ) -> Vec<Self> {
        let answer = answer.filter(|answer| !answer.is_empty());
        let touches = text.is_empty()
            || text.ends_with(char::is_whitespace)
            || prefix.starts_with(char::is_whitespace);
        let after = match (answer, prefix.is_empty()) {
            (Some(_), true) => delimiter,
            (_, false) if !touches => delimiter,
            _ => "",
        };
        let question = Self::new(Role::User, text, after);
        match answer {
            Some(answer) => {
                let answer = joined(prefix, answer, " ");
                vec![question, Self::new(Role::Assistant, answer, end)]
            }
            None if prefix.is_empty() => vec![question],
            None => vec![question, Self::new(Role::Assistant, prefix, "")],
        }
    }
}

/// Joins two texts, with a delimiter if both are non-empty and no white space separates them.
pub(super) fn joined(before: &str, after: &str, delimiter: &str) -> String {
    let touches = before.is_empty()
        || after.is_empty()
        || before.ends_with(char::is_whitespace)
        || after.starts_with(char::is_whitespace);
    format!("{before}{}{after}", if touches { "" } else { delimiter })
}

/// Concatenates turns.
pub(super) fn plain(turns: &[Turn]) -> String {
    turns.iter().flat_map(|turn| [turn.text.as_str(), turn.after.as_str()]).collect()
}

/// Renders turns by a chat template.
#[derive(Debug)]
pub(super) struct ChatWriter<'a> {
    prompts: ChatPrompts<'a>,
    /// Whether the template rejected a system message.
    pub(super) without_system: Cell<bool>,
}

impl<'a> ChatWriter<'a> {
    pub(super) fn new(prompts: ChatPrompts<'a>) -> Self {
        Self { prompts, without_system: Cell::new(false) }
    }

    /// Renders a conversation that ends at the start of an answer. If the template rejects the
    /// system message, it is omitted, as in the harness. Errors are the reason only.
    pub(super) fn write(&self, turns: &[Turn]) -> Result<String, String> {
        let mut messages = match self.prompts.multiturn {
            true => turns
                .iter()
                .map(|turn| Message::new(turn.role.name(), turn.text.as_str()))
                .collect(),
            false => one_question(turns),
        };
        self.render(&messages).or_else(|reason| {
            let count = messages.len();
            messages.retain(|message| message.role != Role::System.name());
            if messages.len() == count {
                return Err(reason);
            }
            self.without_system.set(true);
            self.render(&messages)
        })
    }

    fn render(&self, messages: &[Message]) -> Result<String, String> {
        let render = |add_generation_prompt| {
            let options = ChatOptions { add_generation_prompt, ..self.prompts.options.clone() };
            let text = self.prompts.tokenizer.chat_with(messages, &options);
            text.map_err(|error| error.to_string())
        };
        let Some(begun) = messages.last().filter(|m| m.role == Role::Assistant.name()) else {
            return render(true);
        };
        // The answer has begun: the template's text after it is cut off.
        let mut text = render(false)?;
        let begun = begun.content.as_str().unwrap_or_default();
        let at =
            text.rfind(begun.trim()).ok_or("the template changes the beginning of the answer")?;
        let whole = begun.trim_start();
        let length = if text[at..].starts_with(whole) { whole.len() } else { begun.trim().len() };
        text.truncate(at + length);
        Ok(text)
    }
}

/// Joins all turns into one user message, after the system message and before the beginning of the
/// answer.
fn one_question(turns: &[Turn]) -> Vec<Message> {
    let has_system = turns.first().is_some_and(|turn| turn.role == Role::System);
    let (system, rest) = turns.split_at(usize::from(has_system));
    let begun = rest.last().is_some_and(|turn| turn.role == Role::Assistant);
    let (asked, begun) = rest.split_at(rest.len() - usize::from(begun));
    let mut asked = asked.to_vec();
    if let Some(last) = asked.last_mut() {
        last.after.clear();
    }
    let question = Turn::new(Role::User, plain(&asked), "");
    let all = system.iter().chain([&question]).chain(begun);
    all.map(|turn| Message::new(turn.role.name(), turn.text.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns() -> Vec<Turn> {
        let mut turns = vec![Turn::system("Be brief.", "Answer.", "\n\n").unwrap()];
        turns.extend(Turn::question("Q1?", Some("A1"), "", " ", "\n\n"));
        turns.extend(Turn::question("Q2?", None, "", " ", ""));
        turns
    }

    #[test]
    fn turns_become_one_text() {
        assert_eq!(plain(&turns()), "Be brief.\n\nAnswer.Q1? A1\n\nQ2?");
        let begun = Turn::question("Q", Some("A"), "It is", " ", "\n");
        assert_eq!(plain(&begun), "Q It is A\n");
        assert_eq!(plain(&Turn::question("Q\n", None, "It is", " ", "")), "Q\nIt is");
        assert_eq!(plain(&Turn::question("Q", Some(""), "", " ", "\n")), "Q");
        assert!(Turn::system("", "", "x").is_none());
    }

    #[test]
    fn turns_become_one_question() {
        let of = |turns: &[Turn]| -> Vec<(String, String)> {
            let pair = |m: Message| (m.role.clone(), m.content.as_str().unwrap().to_owned());
            one_question(turns).into_iter().map(pair).collect()
        };
        let pair = |role: &str, text: &str| (role.to_owned(), text.to_owned());
        let want = [pair("system", "Be brief.\n\nAnswer."), pair("user", "Q1? A1\n\nQ2?")];
        assert_eq!(of(&turns()), want);
        let mut begun = turns();
        begun.truncate(3);
        begun.extend(Turn::question("Q2?", None, "So:", " ", ""));
        assert_eq!(of(&begun)[1..], [want[1].clone(), pair("assistant", "So:")]);
    }
}
