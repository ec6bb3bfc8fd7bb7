//! Completion of facts (BIG-bench's qa_wikidata; Srivastava et al. 2022, arXiv:2206.04615).
//!
//! Fields as in [`super::bigbench`] with texts as targets, or `context` and `continuation`. Records
//! with several targets are left out.

use super::set::{Form, LaserSet, Reading, Record, Source};
use linwright_data::DataError;
use serde_json::Value;

/// Registry entry of this set.
pub(super) const ENTRY: LaserSet = LaserSet {
    name: "laser_qa_wikidata",
    summary: "completion of facts (BIG-bench)",
    form: Form::Generated { new_tokens: 10, longest: None },
    mask: None,
    read: |sources| {
        let mut reading = Reading::default();
        for source in sources {
            reading.records.extend(record(source)?);
        }
        let several = sources.len() - reading.records.len();
        reading.left_out = vec![("several targets", several)];
        Ok(reading)
    },
};

fn record(source: &Source<'_>) -> Result<Option<Record>, DataError> {
    let question = source.text(&["input", "inputs", "context"])?;
    let (name, target) = source.one_of(&["target", "targets", "continuation"])?;
    let answer = match target {
        Value::Array(_) => match source.texts_in(name, target)?[..] {
            [single] => single,
            [] => return Err(source.expected(name, target, "at least one text")),
            _ => return Ok(None),
        },
        _ => source.text_in(name, target)?,
    };
    Ok(Some(Record {
        place: source.place(),
        question: question.to_owned(),
        prompt: question.to_owned(),
        answer: answer.to_owned(),
        ..Record::default()
    }))
}
