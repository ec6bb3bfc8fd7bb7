//! Prompts of documents.
//!
//! Contexts are assembled as in lm-evaluation-harness: description, examples with their answers,
//! the document without its answer. Examples are drawn for one document after another from one
//! random stream.

use super::chat::{ChatPrompts, ChatWriter, Turn, plain};
use super::description::{Description, Field, OutputType, TaskFile};
use super::functions::{Function, Kind};
use super::random::PythonRandom;
use super::template::Templates;
use crate::EvaluationError;
use linwright_data::Fields;
use linwright_run::shown;
use serde_json::Value;

/// The prompt of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prompt {
    /// The document.
    pub(super) fields: Fields,
    /// Its source, for messages.
    pub(super) place: String,
    /// Its index in its split.
    pub(super) index: usize,
    /// Contexts: one, or one per choice.
    pub(super) contexts: Vec<String>,
    /// The part of each context that is not common to all documents.
    pub(super) own: Vec<String>,
    /// The continuation, or the text of a rolling request.
    pub(super) target: Value,
    /// The choices.
    pub(super) choices: Vec<String>,
    /// Indices of the correct choices.
    pub(super) gold: Vec<Option<usize>>,
}

/// A document with its source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    pub(super) fields: Fields,
    pub(super) place: String,
}

/// Fields of a task file that turn a document, or an example, into text.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    text: Field,
    target: Field,
    choice: Option<Field>,
    prefix: Option<String>,
    target_delimiter: String,
    end: String,
}

/// Builds prompts.
#[derive(Debug)]
pub(super) struct Prompter<'a> {
    file: &'a TaskFile,
    templates: Templates,
    rules: Rules,
    examples: Rules,
    /// Column names of the documents.
    columns: Vec<String>,
    /// Whether there is one context per choice.
    multiple_inputs: bool,
    /// Whether several answers can be correct.
    pub(super) multiple_targets: bool,
    /// System instruction of the caller.
    instruction: &'a str,
    /// Renders prompts by a chat template, if requested.
    pub(super) chat: Option<ChatWriter<'a>>,
}

/// Pool of few-shot examples.
#[derive(Clone, Debug)]
pub(super) struct Examples {
    pub(super) documents: Vec<Located>,
    pub(super) count: usize,
    /// Whether the first ones are used, instead of drawing.
    pub(super) first: bool,
    /// Whether the pool may contain the document itself, which must be left out.
    pub(super) without_itself: bool,
    pub(super) seed: u64,
}

impl<'a> Prompter<'a> {
    pub(super) fn new(
        file: &'a TaskFile,
        first: &Located,
        instruction: &'a str,
        chat: Option<ChatPrompts<'a>>,
    ) -> Result<Self, EvaluationError> {
        let d = &file.description;
        let field = |name: &str, value: &Option<Value>| {
            value.as_ref().map(|value| file.field(name, value)).transpose()
        };
        let absent = |name: &str| file.wrong(format!("{name} is missing"));
        let rules = Rules {
            text: field("doc_to_text", &d.doc_to_text)?.unwrap_or(Field::Text(String::new())),
            target: field("doc_to_target", &d.doc_to_target)?
                .ok_or_else(|| absent("doc_to_target"))?,
            choice: field("doc_to_choice", &d.doc_to_choice)?,
            prefix: d.gen_prefix.clone(),
            target_delimiter: d.target_delimiter.clone(),
            end: d.fewshot_delimiter.clone(),
        };
        if output_of(d) == OutputType::MultipleChoice && rules.choice.is_none() {
            return Err(absent("doc_to_choice"));
        }
        let fewshot = d.fewshot_config.clone().unwrap_or_default();
        let examples = Rules {
            text: field("doc_to_text", &fewshot.doc_to_text)?.unwrap_or_else(|| rules.text.clone()),
            target: field("doc_to_target", &fewshot.doc_to_target)?
                .unwrap_or_else(|| rules.target.clone()),
            choice: field("doc_to_choice", &fewshot.doc_to_choice)?
                .or_else(|| rules.choice.clone()),
            prefix: fewshot.gen_prefix.or_else(|| rules.prefix.clone()),
            target_delimiter: fewshot
                .target_delimiter
                .unwrap_or_else(|| rules.target_delimiter.clone()),
            end: fewshot.fewshot_delimiter.unwrap_or_else(|| rules.end.clone()),
        };
        let columns = first.fields.keys().cloned().collect();
        let mut prompter = Self {
            file,
            templates: Templates::new().map_err(|reason| file.wrong(reason))?,
            rules,
            examples,
            columns,
            multiple_inputs: false,
            multiple_targets: false,
            instruction,
            chat: chat.map(ChatWriter::new),
        };
        // The first document determines the form of the task, as in the harness.
        let text = prompter.resolve(first, "doc_to_text", &prompter.rules.text)?;
        prompter.multiple_inputs = prompter.rules.choice.is_some() && text.is_i64();
        let target = prompter.resolve(first, "doc_to_target", &prompter.rules.target)?;
        prompter.multiple_targets = target.is_array();
        Ok(prompter)
    }

