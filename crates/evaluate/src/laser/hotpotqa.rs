//! Questions over two articles (Yang et al. 2018, arXiv:1809.09600), asked without the articles.
//!
//! Fields `question` and `answer`. The paper left out answers of more than 15 tokens of Llama's
//! tokenizer, including the beginning-of-sequence token; here, answers of more than 14 tokens of
//! the evaluated model are left out. This is decided after the split, which therefore includes such
//! records.

use super::set::{Form, LaserSet, Mask, Reading, Record, Source, ended};
use linwright_data::DataError;

/// Registry entry of this set.
pub(super) const ENTRY: LaserSet = LaserSet {
    name: "laser_hotpotqa",
    summary: "questions over two articles, answered without them (HotpotQA)",
    form: Form::Generated { new_tokens: 15, longest: Some(14) },
    mask: Some(Mask { filled_masks: 5, ..Mask::PROMPT }),
    read: |sources| {
        let records = sources.iter().map(record).collect::<Result<_, _>>()?;
        Ok(Reading { records, left_out: Vec::new() })
    },
};

fn record(source: &Source<'_>) -> Result<Record, DataError> {
    let question = source.text(&["question"])?;
    Ok(Record {
        place: source.place(),
        question: question.to_owned(),
        prompt: format!("{} The answer is", ended(question, &['.', '?'], '?')),
        answer: source.text(&["answer"])?.to_owned(),
        ..Record::default()
    })
}
