//! Multiple-choice questions, from JSONL or tables.
//!
//! One JSON object per line, or one row:
//!
//! | field | content |
//! | --- | --- |
//! | `question` | text before the choices, each of which is scored as its continuation |
//! | `choices` | two or more strings |
//! | `answer` | index of the correct choice, from zero |
//! | `prompt`, `completion` | optional: a text to complete, and the exact completion |
//! | `band` | optional group, such as a frequency band; a string or a number |
//!
//! | `id` | optional; no two questions may have the same |
//! | `id` | optional; must be unique |
//! Other fields are ignored.

use super::file::{self, Record, kind};
use super::ids::Ids;
use super::{DataError, Table, TableFormat};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Text before the choices.
    pub context: String,
    /// At least two choices, none empty.
    pub choices: Vec<String>,
    /// Index of the correct choice.
    pub gold: usize,
    /// Prompt and exact completion, if the file has them.
    pub completion: Option<(String, String)>,
    /// Group with separate scores.
    pub group: Option<String>,
    /// Line in the file, from one.
    pub line: usize,
}

/// Questions of one file, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionSet {
    /// Path of the file.
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// At least one question.
    pub questions: Vec<Question>,
}

impl QuestionSet {
    /// Reads a file: a table by its extension, otherwise JSONL.
    ///
    /// # Errors
    /// [`DataError`], naming file and line.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::from_bytes(path, &file::read(path)?)
    }

    /// Parses questions from memory; `path` determines the format, and is the name in messages.
    ///
    /// # Errors
    /// [`DataError`], naming file and line.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        let mut ids = Ids::default();
        let mut checked = |record: Record<'_>| -> Result<Question, DataError> {
            ids.check(&record)?;
            question(&record)
        };
        let is_table = |format: &TableFormat| format.is_columns() || *format == TableFormat::Json;
        let content = file::content(path, bytes)?;
        let questions = match TableFormat::of(path).filter(is_table) {
            Some(format) => Table::from_bytes(path, bytes, format, None)?
                .rows
                .into_iter()
                .map(|row| checked(Record::of_row(path, row.line, row.fields)))
                .collect::<Result<Vec<_>, _>>()?,
            None => file::records(path, file::decode(path, &content)?)
                .map(|record| checked(record?))
                .collect::<Result<Vec<_>, _>>()?,
        };
        if questions.is_empty() {
            return Err(DataError::NoRecords { path: path.to_owned(), what: "questions" });
        }
        Ok(Self { path: path.to_owned(), sha256: linwright_run::sha256_hex(bytes), questions })
    }

    /// Whether any question has a prompt and a completion.
    #[must_use]
    pub fn has_completions(&self) -> bool {
        self.questions.iter().any(|question| question.completion.is_some())
    }
}

fn question(record: &Record<'_>) -> Result<Question, DataError> {
    let choices = choices(record)?;
    let answer = record.field("answer")?;
    let gold = answer
        .as_u64()
        .and_then(|index| usize::try_from(index).ok())
        .filter(|&index| index < choices.len())
        .ok_or_else(|| {
            record.bad(format!(
                "field `answer` is {answer}, expected an index from 0 to {}",
                choices.len() - 1
            ))
        })?;
    let completion = match (record.optional("prompt"), record.optional("completion")) {
        (None, None) => None,
        (Some(_), Some(_)) => {
            let (prompt, end) = (record.string("prompt")?, record.string("completion")?);
            if end.trim().is_empty() {
                return Err(record.bad("field `completion` is empty".to_owned()));
            }
            Some((prompt.to_owned(), end.to_owned()))
        }
        _ => {
            return Err(record.bad(
                "`prompt` and `completion` must both be given, found only one of them".to_owned(),
            ));
        }
    };
    let group = match record.optional("band") {
        None => None,
        Some(Value::String(band)) => Some(band.clone()),
        Some(Value::Number(band)) => Some(band.to_string()),
        Some(other) => {
            return Err(record.bad(format!("field `band` is {}, expected a string", kind(other))));
        }
    };
    Ok(Question {
        context: record.string("question")?.to_owned(),
        choices,
        gold,
        completion,
        group,
        line: record.line,
    })
}

fn choices(record: &Record<'_>) -> Result<Vec<String>, DataError> {
    let value = record.field("choices")?;
    let list = value.as_array().ok_or_else(|| {
        record.bad(format!("field `choices` is {}, expected an array of strings", kind(value)))
    })?;
    if list.len() < 2 {
        return Err(
            record.bad(format!("field `choices` has {} entries, expected at least 2", list.len()))
        );
    }
    list.iter()
        .enumerate()
        .map(|(index, choice)| match choice.as_str() {
            Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
            Some(_) => Err(record.bad(format!("choice {index} is empty"))),
            None => {
                Err(record.bad(format!("choice {index} is {}, expected a string", kind(choice))))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<QuestionSet, DataError> {
        QuestionSet::from_bytes(Path::new("q.jsonl"), line.as_bytes())
    }

    #[test]
    fn a_full_and_a_bare_question_are_read() {
        let set = parse(concat!(
            r#"{"question":"Q","choices":["a","b"],"answer":1,"prompt":"P","completion":" a","band":"rare","count":3}"#,
            "\n",
            r#"{"question":"R","choices":["a","b","c"],"answer":0}"#
        ))
        .unwrap();
        assert_eq!(set.questions[0].gold, 1);
        assert_eq!(set.questions[0].group.as_deref(), Some("rare"));
        assert_eq!(set.questions[0].completion, Some(("P".to_owned(), " a".to_owned())));
        assert_eq!(set.questions[1].completion, None);
        assert_eq!(set.questions[1].line, 2);
    }

    #[test]
    fn faults_say_what_was_expected() {
        let cases = [
            (r#"{"choices":["a","b"],"answer":0}"#, "field `question` is missing"),
            (
                r#"{"question":"Q","choices":["a"],"answer":0}"#,
                "has 1 entries, expected at least 2",
            ),
            (
                r#"{"question":"Q","choices":["a","b"],"answer":2}"#,
                "is 2, expected an index from 0 to 1",
            ),
            (r#"{"question":"Q","choices":["a","b"],"answer":-1}"#, "is -1, expected an index"),
            (r#"{"question":"Q","choices":["a",""],"answer":0}"#, "choice 1 is empty"),
            (r#"{"question":"Q","choices":["a",1],"answer":0}"#, "choice 1 is a number"),
            (r#"{"question":"Q","choices":"ab","answer":0}"#, "field `choices` is a string"),
            (
                r#"{"question":"Q","choices":["a","b"],"answer":0,"prompt":"P"}"#,
                "must both be given",
            ),
            (
                concat!(
                    r#"{"question":"Q","choices":["a","b"],"answer":0,"id":"x"}"#,
                    "\n",
                    r#"{"question":"R","choices":["a","b"],"answer":0,"id":"x"}"#
                ),
                r#"q.jsonl, line 2: id "x" already occurs in line 1"#,
            ),
            (r#"{"question":"Q","choices":[],"answer":0}"#, "has 0 entries, expected at least 2"),
            ("", "q.jsonl has no questions"),
        ];
        for (line, want) in cases {
            let message = parse(line).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
    }
}