    /// Prompts of documents, in order. `indices` are those in the split.
    pub(super) fn prompts(
        &self,
        documents: Vec<(usize, Located)>,
        examples: &Examples,
    ) -> Result<Vec<Prompt>, EvaluationError> {
        let mut random = PythonRandom::new(examples.seed);
        let prompt = |(index, document)| self.prompt(index, document, examples, &mut random);
        documents.into_iter().map(prompt).collect()
    }

    fn prompt(
        &self,
        index: usize,
        document: Located,
        examples: &Examples,
        random: &mut PythonRandom,
    ) -> Result<Prompt, EvaluationError> {
        let description = match &self.file.description.description {
            None => String::new(),
            Some(description) => {
                let field = Field::Text(description.clone());
                text_of(self.resolve(&document, "description", &field)?)
            }
        };
        let rules = &self.rules;
        let mut before: Vec<Turn> =
            Turn::system(self.instruction, &description, &rules.end).into_iter().collect();
        for example in self.drawn(&document, examples, random)? {
            before.extend(self.example(example)?);
        }
        let choices = self.choices(&document, rules)?;
        let text = self.resolve(&document, "doc_to_text", &rules.text)?;
        let target = self.resolve(&document, "doc_to_target", &rules.target)?;
        let prefix = self.prefix(&document, rules)?;
        let context = |question: &str, delimiter: &str| {
            let own = Turn::question(question, None, &prefix, delimiter, "");
            let turns: Vec<Turn> = before.iter().cloned().chain(own).collect();
            match &self.chat {
                None => Ok(plain(&turns)),
                Some(chat) => chat
                    .write(&turns)
                    .map_err(|reason| self.bad(&document, "the chat template", reason)),
            }
        };
        let (own, delimiter) = if self.multiple_inputs {
            (choices.clone(), "")
        } else {
            (vec![text_of(text.clone())], rules.target_delimiter.as_str())
        };
        let contexts: Result<Vec<String>, EvaluationError> =
            own.iter().map(|question| context(question, delimiter)).collect();
        let contexts = contexts?;
        let (name, answer) =
            if self.multiple_inputs { ("doc_to_text", &text) } else { ("doc_to_target", &target) };
        let gold = gold_of(answer, &choices);
        let d = &self.file.description;
        let is_choice = output_of(d) == OutputType::MultipleChoice && d.process_results.is_none();
        if is_choice && (gold.is_empty() || gold.contains(&None)) {
            let last = choices.len() - 1;
            return Err(self.bad(
                &document,
                name,
                format!("is {answer}, expected the index of a choice, 0 to {last}, or its text"),
            ));
        }
        let Located { fields, place } = document;
        Ok(Prompt { fields, place, index, contexts, own, target, choices, gold })
    }

