//! Tasks of BIG-bench with two answers (Srivastava et al. 2022, arXiv:2206.04615).
//!
//! The prompt is `input` or `inputs`, unchanged. The answer is in `target_scores` (scores by
//! answer, one of them 1), in `multiple_choice_targets` with `multiple_choice_scores`, or it is the
//! text of `target` or `targets`. The prefix that a task file adds to all examples is omitted.

use super::set::{Form, LaserSet, Reading, Record, Source, pair};
use linwright_data::DataError;
use serde_json::Value;

/// Defines a task with two answers.
macro_rules! task {
    ($id:ident, $name:literal, $summary:literal, $words:expr) => {
        /// Registry entry of this set.
        pub(super) const $id: LaserSet = LaserSet {
            name: $name,
            summary: $summary,
            form: Form::Choice { two: false },
            mask: None,
            read: |sources| read(sources, $words),
        };
    };
}

task!(
    CAUSAL_JUDGEMENT,
    "laser_causal_judgement",
    "causal questions, yes or no (BIG-bench)",
    ["Yes", "No"]
);
task!(
    WEB_OF_LIES,
    "laser_web_of_lies",
    "web of lies: who is honest, yes or no (BIG-bench)",
    ["Yes", "No"]
);
task!(
    EPISTEMIC_REASONING,
    "laser_epistemic_reasoning",
    "entailment of beliefs (BIG-bench)",
    ["entailment", "non-entailment"]
);

fn read(sources: &[Source<'_>], words: [&str; 2]) -> Result<Reading, DataError> {
    let records = sources.iter().map(|source| record(source, words)).collect::<Result<_, _>>()?;
    Ok(Reading { records, left_out: Vec::new() })
}

fn record(source: &Source<'_>, words: [&str; 2]) -> Result<Record, DataError> {
    let (name, input) = source.one_of(&["input", "inputs"])?;
    source.text_in(name, input)?;
    let question = input.as_str().unwrap_or_default();
    let choices = pair(words);
    let gold = gold(source, words)?;
    Ok(Record {
        place: source.place(),
        question: question.to_owned(),
        prompt: question.to_owned(),
        answer: choices[gold].clone(),
        choices,
        gold,
        ..Record::default()
    })
}

/// Index of the correct word.
fn gold(source: &Source<'_>, words: [&str; 2]) -> Result<usize, DataError> {
    let names = ["target_scores", "multiple_choice_scores", "target", "targets"];
    let (name, value) = source.one_of(&names)?;
    let wanted = || format!("one of {} and {} as the correct one", words[0], words[1]);
    let right: Vec<&str> = match (name, value) {
        ("target_scores", Value::Object(scores)) => {
            let mut right = Vec::new();
            for (word, score) in scores {
                index(source, words, name, word)?;
                if source.bit_in(name, score)? {
                    right.push(word.as_str());
                }
            }
            right
        }
        ("multiple_choice_scores", Value::Array(scores)) => {
            let (targets_name, targets) = source.one_of(&["multiple_choice_targets"])?;
            let targets = source.texts_in(targets_name, targets)?;
            if targets.len() != scores.len() {
                let what = format!("{} scores, one for each target", targets.len());
                return Err(source.expected(name, value, &what));
            }
            let mut right = Vec::new();
            for (target, score) in targets.into_iter().zip(scores) {
                index(source, words, targets_name, target)?;
                if source.bit_in(name, score)? {
                    right.push(target);
                }
            }
            right
        }
        ("target" | "targets", Value::Array(_)) => source.texts_in(name, value)?,
        ("target" | "targets", Value::String(_)) => vec![source.text_in(name, value)?],
        _ => return Err(source.expected(name, value, &wanted())),
    };
    match right[..] {
        [single] => index(source, words, name, single),
        _ => Err(source.expected(name, value, &wanted())),
    }
}

/// Index of a word, compared by its letters only.
fn index(
    source: &Source<'_>,
    words: [&str; 2],
    name: &str,
    found: &str,
) -> Result<usize, DataError> {
    let place = words.iter().position(|word| word.eq_ignore_ascii_case(found.trim()));
    place.ok_or_else(|| {
        let what = format!("{} or {}", words[0], words[1]);
        source.expected(name, &Value::from(found), &what)
    })
}
