//! Questions that need two articles (Yang et al. 2018, arXiv:1809.09600), asked without them.
//!
//! Fields `question` and `answer`. The paper left out answers of more than 15 tokens of Llama's
//! tokenizer, the one that starts a text counted; here the tokens are those of the model, and the
//! answer has 14 for itself. A record is known to be left out once it was asked, so it keeps its
//! place in the split.

use super::set::{Form, LaserSet, Mask, Reading, Record, Source, ended};
use linwright_data::DataError;

/// The line of this set in the list.
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