    /// Draws the examples of a document.
    fn drawn<'e>(
        &self,
        document: &Located,
        examples: &'e Examples,
        random: &mut PythonRandom,
    ) -> Result<Vec<&'e Located>, EvaluationError> {
        let (count, all) = (examples.count, &examples.documents);
        if count == 0 {
            return Ok(Vec::new());
        }
        let others = |indices: &mut dyn Iterator<Item = usize>| -> Vec<&'e Located> {
            let is_other =
                |other: &&Located| !examples.without_itself || other.fields != document.fields;
            indices.map(|i| &all[i]).filter(is_other).take(count).collect()
        };
        let wanted = count + usize::from(examples.without_itself && !examples.first);
        if wanted > all.len() {
            return Err(self
                .file
                .wrong(format!("{count} shots need {wanted} examples, there are {}", all.len())));
        }
        if examples.first {
            return Ok(others(&mut (0..all.len())));
        }
        let mut chosen = others(&mut random.sample(all.len(), wanted).into_iter());
        if chosen.len() < count {
            // Copies of the document were drawn; fill up with others.
            let pool: Vec<&Located> =
                all.iter().filter(|other| other.fields != document.fields).collect();
            if pool.len() < count {
                return Err(self.file.wrong("too few examples differ from the document"));
            }
            chosen = random.sample(pool.len(), count).into_iter().map(|i| pool[i]).collect();
        }
        Ok(chosen)
    }

    /// A document with its answer, as an example.
    fn example(&self, document: &Located) -> Result<Vec<Turn>, EvaluationError> {
        let rules = &self.examples;
        let choices = self.choices(document, rules)?;
        let text = self.resolve(document, "doc_to_text", &rules.text)?;
        let target = self.resolve(document, "doc_to_target", &rules.target)?;
        let choice = |index: &Value| {
            let choice = index.as_u64().and_then(|index| choices.get(index as usize));
            choice.cloned().ok_or_else(|| {
                self.bad(document, "doc_to_target", format!("there is no choice {index}"))
            })
        };
        let (text, answer) = match (&text, &target) {
            (index, target) if self.multiple_inputs => (choice(index)?, text_of(target.clone())),
            (_, Value::Array(several)) => {
                let first = several.first().cloned().unwrap_or_default();
                let is_index = !choices.is_empty() && first.is_i64();
                let answer = if is_index { choice(&first)? } else { text_of(first) };
                (text_of(text), answer)
            }
            (_, index) if !choices.is_empty() && index.is_i64() => (text_of(text), choice(index)?),
            (_, target) => (text_of(text), text_of(target.clone())),
        };
        let prefix = self.prefix(document, rules)?;
        let Rules { target_delimiter, end, .. } = rules;
        Ok(Turn::question(&text, Some(&answer), &prefix, target_delimiter, end))
    }

    /// The beginning of an answer.
    fn prefix(&self, document: &Located, rules: &Rules) -> Result<String, EvaluationError> {
        let Some(prefix) = &rules.prefix else { return Ok(String::new()) };
        let prefix = self.resolve(document, "gen_prefix", &Field::Text(prefix.clone()))?;
        Ok(text_of(prefix))
    }

    fn choices(&self, document: &Located, rules: &Rules) -> Result<Vec<String>, EvaluationError> {
        let Some(field) = &rules.choice else { return Ok(Vec::new()) };
        let name = "doc_to_choice";
        let value = match field {
            Field::Text(template) if !self.columns.contains(template) => {
                match self.templates.value(template, &document.fields) {
                    Some(value) => value.map_err(|reason| self.bad(document, name, reason))?,
                    None => self.resolve(document, name, field)?,
                }
            }
            _ => self.resolve(document, name, field)?,
        };
        let Value::Array(items) = value else {
            return Err(self.bad(
                document,
                name,
                format!("is {}, expected a list", shown(&value.to_string())),
            ));
        };
        let choices: Vec<String> = items.into_iter().map(text_of).collect();
        match choices.iter().position(String::is_empty) {
            _ if choices.is_empty() => Err(self.bad(document, name, "is an empty list".into())),
            Some(index) => Err(self.bad(document, name, format!("choice {index} is empty"))),
            None => Ok(choices),
        }
    }

    /// Value of a field for a document: a number, a text or a list.
    fn resolve(
        &self,
        document: &Located,
        name: &str,
        field: &Field,
    ) -> Result<Value, EvaluationError> {
        let bad = |reason: String| self.bad(document, name, reason);
        let template = match field {
            Field::Number(number) => return Ok((*number).into()),
            Field::List(items) => return Ok(items.clone().into()),
            Field::Function(function) => return call(function, &document.fields).map_err(bad),
            Field::Text(text) => text,
        };
        if self.columns.contains(template) {
            let value = document.fields.get(template);
            let value = value.ok_or_else(|| bad(format!("the field {template} is missing")))?;
            return Ok(match value {
                Value::Bool(truth) => i64::from(*truth).into(),
                other => other.clone(),
            });
        }
        let text = self.templates.render(template, &document.fields).map_err(bad)?;
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if is_number && self.rules.choice.is_some() {
            return text.parse::<i64>().map(Value::from).map_err(|e| bad(e.to_string()));
        }
        let is_list = name == "doc_to_target" && text.starts_with('[') && text.ends_with(']');
        match self.templates.value(template, &document.fields) {
            Some(Ok(list @ Value::Array(_))) if is_list => Ok(list),
            _ => Ok(text.into()),
        }
    }

    /// An error in a document.
    fn bad(&self, document: &Located, field: &str, reason: String) -> EvaluationError {
        EvaluationError::Document {
            place: document.place.clone(),
            task: self.file.description.task.clone(),
            field: field.to_owned(),
            reason,
        }
    }
}

/// Output type of a task.
pub(super) fn output_of(description: &Description) -> OutputType {
    description.output_type.unwrap_or(OutputType::GenerateUntil)
}

fn call(function: &Function, fields: &Fields) -> Result<Value, String> {
    match &function.kind {
        Kind::Field(field) => field(fields),
        Kind::Document(_)
        | Kind::Rows(..)
        | Kind::Lines(..)
        | Kind::Results(_)
        | Kind::Answer(_)
        | Kind::Aggregation(_) => Err(format!("!function {} does not produce text", function.name)),
    }
}

/// A value as text, formatted as in Python.
pub(super) fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        other => other.to_string(),
    }
}

/// Indices of the correct choices; `None` for a choice that does not exist.
fn gold_of(gold: &Value, choices: &[String]) -> Vec<Option<usize>> {
    match gold {
        Value::Array(several) => several.iter().flat_map(|one| gold_of(one, choices)).collect(),
        Value::Number(index) => {
            let index = index.as_u64().map(|index| index as usize);
            vec![index.filter(|&index| index < choices.len())]
        }
        Value::String(text) => vec![choices.iter().position(|choice| choice == text)],
        _ => vec![None],
    }
}
