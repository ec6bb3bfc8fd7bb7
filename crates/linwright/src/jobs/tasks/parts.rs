//! A task split into validation and test items.

use super::Tasks;
use super::open::sentence_pairs;
use crate::jobs::EvaluationOptions;
use crate::jobs::source::data_file;
use crate::jobs::{Failure, Session};
use linwright_data::QuestionSet;
use linwright_evaluate::{
    LaserSet, MultipleChoice, PROTOCOLS, SENTENCE_TASKS, Split, Task, TaskEntry, first_fifth,
};

/// A task split into validation and test items.
pub(crate) struct Parts {
    /// Validation: the first fifth of the items.
    pub(crate) validation: Box<dyn Task>,
    /// Test: the rest; none for running text, which is all validation.
    pub(crate) test: Option<Box<dyn Task>>,
}

/// Options of the split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    /// Seed that shuffles questions and documents; none keeps the order of the file, as in the
    /// paper.
    pub(crate) shuffle: Option<u64>,
}

impl Parts {
    /// Opens the single task of the options.
    pub(crate) fn open(
        args: &EvaluationOptions,
        division: Division,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let count = args.tasks.len()
            + usize::from(args.questions.is_some())
            + usize::from(args.text.is_some());
        if count != 1 {
            return Err(Failure::usage(format!("{count} evaluation tasks, expected one"))
                .hint("give one of --tasks NAME, --questions FILE and --text FILE"));
        }
        let unread = [
            ("--samples", args.samples.is_some()),
            ("--apply-chat-template", args.apply_chat_template),
            ("--split", args.split != Split::default()),
        ];
        if let Some((option, _)) = unread.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::usage(format!("this command does not support {option}"))
                .hint("it splits validation and test items itself, and uses no chat template"));
        }
        if let Some(questions) = &args.questions {
            return of_questions(questions, args, division, session);
        }
        let name = args.tasks.first().map_or("", String::as_str);
        let is_text = args.text.is_some() || PROTOCOLS.iter().any(|named| named.name == name);
        if is_text {
            return Ok(Self { validation: one(args, session)?, test: None });
        }
        if TaskEntry::named(name).is_some() {
            return Err(Failure::usage(format!(
                "--tasks {name} is not split into validation and test items"
            ))
            .hint("give --questions FILE or --text FILE"));
        }
        if LaserSet::named(name).is_some() {
            if division.shuffle.is_some() {
                return Err(Failure::usage(
                    "--shuffle does not apply to the data sets of the LASER paper",
                )
                .hint("the paper validates on their first fifth, in the order of the files"));
            }
            let part = |split| {
                let mut args = args.clone();
                args.split = split;
                args
            };
            let validation = one(&part(Split::Validation), session)?;
            return Ok(Self { validation, test: Some(one(&part(Split::Test), session)?) });
        }
        if SENTENCE_TASKS.iter().any(|(task, _)| *task == name) {
            return of_pairs(name, args, division);
        }
        let all = one(args, session)?;
        let (first, others) = divided(all.items().len(), division)?;
        let part = |indices: &[usize]| {
            let samples = serde_json::json!({ all.id(): indices }).to_string();
            EvaluationOptions { samples: Some(samples), limit: None, ..args.clone() }
        };
        let validation = one(&part(&first), session)?;
        Ok(Self { validation, test: Some(one(&part(&others), session)?) })
    }
}

/// The single task of the options.
fn one(args: &EvaluationOptions, session: &mut Session<'_>) -> Result<Box<dyn Task>, Failure> {
    let mut all = Tasks::open(args, false, None, session)?.all;
    match (all.pop(), all.len()) {
        (Some(task), 0) => Ok(task),
        _ => {
            Err(Failure::usage("several tasks, expected one")
                .hint("name a single task, not a group"))
        }
    }
}

/// Splits sentence pairs; each part has its own correlations.
fn of_pairs(name: &str, args: &EvaluationOptions, division: Division) -> Result<Parts, Failure> {
    let pairs = sentence_pairs(name, args)?;
    let (first, others) = divided(pairs.len(), division)?;
    Ok(Parts {
        validation: Box::new(pairs.part(&first)?),
        test: Some(Box::new(pairs.part(&others)?)),
    })
}

/// Indices of the first fifth and of the rest.
fn divided(count: usize, division: Division) -> Result<(Vec<usize>, Vec<usize>), Failure> {
    first_fifth(count, division.shuffle).ok_or_else(|| {
        Failure::usage(format!(
            "{count} items; a fifth of them to choose by is none, so that at least 5 are needed"
        ))
    })
}

fn of_questions(
    name: &str,
    args: &EvaluationOptions,
    division: Division,
    session: &mut Session<'_>,
) -> Result<Parts, Failure> {
    let mut set = QuestionSet::open(&data_file(name, "facts.jsonl", session)?)?;
    set.questions.truncate(args.limit.unwrap_or(usize::MAX));
    let (first, others) = divided(set.questions.len(), division)?;
    let part = |indices: &[usize]| -> Box<dyn Task> {
        let questions = indices.iter().map(|index| set.questions[*index].clone()).collect();
        Box::new(MultipleChoice::new(QuestionSet { questions, ..set.clone() }, args.bos))
    };
    Ok(Parts { validation: part(&first), test: Some(part(&others)) })
}
